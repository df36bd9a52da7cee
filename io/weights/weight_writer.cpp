#include "io/weights/weight_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

#include "io/files/atomic_file.h"
#include "io/files/byte_reader.h"
#include "io/archives/torch_pickle_writer.h"
#include "io/tensors/tensor_index.h"
#include "io/archives/zip_writer.h"

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
  TORCH_CHECK(tensor.sizes() == at::IntArrayRef(spec.shape), spec.name, ": shape ",
              at::IntArrayRef(spec.shape), " expected, got ", tensor.sizes());
  return tensor.to(at::kCPU, spec.type).contiguous();
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::string safetensors_header(const std::vector<TensorSpec>& tensors,
                               const std::optional<std::string>& config) {
  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt";
  if (config) header["__metadata__"]["config.json"] = *config;
  uint64_t end = 0;
  for (const TensorSpec& tensor : tensors) {
    const ElementType type = stored_type(tensor.type);
    const uint64_t begin = end;
    end += static_cast<uint64_t>(checked_count(tensor.shape)) * element_bytes(type);
    header[tensor.name] = {
        {"dtype", element_name(type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("config.json is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void write_archive(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   const TensorProducer& produce, const std::optional<std::string>& config_json,
                   bool script) {
  check_specs(tensors);
  std::vector<TensorRecord> records;
  for (const TensorSpec& tensor : tensors)
    records.push_back({tensor.name, stored_type(tensor.type), tensor.shape});
  write_atomically(path, [&](std::ostream& out) {
    ZipWriter zip(out, "archive");
    if (script) {
      const ScriptModule module = script_module(records);
      zip.add("data.pkl", module.pickle);
      zip.add("code/__torch__.py", module.source);
      zip.add("constants.pkl", "\x80\x02).");
    } else {
      zip.add("data.pkl", state_dict_pickle(records));
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
  std::vector<TensorSpec> order = tensors;  // wide types first: every tensor is aligned
  std::stable_sort(order.begin(), order.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return at::elementSize(a.type) > at::elementSize(b.type);
  });
  write_atomically(path, [&](std::ostream& out) {
    const std::string header = safetensors_header(order, config_json);
    const uint64_t header_bytes = header.size();
    out.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes)) << header;
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
