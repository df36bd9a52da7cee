#include "io/weights/weight_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "io/archives/torch_archive.h"
#include "io/files/input_file.h"
#include "io/files/text.h"
#include "io/files/text_file.h"
#include "io/tensors/safetensors.h"
#include "io/tensors/tensor_index.h"
#include "io/weights/tensor_reader.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

// The format is read off the content, because official files come under any name.
std::pair<WeightFormat, TensorIndex> read_index(const InputFile& file) {
  if (file.size() == 0) throw std::invalid_argument("it is empty");
  std::string start(std::min<uint64_t>(file.size(), 32), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  if (start.starts_with("PK")) {
    const auto read = [&](uint64_t offset, std::span<std::byte> to) { file.read(offset, to); };
    TensorIndex index = read_torch_archive({file.size(), read});
    const WeightFormat format = index.torchscript ? WeightFormat::torchscript : WeightFormat::pytorch;
    return {format, std::move(index)};
  }
  if (start.size() > sizeof(uint64_t) && start[sizeof(uint64_t)] == '{')
    return {WeightFormat::safetensors, read_safetensors(FileMapping(file).bytes())};
  if (start.starts_with("\x80\x02"))
    throw std::invalid_argument(
        "a PyTorch file from before version 1.6: load it with PyTorch and save it again");
  if (start.starts_with("version https://git-lfs"))
    throw std::invalid_argument("a Git LFS pointer: the weights themselves were not downloaded");
  throw std::invalid_argument("not a weight file: neither a PyTorch archive nor safetensors");
}

void check_types(const TensorIndex& index) {
  for (const auto& [name, tensor] : index.tensors) {
    switch (tensor.type) {
      case ElementType::f64:
      case ElementType::f32:
      case ElementType::f16:
      case ElementType::bf16:
        continue;
      default:
        throw std::invalid_argument("tensor '" + printable(name) + "' is of type " +
                                    std::string(element_name(tensor.type)) +
                                    "; weights must be of F64, F32, F16 or BF16");
    }
  }
}

std::optional<std::string> config_beside(const fs::path& weights) {
  const fs::path path = weights.parent_path() / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return read_text_file(path, kMaxConfigBytes, "a config.json");
}

// NAME.config.json beside NAME.ts changes some values of the config, so that weights need not be written
// anew.
std::optional<std::string> with_changes(std::optional<std::string> config, const fs::path& weights) {
  const fs::path path = fs::path(weights).replace_extension(".config.json");
  std::error_code ignored;
  if (!config || !fs::exists(path, ignored)) return config;
  using Json = nlohmann::ordered_json;
  const std::string text = read_text_file(path, kMaxConfigBytes, "a config.json");
  if (nests_deeply(text)) throw std::invalid_argument(path.string() + ": nested too deeply");
  if (nests_deeply(*config)) return config;  // whoever reads it says what is wrong
  const Json changes = Json::parse(text, nullptr, false);
  Json changed = Json::parse(*config, nullptr, false);
  if (!changes.is_object()) throw std::invalid_argument(path.string() + ": not an object of JSON");
  if (!changed.is_object()) return config;  // whoever reads it says what is wrong
  changed.update(changes);
  return changed.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

struct WeightFile::Contents {
  explicit Contents(const fs::path& path) : file(path) {
    try {
      std::tie(format, index) = read_index(file);
      check_types(index);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path.string() + ": " + error.what());
    }
    if (!index.config_json) index.config_json = config_beside(path);
    index.config_json = with_changes(std::move(index.config_json), path);
    for (const auto& [name, tensor] : index.tensors)
      tensors.emplace(name,
                      StoredTensor{scalar_type(tensor.type), tensor.shape, tensor.strides, tensor.offset});
    reader = std::make_unique<TensorReader>(file, index.records);
  }

  InputFile file;
  WeightFormat format = WeightFormat::safetensors;
  TensorIndex index;
  std::map<std::string, StoredTensor> tensors;
  std::unique_ptr<TensorReader> reader;
};

WeightFile::WeightFile(std::shared_ptr<Contents> contents) : contents_(std::move(contents)) {}

WeightFile WeightFile::open(const fs::path& path) {
  return WeightFile(std::make_shared<Contents>(path));
}

const fs::path& WeightFile::path() const {
  return contents_->file.path();
}
WeightFormat WeightFile::format() const {
  return contents_->format;
}
const std::map<std::string, StoredTensor>& WeightFile::tensors() const {
  return contents_->tensors;
}
const std::optional<std::string>& WeightFile::config_json() const {
  return contents_->index.config_json;
}

void WeightFile::sum_loads() const {
  contents_->reader->keep_sums();
}
uint32_t WeightFile::loaded_sum() const {
  return contents_->reader->sum();
}

at::Tensor WeightFile::load(const std::string& name, at::ScalarType type, at::Device device) const {
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble,
              "weights load to a floating type, got ", type);
  const auto entry = contents_->index.tensors.find(name);
  if (entry == contents_->index.tensors.end())
    throw std::invalid_argument(path().string() + ": it has no tensor '" + printable(name) + "'");
  return contents_->reader->read(name, entry->second, type, device);
}

}  // namespace vggt
