#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/weights/weight_file.h"
#include "tests/support/converted_weights.h"
#include "tests/support/torch_bytes.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const fs::path kNano = fs::path(VGGT_FIXTURES) / "golden/nano";
const fs::path kMini = fs::path(VGGT_FIXTURES) / "golden/mini";

TEST(WeightFile, RecognisesTheFormatByContent) {
  EXPECT_EQ(WeightFile::open(kNano / "weights.ts").format(), WeightFormat::torchscript);
  EXPECT_EQ(WeightFile::open(kNano / "weights.pt").format(), WeightFormat::pytorch);
  EXPECT_EQ(WeightFile::open(kMini / "weights.safetensors").format(), WeightFormat::safetensors);
  const fs::path misnamed = torch_bytes::scratch("misnamed", ".safetensors");
  fs::copy_file(kNano / "weights.pt", misnamed, fs::copy_options::overwrite_existing);
  EXPECT_EQ(WeightFile::open(misnamed).format(), WeightFormat::pytorch);
  fs::remove(misnamed);
}

TEST(WeightFile, AConfigBesideOfItsNameChangesValues) {
  const fs::path folder = torch_bytes::scratch("changed", "");
  fs::create_directories(folder);
  fs::copy_file(kNano / "weights.ts", folder / "a.ts", fs::copy_options::overwrite_existing);
  const std::string own = *WeightFile::open(folder / "a.ts").config_json();
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  write("b.config.json", "{\"fit\": \"whole\"}");  // of other weights
  write("config.json", "{\"fit\": \"pad\"}");      // for weights that hold none
  EXPECT_EQ(WeightFile::open(folder / "a.ts").config_json(), own);
  write("a.config.json", "{\"fit\": \"whole\", \"input_width\": 28}");
  const std::string changed = *WeightFile::open(folder / "a.ts").config_json();
  EXPECT_NE(changed.find("\"fit\": \"whole\""), std::string::npos) << changed;
  EXPECT_NE(changed.find("\"input_width\": 28"), std::string::npos) << changed;
  EXPECT_NE(changed.find("\"embed_dim\": 64"), std::string::npos) << changed;
  for (const char* bad : {"[]", "{", ""}) {
    write("a.config.json", bad);
    EXPECT_THROW(WeightFile::open(folder / "a.ts"), std::invalid_argument) << bad;
  }
  fs::remove_all(folder);
}

TEST(WeightFile, HoldsTheOfficialNamesInEveryFormat) {
  const WeightFile safetensors = WeightFile::open(testing::nano_safetensors());
  EXPECT_EQ(safetensors.tensors().size(), 453U);
  EXPECT_EQ(safetensors.tensors().at("aggregator.frame_blocks.0.attn.qkv.weight").shape,
            (std::vector<int64_t>{192, 64}));
  EXPECT_EQ(safetensors.tensors().at("aggregator.camera_token").type, at::kFloat);
  for (const char* file : {"weights.ts", "weights.pt"}) {
    const WeightFile archive = WeightFile::open(kNano / file);
    ASSERT_EQ(archive.tensors().size(), safetensors.tensors().size()) << file;
    for (const auto& [name, tensor] : safetensors.tensors()) {
      ASSERT_TRUE(archive.tensors().contains(name)) << file << " " << name;
      EXPECT_EQ(archive.tensors().at(name).shape, tensor.shape) << file << " " << name;
      EXPECT_EQ(archive.tensors().at(name).type, at::kHalf) << file << " " << name;
    }
  }
}

TEST(WeightFile, HoldsTheSameValuesInEveryFormat) {
  const WeightFile safetensors = WeightFile::open(testing::nano_safetensors());
  const WeightFile script = WeightFile::open(kNano / "weights.ts"),
                   pytorch = WeightFile::open(kNano / "weights.pt");
  double sum = 0;
  for (const auto& [name, tensor] : safetensors.tensors()) {
    const at::Tensor expected = safetensors.load(name, at::kFloat, at::kCPU);
    ASSERT_EQ(expected.sizes(), at::IntArrayRef(tensor.shape)) << name;
    EXPECT_TRUE(at::equal(script.load(name, at::kFloat, at::kCPU), expected)) << name;
    EXPECT_TRUE(at::equal(pytorch.load(name, at::kFloat, at::kCPU), expected)) << name;
    sum += expected.abs().sum().item<double>();
  }
  EXPECT_GT(sum, 1000);
}

TEST(WeightFile, ReadsTheBytesThatTheHeaderNames) {
  const WeightFile file = WeightFile::open(kMini / "weights.safetensors");
  std::ifstream stream(kMini / "weights.safetensors", std::ios::binary);
  for (const auto& [name, tensor] : file.tensors()) {
    const at::Tensor loaded = file.load(name, tensor.type, at::kCPU);
    std::string bytes(loaded.nbytes(), '\0');
    stream.seekg(static_cast<std::streamoff>(tensor.offset));
    stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_EQ(bytes, std::string(static_cast<const char*>(loaded.const_data_ptr()), loaded.nbytes())) << name;
  }
}

TEST(WeightFile, ConvertsBetweenAllTypes) {
  const WeightFile file = WeightFile::open(testing::nano_safetensors());
  for (const char* name : {"aggregator.frame_blocks.0.attn.qkv.weight", "camera_head.pose_branch.fc2.bias"}) {
    const at::Tensor stored = file.load(name, at::kFloat, at::kCPU);
    for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16}) {
      const at::Tensor converted = file.load(name, type, at::kCPU);
      EXPECT_EQ(converted.scalar_type(), type);
      EXPECT_TRUE(at::equal(converted, stored.to(type))) << name << " " << type;
    }
  }
  EXPECT_THROW(file.load("aggregator.camera_token", at::kInt, at::kCPU), c10::Error);
}

TEST(WeightFile, FindsTheConfigInTheArchiveOrBeside) {
  const auto inside = WeightFile::open(kNano / "weights.ts").config_json();
  ASSERT_TRUE(inside);
  EXPECT_NE(inside->find("\"track_corr_levels\": 2"), std::string::npos);
  const auto beside = WeightFile::open(kNano / "weights.pt").config_json();
  ASSERT_TRUE(beside);
  EXPECT_NE(beside->find("\"track_corr_levels\": 2"), std::string::npos);

  const fs::path lonely = torch_bytes::scratch("lonely", "");
  fs::create_directories(lonely);
  fs::remove(lonely / "config.json");
  fs::copy_file(kNano / "weights.pt", lonely / "weights.pt", fs::copy_options::overwrite_existing);
  EXPECT_FALSE(WeightFile::open(lonely / "weights.pt").config_json());
  std::ofstream(lonely / "config.json") << std::string((1 << 20) + 1, ' ');
  EXPECT_THROW(WeightFile::open(lonely / "weights.pt"), std::invalid_argument);
  for (const char* file : {"config.json", "weights.pt", ""}) fs::remove(lonely / file);
}

TEST(WeightFile, NamesWhatCannotBeOpened) {
  try {
    WeightFile::open("/nonexistent/weights.ts");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/weights.ts"), std::string::npos);
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
  }
  EXPECT_THROW(WeightFile::open(::testing::TempDir()), std::invalid_argument);
  EXPECT_THROW(WeightFile::open("/dev/zero"), std::invalid_argument);
  EXPECT_THROW(WeightFile::open(kNano / "weights.ts").load("no.such.tensor", at::kFloat, at::kCPU),
               std::invalid_argument);
}

}  // namespace
}  // namespace vggt
