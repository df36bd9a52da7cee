#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "io/weights/weight_tools.h"
#include "io/weights/weight_writer.h"
#include "tests/support/converted_weights.h"
#include "tests/support/torch_bytes.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const fs::path kNano = fs::path(VGGT_FIXTURES) / "golden/nano";

class WeightWriter : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = torch_bytes::scratch("weight_writer", "");
    fs::create_directories(folder_);
    clear();
  }
  void TearDown() override {
    clear();
    fs::remove(folder_);
  }
  // remove_all() crashes here: LibTorch's wheel exports that of another libstdc++.
  void clear() const {
    for (const auto& file : std::vector<fs::directory_entry>(fs::directory_iterator(folder_), {}))
      fs::remove(file);
  }
  fs::path folder_;
};

const std::vector<TensorSpec> kSpecs = {{"a.weight", at::kFloat, {3, 4}},
                                        {"a.bias", at::kHalf, {3}},
                                        {"b.0.weight", at::kBFloat16, {2, 1, 5}},
                                        {"b.1.weight", at::kBFloat16, {2, 1, 5}},
                                        {"scale", at::kDouble, {}},
                                        {"empty", at::kFloat, {0, 7}}};

at::Tensor ramp(const TensorSpec& spec) {
  const int64_t count = c10::multiply_integers(spec.shape);
  return at::arange(count, at::kFloat).mul(0.25).sub(static_cast<double>(spec.name.size())).view(spec.shape);
}

TEST_F(WeightWriter, EveryFormatReadsBackWithMixedTypes) {
  for (const char* extension : {".ts", ".pt", ".safetensors"}) {
    const fs::path path = folder_ / (std::string("w") + extension);
    write_weights(path, kSpecs, ramp, "{\"depth\": 4}");
    const WeightFile file = WeightFile::open(path);
    EXPECT_EQ(file.format(), format_of(path));
    EXPECT_EQ(file.config_json(), "{\"depth\": 4}") << extension;
    ASSERT_EQ(file.tensors().size(), kSpecs.size());
    for (const TensorSpec& spec : kSpecs) {
      const StoredTensor& stored = file.tensors().at(spec.name);
      EXPECT_EQ(stored.type, spec.type) << extension << " " << spec.name;
      EXPECT_EQ(stored.shape, spec.shape) << extension << " " << spec.name;
      EXPECT_EQ(stored.offset % at::elementSize(spec.type), 0U) << extension << " " << spec.name;
      EXPECT_TRUE(at::equal(file.load(spec.name, spec.type, at::kCPU), ramp(spec).to(spec.type)));
    }
  }
}

TEST_F(WeightWriter, WritesTheSameBytesAgain) {
  for (const char* extension : {".ts", ".pt", ".safetensors"}) {
    const auto bytes = [&](const char* name) {
      const fs::path path = folder_ / (name + std::string(extension));
      write_weights(path, kSpecs, ramp, std::nullopt);
      std::ifstream file(path, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_EQ(bytes("first"), bytes("second")) << extension;
  }
}

TEST_F(WeightWriter, PythonReadsWhatConvertWrites) {
  const std::string python = std::string(VGGT_SOURCE_DIR) + "/.venv/bin/python3";
  if (!fs::exists(python)) GTEST_SKIP() << "no " << python;
  const WeightFile source = WeightFile::open(kNano / "weights.ts");
  convert(source, folder_ / "w.ts", at::kFloat, std::nullopt);
  convert(source, folder_ / "w.pt", at::kBFloat16, std::nullopt);
  convert(source, folder_ / "w.safetensors", std::nullopt, std::nullopt);
  std::ofstream(folder_ / "check.py") << R"(
import json, sys, torch
from safetensors import safe_open
from safetensors.torch import load_file
folder, nano = sys.argv[1:]
expected = torch.load(nano + '/weights.pt', weights_only=True)
extra = {'config.json': ''}
script = torch.jit.load(folder + '/w.ts', _extra_files=extra).state_dict()
pytorch = torch.load(folder + '/w.pt', weights_only=True)
safetensors = load_file(folder + '/w.safetensors')
config = json.load(open(nano + '/config.json'))
assert json.loads(extra['config.json']) == config
with safe_open(folder + '/w.safetensors', 'pt') as file:
    assert json.loads(file.metadata()['config.json']) == config
for state, dtype in ((script, torch.float32), (pytorch, torch.bfloat16), (safetensors, torch.float16)):
    assert set(state) == set(expected), set(state) ^ set(expected)
    for name, tensor in expected.items():
        assert state[name].dtype == dtype and torch.equal(state[name], tensor.to(dtype)), name
)";
  const std::string command = "'" + python + "' '" + (folder_ / "check.py").string() + "' '" +
                              folder_.string() + "' '" + kNano.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(WeightWriter, ConvertKeepsValuesTypesAndConfig) {
  const WeightFile source = WeightFile::open(testing::nano_safetensors());
  int64_t steps = 0;
  convert(source, folder_ / "w.pt", std::nullopt, "{}", [&](int64_t done, int64_t) { steps = done; });
  EXPECT_EQ(steps, 453);
  const WeightFile written = WeightFile::open(folder_ / "w.pt");
  EXPECT_EQ(written.config_json(), "{}");
  const WeightSummary before = inspect(source), after = verify(written);
  EXPECT_EQ(before.elements, after.elements);
  EXPECT_EQ(after.tensors_by_type, (std::map<std::string, int64_t>{{"fp32", 453}}));
  EXPECT_EQ(after.format, "PyTorch");
  for (const auto& [name, tensor] : source.tensors())
    ASSERT_TRUE(at::equal(written.load(name, at::kFloat, at::kCPU), source.load(name, at::kFloat, at::kCPU)))
        << name;
}

TEST_F(WeightWriter, RefusesWhatItCannotWrite) {
  EXPECT_THROW(write_weights(folder_ / "w.bin", kSpecs, ramp, std::nullopt), std::invalid_argument);
  const std::vector<TensorSpec> twice = {{"a", at::kFloat, {1}}, {"a", at::kFloat, {1}}};
  EXPECT_THROW(write_weights(folder_ / "w.safetensors", twice, ramp, std::nullopt), std::invalid_argument);
  const std::vector<TensorSpec> line = {{"a\nb", at::kFloat, {1}}};
  EXPECT_THROW(write_weights(folder_ / "w.pt", line, ramp, std::nullopt), std::invalid_argument);
  const std::vector<TensorSpec> both = {{"a", at::kFloat, {1}}, {"a.b", at::kFloat, {1}}};
  EXPECT_THROW(write_weights(folder_ / "w.ts", both, ramp, std::nullopt), std::invalid_argument);
  const std::vector<TensorSpec> code = {{"a\"] = 1", at::kFloat, {1}}};
  EXPECT_THROW(write_weights(folder_ / "w.ts", code, ramp, std::nullopt), std::invalid_argument);
  EXPECT_THROW(write_weights(folder_ / "w.safetensors", kSpecs, ramp, "\xff"), std::invalid_argument);
  const auto wrong = [](const TensorSpec&) { return at::zeros({2}); };
  EXPECT_THROW(write_weights(folder_ / "w.pt", kSpecs, wrong, std::nullopt), c10::Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(WeightWriter, AFullDiskLeavesTheOldFileAndStopsProducing) {
  std::vector<TensorSpec> large;
  for (int i = 0; i < 8; ++i) large.push_back({"t" + std::to_string(i), at::kFloat, {1 << 20}});
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  for (const char* extension : {".ts", ".pt", ".safetensors"}) {
    const fs::path path = folder_ / (std::string("w") + extension);
    std::ofstream(path) << "old";
    const rlimit small{6 << 20, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int produced = 0;
    const auto produce = [&](const TensorSpec& spec) {
      ++produced;
      return at::ones(spec.shape);
    };
    try {
      write_weights(path, large, produce, std::nullopt);
      ADD_FAILURE() << extension;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::file_too_large) << extension;
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_LE(produced, 3) << extension;
    std::string content;
    std::ifstream(path) >> content;
    EXPECT_EQ(content, "old") << extension;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
}

TEST_F(WeightWriter, AValueTooLargeForTheTypeIsNamed) {
  const std::vector<TensorSpec> specs = {{"fine", at::kFloat, {4}}, {"huge", at::kFloat, {2, 3}}};
  const auto produce = [](const TensorSpec& spec) {
    at::Tensor tensor = at::ones(spec.shape);
    if (spec.name == "huge") tensor[1][2] = 70000;
    return tensor;
  };
  write_weights(folder_ / "w.pt", specs, produce, std::nullopt);
  try {
    convert(WeightFile::open(folder_ / "w.pt"), folder_ / "half.pt", at::kHalf, std::nullopt);
    FAIL();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'huge' holds 70000 at [1,2], too large for Half"), std::string::npos) << text;
  }
  EXPECT_FALSE(fs::exists(folder_ / "half.pt"));
}

TEST(WeightTypes, AreNamed) {
  EXPECT_EQ(weight_type("bf16"), at::kBFloat16);
  EXPECT_THROW(weight_type("int8"), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
