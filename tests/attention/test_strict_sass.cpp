// What the strict kernels are made of: no instruction of the tensor cores.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

namespace {

struct Instructions {
  int fused_multiply_add = 0, tensor_core = 0;
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
      architecture = text.substr(at + 7, 6);
    if (const size_t at = text.find("Function : "); at != std::string::npos) {
      const std::string name = text.substr(at + 11);
      current = name.find(part) == std::string::npos ? nullptr : &kernels[architecture + name];
    }
    if (!current || text.find("/*") == std::string::npos) continue;
    auto has = [&](const char* mnemonic) { return text.find(mnemonic) != std::string::npos; };
    current->fused_multiply_add += has(" FFMA");
    // Not HFMA2.MMA, which multiplies pairs of halves and sets registers.
    for (const char* mma : {" HMMA", " IMMA", " DMMA", " BMMA", " HGMMA", " IGMMA", " QGMMA", " BGMMA"})
      current->tensor_core += has(mma);
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

}  // namespace
