#include "io/archives/zip_writer.h"

#include <algorithm>
#include <concepts>
#include <ostream>
#include <stdexcept>

#include "io/files/crc32.h"

namespace vggt {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kFull32 = 0xFFFFFFFF;
constexpr std::size_t kLocalBytes = 30, kFieldHeaderBytes = 4;
constexpr uint16_t kVersion = 45;        // zip64
constexpr uint16_t kUtf8 = 1 << 11;      // names
constexpr uint16_t kPaddingId = 0x4246;  // "FB", as in PyTorch

template <std::integral T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint32_t clamp32(uint64_t value) {
  return static_cast<uint32_t>(std::min(value, kFull32));
}

// The fields that a local header and a directory entry share, from the flags to the length of the name.
void put_facts(std::string& to, uint32_t crc32, uint64_t size, std::size_t name_bytes) {
  put<uint16_t>(to, kUtf8);
  put<uint16_t>(to, 0);           // stored
  put<uint32_t>(to, 0x00210000);  // 1980-01-01, so that the same weights give the same file
  put(to, crc32);
  put(to, clamp32(size));
  put(to, clamp32(size));
  put(to, static_cast<uint16_t>(name_bytes));
}

}  // namespace

void ZipWriter::write(const std::string& bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  const Entry entry{top_ + "/" + name, position_, data.size(), crc32(data)};
  if (entry.name.size() > 0xFFFF)
    throw std::invalid_argument("a name is too long for a zip archive: " + name);
  std::string extra;
  if (entry.size >= kFull32) {
    put<uint16_t>(extra, 1);
    put<uint16_t>(extra, 16);
    put(extra, entry.size);
    put(extra, entry.size);
  }
  const uint64_t start = position_ + kLocalBytes + entry.name.size() + extra.size() + kFieldHeaderBytes;
  const uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
  put(extra, kPaddingId);
  put(extra, static_cast<uint16_t>(padding));
  extra.append(padding, 'Z');

  std::string header = "PK\x03\x04";
  put(header, kVersion);
  put_facts(header, entry.crc32, entry.size, entry.name.size());
  put(header, static_cast<uint16_t>(extra.size()));
  write(header + entry.name + extra);
  out_.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  position_ += data.size();
  entries_.push_back(entry);
}

void ZipWriter::finish() {
  const uint64_t directory = position_;
  for (const Entry& entry : entries_) {
    std::string extra;
    if (entry.size >= kFull32) {
      put(extra, entry.size);
      put(extra, entry.size);
    }
    if (entry.offset >= kFull32) put(extra, entry.offset);
    std::string field;
    if (!extra.empty()) {
      put<uint16_t>(field, 1);
      put(field, static_cast<uint16_t>(extra.size()));
    }
    std::string header = "PK\x01\x02";
    put(header, kVersion);
    put(header, kVersion);
    put_facts(header, entry.crc32, entry.size, entry.name.size());
    put(header, static_cast<uint16_t>(field.size() + extra.size()));
    header.append(10, '\0');  // comment, disk, attributes
    put(header, clamp32(entry.offset));
    write(header + entry.name + field + extra);
  }
  const uint64_t end = position_, size = end - directory, count = entries_.size();
  std::string records = "PK\x06\x06";
  put<uint64_t>(records, 44);
  put(records, kVersion);
  put(records, kVersion);
  records.append(8, '\0');  // disks
  for (const uint64_t value : {count, count, size, directory}) put(records, value);
  records += "PK\x06\x07";
  put<uint32_t>(records, 0);
  put(records, end);
  put<uint32_t>(records, 1);
  records += "PK\x05\x06";
  put<uint32_t>(records, 0);
  const auto count16 = static_cast<uint16_t>(std::min<uint64_t>(count, 0xFFFF));
  put(records, count16);
  put(records, count16);
  put(records, clamp32(size));
  put(records, clamp32(directory));
  put<uint16_t>(records, 0);
  write(records);
}

}  // namespace vggt
