// What the kernels of this build are made of: strict without an instruction of the tensor cores, and the code
// for sm_90a with Hopper's.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

namespace {

struct Instructions {
  std::string architecture;  // such as "sm_90a"
  int fused_multiply_add = 0, tensor_core = 0;
  int warpgroup = 0;  // of the tensor cores' those of Hopper, HGMMA
};

/// Of every kernel in the library whose name contains `part`, by name and architecture.
std::map<std::string, Instructions> disassembled(const std::string& part) {
  const std::string command =
      std::string("\"") + VGGT_CUOBJDUMP + "\" -sass \"" + VGGT_ATTENTION_LIBRARY + "\" 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::map<std::string, Instructions> kernels;
  Instructions* current = nullptr;
  std::string architecture;
  char line[4096];
  while (pipe && std::fgets(line, sizeof line, pipe.get())) {
    const std::string text = line;
    if (const size_t at = text.find("arch = "); at != std::string::npos)
      architecture = text.substr(at + 7, text.find_first_of(" \n", at + 7) - at - 7);
    if (const size_t at = text.find("Function : "); at != std::string::npos) {
      const std::string name = text.substr(at + 11);
      current = name.find(part) == std::string::npos ? nullptr : &kernels[architecture + ' ' + name];
      if (current) current->architecture = architecture;
    }
    if (!current || text.find("/*") == std::string::npos) continue;
    auto has = [&](const char* mnemonic) { return text.find(mnemonic) != std::string::npos; };
    current->fused_multiply_add += has(" FFMA");
    // Not HFMA2.MMA, which multiplies pairs of halves and sets registers.
    for (const char* mma : {" HMMA", " IMMA", " DMMA", " BMMA", " HGMMA", " IGMMA", " QGMMA", " BGMMA"})
      current->tensor_core += has(mma);
    current->warpgroup += has(" HGMMA");
  }
  return kernels;
}

TEST(StrictSass, HoldsNoInstructionOfTheTensorCores) {
  if (disassembled("").empty()) GTEST_SKIP() << "this build holds PTX alone";
  const auto kernels = disassembled("strict");
  EXPECT_GE(kernels.size(), 4u);
  for (const auto& [name, count] : kernels) {
    EXPECT_EQ(count.tensor_core, 0) << name;
    EXPECT_GT(count.fused_multiply_add, 500) << name;
  }
}

// The names of the kernels in hopper/: half_sm90.cu has half and turbo, split_sm90.cu split.
TEST(HopperSass, HoldsWarpgroupProductsInCodeForSm90aAlone) {
  if (!VGGT_SM90A) GTEST_SKIP() << "this build has no code for sm_90a";
  int found = 0;
  for (const char* kernel : {"11half_kernelI", "22split_attention_kernelI"}) {
    const auto kernels = disassembled(kernel);
    for (const auto& [name, count] : kernels) {
      const bool hopper = count.architecture == "sm_90a";
      EXPECT_EQ(count.warpgroup > 0, hopper) << name;
      found += hopper;
    }
  }
  EXPECT_EQ(found, 8);  // bf16, fp16, turbo and split, each for D = 64 and 128
}

}  // namespace
