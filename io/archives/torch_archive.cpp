#include "io/archives/torch_archive.h"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "io/archives/pickle.h"
#include "io/files/crc32.h"
#include "io/files/text.h"

namespace vggt {
namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;
using Directory = std::map<std::string, ZipEntry>;

// VGGT-1B: 1,797 tensors, names up to 70 characters, modules 7 deep.
constexpr std::size_t kMaxTensors = 1 << 16;
constexpr std::size_t kMaxAttributes = 1 << 20;
constexpr std::size_t kMaxName = 512;
constexpr int kMaxModuleDepth = 64;
constexpr uint64_t kMaxSmallRecord = uint64_t{16} << 20;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

constexpr std::array<std::pair<std::string_view, ElementType>, 10> kStorages = {{
    {"DoubleStorage", ElementType::f64},
    {"FloatStorage", ElementType::f32},
    {"HalfStorage", ElementType::f16},
    {"BFloat16Storage", ElementType::bf16},
    {"LongStorage", ElementType::i64},
    {"IntStorage", ElementType::i32},
    {"ShortStorage", ElementType::i16},
    {"CharStorage", ElementType::i8},
    {"ByteStorage", ElementType::u8},
    {"BoolStorage", ElementType::boolean},
}};

class IndexBuilder {
 public:
  IndexBuilder(const Pickle& pickle, const Directory& directory) : pickle_(pickle), directory_(directory) {}

  TensorIndex build() {
    const Value* root = &pickle_[pickle_.root];
    if (root->kind == Kind::object) {
      index_.torchscript = true;
      add_module(*root, "", 0);
    } else {
      add_state_dict(*root);
    }
    if (index_.tensors.empty()) fail("it holds no tensors");
    return std::move(index_);
  }

 private:
  const Value* find(const Value& dict, std::string_view key) const {
    for (std::size_t i = 0; i < dict.items.size(); i += 2)
      if (pickle_[dict.items[i]].kind == Kind::text && pickle_[dict.items[i]].text == key)
        return &pickle_[dict.items[i + 1]];
    return nullptr;
  }

  void add_state_dict(const Value& root) {
    const Value* dict = &root;
    for (const std::string_view wrapper : {"model", "state_dict"}) {
      const Value* inner = dict->kind == Kind::dict ? find(*dict, wrapper) : nullptr;
      if (inner != nullptr && inner->kind == Kind::dict) dict = inner;
    }
    if (dict->kind != Kind::dict) fail("it holds no state dict");
    for (std::size_t i = 0; i < dict->items.size(); i += 2) {
      const Value& key = pickle_[dict->items[i]];
      if (key.kind != Kind::text) fail("a name in the state dict is not a text");
      const Value& value = pickle_[dict->items[i + 1]];
      if (!is_tensor(value)) fail("'" + printable(key.text) + "' in the state dict is not a tensor");
      add_tensor(std::string(key.text), value);
    }
  }

  void add_module(const Value& module, const std::string& prefix, int depth) {
    if (depth == kMaxModuleDepth) fail("its modules are nested too deeply");
    if (module.items.size() != 2) return;  // a module without attributes
    const Value& state = pickle_[module.items[1]];
    if (state.kind != Kind::dict) fail("the state of module '" + printable(prefix) + "' is not a dict");
    for (std::size_t i = 0; i < state.items.size(); i += 2) {
      if (++attributes_ > kMaxAttributes) fail("it has too many attributes");
      const Value& key = pickle_[state.items[i]];
      const Value& value = pickle_[state.items[i + 1]];
      if (key.kind != Kind::text) fail("an attribute's name is not a text");
      if (value.kind != Kind::object && !is_tensor(value)) continue;
      if (prefix.size() + key.text.size() >= kMaxName) fail("the name of an attribute is too long");
      const std::string path = prefix.empty() ? std::string(key.text) : prefix + "." + std::string(key.text);
      if (value.kind == Kind::object) {
        add_module(value, path, depth + 1);
      } else {
        add_tensor(path, value);
      }
    }
  }

  bool is_call(const Value& value, std::string_view name) const {
    return value.kind == Kind::call && pickle_[value.items[0]].text == name;
  }
  bool is_tensor(const Value& value) const {
    return is_call(value, "_rebuild_tensor_v2") || is_call(value, "_rebuild_parameter");
  }

  void add_tensor(const std::string& name, const Value& value) {
    if (name.empty() || name.size() > kMaxName)
      fail("the name '" + printable(name) + "' is empty or too long");
    if (index_.tensors.size() == kMaxTensors) fail("it has too many tensors");
    try {
      if (!index_.tensors.emplace(name, read_tensor(value)).second) fail("it is there twice");
    } catch (const std::invalid_argument& error) {
      fail("tensor '" + printable(name) + "': " + error.what());
    }
  }

  const Value& argument(const Value& call, std::size_t i, Kind kind) const {
    const Value& arguments = pickle_[call.items[1]];
    if (i >= arguments.items.size() || pickle_[arguments.items[i]].kind != kind)
      fail("argument " + std::to_string(i) + " of its description is missing or of the wrong kind");
    return pickle_[arguments.items[i]];
  }

  std::vector<int64_t> integers(const Value& tuple) const {
    std::vector<int64_t> result;
    for (const auto item : tuple.items) {
      if (pickle_[item].kind != Kind::integer) fail("a size or stride is not an integer");
      result.push_back(pickle_[item].integer);
    }
    return result;
  }

  TensorEntry read_tensor(const Value& value) {
    if (is_call(value, "_rebuild_parameter")) {
      const Value& inner = argument(value, 0, Kind::call);
      if (!is_call(inner, "_rebuild_tensor_v2")) fail("it is a parameter of something that is not a tensor");
      return read_tensor(inner);
    }
    TensorEntry tensor;
    int64_t storage_count = 0;
    const Value& identifier = pickle_[argument(value, 0, Kind::persistent).items[0]];
    read_storage(identifier, tensor, storage_count);
    const int64_t first = argument(value, 1, Kind::integer).integer;
    tensor.shape = integers(argument(value, 2, Kind::tuple));
    tensor.strides = integers(argument(value, 3, Kind::tuple));
    check_view(tensor.shape, tensor.strides, first, storage_count);
    tensor.offset =
        index_.records[tensor.record].offset + static_cast<uint64_t>(first) * element_bytes(tensor.type);
    return tensor;
  }

  // identifier: ('storage', its type, key of its record, device, number of elements).
  void read_storage(const Value& identifier, TensorEntry& tensor, int64_t& count) {
    const auto part = [&](std::size_t i, Kind kind) -> const Value& {
      if (i >= identifier.items.size() || pickle_[identifier.items[i]].kind != kind)
        fail("its storage is not described as PyTorch does");
      return pickle_[identifier.items[i]];
    };
    if (identifier.kind != Kind::tuple || part(0, Kind::text).text != "storage") fail("it has no storage");
    const Value& type = part(1, Kind::global);
    bool known = false;
    for (const auto& [name, element] : kStorages) {
      if (type.module != "torch" || type.text != name) continue;
      tensor.type = element;
      known = true;
    }
    if (!known) fail("its storage is of an unknown type");
    tensor.record = record(part(2, Kind::text).text);
    count = part(4, Kind::integer).integer;
    const auto fits = index_.records[tensor.record].size / element_bytes(tensor.type);
    if (count < 0 || static_cast<uint64_t>(count) > fits) fail("its storage is larger than its record");
  }

  std::size_t record(std::string_view key) {
    if (key.size() > kMaxName) fail("the key of its storage is too long");
    const std::string name = "data/" + std::string(key);
    if (const auto known = records_.find(name); known != records_.end()) return known->second;
    const auto entry = directory_.find(name);
    if (entry == directory_.end()) fail("its record '" + printable(name) + "' is missing");
    if (entry->second.deflated) fail("its record '" + printable(name) + "' is compressed");
    index_.records.push_back({name, entry->second.offset, entry->second.size, entry->second.crc32});
    records_.emplace(name, index_.records.size() - 1);
    return index_.records.size() - 1;
  }

  const Pickle& pickle_;
  const Directory& directory_;
  TensorIndex index_;
  std::map<std::string, std::size_t> records_;
  std::size_t attributes_ = 0;
};

// Without this limit, many views of one storage would let a small file ask for any amount of memory.
void check_sharing(const TensorIndex& index, uint64_t file_bytes) {
  uint64_t total = 0;
  for (const auto& [name, tensor] : index.tensors)
    total += static_cast<uint64_t>(checked_count(tensor.shape)) * element_bytes(tensor.type);
  if (total / 4 > file_bytes) fail("its tensors together have more than four times the size of the file");
}

std::vector<std::byte> small_record(const ByteSource& file, const Directory& directory,
                                    const std::string& name) {
  const ZipEntry& entry = directory.at(name);
  if (entry.deflated) fail("its record '" + name + "' is compressed");
  if (entry.size > kMaxSmallRecord) fail("its record '" + name + "' is larger than 16 MB");
  std::vector<std::byte> bytes = file.take(entry.offset, entry.size);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  if (crc32(bytes) != entry.crc32) fail("the checksum of its record '" + name + "' is wrong (damaged file)");
#endif
  return bytes;
}

std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TensorIndex read_torch_pickle(std::span<const std::byte> pickle, const Directory& directory) {
  const Pickle values = read_pickle(pickle);
  return IndexBuilder(values, directory).build();
}

TensorIndex read_torch_archive(const ByteSource& file) {
  const Directory directory = read_zip_directory(file);
  if (!directory.contains("data.pkl")) fail("a zip archive, but not of PyTorch: data.pkl is missing");
  if (directory.contains("byteorder") && to_text(small_record(file, directory, "byteorder")) != "little")
    fail("it is big-endian");
  TensorIndex index = read_torch_pickle(small_record(file, directory, "data.pkl"), directory);
  check_sharing(index, file.size);
  if (const auto config = directory.find("extra/config.json"); config != directory.end()) {
    if (config->second.size > kMaxConfigBytes) fail("its config.json is larger than 1 MB");
    index.config_json = to_text(small_record(file, directory, "extra/config.json"));
  }
  return index;
}

}  // namespace vggt
