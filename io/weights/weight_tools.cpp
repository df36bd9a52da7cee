#include "io/weights/weight_tools.h"

#include <stdexcept>

#include "io/weights/weight_writer.h"

namespace vggt {
namespace {

std::string format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::torchscript:
      return "TorchScript";
    case WeightFormat::pytorch:
      return "PyTorch";
    case WeightFormat::safetensors:
      return "safetensors";
  }
  TORCH_CHECK(false, "an unknown format");
}

}  // namespace

std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "fp64";
    case at::kFloat:
      return "fp32";
    case at::kHalf:
      return "fp16";
    case at::kBFloat16:
      return "bf16";
    default:
      TORCH_CHECK(false, "a floating type expected, got ", type);
  }
}

at::ScalarType weight_type(const std::string& name) {
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16})
    if (name == type_name(type)) return type;
  throw std::invalid_argument("unknown type '" + name + "': fp32, fp16, bf16 or fp64 expected");
}

WeightSummary inspect(const WeightFile& file) {
  WeightSummary summary;
  summary.format = format_name(file.format());
  summary.file_bytes = std::filesystem::file_size(file.path());
  summary.has_config = file.config_json().has_value();
  for (const auto& [name, tensor] : file.tensors()) {
    const int64_t count = c10::multiply_integers(tensor.shape);
    ++summary.tensors;
    summary.elements += count;
    summary.tensor_bytes += static_cast<uint64_t>(count) * at::elementSize(tensor.type);
    ++summary.tensors_by_type[type_name(tensor.type)];
  }
  return summary;
}

WeightSummary verify(const WeightFile& file, const WeightProgress& progress) {
  const WeightSummary summary = inspect(file);
  int64_t done = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    file.load(name, tensor.type, at::kCPU);
    if (progress) progress(++done, summary.tensors);
  }
  return summary;
}

void convert(const WeightFile& file, const std::filesystem::path& out, std::optional<at::ScalarType> type,
             const std::optional<std::string>& config_json, const WeightProgress& progress) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : file.tensors())
    specs.push_back({name, type.value_or(tensor.type), tensor.shape});
  int64_t done = 0;
  const auto produce = [&](const TensorSpec& spec) {
    at::Tensor tensor = file.load(spec.name, spec.type, at::kCPU);
    if (progress) progress(++done, static_cast<int64_t>(specs.size()));
    return tensor;
  };
  write_weights(out, specs, produce, config_json ? config_json : file.config_json());
}

}  // namespace vggt
