#include "io/frames/parameter_sets.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace vggt {
namespace {

/// Without the bytes that keep start codes from appearing (00 00 03 stands for 00 00).
std::string payload(std::string_view unit) {
  std::string bytes;
  int zeros = 0;
  for (const char byte : unit) {
    const bool is_guard = zeros >= 2 && byte == 3;
    if (!is_guard) bytes.push_back(byte);
    zeros = byte == 0 ? zeros + 1 : 0;
  }
  return bytes;
}

/// Reads bits, the highest of a byte first. Throws std::out_of_range behind the last.
class Bits {
 public:
  explicit Bits(std::string bytes) : bytes_(std::move(bytes)) {}

  uint32_t take(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_)
      value = value << 1 | (static_cast<uint8_t>(bytes_.at(at_ / 8)) >> (7 - at_ % 8) & 1);
    return value;
  }
  /// ue(v): an Exp-Golomb code.
  uint32_t take_unsigned() {
    int zeros = 0;
    while (take(1) == 0) {
      if (++zeros > 31) throw std::out_of_range("an Exp-Golomb code of more than 32 bits");
    }
    return (uint32_t{1} << zeros) - 1 + take(zeros);
  }
  /// se(v)
  int64_t take_signed() {
    const int64_t code = take_unsigned();
    return code % 2 == 1 ? (code + 1) / 2 : -code / 2;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;  // in bits
};

void skip_scaling_list(Bits& bits, int size) {
  int64_t last = 8, next = 8;
  for (int i = 0; i < size; ++i) {
    if (next != 0) next = (last + bits.take_signed() + 256) % 256;
    if (next != 0) last = next;
  }
}

/// Of profiles that have more than 4:2:0 in 8 bits.
void read_format(Bits& bits, H264Parameters& parameters) {
  constexpr int kSmallLists = 6, kSmall = 16, kLarge = 64;
  const uint32_t chroma = bits.take_unsigned();
  constexpr uint32_t k444 = 3, kMostMoreBits = 6;
  if (chroma == k444) bits.take(1);
  const uint32_t more_bits = bits.take_unsigned();
  if (chroma > k444 || more_bits > kMostMoreBits) throw std::out_of_range("a format that H.264 has not");
  parameters.chroma = static_cast<int>(chroma);
  parameters.bits = static_cast<int>(8 + more_bits);
  bits.take_unsigned();  // bits of chroma
  bits.take(1);
  if (bits.take(1) == 0) return;  // no scaling lists
  const int lists = chroma == k444 ? 12 : 8;
  for (int i = 0; i < lists; ++i) {
    if (bits.take(1) == 1) skip_scaling_list(bits, i < kSmallLists ? kSmall : kLarge);
  }
}

/// How the order of pictures is told.
void skip_order(Bits& bits) {
  const uint32_t type = bits.take_unsigned();
  if (type == 0) bits.take_unsigned();
  if (type != 1) return;
  bits.take(1);
  bits.take_signed();
  bits.take_signed();
  const uint32_t cycle = bits.take_unsigned();
  for (uint32_t i = 0; i < cycle; ++i) bits.take_signed();
}

}  // namespace

std::optional<H264Parameters> h264_parameters(std::string_view sps) try {
  constexpr std::array<uint32_t, 13> kWithFormat{100, 110, 122, 244, 44,  83, 86,
                                                 118, 128, 138, 139, 134, 135};
  constexpr std::array<uint32_t, 3> kWithoutFormat{66, 77, 88};
  constexpr uint32_t kType = 7, kMost = 16;  // of the unit; of reference frames
  constexpr uint32_t kBlock = 16, kMostBlocks = 4096;
  H264Parameters parameters;
  Bits bits(payload(sps));
  if ((bits.take(8) & 31) != kType) return std::nullopt;
  const uint32_t profile = bits.take(8);
  const uint32_t constraints = bits.take(8);  // of which two are reserved: zeros
  const bool has_format = std::ranges::count(kWithFormat, profile) > 0;
  if ((!has_format && std::ranges::count(kWithoutFormat, profile) == 0) || (constraints & 3) != 0)
    return std::nullopt;
  bits.take(8);          // level
  bits.take_unsigned();  // its number
  if (has_format) read_format(bits, parameters);
  bits.take_unsigned();  // bits of frame numbers
  skip_order(bits);
  const uint32_t frames = bits.take_unsigned();
  bits.take(1);  // whether numbers of frames may be missing
  const uint32_t across = bits.take_unsigned(), down = bits.take_unsigned(), fields = 1 - bits.take(1);
  if (frames > kMost || across >= kMostBlocks || down >= kMostBlocks) return std::nullopt;
  parameters.reference_frames = static_cast<int>(frames);
  parameters.width = static_cast<int>(kBlock * (across + 1));
  parameters.height = static_cast<int>(kBlock * (down + 1) * (1 + fields));
  return parameters;
} catch (const std::out_of_range&) {
  return std::nullopt;
}

std::optional<int> hevc_kept_frames(std::string_view vps) try {
  constexpr uint32_t kType = 32, kMost = 16, kMostLayers = 7;  // of the unit; of frames; of sub-layers
  Bits bits(payload(vps));
  if ((bits.take(16) >> 9 & 63) != kType) return std::nullopt;
  bits.take(12);  // its number, layers
  const uint32_t more_layers = bits.take(3);
  if (more_layers >= kMostLayers) return std::nullopt;
  bits.take(17);                              // nesting, reserved
  for (int i = 0; i < 12; ++i) bits.take(8);  // profile, tier, level
  std::array<uint32_t, kMostLayers> has_profile{}, has_level{};
  for (uint32_t i = 0; i < more_layers; ++i) {
    has_profile[i] = bits.take(1);
    has_level[i] = bits.take(1);
  }
  if (more_layers > 0) bits.take(2 * static_cast<int>(8 - more_layers));
  for (uint32_t i = 0; i < more_layers; ++i) {
    for (uint32_t byte = 0; byte < 11 * has_profile[i] + has_level[i]; ++byte) bits.take(8);
  }
  uint32_t kept = 0;
  for (uint32_t layer = bits.take(1) == 1 ? 0 : more_layers; layer <= more_layers; ++layer) {
    kept = std::max(kept, bits.take_unsigned());
    bits.take_unsigned();  // frames that are shown later
    bits.take_unsigned();  // how much later
  }
  return kept < kMost ? std::optional(static_cast<int>(kept)) : std::nullopt;
} catch (const std::out_of_range&) {
  return std::nullopt;
}

}  // namespace vggt
