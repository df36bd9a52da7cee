#include "io/frames/decoder_records.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "io/frames/decoder_memory.h"

namespace vggt {
namespace {

/// A parameter set after its length of two bytes.
std::optional<std::string> set_at(const Bytes& file, uint64_t place) {
  const auto length = file.at(place, 2);
  return length ? file.at(place + 2, big_endian(*length)) : std::nullopt;
}

/// FFmpeg's name of a format of three planes, or of a gray one, with chroma as H.264 numbers it.
uint32_t format_of(int chroma, int bits) {
  constexpr std::array<uint32_t, 4> kEight = {fourcc("Y800"), fourcc("I420"), fourcc("Y42B"), fourcc("444P")};
  constexpr std::array<uint32_t, 4> kHalved = {0, 11, 10, 0};
  const auto which = static_cast<std::size_t>(chroma);
  if (bits <= 8) return kEight[which];
  const uint32_t planes = chroma == 0 ? '1' : '3';
  return 'Y' | planes << 8 | kHalved[which] << 16 | static_cast<uint32_t>(bits) << 24;
}

}  // namespace

void take_set(const H264Parameters& set, VideoContainer& container) {
  container.reference_frames = std::max(container.reference_frames.value_or(0), set.reference_frames);
  const uint32_t format = format_of(set.chroma, set.bits), before = container.pixel_format;
  if (before == 0 || bytes_of_pixel(format) > bytes_of_pixel(before)) container.pixel_format = format;
}

void read_avc(const Bytes& file, uint64_t record, VideoContainer& container) {
  constexpr uint64_t kBeforeCount = 5, kCount = 31;
  const auto count = file.at(record + kBeforeCount, 1);
  uint64_t place = record + kBeforeCount + 1;
  for (uint64_t left = count ? big_endian(*count) & kCount : 0; left > 0; --left) {
    const auto set = set_at(file, place);
    if (!set) return;
    if (const auto parameters = h264_parameters(*set)) take_set(*parameters, container);
    place += 2 + set->size();
  }
}

void read_hevc(const Bytes& file, uint64_t record, VideoContainer& container) {
  constexpr uint64_t kBeforeFormat = 16, kBeforeSets = 26;
  if (const auto set = set_at(file, record + kBeforeSets))
    container.reference_frames = hevc_kept_frames(*set);
  if (const auto format = file.at(record + kBeforeFormat, 2))
    container.pixel_format = format_of((*format)[0] & 3, 8 + ((*format)[1] & 7));
}

void read_av1(const Bytes& file, uint64_t record, VideoContainer& container) {
  constexpr uint64_t kBeforeFormat = 2;
  const auto format = file.at(record + kBeforeFormat, 1);
  if (!format) return;
  const auto flag = [&](int bit) { return (format->front() >> bit & 1) != 0; };
  const int chroma = flag(4) ? 0 : flag(2) ? 1 : flag(3) ? 2 : 3;
  container.pixel_format = format_of(chroma, !flag(6) ? 8 : flag(5) ? 12 : 10);
}

void look_for_sets(const Bytes& file, uint64_t begin, VideoContainer& container) {
  constexpr uint64_t kBeginning = 1 << 20;
  constexpr std::size_t kLength = 4, kLongestSet = 160, kBlock = 16;
  if (begin >= file.size()) return;
  const std::string bytes = file.at(begin, std::min(kBeginning, file.size() - begin)).value_or(std::string());
  const std::string_view all = bytes, zeros("\0\0\0", kLength - 1);
  const auto blocks = [](int pixels) { return (static_cast<std::size_t>(pixels) + kBlock - 1) / kBlock; };
  for (std::size_t at = all.find(zeros); at != all.npos; at = all.find(zeros, at + 1)) {
    const std::string_view after = all.substr(at + kLength - 1);
    const std::size_t length = after.empty() ? 0 : static_cast<uint8_t>(after[0]);
    if (length == 0 || length > kLongestSet || length >= after.size()) continue;
    const auto set = h264_parameters(after.substr(1, length));
    if (set && blocks(set->width) == blocks(container.width) &&
        blocks(set->height) == blocks(container.height))
      take_set(*set, container);
  }
}

}  // namespace vggt
