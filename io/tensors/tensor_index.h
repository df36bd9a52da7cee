#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// The types that tensors in files may have. Weights must be of the first four.
enum class ElementType {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2
};

std::size_t element_bytes(ElementType type);
/// As safetensors spells it, such as "BF16".
std::string_view element_name(ElementType type);
/// The type of that name; nothing for an unknown one.
std::optional<ElementType> element_type(std::string_view name);

/// Such as "[2,3,14,28]".
std::string shape_text(std::span<const int64_t> shape);

/// A tensor that is going to be written to a file.
struct TensorDescription {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
};

/// A tensor inside a file. All its elements lie inside the file.
struct TensorEntry {
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;  // strides in elements, none negative
  uint64_t offset = 0;                  // of its first element in the file, bytes
  std::size_t record = kNoRecord;       // the position in TensorIndex::records of the record that holds it

  static constexpr std::size_t kNoRecord = ~std::size_t{0};
};

/// A part of an archive, with the checksum that the archive gives for it.
struct FileRecord {
  std::string name;
  uint64_t offset = 0, size = 0;
  uint32_t crc32 = 0;
};

/// What the headers of a file of tensors say.
struct TensorIndex {
  std::map<std::string, TensorEntry> tensors;
  std::vector<FileRecord> records;  // of an archive; empty for .safetensors
  std::optional<std::string> config_json;
  bool torchscript = false;
};

constexpr uint64_t kMaxConfigBytes = 1 << 20;  // of config_json

/// The number of elements. Throws std::invalid_argument: a negative size, more than 16 dimensions, a product
/// of the sizes that does not fit 63 bits.
int64_t checked_count(const std::vector<int64_t>& shape);

/// Row-major strides of a shape that passed checked_count.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape);

/// Throws std::invalid_argument unless all elements of a view lie in [0, storage_count) and are no more than
/// storage_count (a stride of 0 would let a small file ask for any amount of memory).
void check_view(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t offset,
                int64_t storage_count);

}  // namespace vggt
