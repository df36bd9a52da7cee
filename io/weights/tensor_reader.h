#pragma once
#include <ATen/ATen.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/files/input_file.h"
#include "io/tensors/tensor_index.h"

namespace vggt {

/// LibTorch's type for one of the four floating types.
at::ScalarType scalar_type(ElementType type);

/// Reads tensors of a file in pieces, on several threads; each piece is checked and converted while it is in
/// the cache. Several threads may read at once.
class TensorReader {
 public:
  TensorReader(const InputFile& file, const std::vector<FileRecord>& records);

  /// As WeightFile::load.
  at::Tensor read(const std::string& name, const TensorEntry& entry, at::ScalarType type,
                  at::Device device) const;

  /// From now on: sums what is read. sum(): of all tensors read since, by name; of their bytes in the file,
  /// or of strided ones of the numbers that were read.
  void keep_sums() const { keeps_sums_ = true; }
  uint32_t sum() const;

 private:
  struct Job;
  void read_dense(Job& job, at::Tensor& result) const;
  void read_piece(Job& job, int64_t first, at::Tensor to) const;
  void read_strided(const Job& job, at::Tensor& result) const;
  void check_record(std::size_t record) const;
  void compare(std::size_t record, uint32_t sum) const;
  [[noreturn]] void report_value(const Job& job, int64_t position) const;

  const InputFile& file_;
  const std::vector<FileRecord>& records_;
  std::unique_ptr<std::atomic<bool>[]> verified_;  // per record
  mutable std::atomic<bool> keeps_sums_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::string, uint32_t> sums_;  // by tensor
};

}  // namespace vggt
