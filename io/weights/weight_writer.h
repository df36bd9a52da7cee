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

/// Makes a tensor of the spec's shape when its turn comes, on any device and of any type; the writer converts
/// it to the spec's type.
using TensorProducer = std::function<at::Tensor(const TensorSpec& spec)>;

/// Write weights with one tensor in memory at a time, to a temporary file that is then renamed. config_json
/// goes into the archive's extra/config.json, or into the metadata of .safetensors. They throw what `produce`
/// throws, std::invalid_argument naming a tensor that cannot be stored (by its name, or the same name twice),
/// and std::system_error naming the path.
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
