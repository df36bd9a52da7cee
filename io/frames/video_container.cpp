#include "io/frames/video_container.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files/input_file.h"
#include "io/frames/fourcc.h"
#include "io/frames/parameter_sets.h"

namespace vggt {
namespace {

constexpr int kMostBoxes = 4096;  // of one level: hostile files have more

/// Bytes of a file, from anywhere in it.
class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& path) : file_(path) {}

  uint64_t size() const { return file_.size(); }
  /// Nothing where the file has fewer, or where they are asked for too often, as of a hostile one.
  std::optional<std::string> at(uint64_t offset, std::size_t count) const {
    if (offset > size() || count > size() - offset) return std::nullopt;
    if (++reads_ > kMostReads) return std::nullopt;
    std::string bytes(count, 0);
    file_.read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

 private:
  static constexpr int kMostReads = 100'000;
  InputFile file_;
  mutable int reads_ = 0;
};

constexpr uint32_t kMpeg1 = fourcc("mpg1"), kMpeg2 = fourcc("mpg2");

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

struct Box {
  std::string type;
  uint64_t begin = 0, end = 0;  // of what it holds; `end` may lie behind the file's
};

/// The boxes between two places of an MP4.
std::vector<Box> boxes_in(const Bytes& file, uint64_t begin, uint64_t end) {
  constexpr uint64_t kHeader = 8, kLongHeader = 16;
  std::vector<Box> boxes;
  while (boxes.size() < kMostBoxes && begin < end && end - begin >= kHeader) {
    const auto head = file.at(begin, kHeader);
    if (!head) break;
    uint64_t size = big_endian(head->substr(0, 4)), header = kHeader;
    if (size == 1) {
      const auto large = file.at(begin + kHeader, 8);
      if (!large) break;
      size = big_endian(*large);
      header = kLongHeader;
    } else if (size == 0) {  // to the end
      size = end - begin;
    }
    if (size < header || size > std::numeric_limits<uint64_t>::max() - begin) break;
    boxes.push_back({head->substr(4), begin + header, begin + size});
    begin += size;
  }
  return boxes;
}

const Box* find(const std::vector<Box>& boxes, std::string_view type) {
  const auto found = std::ranges::find(boxes, type, &Box::type);
  return found == boxes.end() ? nullptr : &*found;
}

/// The last box on a way down from the boxes of one level; nothing where one is missing.
std::optional<Box> find_below(const Bytes& file, std::vector<Box> boxes,
                              std::initializer_list<std::string_view> way) {
  std::optional<Box> at;
  for (const std::string_view type : way) {
    if (at) boxes = boxes_in(file, at->begin, at->end);
    const Box* found = find(boxes, type);
    if (!found) return std::nullopt;
    at = *found;
  }
  return at;
}

bool shows_pictures(const Bytes& file, const std::vector<Box>& track) {
  const auto handler = find_below(file, track, {"mdia", "hdlr"});
  return handler && file.at(handler->begin + 8, 4) == "vide";
}

std::optional<std::array<int, 4>> quarter_matrix(std::string_view nine) {
  constexpr int kOne = 1 << 16;
  std::array<int, 4> matrix{};
  constexpr std::array<std::size_t, 4> kPlaces{0, 1, 3, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value =
        std::bit_cast<int32_t>(static_cast<uint32_t>(big_endian(nine.substr(4 * kPlaces[i], 4))));
    if (value != 0 && value != kOne && value != -kOne) return std::nullopt;
    matrix[i] = value / kOne;
  }
  const auto [a, b, c, d] = matrix;
  const bool turned = a == 0 && d == 0 && b * c != 0, upright = b == 0 && c == 0 && a * d != 0;
  return turned || upright ? std::optional(matrix) : std::nullopt;
}

/// Of the track's header; `scale` units of time make a second.
void read_track(const Bytes& file, const Box& header, uint64_t scale, VideoContainer& container) {
  const auto version = file.at(header.begin, 1);
  if (!version) return;
  const bool is_long = version->front() == 1;
  const auto duration = file.at(header.begin + (is_long ? 28 : 20), is_long ? 8 : 4);
  const auto matrix = file.at(header.begin + (is_long ? 52 : 40), 36);
  if (!duration || !matrix) return;
  container.matrix = quarter_matrix(*matrix);
  const uint64_t units = big_endian(*duration), unknown = is_long ? std::numeric_limits<uint64_t>::max()
                                                                  : std::numeric_limits<uint32_t>::max();
  if (scale > 0 && units > 0 && units != unknown)
    container.seconds = static_cast<double>(units) / static_cast<double>(scale);
}

/// A parameter set after its length of two bytes.
std::optional<std::string> set_at(const Bytes& file, uint64_t place) {
  const auto length = file.at(place, 2);
  return length ? file.at(place + 2, big_endian(*length)) : std::nullopt;
}

/// Of a decoder configuration record for H.264 (ISO/IEC 14496-15): from its first sequence parameter set.
std::optional<int> frames_of_avc(const Bytes& file, uint64_t record) {
  constexpr uint64_t kBeforeSets = 6;
  const auto set = set_at(file, record + kBeforeSets);
  return set ? h264_reference_frames(*set) : std::nullopt;
}

/// Of one for HEVC: from its first video parameter set, where that comes first of all, as it mostly does.
std::optional<int> frames_of_hevc(const Bytes& file, uint64_t record) {
  constexpr uint64_t kBeforeSets = 26;
  const auto set = set_at(file, record + kBeforeSets);
  return set ? hevc_kept_frames(*set) : std::nullopt;
}

/// Of an elementary stream descriptor (ISO/IEC 14496-1), of codecs that have no other sample entry; 0 for
/// others, such as MPEG-4.
uint32_t codec_of_stream(const Bytes& file, const Box& descriptor) {
  constexpr uint64_t kVersion = 4, kEnough = 16;
  const auto bytes = file.at(descriptor.begin + kVersion, kEnough);
  // A tag, a length whose bytes but the last have their top bit set, and for tag 3 three bytes more.
  std::size_t at = 0;
  for (const auto& [tag, more] : {std::pair<char, std::size_t>{3, 3}, {4, 0}}) {
    if (!bytes || at >= bytes->size() || (*bytes)[at] != tag) return 0;
    while (++at < bytes->size() && static_cast<uint8_t>((*bytes)[at]) > 127) continue;
    at += 1 + more;
  }
  const int type = at < bytes->size() ? static_cast<uint8_t>((*bytes)[at]) : 0;
  constexpr int kFirstMpeg2 = 0x60, kLastMpeg2 = 0x65;
  if (type >= kFirstMpeg2 && type <= kLastMpeg2) return kMpeg2;
  constexpr std::array<std::pair<int, uint32_t>, 4> kTypes = {
      {{0x6a, kMpeg1}, {0x6c, fourcc("MJPG")}, {0x6d, fourcc("png ")}, {0x6e, fourcc("mjp2")}}};
  const auto* const known = std::ranges::find(kTypes, type, &decltype(kTypes)::value_type::first);
  return known == kTypes.end() ? 0 : known->second;
}

/// What a track of pictures says of its decoder.
void read_description(const Bytes& file, const std::vector<Box>& track, VideoContainer& container) {
  constexpr uint64_t kBeforeEntries = 8, kBeforeBoxes = 78;
  const auto descriptions = find_below(file, track, {"mdia", "minf", "stbl", "stsd"});
  if (!descriptions) return;
  const auto entries = boxes_in(file, descriptions->begin + kBeforeEntries, descriptions->end);
  if (entries.empty()) return;
  const auto inner = boxes_in(file, entries.front().begin + kBeforeBoxes, entries.front().end);
  if (const Box* configuration = find(inner, "avcC"))
    container.reference_frames = frames_of_avc(file, configuration->begin);
  if (const Box* configuration = find(inner, "hvcC"))
    container.reference_frames = frames_of_hevc(file, configuration->begin);
  if (const Box* descriptor = find(inner, "esds")) container.codec = codec_of_stream(file, *descriptor);
}

VideoContainer read_mp4(const Bytes& file, const std::vector<Box>& boxes) {
  VideoContainer container;
  container.is_cut_off = boxes.back().end > file.size();
  const Box* movie = find(boxes, "moov");
  if (!movie) return container;
  const auto inner = boxes_in(file, movie->begin, movie->end);
  uint64_t scale = 0;
  if (const Box* header = find(inner, "mvhd")) {
    const auto version = file.at(header->begin, 1);
    const bool is_long = version && version->front() == 1;
    scale = big_endian(file.at(header->begin + (is_long ? 20 : 12), 4).value_or(std::string()));
  }
  for (const Box& box : inner) {
    if (box.type != "trak") continue;
    const auto track = boxes_in(file, box.begin, box.end);
    const Box* header = find(track, "tkhd");
    if (!header || !shows_pictures(file, track)) continue;
    read_track(file, *header, scale, container);
    read_description(file, track, container);
    break;
  }
  return container;
}

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

/// Of the first track of pictures, of those that an element holds.
void read_matroska_track(const Bytes& file, const Box& tracks, VideoContainer& container) {
  constexpr std::string_view kTrack = "\xae", kType = "\x83", kCodec = "\x86", kConfiguration = "\x63\xa2";
  constexpr std::size_t kLongestName = 64;
  constexpr std::array<std::pair<std::string_view, uint32_t>, 9> kCodecs = {
      {{"V_VP8", fourcc("VP80")},
       {"V_VP9", fourcc("VP90")},
       {"V_AV1", fourcc("av01")},
       {"V_MPEG1", kMpeg1},
       {"V_MPEG2", kMpeg2},
       {"V_MPEG4/ISO/SP", fourcc("FMP4")},
       {"V_MPEG4/ISO/ASP", fourcc("FMP4")},
       {"V_MPEG4/ISO/AP", fourcc("FMP4")},
       {"V_MJPEG", fourcc("MJPG")}}};
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
    if (name == "V_MPEG4/ISO/AVC" && configuration)
      container.reference_frames = frames_of_avc(file, configuration->begin);
    if (name == "V_MPEGH/ISO/HEVC" && configuration)
      container.reference_frames = frames_of_hevc(file, configuration->begin);
    return;
  }
}

/// The most of the H.264 sequence parameter sets in the beginning of a file of another kind: in its stream,
/// after start codes, or in the decoder configuration record that an AVI's header may hold.
std::optional<int> frames_in_stream(const Bytes& file) {
  constexpr uint64_t kBeginning = 1 << 20, kHeader = 4096;
  constexpr std::size_t kLongestSet = 160, kLength = 1;
  constexpr std::string_view kUnits = "\x27\x47\x67";  // sequence parameter sets
  const std::string bytes = file.at(0, std::min(kBeginning, file.size())).value_or(std::string());
  std::optional<int> most;
  const auto look = [&](std::string_view part, std::string_view before, std::size_t between) {
    for (std::size_t at = part.find(before); at != part.npos; at = part.find(before, at + before.size())) {
      const std::string_view after = part.substr(at + before.size());
      const std::string_view unit = after.substr(std::min(between, after.size()), kLongestSet);
      if (!unit.empty() && kUnits.find(unit[0]) != kUnits.npos)
        most = std::max(most, h264_reference_frames(unit));
    }
  };
  look(bytes, std::string_view("\0\0\1", 3), 0);
  // One set, and the higher byte of its length.
  look(std::string_view(bytes).substr(0, kHeader), std::string_view("\xe1\0", 2), kLength);
  return most;
}

VideoContainer read_matroska(const Bytes& file) {
  constexpr std::string_view kSegment = "\x18\x53\x80\x67", kTracks = "\x16\x54\xae\x6b";
  VideoContainer container;
  container.counts_from_first = false;
  const auto whole = matroska_elements(file, 0, file.size(), kSegment);
  const Box* segment = find(whole, kSegment);
  if (!segment) return container;
  container.is_cut_off = segment->end > file.size();
  const auto parts = matroska_elements(file, segment->begin, segment->end, kTracks);
  if (const Box* tracks = find(parts, kTracks)) read_matroska_track(file, *tracks, container);
  return container;
}

}  // namespace

VideoContainer read_video_container(const std::filesystem::path& path) try {
  constexpr std::array<std::string_view, 7> kFirst{"ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"};
  if (!std::filesystem::is_regular_file(path)) return {};  // a pipe gives its bytes once
  const Bytes file(path);
  if (file.at(0, 4) == "\x1a\x45\xdf\xa3") return read_matroska(file);
  const auto boxes = boxes_in(file, 0, file.size());
  const bool is_mp4 = !boxes.empty() && std::ranges::find(kFirst, boxes.front().type) != kFirst.end();
  if (is_mp4) return read_mp4(file, boxes);
  VideoContainer other;
  if (file.at(0, 4) == std::string("\0\0\1\xba", 4)) other.codec = kMpeg2;  // a program stream
  other.reference_frames = frames_in_stream(file);
  return other;
} catch (const std::exception&) {  // it cannot be read, or changes meanwhile
  return {};
}

}  // namespace vggt
