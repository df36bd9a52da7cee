#include "io/tensors/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/files/byte_reader.h"
#include "io/files/text.h"

namespace vggt {
namespace {

using nlohmann::json;

// VGGT-1B's header has 0.2 MB; the format's own limit is 100 MB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr std::size_t kMaxTensors = 1 << 16;
constexpr std::size_t kMaxName = 512;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

// Reads the header while it is parsed. No tree of it is built, so hostile headers cost no memory, and
// repeated keys are seen. Depths: 1 the names, 2 the fields of a tensor or of the metadata.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  TensorIndex take() { return std::move(index_); }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || (depth_ == 1 && name_.empty())) bad("an object where none belongs");
    ++depth_;
    if (depth_ == 2) {
      tensor_ = {};
      fields_.clear();
      begin_ = end_ = 0;
    }
    return true;
  }

  bool key(string_t& key) override {
    if (depth_ == 1) {
      if (key.empty() || key.size() > kMaxName)
        fail("the name '" + printable(key) + "' is empty or too long");
      if (!names_.insert(key).second) fail("the name '" + printable(key) + "' is there twice");
      if (names_.size() > kMaxTensors) fail("it has too many tensors");
      name_ = key;
    } else {
      field_ = key;
      if (!in_metadata() && !fields_.insert(key).second)
        bad("the key '" + printable(key) + "' is there twice");
      const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
      if (!in_metadata() && !known) bad("unknown key '" + printable(key) + "'");
    }
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !in_metadata()) finish_tensor();
    --depth_;
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata()) {
      if (field_ == "config.json") index_.config_json = text;
      return true;
    }
    if (depth_ != 2 || in_array_ || field_ != "dtype") bad("a text where none belongs");
    const auto type = element_type(text);
    if (!type) bad("unknown dtype '" + printable(text) + "'");
    tensor_.type = *type;
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata() || field_ == "dtype") bad("an array where none belongs");
    in_array_ = true;
    numbers_.clear();
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    constexpr std::size_t kMaxNumbers = 16;
    if (!in_array_) bad("a number where none belongs");
    if (number > static_cast<uint64_t>(INT64_MAX) || numbers_.size() == kMaxNumbers)
      bad("a number too large, or too many of them");
    numbers_.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    if (field_ == "shape") {
      tensor_.shape = numbers_;
    } else {
      if (numbers_.size() != 2) bad("data_offsets are not two numbers");
      begin_ = numbers_[0];
      end_ = numbers_[1];
    }
    return true;
  }

  bool null() override { bad("null where a value belongs"); }
  bool boolean(bool) override { bad("true or false where none belongs"); }
  bool number_integer(number_integer_t) override { bad("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { bad("a number that is not an integer"); }
  bool binary(binary_t&) override { bad("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("its header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(name_.empty() ? "its header has " + what : "tensor '" + printable(name_) + "': " + what);
  }

  bool in_metadata() const { return name_ == "__metadata__"; }

  void finish_tensor() {
    if (fields_.size() != 3) bad("dtype, shape or data_offsets are missing");
    int64_t bytes = 0;
    try {
      const int64_t count = checked_count(tensor_.shape);
      if (__builtin_mul_overflow(count, static_cast<int64_t>(element_bytes(tensor_.type)), &bytes))
        bad("its size overflows");
    } catch (const std::invalid_argument& error) {
      bad(error.what());
    }
    if (end_ < begin_ || end_ - begin_ != bytes) bad("its data_offsets do not match its shape and dtype");
    tensor_.strides = row_major_strides(tensor_.shape);
    tensor_.offset = static_cast<uint64_t>(begin_);
    index_.tensors.emplace(name_, std::move(tensor_));
  }

  TensorIndex index_;
  TensorEntry tensor_;
  std::string name_, field_;
  std::set<std::string> names_, fields_;
  std::vector<int64_t> numbers_;
  int64_t begin_ = 0, end_ = 0;
  int depth_ = 0;
  bool in_array_ = false;
};

// The format allows no gaps: nothing can hide between tensors.
void place_tensors(TensorIndex& index, uint64_t data_start, uint64_t data_bytes) {
  std::vector<TensorEntry*> order;
  for (auto& [name, tensor] : index.tensors) order.push_back(&tensor);
  const auto bytes = [](const TensorEntry* t) {
    return static_cast<uint64_t>(checked_count(t->shape)) * element_bytes(t->type);
  };
  std::sort(order.begin(), order.end(), [&](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->offset, bytes(a)) < std::pair(b->offset, bytes(b));
  });
  uint64_t end = 0;
  for (TensorEntry* tensor : order) {
    if (tensor->offset != end) fail("its tensors overlap or leave gaps");
    end += bytes(tensor);
    tensor->offset += data_start;
  }
  if (end > data_bytes) fail("it ends before its last tensor (cut off?)");
  if (end < data_bytes) fail("data follow its last tensor");
}

}  // namespace

TensorIndex read_safetensors(std::span<const std::byte> file) {
  ByteReader reader(file);
  if (file.size() < sizeof(uint64_t)) fail("it is too short");
  const auto header_bytes = reader.number<uint64_t>();
  if (header_bytes > reader.left()) fail("its header reaches past its end (cut off?)");
  if (header_bytes > kMaxHeaderBytes) fail("its header is larger than 16 MB");
  const std::string_view header = reader.text(header_bytes);
  if (header.empty() || header.front() != '{') fail("its header is not a JSON object");
  HeaderReader handler;
  json::sax_parse(header.begin(), header.end(), &handler);
  TensorIndex index = handler.take();
  if (index.config_json && index.config_json->size() > kMaxConfigBytes)
    fail("its config.json is larger than 1 MB");
  place_tensors(index, reader.position(), reader.left());
  return index;
}

SafetensorsHeader make_safetensors_header(std::span<const TensorDescription> tensors,
                                          std::span<const std::pair<std::string, std::string>> metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, text] : metadata) json["__metadata__"][key] = text;
  SafetensorsHeader header;
  uint64_t end = 0;
  for (const TensorDescription& tensor : tensors) {
    const uint64_t begin = end;
    end += static_cast<uint64_t>(checked_count(tensor.shape)) * element_bytes(tensor.type);
    json[tensor.name] = {
        {"dtype", element_name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    header.offsets.push_back(begin);
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    fail("a tensor's name or a text of the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t text_bytes = text.size();
  header.bytes.assign(reinterpret_cast<const char*>(&text_bytes), sizeof(text_bytes));
  header.bytes += text;
  for (uint64_t& offset : header.offsets) offset += header.bytes.size();
  header.file_bytes = header.bytes.size() + end;
  return header;
}

}  // namespace vggt
