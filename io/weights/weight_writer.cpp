#include "io/weights/weight_writer.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

#include "io/archives/torch_pickle_writer.h"
#include "io/archives/zip_writer.h"
#include "io/files/atomic_file.h"
#include "io/files/text.h"
#include "io/tensors/safetensors.h"
#include "io/tensors/tensor_index.h"

namespace vggt {
namespace {

ElementType stored_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return ElementType::f64;
    case at::kFloat:
      return ElementType::f32;
    case at::kHalf:
      return ElementType::f16;
    case at::kBFloat16:
      return ElementType::bf16;
    default:
      TORCH_CHECK(false, "weights are written in a floating type, got ", type);
  }
}

void check_specs(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    const auto plain = [](char c) { return c > ' ' && c < 0x7f; };
    if (tensor.name.empty() || !std::all_of(tensor.name.begin(), tensor.name.end(), plain))
      throw std::invalid_argument("tensor '" + printable(tensor.name) +
                                  "' has a name that cannot be written");
    if (!names.insert(tensor.name).second)
      throw std::invalid_argument("tensor '" + tensor.name + "' is there twice");
    checked_count(tensor.shape);
  }
}

at::Tensor make(const TensorSpec& spec, const TensorProducer& produce) {
  const at::Tensor tensor = produce(spec);
  TORCH_CHECK(tensor.sizes() == at::IntArrayRef(spec.shape), spec.name, ": shape ", shape_text(spec.shape),
              " expected, got ", shape_text(tensor.sizes()));
  return tensor.to(at::kCPU, spec.type).contiguous();
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::vector<TensorDescription> describe(const std::vector<TensorSpec>& tensors) {
  std::vector<TensorDescription> descriptions;
  for (const TensorSpec& tensor : tensors)
    descriptions.push_back({tensor.name, stored_type(tensor.type), tensor.shape});
  return descriptions;
}

void write_archive(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json,
                   bool script) {
  check_specs(tensors);
  const std::vector<TensorDescription> descriptions = describe(tensors);
  write_atomically(path, [&](std::ostream& out) {
    ZipWriter zip(out, "archive");
    if (script) {
      const ScriptModule module = script_module(descriptions);
      zip.add("data.pkl", module.pickle);
      zip.add("code/__torch__.py", module.source);
      zip.add("constants.pkl", "\x80\x02).");
    } else {
      zip.add("data.pkl", state_dict_pickle(descriptions));
    }
    zip.add("byteorder", "little");
    if (config_json) zip.add("extra/config.json", *config_json);
    for (std::size_t i = 0; i < tensors.size() && out.good(); ++i)
      zip.add("data/" + std::to_string(i), bytes_of(make(tensors[i], produce)));
    zip.add("version", "3\n");
    zip.finish();
  });
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const TensorProducer& produce, const std::optional<std::string>& config_json) {
  check_specs(tensors);
  std::vector<TensorSpec> order = tensors;  // wide types first, which aligns every tensor
  std::stable_sort(order.begin(), order.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return at::elementSize(a.type) > at::elementSize(b.type);
  });
  std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}};
  if (config_json) metadata.emplace_back("config.json", *config_json);
  write_atomically(path, [&](std::ostream& out) {
    out << make_safetensors_header(describe(order), metadata).bytes;
    for (std::size_t i = 0; i < order.size() && out.good(); ++i) {
      const at::Tensor tensor = make(order[i], produce);
      out.write(static_cast<const char*>(tensor.const_data_ptr()),
                static_cast<std::streamsize>(tensor.nbytes()));
    }
  });
}

void write_pytorch(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json) {
  write_archive(path, tensors, produce, config_json, false);
}

void write_torchscript(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const TensorProducer& produce, const std::optional<std::string>& config_json) {
  write_archive(path, tensors, produce, config_json, true);
}

WeightFormat format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".ts") return WeightFormat::torchscript;
  if (extension == ".pt") return WeightFormat::pytorch;
  if (extension == ".safetensors") return WeightFormat::safetensors;
  throw std::invalid_argument(path.string() + ": weights are written as .ts, .pt or .safetensors");
}

void write_weights(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json) {
  switch (format_of(path)) {
    case WeightFormat::torchscript:
      return write_torchscript(path, tensors, produce, config_json);
    case WeightFormat::pytorch:
      return write_pytorch(path, tensors, produce, config_json);
    case WeightFormat::safetensors:
      return write_safetensors(path, tensors, produce, config_json);
  }
}

}  // namespace vggt
