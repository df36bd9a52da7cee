#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "io/weights/weight_file.h"
#include "tests/support/torch_bytes.h"

// Whatever is in a weight file: it is read, or refused by one clear line that names the file.
namespace vggt {

class RemoveScratch : public ::testing::Environment {
  void TearDown() override { std::filesystem::remove(torch_bytes::scratch("weight_hostile")); }
};
inline const auto* const kRemoveScratch = ::testing::AddGlobalTestEnvironment(new RemoveScratch);

inline std::map<std::string, at::Tensor> load_all(const std::filesystem::path& path) {
  std::map<std::string, at::Tensor> result;
  const WeightFile file = WeightFile::open(path);
  for (const auto& [name, tensor] : file.tensors()) result[name] = file.load(name, tensor.type, at::kCPU);
  return result;
}

// What a file with these bytes is refused for, without the path; empty if it is read. `tensors`: what was
// read.
inline std::string refusal(std::string_view bytes, std::map<std::string, at::Tensor>* tensors = nullptr) {
  const std::filesystem::path path = torch_bytes::scratch("weight_hostile");
  torch_bytes::write_file(path, bytes);
  try {
    auto loaded = load_all(path);
    if (tensors != nullptr) *tensors = std::move(loaded);
    return "";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what(), start = path.string() + ": ";
    EXPECT_TRUE(text.starts_with(start)) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), start.size() + 400) << text;
    return text.substr(std::min(start.size(), text.size()));
  }
}

inline void expect_refused(std::string_view bytes, const std::string& reason) {
  const std::string text = refusal(bytes);
  EXPECT_NE(text.find(reason), std::string::npos) << "expected: " << reason << "\ngot: " << text;
}

}  // namespace vggt
