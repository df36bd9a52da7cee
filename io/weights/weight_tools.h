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

/// What `weights inspect` and `weights verify` tell about a file.
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

/// Called after each tensor; may throw to stop.
using WeightProgress = std::function<void(int64_t done, int64_t total)>;

/// From the headers alone.
WeightSummary inspect(const WeightFile& file);

/// Reads every tensor. Throws std::invalid_argument naming the first that is damaged or holds NaN or Inf.
WeightSummary verify(const WeightFile& file, const WeightProgress& progress = {});

/// Writes the same tensors to `out`, in the format its extension names and in a type (none: each keeps its
/// own), one tensor in memory at a time. config_json: what goes into the file (none: what the source has, if
/// anything). Throws as verify and write_weights do; a value too large for the type is an error that names
/// it.
void convert(const WeightFile& file, const std::filesystem::path& out, std::optional<at::ScalarType> type,
             const std::optional<std::string>& config_json, const WeightProgress& progress = {});

}  // namespace vggt
