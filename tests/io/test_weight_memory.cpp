#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/weights/weight_file.h"
#include "io/weights/weight_tools.h"
#include "io/weights/weight_writer.h"
#include "tests/support/torch_bytes.h"

// Loading needs at most the memory of the loaded tensors + 10 %, whatever the conversion.
namespace vggt {
namespace {

namespace fs = std::filesystem;
using torch_bytes::View;

constexpr int64_t kMiB = 1 << 20;

int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kib = 0;
    if (key == field + ":" && status >> kib) return kib * 1024;
  }
  return -1;
}

// Lets the peak start from the memory in use now. Where the system does not allow that, the old peak counts,
// which makes the test stricter.
int64_t start_measuring() {
  // What is freed goes back at once: else the allocator, which has seen 8 MiB freed, may keep twice as much.
  mallopt(M_MMAP_THRESHOLD, 1 << 17);
  malloc_trim(0);  // what was freed before must not hide what is taken now
  std::ofstream("/proc/self/clear_refs") << "5";
  return status_bytes("VmRSS");
}

class WeightMemory : public ::testing::TestWithParam<const char*> {};

// There are many tensors, so that memory that each would leave behind adds up.
TEST_P(WeightMemory, Fp32ToBf16NeedsTheResultOnly) {
  const fs::path path = torch_bytes::scratch("weight_memory", GetParam());
  std::vector<TensorSpec> specs;  // 64 MiB
  for (int i = 0; i < 64; ++i) specs.push_back({"t" + std::to_string(i), at::kFloat, {512, 512}});
  write_weights(
      path, specs, [](const TensorSpec& spec) { return at::ones(spec.shape); }, std::nullopt);
  const int64_t before = start_measuring();
  std::vector<at::Tensor> loaded;
  const WeightFile file = WeightFile::open(path);
  for (const TensorSpec& spec : specs) loaded.push_back(file.load(spec.name, at::kBFloat16, at::kCPU));
  const int64_t growth = status_bytes("VmHWM") - before;
  fs::remove(path);
  std::printf("%s: 32 MiB of bf16 tensors, peak growth %.1f MiB\n", GetParam(),
              static_cast<double>(growth) / kMiB);
  EXPECT_GE(growth, 31 * kMiB);
  EXPECT_LE(growth, 32 * kMiB * 11 / 10);
}

TEST_P(WeightMemory, Fp16ToFp32NeedsTheResultOnly) {
  const fs::path path = torch_bytes::scratch("weight_memory", GetParam());
  std::vector<TensorSpec> specs;  // 64 MiB
  for (int i = 0; i < 16; ++i) specs.push_back({"t" + std::to_string(i), at::kHalf, {1024, 2048}});
  write_weights(
      path, specs, [](const TensorSpec& spec) { return at::ones(spec.shape, at::kHalf); }, std::nullopt);

  const int64_t before = start_measuring();
  ASSERT_GT(before, 0);
  std::vector<at::Tensor> loaded;
  const WeightFile file = WeightFile::open(path);
  for (const TensorSpec& spec : specs) loaded.push_back(file.load(spec.name, at::kFloat, at::kCPU));
  const int64_t growth = status_bytes("VmHWM") - before;
  fs::remove(path);
  RecordProperty("growth_mib", std::to_string(growth / kMiB));
  std::printf("%s: 128 MiB of fp32 tensors, peak growth %.1f MiB\n", GetParam(),
              static_cast<double>(growth) / kMiB);
  EXPECT_EQ(at::stack(loaded).sum().item<double>(), 16.0 * 1024 * 2048);
  EXPECT_GE(growth, 127 * kMiB);  // the measurement works
  EXPECT_LE(growth, 128 * kMiB * 11 / 10);
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightMemory, ::testing::Values(".ts", ".pt", ".safetensors"));

TEST(WeightMemoryOf, AStridedViewOfALargeStorageIsBounded) {
  const fs::path path = torch_bytes::scratch("weight_memory_strided");
  const int64_t rows = 4096, columns = 4096;  // 64 MiB
  {
    const at::Tensor storage = at::ones({rows * columns});
    const std::string bytes(static_cast<const char*>(storage.const_data_ptr()), storage.nbytes());
    const View transposed{"0", rows * columns, 0, {columns, rows}, {1, columns}};
    const View column{"0", rows * columns, 1, {rows}, {columns}};
    torch_bytes::write_file(
        path,
        torch_bytes::archive({{"data.pkl", torch_bytes::state_dict({{"transposed", transposed.opcodes()},
                                                                    {"column", column.opcodes()}})},
                              {"data/0", bytes}}));
  }
  const int64_t before = start_measuring();
  const WeightFile file = WeightFile::open(path);
  const at::Tensor column = file.load("column", at::kFloat, at::kCPU);
  const int64_t column_growth = status_bytes("VmHWM") - before;
  const at::Tensor transposed = file.load("transposed", at::kFloat, at::kCPU);
  const int64_t growth = status_bytes("VmHWM") - before;
  fs::remove(path);
  EXPECT_EQ(transposed.sum().item<double>() + column.sum().item<double>(), rows * columns + rows);
  std::printf("strided: 64 MiB tensor, peak growth %.1f MiB\n", static_cast<double>(growth) / kMiB);
  EXPECT_LE(column_growth, 10 * kMiB);
  const int64_t buffers = at::get_num_threads() * kMiB / 4;
  EXPECT_LE(growth, 64 * kMiB * 11 / 10 + buffers);
}

TEST(WeightMemoryOf, ConversionHoldsOneTensor) {
  const fs::path source = torch_bytes::scratch("weight_memory_source"),
                 target = torch_bytes::scratch("weight_memory_target", ".safetensors");
  std::vector<TensorSpec> specs;  // 64 MiB
  for (int i = 0; i < 16; ++i) specs.push_back({"t" + std::to_string(i), at::kHalf, {1024, 2048}});
  write_weights(
      source, specs, [](const TensorSpec& spec) { return at::ones(spec.shape, at::kHalf); }, std::nullopt);
  const int64_t before = start_measuring();
  convert(WeightFile::open(source), target, at::kFloat, std::nullopt);
  const int64_t growth = status_bytes("VmHWM") - before;
  EXPECT_EQ(verify(WeightFile::open(target)).tensor_bytes, 128U * kMiB);
  fs::remove(source);
  fs::remove(target);
  std::printf("conversion: 128 MiB in tensors of 8 MiB, peak growth %.1f MiB\n",
              static_cast<double>(growth) / kMiB);
  EXPECT_LE(growth, 32 * kMiB);
}

// A file of a few hundred bytes may not make the reader allocate more than a few MiB, whatever sizes it
// claims.
TEST(WeightMemoryOf, HostileHeadersAllocateLittle) {
  std::string memo;
  for (int i = 0; i < 1000; ++i) memo += "]r" + torch_bytes::raw(static_cast<uint32_t>(i * 1000));
  const fs::path path = torch_bytes::scratch("weight_memory_hostile");
  const std::vector<std::string> files = {
      torch_bytes::archive({{"data.pkl", "\x80\x02" + memo + "."}}),
      torch_bytes::archive({{"data.pkl", torch_bytes::pickle("X\xf0\xff\xff\x7f")}}),
      torch_bytes::raw(uint64_t{1} << 62) + "{\"a\":1}",
      torch_bytes::raw(uint64_t{60}) +
          R"({"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})",
  };
  const int64_t before = start_measuring();
  for (const std::string& bytes : files) {
    torch_bytes::write_file(path, bytes);
    EXPECT_THROW(WeightFile::open(path), std::invalid_argument);
  }
  const int64_t growth = status_bytes("VmHWM") - before;
  fs::remove(path);
  EXPECT_LE(growth, 4 * kMiB);
}

}  // namespace
}  // namespace vggt
