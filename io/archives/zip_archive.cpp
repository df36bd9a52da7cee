#include "io/archives/zip_archive.h"

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files/byte_reader.h"
#include "io/files/text.h"

namespace vggt {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50, kLocatorSignature = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kLocalBytes = 30;
constexpr uint16_t kFull16 = 0xFFFF;
constexpr uint32_t kFull32 = 0xFFFFFFFF;
constexpr uint16_t kDescriptorFlag = 1 << 3;                         // sizes may follow the data
constexpr uint16_t kKnownFlags = kDescriptorFlag | 0x6 | (1 << 11);  // + deflate's level, UTF-8 names
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr std::size_t kLongestName = 512;
constexpr uint64_t kMaxDirectoryBytes = uint64_t{16} << 20;  // VGGT-1B: 0.2 MB

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("not a sound zip archive: " + what);
}

struct Directory {
  uint64_t entries = 0, offset = 0, size = 0;
  uint64_t end = 0;  // where the end records start, behind the directory
};

// tail: the bytes before the end record, at most those of the zip64 end record and its locator. `end`: where
// the end record starts. Nothing if the archive has no zip64 end record.
std::optional<Directory> read_end64(Bytes tail, uint64_t end) {
  if (tail.size() < kLocatorBytes) return std::nullopt;
  ByteReader locator(tail.last(kLocatorBytes));
  if (locator.number<uint32_t>() != kLocatorSignature) return std::nullopt;
  const auto disk = locator.number<uint32_t>();
  const auto position = locator.number<uint64_t>();
  const auto disks = locator.number<uint32_t>();
  if (disk != 0 || disks > 1) fail("it is split over several files");
  if (tail.size() < kLocatorBytes + kEnd64Bytes || position != end - kLocatorBytes - kEnd64Bytes)
    fail("the zip64 end record is not where its locator says");
  ByteReader reader(tail.first(kEnd64Bytes));
  if (reader.number<uint32_t>() != kEnd64Signature) fail("the zip64 end record is missing");
  if (reader.number<uint64_t>() != kEnd64Bytes - 12) fail("the zip64 end record has an unknown size");
  reader.take(4);  // versions
  const auto this_disk = reader.number<uint32_t>();
  const auto directory_disk = reader.number<uint32_t>();
  Directory result;
  const auto entries_here = reader.number<uint64_t>();
  result.entries = reader.number<uint64_t>();
  result.size = reader.number<uint64_t>();
  result.offset = reader.number<uint64_t>();
  result.end = position;
  if (this_disk != 0 || directory_disk != 0 || entries_here != result.entries)
    fail("it is split over several files");
  return result;
}

Directory find_directory(const ByteSource& archive) {
  if (archive.size < kEndBytes) fail("it is too short");
  const uint64_t tail_bytes = std::min<uint64_t>(archive.size, kEndBytes + kLocatorBytes + kEnd64Bytes);
  const std::vector<std::byte> bytes = archive.take(archive.size - tail_bytes, tail_bytes);
  const Bytes tail(bytes);
  const uint64_t end = archive.size - kEndBytes;
  ByteReader reader(tail.last(kEndBytes));
  if (reader.number<uint32_t>() != kEndSignature) fail("its end record is missing (cut off?)");
  const auto disk = reader.number<uint16_t>();
  const auto directory_disk = reader.number<uint16_t>();
  const auto entries_here = reader.number<uint16_t>();
  const auto entries = reader.number<uint16_t>();
  const auto size = reader.number<uint32_t>();
  const auto offset = reader.number<uint32_t>();
  if (reader.number<uint16_t>() != 0) fail("it has a comment");
  if (disk != 0 || directory_disk != 0 || entries_here != entries) fail("it is split over several files");

  Directory result{entries, offset, size, end};
  if (const auto end64 = read_end64(tail.first(tail.size() - kEndBytes), end)) {
    result = *end64;
    const bool agree = (entries == kFull16 || entries == result.entries) &&
                       (size == kFull32 || size == result.size) &&
                       (offset == kFull32 || offset == result.offset);
    if (!agree) fail("its two end records contradict each other");
  }
  if (result.offset > result.end || result.size != result.end - result.offset)
    fail("its directory is not where its end record says");
  return result;
}

struct RawEntry {
  std::string_view name;
  uint16_t flags = 0, method = 0;
  uint32_t crc32 = 0;
  uint64_t packed = 0, unpacked = 0, local_offset = 0;
};

// Replaces the fields that do not fit 32 bits by those of the zip64 extra field. `fields` are in the
// standard's order.
void apply_zip64(Bytes extra, const std::vector<uint64_t*>& fields) {
  std::vector<uint64_t*> full;
  std::copy_if(fields.begin(), fields.end(), std::back_inserter(full),
               [](auto* field) { return *field == kFull32; });
  ByteReader reader(extra);
  while (reader.left() >= 4) {
    const auto id = reader.number<uint16_t>();
    ByteReader data(reader.take(reader.number<uint16_t>()));
    if (id != 1) continue;
    for (uint64_t* field : full) *field = data.number<uint64_t>();
    return;
  }
  if (!full.empty()) fail("a zip64 field is missing");
}

RawEntry read_entry(ByteReader& reader) {
  RawEntry entry;
  if (reader.number<uint32_t>() != kEntrySignature) fail("a directory entry is damaged");
  reader.take(4);  // versions
  entry.flags = reader.number<uint16_t>();
  entry.method = reader.number<uint16_t>();
  reader.take(4);  // time
  entry.crc32 = reader.number<uint32_t>();
  entry.packed = reader.number<uint32_t>();
  entry.unpacked = reader.number<uint32_t>();
  const auto name_bytes = reader.number<uint16_t>();
  const auto extra_bytes = reader.number<uint16_t>();
  const auto comment_bytes = reader.number<uint16_t>();
  const auto disk = reader.number<uint16_t>();
  reader.take(6);  // attributes
  entry.local_offset = reader.number<uint32_t>();
  entry.name = reader.text(name_bytes);
  const Bytes extra = reader.take(extra_bytes);
  reader.take(comment_bytes);
  if (disk != 0) fail("it is split over several files");
  apply_zip64(extra, {&entry.unpacked, &entry.packed, &entry.local_offset});
  return entry;
}

void check_name(std::string_view name) {
  const auto bad_character = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f;
  };
  bool sound =
      !name.empty() && name.size() <= kLongestName && std::none_of(name.begin(), name.end(), bad_character);
  for (std::size_t start = 0; sound && start <= name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    sound = !part.empty() && part != "." && part != "..";
    start = end + 1;
  }
  if (!sound) fail("an entry has an unsafe name, '" + printable(name) + "'");
}

// Where the entry's data starts.
uint64_t check_local_header(const ByteSource& archive, const RawEntry& entry, uint64_t directory_offset) {
  const std::string quoted = "'" + printable(entry.name) + "'";
  if (entry.local_offset >= directory_offset) fail("the entry " + quoted + " lies outside the archive");
  const uint64_t room = directory_offset - entry.local_offset;
  const std::vector<std::byte> fixed =
      archive.take(entry.local_offset, std::min<uint64_t>(room, kLocalBytes));
  ByteReader reader(fixed);
  if (reader.number<uint32_t>() != kLocalSignature) fail("the header of " + quoted + " is missing");
  reader.take(2);  // version
  const auto flags = reader.number<uint16_t>();
  const auto method = reader.number<uint16_t>();
  reader.take(4);  // time
  uint64_t crc = reader.number<uint32_t>(), packed = reader.number<uint32_t>(),
           unpacked = reader.number<uint32_t>();
  const auto name_bytes = reader.number<uint16_t>();
  const uint64_t header_bytes = kLocalBytes + name_bytes + reader.number<uint16_t>();
  if (header_bytes > room) fail("the header of " + quoted + " is cut off");
  const std::vector<std::byte> rest =
      archive.take(entry.local_offset + kLocalBytes, header_bytes - kLocalBytes);
  ByteReader texts(rest);
  const std::string_view name = texts.text(name_bytes);
  apply_zip64(Bytes(rest).subspan(name_bytes), {&unpacked, &packed});
  const bool unknown_yet = (flags & kDescriptorFlag) != 0 && crc == 0 && packed == 0 && unpacked == 0;
  const bool same_sizes = crc == entry.crc32 && packed == entry.packed && unpacked == entry.unpacked;
  if (name != entry.name || flags != entry.flags || method != entry.method || !(unknown_yet || same_sizes))
    fail("the header of " + quoted + " contradicts the directory");
  if (entry.packed > room - header_bytes) fail("the entry " + quoted + " reaches past its end");
  return entry.local_offset + header_bytes;
}

ZipEntry check_entry(const ByteSource& archive, const RawEntry& entry, uint64_t directory_offset) {
  const std::string quoted = "'" + printable(entry.name) + "'";
  check_name(entry.name);
  if ((entry.flags & ~kKnownFlags) != 0) fail("the entry " + quoted + " is encrypted or of an unknown kind");
  if (entry.method != kStored && entry.method != kDeflated)
    fail("the entry " + quoted + " has an unknown compression");
  if (entry.method == kStored && entry.packed != entry.unpacked) fail("the sizes of " + quoted + " differ");
  return {check_local_header(archive, entry, directory_offset), entry.packed, entry.crc32,
          entry.method == kDeflated};
}

}  // namespace

std::map<std::string, ZipEntry> read_zip_directory(const ByteSource& archive) {
  const Directory directory = find_directory(archive);
  if (directory.size > kMaxDirectoryBytes) fail("its directory is larger than 16 MB");
  const std::vector<std::byte> bytes = archive.take(directory.offset, directory.size);
  ByteReader reader(bytes);
  std::map<std::string, ZipEntry> entries;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // local header to end of data
  std::string top;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const RawEntry raw = read_entry(reader);
    const ZipEntry entry = check_entry(archive, raw, directory.offset);
    ranges.emplace_back(raw.local_offset, entry.offset + entry.size);
    const std::size_t slash = raw.name.find('/');
    if (slash == std::string_view::npos) fail("the entry '" + printable(raw.name) + "' is in no folder");
    if (i == 0) top = raw.name.substr(0, slash);
    if (raw.name.substr(0, slash) != top) fail("it has more than one top folder");
    if (!entries.emplace(raw.name.substr(slash + 1), entry).second)
      fail("the entry '" + printable(raw.name) + "' is there twice");
  }
  if (reader.left() != 0) fail("its directory holds more than its entries");
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) fail("two of its entries overlap");
  return entries;
}

}  // namespace vggt
