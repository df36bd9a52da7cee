#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "io/files/byte_source.h"

namespace vggt {

/// One file inside a zip archive.
struct ZipEntry {
  uint64_t offset = 0;  // of its data in the archive
  uint64_t size = 0;    // of its data as stored
  uint32_t crc32 = 0;   // of the uncompressed data
  bool deflated = false;
};

/// The directory of a zip archive such as PyTorch writes: with or without zip64, no comment, not split, not
/// encrypted, all names in one top folder, which the result's names leave out. Every entry is checked to lie
/// inside the archive, to agree with its local header and to overlap no other. Throws std::invalid_argument
/// saying what is wrong.
std::map<std::string, ZipEntry> read_zip_directory(const ByteSource& archive);

}  // namespace vggt
