// The file of measured plans: where it lies, and that nothing about it can go wrong for the run.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/run/attention_cache.h"
#include "tests/support/variable.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const TunedGpu kGpu{"a GPU", 132, 13000, 13000, "0.1.0", "2.11.0"};

TunedPlans plans_of(int64_t keys, int partitions) {
  return {{tune_key(AttentionVariant::strict, CudaElement::fp32, {16, 1041, keys, 64}),
           {CudaKernel::strict, {128, 64}, partitions}}};
}

class AttentionCacheTest : public ::testing::Test {
 protected:
  AttentionCacheTest() {
    std::string name = (fs::temp_directory_path() / "vggt_cache_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    path_ = dir_ / "vggt-recon" / "attention.json";
  }
  ~AttentionCacheTest() override {
    std::error_code ignored;
    fs::permissions(dir_, fs::perms::owner_all, ignored);
    fs::remove_all(dir_, ignored);
  }
  int files() const {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(dir_)) count += entry.is_regular_file();
    return count;
  }
  fs::path dir_, path_;
};

TEST(AttentionCachePath, IsTheUsersFolderForCaches) {
  const auto path = [](const char* xdg, const char* home) {
    const test::Variable a("XDG_CACHE_HOME", xdg), b("HOME", home);
    return attention_cache_path();
  };
  EXPECT_EQ(path("/c", "/h"), "/c/vggt-recon/attention.json");
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative"}) {
    EXPECT_EQ(path(none, "/h"), "/h/.cache/vggt-recon/attention.json");
    EXPECT_EQ(path(none, nullptr), std::nullopt);
    EXPECT_EQ(path(none, ""), std::nullopt);
  }
}

TEST_F(AttentionCacheTest, ReadsBackWhatWasSavedInParts) {
  EXPECT_TRUE(load_tuned_plans(path_, kGpu).empty());
  save_tuned_plans(path_, kGpu, plans_of(1000, 2));
  save_tuned_plans(path_, kGpu, plans_of(2000, 4));
  TunedPlans both = plans_of(1000, 2);
  both.merge(plans_of(2000, 4));
  EXPECT_EQ(load_tuned_plans(path_, kGpu), both);
  EXPECT_EQ(files(), 1);
}

TEST_F(AttentionCacheTest, ADamagedOrForeignFileIsReplaced) {
  fs::create_directories(path_.parent_path());
  for (const std::string& text :
       {std::string("{\"format\":"), std::string(3 << 20, 'x'), std::string("{}")}) {
    std::ofstream(path_) << text;
    EXPECT_TRUE(load_tuned_plans(path_, kGpu).empty());
    save_tuned_plans(path_, kGpu, plans_of(1000, 2));
    EXPECT_EQ(load_tuned_plans(path_, kGpu), plans_of(1000, 2));
  }
}

TEST_F(AttentionCacheTest, WhereNothingCanBeWrittenThereIsNoCache) {
  std::ofstream(dir_ / "file") << "x";
  const fs::path below_a_file = dir_ / "file" / "vggt-recon" / "attention.json";
  save_tuned_plans(below_a_file, kGpu, plans_of(1000, 2));
  EXPECT_TRUE(load_tuned_plans(below_a_file, kGpu).empty());
  fs::create_directories(path_);  // a folder where the file should be
  save_tuned_plans(path_, kGpu, plans_of(1000, 2));
  EXPECT_TRUE(load_tuned_plans(path_, kGpu).empty());
  save_tuned_plans("/proc/vggt-recon/attention.json", kGpu, plans_of(1000, 2));
  EXPECT_TRUE(load_tuned_plans("/dev/zero", kGpu).empty());
  EXPECT_EQ(files(), 1);
}

TEST_F(AttentionCacheTest, ProcessesAtOnceLeaveAWholeFile) {
  constexpr int kProcesses = 4, kSaves = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool whole = true;
      for (int i = 1; i <= kSaves; ++i) {
        save_tuned_plans(path_, kGpu, plans_of(1 << p, i));
        whole = whole && !load_tuned_plans(path_, kGpu).empty();
      }
      _exit(whole ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_FALSE(load_tuned_plans(path_, kGpu).empty());
  EXPECT_EQ(files(), 1);
}

TEST(TunedAttentionTest, TheCpuMeasuresNothing) {
  TunedAttention tuned(at::kCPU, true);
  EXPECT_EQ(tuned.tuner(), nullptr);
  EXPECT_TRUE(tuned.kernels().empty());
  tuned.save();
}

TEST(TunedAttentionTest, WithoutMeasuringWhatRunsIsStillNoted) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  TunedAttention tuned(at::Device("cuda:0"), false);
  ASSERT_NE(tuned.tuner(), nullptr);
  EXPECT_FALSE(tuned.tuner()->measures());
  tuned.tuner()->note_run(AttentionVariant::half, {CudaKernel::sdpa_cudnn, {}, 1});
  tuned.tuner()->note_missing(CudaKernel::sdpa_flash);
  EXPECT_EQ(tuned.kernels(),
            (std::vector<std::string>{"half: cuDNN (LibTorch)",
                                      "flash (LibTorch): not offered by this build or device"}));
}

}  // namespace
}  // namespace vggt
