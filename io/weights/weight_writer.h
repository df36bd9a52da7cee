#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/weights/weight_file.h"

namespace vggt {

/// A tensor that is going to be written.
struct TensorSpec {
  std::string name;
  at::ScalarType type = at::kFloat;  // fp64, fp32, fp16 or bf16
  std::vector<int64_t> shape;
};

/// Makes a tensor when its turn comes: of the spec's shape, on any device; it is converted to the spec's
/// type.
using TensorProducer = std::function<at::Tensor(const TensorSpec& spec)>;

/// Write weights tensor by tensor, so that only one is in memory, to a temporary file that is then renamed.
/// config_json goes into the file: TorchScript's and PyTorch's extra/config.json, safetensors' metadata.
/// Throw std::invalid_argument naming a tensor that cannot be stored (its name, twice the same name),
/// std::system_error naming the path; what `produce` throws passes through.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const TensorProducer& produce, const std::optional<std::string>& config_json);
void write_pytorch(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json);
void write_torchscript(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const TensorProducer& produce, const std::optional<std::string>& config_json);

/// The format that a path's extension names: .ts, .pt or .safetensors. Throws std::invalid_argument for
/// others.
WeightFormat format_of(const std::filesystem::path& path);

/// One of the three above, by format_of(path).
void write_weights(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json);

}  // namespace vggt
