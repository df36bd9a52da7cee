#include "io/weights/tensor_reader.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "io/files/crc32.h"
#include "io/files/text.h"

namespace vggt {
namespace {

constexpr int64_t kPieceBytes =
    1 << 18;  // of a thread: they stay in its L2 cache from checksum to conversion
constexpr int64_t kStagingBytes = 32 << 20;  // of the host's copy of a piece for another device

// Each thread keeps its buffer. Buffers that were freed after every tensor left holes, which small
// allocations then split (13 % more memory from fp32 to bf16).
std::span<std::byte> staging(std::size_t bytes) {
  thread_local const std::unique_ptr<std::byte[]> buffer(new std::byte[kPieceBytes]);
  TORCH_CHECK(bytes <= kPieceBytes, "a piece of ", bytes, " bytes");
  return {buffer.get(), bytes};
}

template <typename Word>
int64_t first_with_full_exponent(const void* data, int64_t count, Word exponent) {
  const Word* words = static_cast<const Word*>(data);
  constexpr int64_t kBlock = 4096;  // the loop over it has no exit, so that the compiler can use vectors
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t end = std::min(count, start + kBlock);
    Word found = 0;
    for (int64_t i = start; i < end; ++i) found |= static_cast<Word>((words[i] & exponent) == exponent);
    if (found == 0) continue;
    return std::find_if(words + start, words + end, [&](Word w) { return (w & exponent) == exponent; }) -
           words;
  }
  return -1;
}

// The position of the first NaN or Inf in a contiguous tensor, or -1.
int64_t first_nonfinite(const at::Tensor& values) {
  const void* data = values.const_data_ptr();
  switch (values.scalar_type()) {
    case at::kDouble:
      return first_with_full_exponent<uint64_t>(data, values.numel(), 0x7FF0000000000000);
    case at::kFloat:
      return first_with_full_exponent<uint32_t>(data, values.numel(), 0x7F800000);
    case at::kHalf:
      return first_with_full_exponent<uint16_t>(data, values.numel(), 0x7C00);
    case at::kBFloat16:
      return first_with_full_exponent<uint16_t>(data, values.numel(), 0x7F80);
    default:
      TORCH_CHECK(false, "a floating type expected, got ", values.scalar_type());
  }
}

std::span<std::byte> bytes_of(at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

bool is_row_major(const TensorEntry& entry) {
  const std::vector<int64_t> dense = row_major_strides(entry.shape);
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (entry.shape[i] > 1 && entry.strides[i] != dense[i]) return false;
  return true;
}

// Copies a strided view out of a file. The storage is read in order and in pieces, so memory stays bounded
// whatever the strides are.
class StridedCopy {
 public:
  StridedCopy(const InputFile& file, const TensorEntry& entry)
      : file_(file), bytes_(static_cast<int64_t>(element_bytes(entry.type))), type_(scalar_type(entry.type)) {
    order_.resize(entry.shape.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return entry.strides[static_cast<std::size_t>(a)] > entry.strides[static_cast<std::size_t>(b)];
    });
    for (const int64_t d : order_) strides_.push_back(entry.strides[static_cast<std::size_t>(d)]);
  }

  void copy(uint64_t offset, const at::Tensor& result) { copy_block(0, offset, result.permute(order_)); }

 private:
  // `to` holds the dimensions from d on.
  void copy_block(std::size_t d, uint64_t offset, const at::Tensor& to) {
    if (to.dim() == 0 || span(d, to) <= kPieceBytes) return copy_piece(d, offset, to);
    const int64_t stride_bytes = strides_[d] * bytes_;
    const int64_t inner = span(d + 1, to.select(0, 0));
    // A step is as many indices as fit a piece, or one index that is split further.
    const int64_t step = stride_bytes == 0 ? 1 : 1 + std::max<int64_t>(0, kPieceBytes - inner) / stride_bytes;
    for (int64_t i = 0; i < to.size(0); i += step) {
      const uint64_t at = offset + static_cast<uint64_t>(i * stride_bytes);
      if (inner <= kPieceBytes) {
        copy_piece(d, at, to.narrow(0, i, std::min(step, to.size(0) - i)));
      } else {
        copy_block(d + 1, at, to.select(0, i));
      }
    }
  }

  void copy_piece(std::size_t d, uint64_t offset, const at::Tensor& to) {
    const std::span<std::byte> piece = staging(static_cast<std::size_t>(span(d, to)));
    file_.read(offset, piece);
    const at::IntArrayRef strides = at::IntArrayRef(strides_).slice(d);
    to.copy_(at::from_blob(piece.data(), to.sizes(), strides, at::TensorOptions(type_)));
  }

  // Bytes from the first to the last element.
  int64_t span(std::size_t d, const at::Tensor& to) const {
    int64_t elements = 1;
    for (int64_t i = 0; i < to.dim(); ++i)
      elements += (to.size(i) - 1) * strides_[d + static_cast<std::size_t>(i)];
    return elements * bytes_;
  }

  const InputFile& file_;
  int64_t bytes_;
  at::ScalarType type_;
  std::vector<int64_t> order_, strides_;
};

std::string index_text(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; position /= shape[i]) index[i] = position % shape[i];
  return shape_text(index);
}

}  // namespace

at::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return at::kDouble;
    case ElementType::f32:
      return at::kFloat;
    case ElementType::f16:
      return at::kHalf;
    case ElementType::bf16:
      return at::kBFloat16;
    default:
      TORCH_CHECK(false, "a floating type expected, got ", std::string(element_name(type)));
  }
}

struct TensorReader::Job {
  const std::string& name;
  const TensorEntry& entry;
  at::ScalarType type;
  bool sums = false;  // its checksum is wanted
  uint32_t sum = 0;
};

TensorReader::TensorReader(const InputFile& file, const std::vector<FileRecord>& records)
    : file_(file), records_(records), verified_(new std::atomic<bool>[records.size()]()) {}

at::Tensor TensorReader::read(const std::string& name, const TensorEntry& entry, at::ScalarType type,
                              at::Device device) const {
  Job job{name, entry, type, keeps_sums_};
  const bool dense = is_row_major(entry);
  bool is_record = false;  // a whole one, whose checksum is not known yet
  if (entry.record != TensorEntry::kNoRecord && !verified_[entry.record]) {
    const FileRecord& record = records_[entry.record];
    const uint64_t bytes = static_cast<uint64_t>(checked_count(entry.shape)) * element_bytes(entry.type);
    is_record = dense && entry.offset == record.offset && bytes == record.size;
    if (!is_record) check_record(entry.record);
    job.sums |= is_record;
  }
  at::Tensor result = at::empty(entry.shape, at::TensorOptions(type).device(dense ? device : at::kCPU));
  if (dense) {
    read_dense(job, result);
    if (is_record) compare(entry.record, job.sum);
  } else if (result.numel() > 0) {
    read_strided(job, result);
    job.sum = crc32(bytes_of(result));
  }
  if (keeps_sums_) {
    const std::lock_guard lock(mutex_);
    sums_[name] = job.sum;
  }
  return result.to(device);
}

uint32_t TensorReader::sum() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, sum] : sums_) text += name + ' ' + std::to_string(sum) + '\n';
  return crc32(std::as_bytes(std::span(text)));
}

void TensorReader::read_dense(Job& job, at::Tensor& result) const {
  at::Tensor flat = result.view(-1);
  if (result.device().is_cpu()) return read_piece(job, 0, flat);
  const int64_t step = kStagingBytes / static_cast<int64_t>(result.element_size());
  at::Tensor staging = at::empty({std::min(step, flat.numel())},
                                 at::TensorOptions(job.type).pinned_memory(result.device().is_cuda()));
  for (int64_t first = 0; first < flat.numel(); first += step) {
    const int64_t count = std::min(step, flat.numel() - first);
    read_piece(job, first, staging.narrow(0, 0, count));
    flat.narrow(0, first, count).copy_(staging.narrow(0, 0, count));
  }
}

// Elements from `first` on, as many as `to` has.
void TensorReader::read_piece(Job& job, int64_t first, at::Tensor to) const {
  const at::ScalarType stored = scalar_type(job.entry.type);
  const int64_t bytes = static_cast<int64_t>(element_bytes(job.entry.type));
  const int64_t step = kPieceBytes / bytes;
  const int64_t pieces = (to.numel() + step - 1) / step;
  std::vector<uint32_t> sums(static_cast<std::size_t>(pieces));
  std::atomic<int64_t> bad = to.numel();
  const bool inference = c10::InferenceMode::is_enabled();  // threads of parallel_for do not inherit it
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    const c10::InferenceMode mode(inference);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i * step, count = std::min(step, to.numel() - start);
      at::Tensor target = to.narrow(0, start, count);
      const std::span<std::byte> source =
          stored == job.type ? bytes_of(target) : staging(static_cast<std::size_t>(count * bytes));
      file_.read(job.entry.offset + static_cast<uint64_t>((first + start) * bytes), source);
      if (job.sums) sums[static_cast<std::size_t>(i)] = crc32(source);
      if (stored != job.type) target.copy_(at::from_blob(source.data(), {count}, at::TensorOptions(stored)));
      const int64_t found = first_nonfinite(target);
      for (int64_t known = bad; found >= 0 && start + found < known;)
        if (bad.compare_exchange_weak(known, start + found)) break;
    }
  });
  for (int64_t i = 0; job.sums && i < pieces; ++i)
    job.sum = combine_crc32(job.sum, sums[static_cast<std::size_t>(i)],
                            static_cast<uint64_t>(std::min(step, to.numel() - i * step) * bytes));
  if (bad < to.numel()) report_value(job, first + bad);
}

void TensorReader::read_strided(const Job& job, at::Tensor& result) const {
  StridedCopy(file_, job.entry).copy(job.entry.offset, result);
  if (const int64_t bad = first_nonfinite(result); bad >= 0) report_value(job, bad);
}

void TensorReader::check_record(std::size_t record) const {
  const uint64_t size = records_[record].size;
  const int64_t pieces = static_cast<int64_t>((size + kPieceBytes - 1) / kPieceBytes);
  const auto piece_bytes = [&](int64_t i) {
    return std::min<uint64_t>(kPieceBytes, size - static_cast<uint64_t>(i) * kPieceBytes);
  };
  std::vector<uint32_t> sums(static_cast<std::size_t>(pieces));
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::span<std::byte> piece = staging(piece_bytes(i));
      file_.read(records_[record].offset + static_cast<uint64_t>(i) * kPieceBytes, piece);
      sums[static_cast<std::size_t>(i)] = crc32(piece);
    }
  });
  uint32_t sum = 0;
  for (int64_t i = 0; i < pieces; ++i)
    sum = combine_crc32(sum, sums[static_cast<std::size_t>(i)], piece_bytes(i));
  compare(record, sum);
}

void TensorReader::compare(std::size_t record, uint32_t sum) const {
  if (sum != records_[record].crc32)
    throw std::invalid_argument(file_.path().string() + ": the checksum of its record '" +
                                printable(records_[record].name) + "' is wrong (damaged file)");
  verified_[record] = true;
}

void TensorReader::report_value(const Job& job, int64_t position) const {
  if (job.entry.record != TensorEntry::kNoRecord)
    check_record(job.entry.record);  // if the file is damaged, say that instead
  uint64_t offset = job.entry.offset;
  int64_t rest = position;
  for (std::size_t i = job.entry.shape.size(); i-- > 0; rest /= job.entry.shape[i])
    offset += static_cast<uint64_t>(rest % job.entry.shape[i] * job.entry.strides[i]) *
              element_bytes(job.entry.type);
  at::Tensor stored = at::empty({}, scalar_type(job.entry.type));
  file_.read(offset, bytes_of(stored));
  std::ostringstream text;
  text << file_.path().string() << ": tensor '" << printable(job.name) << "' holds " << stored.item<double>()
       << " at " << index_text(position, job.entry.shape);
  if (std::isfinite(stored.item<double>())) text << ", too large for " << at::toString(job.type);
  throw std::invalid_argument(text.str());
}

}  // namespace vggt
