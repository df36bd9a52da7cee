#include "io/frames/video_container.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/frames/decoder_records.h"
#include "io/frames/matroska.h"
#include "io/frames/parameter_sets.h"

namespace vggt {
namespace {

constexpr uint64_t kAviHeader = 1 << 16;
constexpr uint32_t kMpeg1 = fourcc("mpg1"), kMpeg2 = fourcc("mpg2");

bool is_h264(uint32_t codec) {
  return codec == fourcc("avc1") || codec == fourcc("avc3");
}

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

/// Samples of a track by its length in time.
std::optional<double> rate_of(const Bytes& file, const std::vector<Box>& track) {
  const auto header = find_below(file, track, {"mdia", "mdhd"}),
             sizes = find_below(file, track, {"mdia", "minf", "stbl", "stsz"});
  const auto version = header ? file.at(header->begin, 1) : std::nullopt;
  if (!version || !sizes) return std::nullopt;
  const bool is_long = version->front() == 1;
  const auto scale = file.at(header->begin + (is_long ? 20 : 12), 4),
             units = file.at(header->begin + (is_long ? 24 : 16), is_long ? 8 : 4),
             count = file.at(sizes->begin + 8, 4);
  if (!scale || !units || !count) return std::nullopt;
  const double samples = static_cast<double>(big_endian(*count)),
               rate = samples * static_cast<double>(big_endian(*scale)) /
                      static_cast<double>(big_endian(*units));
  return std::isfinite(rate) && rate > 0 ? std::optional(rate) : std::nullopt;
}

/// What a track of pictures says of its decoder.
void read_description(const Bytes& file, const std::vector<Box>& track, VideoContainer& container) {
  constexpr uint64_t kBeforeEntries = 8, kBeforeSize = 24, kBeforeBoxes = 78;
  const auto descriptions = find_below(file, track, {"mdia", "minf", "stbl", "stsd"});
  if (!descriptions) return;
  const auto entries = boxes_in(file, descriptions->begin + kBeforeEntries, descriptions->end);
  if (entries.empty()) return;
  const Box& entry = entries.front();
  if (const auto size = file.at(entry.begin + kBeforeSize, 4)) {
    container.width = static_cast<int>(big_endian(size->substr(0, 2)));
    container.height = static_cast<int>(big_endian(size->substr(2)));
  }
  container.named_codec = fourcc(entry.type);
  const auto inner = boxes_in(file, entry.begin + kBeforeBoxes, entry.end);
  if (const Box* record = find(inner, "avcC")) read_avc(file, record->begin, container);
  if (const Box* record = find(inner, "hvcC")) read_hevc(file, record->begin, container);
  if (const Box* record = find(inner, "av1C")) read_av1(file, record->begin, container);
  if (const Box* descriptor = find(inner, "esds")) container.codec = codec_of_stream(file, *descriptor);
  if (container.codec != 0) container.named_codec = container.codec;
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
    container.rate = rate_of(file, track);
    break;
  }
  const Box* samples = find(boxes, "mdat");
  if (samples && is_h264(container.named_codec)) look_for_sets(file, samples->begin, container);
  return container;
}

/// An AVI's first stream of pictures: the BITMAPINFOHEADER of its format.
void read_avi(const Bytes& file, VideoContainer& container) {
  constexpr std::size_t kBeforeHeader = 8, kBeforeWidth = 4, kBeforeLetters = 16;
  const std::string head = file.at(0, std::min(kAviHeader, file.size())).value_or(std::string());
  const std::size_t at = head.find("strf", head.find("vids"));
  if (!head.starts_with("RIFF") || at == head.npos || head.size() < at + kBeforeHeader + kBeforeLetters + 4)
    return;
  const std::string_view header = std::string_view(head).substr(at + kBeforeHeader);
  const auto pixels = [&](std::size_t place) {  // the lowest byte first; of pictures upside down below zero
    const auto value = static_cast<int32_t>(fourcc(header.substr(place, 4)));
    return static_cast<int>(std::min<int64_t>(std::abs(int64_t{value}), 1 << 16));
  };
  container.width = pixels(kBeforeWidth);
  container.height = pixels(kBeforeWidth + 4);
  const uint32_t letters = fourcc(header.substr(kBeforeLetters, 4));
  container.named_codec = letters != 0 ? letters : fourcc("raw ");
  for (const char* h264 : {"H264", "h264", "X264", "x264", "AVC1", "avc1", "DAVC"}) {
    if (letters == fourcc(h264)) container.named_codec = fourcc("avc1");
  }
}

/// By the H.264 sequence parameter sets in the beginning of a file of another kind: in its stream, after
/// start codes, or in the decoder configuration record that an AVI's header may hold. The first one's size
/// counts, unless the header told it.
void read_stream(const Bytes& file, VideoContainer& container) {
  constexpr uint64_t kBeginning = 1 << 20;
  constexpr std::size_t kLongestSet = 160, kLength = 1;
  constexpr std::string_view kUnits = "\x27\x47\x67";  // sequence parameter sets
  constexpr std::string_view kStart("\0\0\1", 3);
  const std::string bytes = file.at(0, std::min(kBeginning, file.size())).value_or(std::string());
  // Slices of MPEG-2 begin with the same bytes. They come after a header of their own.
  const std::size_t mpeg2 = bytes.find(std::string_view("\0\0\1\xb3", 4));
  bool is_h264 = container.named_codec != 0;
  const auto look = [&](std::string_view part, std::string_view before, std::size_t between) {
    for (std::size_t at = part.find(before); at != part.npos; at = part.find(before, at + before.size())) {
      const std::string_view after = part.substr(at + before.size());
      const std::string_view unit = after.substr(std::min(between, after.size()), kLongestSet);
      const auto set =
          !unit.empty() && kUnits.find(unit[0]) != kUnits.npos ? h264_parameters(unit) : std::nullopt;
      if (!set) continue;
      if (!is_h264 && mpeg2 < at) return;
      is_h264 = true;
      take_set(*set, container);
      container.named_codec = fourcc("avc1");
      if (container.width > 0) continue;
      container.width = set->width;
      container.height = set->height;
    }
  };
  look(bytes, kStart, 0);
  // One set, and the higher byte of its length.
  look(std::string_view(bytes).substr(0, kAviHeader), std::string_view("\xe1\0", 2), kLength);
}

/// Theora's identification header (Theora I Specification, 6.2), with which its first page begins.
void read_theora(const Bytes& file, VideoContainer& container) {
  constexpr uint64_t kPage = 512, kBeforeSize = 10;
  constexpr int kBlock = 16;
  const std::string page = file.at(0, std::min(kPage, file.size())).value_or(std::string());
  const std::size_t at = page.find("\x80theora");
  if (at == page.npos || page.size() < at + kBeforeSize + 4) return;
  const auto pixels = [&](std::size_t place) {
    return kBlock * static_cast<int>(big_endian(std::string_view(page).substr(at + place, 2)));
  };
  container.width = pixels(kBeforeSize);
  container.height = pixels(kBeforeSize + 2);
  container.named_codec = fourcc("theo");
  container.pixel_format = fourcc("I420");
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
  read_avi(file, other);
  if (other.named_codec == 0 || is_h264(other.named_codec)) read_stream(file, other);
  read_theora(file, other);
  return other;
} catch (const std::exception&) {  // it cannot be read, or changes meanwhile
  return {};
}

}  // namespace vggt
