#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vggt {

enum class WeightFormat { torchscript, safetensors, pytorch };

/// A tensor of a weight file as the file stores it.
struct StoredTensor {
  at::ScalarType type;  // fp64, fp32, fp16 or bf16
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  uint64_t offset;               // of its first element in the file, bytes
};

/// A checkpoint on disk: a TorchScript archive, an official model.safetensors or an official model.pt.
/// Only headers are read and checked on opening; nothing in the file is ever executed. Copies share it.
class WeightFile {
 public:
  /// Throws std::invalid_argument naming the file and what is wrong with it; std::system_error if it cannot
  /// be read.
  static WeightFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const;
  WeightFormat format() const;
  const std::map<std::string, StoredTensor>& tensors() const;
  /// The text of config.json: out of the weight file, else of the file of that name beside it. The keys of
  /// NAME.config.json beside NAME.ts, if it is there, replace those of this text.
  const std::optional<std::string>& config_json() const;

  /// Reads one tensor: converted to `type`, contiguous, on `device`. It needs the memory of the result and a
  /// few MB. Throws std::invalid_argument naming the tensor: NaN or Inf, or (archives) a wrong checksum.
  at::Tensor load(const std::string& name, at::ScalarType type, at::Device device) const;

  /// From now on: sums what is loaded. loaded_sum(): the CRC-32 of all of it, the same for the same tensors
  /// that are stored and loaded in the same types and strides.
  void sum_loads() const;
  uint32_t loaded_sum() const;

 private:
  struct Contents;
  explicit WeightFile(std::shared_ptr<Contents> contents);
  std::shared_ptr<Contents> contents_;
};

}  // namespace vggt
