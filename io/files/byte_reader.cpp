#include "io/files/byte_reader.h"

namespace vggt {

std::string_view ByteReader::line() {
  const auto rest = bytes_.subspan(position_);
  const void* end = rest.empty() ? nullptr : std::memchr(rest.data(), '\n', rest.size());
  if (end == nullptr) throw std::invalid_argument("it ends too early");
  const std::string_view result =
      text(static_cast<std::size_t>(static_cast<const std::byte*>(end) - rest.data()));
  take(1);
  return result;
}

}  // namespace vggt
