#include "io/frames/matroska.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/frames/decoder_records.h"

namespace vggt {
namespace {

/// The Matroska elements between two places, up to the first of type `last`; one of unknown size goes to the
/// end.
std::vector<Box> matroska_elements(const Bytes& file, uint64_t begin, uint64_t end,
                                   std::string_view last = {}) {
  std::vector<Box> elements;
  const auto width_at = [&](uint64_t place) {
    const auto first = file.at(place, 1);
    return first ? static_cast<std::size_t>(std::countl_zero(static_cast<uint8_t>(first->front()))) + 1 : 9;
  };
  while (elements.size() < kMostBoxes && begin < end) {
    const std::size_t id_bytes = width_at(begin), size_bytes = width_at(begin + id_bytes);
    if (id_bytes > 4 || size_bytes > 8) break;
    const auto id = file.at(begin, id_bytes), bytes = file.at(begin + id_bytes, size_bytes);
    if (!id || !bytes) break;
    const uint64_t mask = (uint64_t{1} << (7 * size_bytes)) - 1, inner = begin + id_bytes + size_bytes;
    uint64_t size = big_endian(*bytes) & mask;
    if (size == mask) size = std::max(end, inner) - inner;
    elements.push_back({*id, inner, inner + size});
    if (*id == last) break;
    begin = inner + size;
  }
  return elements;
}

uint64_t number_in(const Bytes& file, const Box& element) {
  const uint64_t bytes = element.end - element.begin;
  return bytes <= 8 ? big_endian(file.at(element.begin, bytes).value_or(std::string())) : 0;
}

/// Size and rate of a track of pictures.
void read_matroska_pictures(const Bytes& file, const std::vector<Box>& track, VideoContainer& container) {
  constexpr std::string_view kPictures = "\xe0", kWidth = "\xb0", kHeight = "\xba",
                             kFrameTime = "\x23\xe3\x83";
  constexpr uint64_t kMostPixels = 1 << 16;
  constexpr double kNanoseconds = 1e9;
  if (const Box* time = find(track, kFrameTime)) {
    if (const uint64_t each = number_in(file, *time); each > 0)
      container.rate = kNanoseconds / static_cast<double>(each);
  }
  const Box* pictures = find(track, kPictures);
  if (!pictures) return;
  const auto inner = matroska_elements(file, pictures->begin, pictures->end);
  const Box *width = find(inner, kWidth), *height = find(inner, kHeight);
  if (!width || !height) return;
  container.width = static_cast<int>(std::min(kMostPixels, number_in(file, *width)));
  container.height = static_cast<int>(std::min(kMostPixels, number_in(file, *height)));
}

/// How long a file is, by its Info element.
std::optional<double> matroska_seconds(const Bytes& file, const Box& info) {
  constexpr std::string_view kScale = "\x2a\xd7\xb1", kDuration = "\x44\x89";
  constexpr double kUsualScale = 1e6, kNanoseconds = 1e9, kMost = 1e9;
  const auto parts = matroska_elements(file, info.begin, info.end);
  const Box *scale = find(parts, kScale), *duration = find(parts, kDuration);
  if (!duration) return std::nullopt;
  const uint64_t bits = number_in(file, *duration);
  const double units = duration->end - duration->begin == 4
                           ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                           : std::bit_cast<double>(bits);
  const double seconds =
      units * (scale ? static_cast<double>(number_in(file, *scale)) : kUsualScale) / kNanoseconds;
  return seconds > 0 && seconds < kMost ? std::optional(seconds) : std::nullopt;
}

/// Of the first track of pictures, of those that an element holds.
void read_matroska_track(const Bytes& file, const Box& tracks, VideoContainer& container) {
  constexpr std::string_view kTrack = "\xae", kType = "\x83", kCodec = "\x86", kConfiguration = "\x63\xa2";
  constexpr std::size_t kLongestName = 64;
  constexpr std::array<std::pair<std::string_view, uint32_t>, 10> kCodecs = {
      {{"V_VP8", fourcc("VP80")},
       {"V_VP9", fourcc("VP90")},
       {"V_AV1", fourcc("av01")},
       {"V_MPEG1", fourcc("mpg1")},
       {"V_MPEG2", fourcc("mpg2")},
       {"V_MPEG4/ISO/SP", fourcc("FMP4")},
       {"V_MPEG4/ISO/ASP", fourcc("FMP4")},
       {"V_MPEG4/ISO/AP", fourcc("FMP4")},
       {"V_MJPEG", fourcc("MJPG")},
       {"V_FFV1", fourcc("FFV1")}}};
  for (const Box& track : matroska_elements(file, tracks.begin, tracks.end)) {
    if (track.type != kTrack) continue;
    const auto parts = matroska_elements(file, track.begin, track.end);
    const Box *type = find(parts, kType), *codec = find(parts, kCodec);
    if (!type || !codec || file.at(type->begin, 1) != "\x01") continue;
    auto name = file.at(codec->begin, std::min<uint64_t>(codec->end - codec->begin, kLongestName));
    if (name) name->resize(std::min(name->size(), name->find('\0')));
    const auto* const known =
        std::ranges::find(kCodecs, name.value_or(""), &decltype(kCodecs)::value_type::first);
    if (known != kCodecs.end()) container.codec = known->second;
    const Box* configuration = find(parts, kConfiguration);
    read_matroska_pictures(file, parts, container);
    container.named_codec = container.codec;
    if (name == "V_MPEG4/ISO/AVC") container.named_codec = fourcc("avc1");
    if (name == "V_MPEGH/ISO/HEVC") container.named_codec = fourcc("hvc1");
    if (!configuration) return;
    if (name == "V_MPEG4/ISO/AVC") read_avc(file, configuration->begin, container);
    if (name == "V_MPEGH/ISO/HEVC") read_hevc(file, configuration->begin, container);
    if (name == "V_AV1") read_av1(file, configuration->begin, container);
    // ProRes' record is its four letters; a BITMAPINFOHEADER has the codec's here.
    constexpr uint64_t kBeforeLetters = 16;
    const uint64_t before = name == "V_MS/VFW/FOURCC" ? kBeforeLetters : 0;
    if (name == "V_MS/VFW/FOURCC" || name == "V_PRORES")
      container.named_codec = fourcc(file.at(configuration->begin + before, 4).value_or(std::string()));
    return;
  }
}

}  // namespace

VideoContainer read_matroska(const Bytes& file) {
  constexpr std::string_view kSegment = "\x18\x53\x80\x67", kInfo = "\x15\x49\xa9\x66",
                             kTracks = "\x16\x54\xae\x6b";
  VideoContainer container;
  container.counts_from_first = false;
  const auto whole = matroska_elements(file, 0, file.size(), kSegment);
  const Box* segment = find(whole, kSegment);
  if (!segment) return container;
  container.is_cut_off = segment->end > file.size();
  const auto parts = matroska_elements(file, segment->begin, segment->end, kTracks);
  if (const Box* info = find(parts, kInfo)) container.seconds = matroska_seconds(file, *info);
  if (const Box* tracks = find(parts, kTracks)) {
    read_matroska_track(file, *tracks, container);
    if (container.named_codec == fourcc("avc1")) look_for_sets(file, tracks->end, container);
  }
  return container;
}

}  // namespace vggt
