// The headers that are written are those that read_safetensors() reads.
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/tensors/safetensors.h"

namespace vggt {
namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

const std::vector<TensorDescription> kTensors = {{"b.weight", ElementType::f64, {2, 3}},
                                                 {"a", ElementType::bf16, {3}},
                                                 {"scale", ElementType::f32, {}},
                                                 {"empty", ElementType::f32, {0, 7}},
                                                 {"\xC3\xA4 \"", ElementType::boolean, {1, 5, 1}}};

TensorIndex read_back(const SafetensorsHeader& header) {
  std::string file = header.bytes;
  file.resize(header.file_bytes);
  return read_safetensors(std::as_bytes(std::span(file)));
}

TEST(SafetensorsHeader, ReadsBack) {
  const SafetensorsHeader header =
      make_safetensors_header(kTensors, Metadata{{"format", "pt"}, {"config.json", "{\"depth\": 4}"}});
  const TensorIndex index = read_back(header);
  EXPECT_EQ(index.config_json, "{\"depth\": 4}");
  ASSERT_EQ(index.tensors.size(), kTensors.size());
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    const TensorEntry& entry = index.tensors.at(kTensors[i].name);
    EXPECT_EQ(entry.type, kTensors[i].type);
    EXPECT_EQ(entry.shape, kTensors[i].shape);
    EXPECT_EQ(entry.offset, header.offsets[i]);
  }
}

TEST(SafetensorsHeader, IsPaddedSoThatDataAreAligned) {
  for (std::size_t extra = 0; extra < 9; ++extra) {
    const std::vector<TensorDescription> one = {{"t" + std::string(extra, 'x'), ElementType::f32, {2}}};
    const SafetensorsHeader header = make_safetensors_header(one);
    EXPECT_EQ(header.bytes.size() % 8, 0U);
    EXPECT_EQ(header.offsets.at(0), header.bytes.size());
    EXPECT_EQ(header.file_bytes, header.bytes.size() + 8);
    EXPECT_FALSE(read_back(header).config_json);
  }
}

// Written out, so that files stay the same byte by byte.
TEST(SafetensorsHeader, Bytes) {
  const std::vector<TensorDescription> two = {{"b", ElementType::f32, {2, 1}}, {"a", ElementType::f16, {}}};
  const std::string json =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
      "\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[8,10]}}";
  const std::string bytes = make_safetensors_header(two, Metadata{{"format", "pt"}}).bytes;
  uint64_t json_bytes = 0;
  std::memcpy(&json_bytes, bytes.data(), sizeof(json_bytes));
  EXPECT_EQ(json_bytes, bytes.size() - sizeof(json_bytes));
  EXPECT_EQ(bytes.substr(8, json.size()), json);
  EXPECT_EQ(bytes.substr(8 + json.size()), std::string(bytes.size() - 8 - json.size(), ' '));
  EXPECT_EQ(make_safetensors_header({}).bytes, std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsHeader, RefusesWhatCannotBeWritten) {
  EXPECT_THROW(make_safetensors_header(kTensors, Metadata{{"config.json", "\xff"}}), std::invalid_argument);
  const std::vector<TensorDescription> negative = {{"t", ElementType::f32, {-1}}};
  EXPECT_THROW(make_safetensors_header(negative), std::invalid_argument);
}

TEST(ShapeText, IsAsInComments) {
  EXPECT_EQ(shape_text(std::vector<int64_t>{2, 3, 14, 28}), "[2,3,14,28]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace vggt
