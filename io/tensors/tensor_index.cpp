#include "io/tensors/tensor_index.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace vggt {
namespace {

struct TypeFacts {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<TypeFacts, 15> kTypes = {{
    {ElementType::f64, "F64", 8},
    {ElementType::f32, "F32", 4},
    {ElementType::f16, "F16", 2},
    {ElementType::bf16, "BF16", 2},
    {ElementType::i64, "I64", 8},
    {ElementType::i32, "I32", 4},
    {ElementType::i16, "I16", 2},
    {ElementType::i8, "I8", 1},
    {ElementType::u64, "U64", 8},
    {ElementType::u32, "U32", 4},
    {ElementType::u16, "U16", 2},
    {ElementType::u8, "U8", 1},
    {ElementType::boolean, "BOOL", 1},
    {ElementType::f8_e4m3, "F8_E4M3", 1},
    {ElementType::f8_e5m2, "F8_E5M2", 1},
}};

const TypeFacts& facts(ElementType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  return facts(type).bytes;
}
std::string_view element_name(ElementType type) {
  return facts(type).name;
}

std::optional<ElementType> element_type(std::string_view name) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& facts) { return facts.name == name; });
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

int64_t checked_count(const std::vector<int64_t>& shape) {
  constexpr std::size_t kMaxDimensions = 16;
  if (shape.size() > kMaxDimensions) throw std::invalid_argument("it has too many dimensions");
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; }))
    throw std::invalid_argument("it has a negative size");
  int64_t count = 1;
  // The product leaves zeros out: [0, 2^62, 2^62] would overflow where sizes are multiplied in another order.
  for (const int64_t size : shape)
    if (size != 0 && __builtin_mul_overflow(count, size, &count))
      throw std::invalid_argument("its size overflows");
  return std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : count;
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

void check_view(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t offset,
                int64_t storage_count) {
  if (shape.size() != strides.size()) throw std::invalid_argument("it has not one stride for each dimension");
  const int64_t count = checked_count(shape);
  if (offset < 0 || offset > storage_count || count > storage_count)
    throw std::invalid_argument("it reaches past its storage");
  int64_t last = offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0) throw std::invalid_argument("it has a negative stride");
    int64_t reach = 0;
    const bool overflows = shape[i] > 0 && (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
                                            __builtin_add_overflow(last, reach, &last));
    if (overflows) throw std::invalid_argument("its strides overflow");
  }
  if (count > 0 && last >= storage_count) throw std::invalid_argument("it reaches past its storage");
}

}  // namespace vggt
