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
#include <vector>

#include "io/files/input_file.h"
#include "io/frames/h264_parameters.h"

namespace vggt {
namespace {

constexpr int kMostBoxes = 4096;  // of one level: hostile files have more

/// Bytes of a file, from anywhere in it.
class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& path) : file_(path) {}

  uint64_t size() const { return file_.size(); }
  /// Nothing where the file has fewer.
  std::optional<std::string> at(uint64_t offset, std::size_t count) const {
    if (offset > size() || count > size() - offset) return std::nullopt;
    std::string bytes(count, 0);
    file_.read(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

 private:
  InputFile file_;
};

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

/// Of the first sequence parameter set of a track in H.264; nothing of others.
std::optional<int> reference_frames(const Bytes& file, const std::vector<Box>& track) {
  constexpr uint64_t kBeforeEntries = 8, kBeforeBoxes = 78, kBeforeSets = 8;
  const auto descriptions = find_below(file, track, {"mdia", "minf", "stbl", "stsd"});
  if (!descriptions) return std::nullopt;
  const auto entries = boxes_in(file, descriptions->begin + kBeforeEntries, descriptions->end);
  const Box* entry = find(entries, "avc1");
  if (!entry) return std::nullopt;
  const auto inner = boxes_in(file, entry->begin + kBeforeBoxes, entry->end);
  const Box* configuration = find(inner, "avcC");
  if (!configuration) return std::nullopt;
  const auto length = file.at(configuration->begin + kBeforeSets - 2, 2);
  const auto set = length ? file.at(configuration->begin + kBeforeSets, big_endian(*length)) : std::nullopt;
  return set ? h264_reference_frames(*set) : std::nullopt;
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
    container.reference_frames = reference_frames(file, track);
    break;
  }
  return container;
}

/// Where a Matroska element's content begins and ends; nothing for an unknown size.
std::optional<Box> matroska_element(const Bytes& file, uint64_t begin) {
  constexpr std::size_t kIdBytes = 4;  // of those that are asked for
  const auto first = file.at(begin + kIdBytes, 1);
  const auto id = file.at(begin, kIdBytes);
  if (!first || !id || first->front() == 0) return std::nullopt;
  const int more = std::countl_zero(static_cast<uint8_t>(first->front()));
  const auto bytes = file.at(begin + kIdBytes, static_cast<std::size_t>(more) + 1);
  if (!bytes) return std::nullopt;
  const uint64_t mask = (uint64_t{1} << (7 * (more + 1))) - 1, size = big_endian(*bytes) & mask;
  const uint64_t inner = begin + kIdBytes + static_cast<uint64_t>(more) + 1;
  if (size == mask || size > std::numeric_limits<uint64_t>::max() - inner) return std::nullopt;
  return Box{*id, inner, inner + size};
}

VideoContainer read_matroska(const Bytes& file) {
  VideoContainer container;
  container.counts_from_first = false;
  const auto header = matroska_element(file, 0);
  if (!header) return container;
  const auto segment = matroska_element(file, header->end);
  container.is_cut_off = segment && segment->type == "\x18\x53\x80\x67" && segment->end > file.size();
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
  return is_mp4 ? read_mp4(file, boxes) : VideoContainer();
} catch (const std::exception&) {  // it cannot be read, or changes meanwhile
  return {};
}

}  // namespace vggt
