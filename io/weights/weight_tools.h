#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "io/weights/weight_file.h"

namespace vggt {

/// Facts about a weight file.
struct WeightSummary {
  std::string format;  // "TorchScript", "safetensors" or "PyTorch"
  uint64_t file_bytes = 0, tensor_bytes = 0;
  int64_t tensors = 0, elements = 0;
  std::map<std::string, int64_t> tensors_by_type;  // "fp32" -> how many tensors
  bool has_config = false;
};

/// "fp64", "fp32", "fp16" or "bf16".
std::string type_name(at::ScalarType type);
/// Throws std::invalid_argument naming the text and what is possible.
at::ScalarType weight_type(const std::string& name);

/// Called after each tensor; it may throw to stop the work.
using WeightProgress = std::function<void(int64_t done, int64_t total)>;

/// The facts, from the headers alone.
WeightSummary inspect(const WeightFile& file);

/// Reads every tensor. Throws std::invalid_argument naming the first that is damaged or holds NaN or Inf.
WeightSummary verify(const WeightFile& file, const WeightProgress& progress = {});

/// Writes the same tensors to `out`, in the format that its extension names, with one tensor in memory at a
/// time. type: of all tensors; without it each keeps its own. config_json: the text to store; without it that
/// of `file`, if it has one. Throws as verify() and write_weights() do, and std::invalid_argument naming a
/// value that is too large for the type.
void convert(const WeightFile& file, const std::filesystem::path& out, std::optional<at::ScalarType> type,
             const std::optional<std::string>& config_json, const WeightProgress& progress = {});

}  // namespace vggt
