#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/weights/weight_writer.h"
#include "tests/support/torch_bytes.h"
#include "tests/support/weight_refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(VGGT_FIXTURES) / "golden";

std::string small_file(const char* extension) {
  const fs::path path = torch_bytes::scratch("weight_hostile_small", extension);
  const std::vector<TensorSpec> specs = {
      {"a.weight", at::kFloat, {3, 4}}, {"a.bias", at::kHalf, {3}}, {"b.weight", at::kBFloat16, {5}}};
  const auto produce = [](const TensorSpec& spec) { return at::ones(spec.shape).mul(1.5); };
  write_weights(path, specs, produce, "{\"depth\": 4}");
  std::string bytes = torch_bytes::read_file(path);
  fs::remove(path);
  return bytes;
}

class Damaged : public ::testing::TestWithParam<const char*> {};

TEST_P(Damaged, SmallFileCutAnywhere) {
  const std::string bytes = small_file(GetParam());
  ASSERT_EQ(refusal(bytes), "");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    ASSERT_NE(refusal(std::string_view(bytes).substr(0, length)), "") << length << " of " << bytes.size();
}

TEST_P(Damaged, SmallFileWithAnyByteChanged) {
  const std::string bytes = small_file(GetParam());
  const bool has_checksums = std::string(GetParam()) != ".safetensors";
  std::map<std::string, at::Tensor> expected, read;
  ASSERT_EQ(refusal(bytes, &expected), "");
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned mask : {1U << i % 8, 0xFFU}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ mask);
      if (!refusal(changed, &read).empty()) {
        ++refused;
      } else if (has_checksums) {  // the change was in padding, times or the like
        ASSERT_EQ(read.size(), expected.size()) << i;
        for (const auto& [name, tensor] : expected)
          ASSERT_TRUE(at::equal(read.at(name), tensor)) << i << " " << name;
      }
    }
  }
  EXPECT_GT(refused, 200);
}

INSTANTIATE_TEST_SUITE_P(Formats, Damaged, ::testing::Values(".ts", ".pt", ".safetensors"));

class DamagedFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedFixture, CutOrChanged) {
  const std::string bytes = torch_bytes::read_file(kGolden / GetParam());
  const std::size_t size = bytes.size();
  for (std::size_t k = 0; k < 40; ++k) {
    const std::size_t length = k < 10 ? k * 9 : k < 20 ? size - (k - 9) : size * (k - 19) / 21;
    EXPECT_NE(refusal(std::string_view(bytes).substr(0, length)), "") << length;
  }
  ASSERT_EQ(refusal(bytes), "");
  int refused = 0;
  for (std::size_t k = 0; k < 40; ++k) {
    std::string changed = bytes;
    changed[(size - 1) * k / 39] ^= 0x10;
    refused += refusal(changed).empty() ? 0 : 1;
  }
  const bool has_checksums = !std::string(GetParam()).ends_with(".safetensors");
  EXPECT_GT(refused, has_checksums ? 25 : 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, DamagedFixture,
                         ::testing::Values("nano/weights.ts", "nano/weights.pt", "mini/weights.safetensors"));

}  // namespace
}  // namespace vggt
