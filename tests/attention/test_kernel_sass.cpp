// What the kernels of this build are made of, for each architecture that it has code for: matrix instructions
// where they belong, nothing in local memory, and no more registers than the plans count on.
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "attention/cuda/tensor_tile.h"

namespace {

/// Calls body(line) for what cuobjdump says of a library.
void for_lines(const std::string& option, const std::string& library,
               const std::function<void(const std::string&)>& body) {
  const std::string command =
      std::string("\"") + VGGT_CUOBJDUMP + "\" " + option + " \"" + library + "\" 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[4096];
  while (pipe && std::fgets(line, sizeof line, pipe.get())) body(line);
}

/// What follows `start` in a line, up to a blank or a colon; empty where the line does not have it.
std::string after(const std::string& line, const std::string& start) {
  const size_t at = line.find(start);
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size();
  return line.substr(begin, line.find_first_of(" :\n", begin) - begin);
}

struct Instructions {
  std::string architecture;  // such as "sm_90a"
  int fused_multiply_add = 0, tensor_core = 0;
  int warpgroup = 0;  // of the tensor cores' those of Hopper, HGMMA
};

/// Of every kernel in the library of attention whose name contains `part`, by architecture and name.
std::map<std::string, Instructions> disassembled(const std::string& part) {
  std::map<std::string, Instructions> kernels;
  Instructions* current = nullptr;
  std::string architecture;
  for_lines("-sass", VGGT_ATTENTION_LIBRARY, [&](const std::string& text) {
    if (const std::string found = after(text, "arch = "); !found.empty()) architecture = found;
    if (const std::string name = after(text, "Function : "); !name.empty()) {
      current = name.find(part) == std::string::npos ? nullptr : &kernels[architecture + ' ' + name];
      if (current) current->architecture = architecture;
    }
    if (!current || text.find("/*") == std::string::npos) return;
    auto has = [&](const char* mnemonic) { return text.find(mnemonic) != std::string::npos; };
    current->fused_multiply_add += has(" FFMA");
    // Not HFMA2.MMA, which multiplies pairs of halves and sets registers.
    for (const char* mma : {" HMMA", " IMMA", " DMMA", " BMMA", " HGMMA", " IGMMA", " QGMMA", " BGMMA"})
      current->tensor_core += has(mma);
    current->warpgroup += has(" HGMMA");
  });
  return kernels;
}

struct Resources {
  std::string architecture, name;           // such as "sm_86"; demangled
  int registers = 0, stack = 0, local = 0;  // of a thread; bytes
};

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

std::vector<Resources> resources_of(const std::string& library) {
  std::vector<Resources> kernels;
  std::string architecture;
  for_lines("-res-usage", library, [&](const std::string& text) {
    if (const std::string found = after(text, "arch = "); !found.empty()) architecture = found;
    if (const std::string name = after(text, "Function "); !name.empty())
      kernels.push_back({architecture, demangled(name)});
    if (text.find(" REG:") == std::string::npos || kernels.empty()) return;
    Resources& last = kernels.back();
    last.registers = std::stoi(after(text, " REG:"));
    last.stack = std::stoi(after(text, " STACK:"));
    last.local = std::stoi(after(text, " LOCAL:"));
  });
  return kernels;
}

/// The architectures that the build was to have machine code for.
std::set<std::string> wanted_architectures() {
  std::set<std::string> wanted;
  std::istringstream list(VGGT_ARCHITECTURES);
  for (std::string one; std::getline(list, one, ',');) {
    if (one.find("virtual") == std::string::npos && std::isdigit(one[0]))
      wanted.insert("sm_" + one.substr(0, one.find('-')));
  }
  return wanted;
}

constexpr int kRegisters = 65536;  // of a multiprocessor

/// Registers of a block: the hardware gives a thread eight at a time.
int block_registers(const Resources& kernel, int threads) {
  return threads * ((kernel.registers + 7) / 8 * 8);
}

/// The numbers in the template arguments that `pattern` finds in a name; empty where it does not.
std::vector<int> numbers_in(const std::string& name, const std::string& pattern) {
  std::smatch match;
  std::vector<int> numbers;
  if (!std::regex_search(name, match, std::regex(pattern))) return numbers;
  for (size_t i = 1; i < match.size(); ++i) numbers.push_back(std::stoi(match[i]));
  return numbers;
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

// The kernels for 8.0 run on all later chips: each variant, element and tile has its products on tensor
// cores.
TEST(AmpereSass, HoldsProductsOfTheTensorCoresOnEveryArchitecture) {
  std::map<std::string, int> found;
  for (const auto& [name, count] : disassembled("mma_kernel")) {
    if (count.architecture == "sm_75") continue;
    EXPECT_GT(count.tensor_core, 60) << name;
    EXPECT_EQ(count.warpgroup, 0) << name;
    ++found[count.architecture];
  }
  for (const std::string& architecture : wanted_architectures()) {
    if (architecture != "sm_75") {
      EXPECT_EQ(found[architecture], 15) << architecture;
    }
  }
}

// The names of the kernels in hopper/: half_sm90.cu has half and turbo, split_sm90.cu split.
TEST(HopperSass, HoldsWarpgroupProductsInCodeForSm90aAlone) {
  if (!VGGT_SM90A) GTEST_SKIP() << "this build has no code for sm_90a";
  int found = 0;
  for (const auto& [name, count] : disassembled("kernelI")) {
    if (name.find("11half_kernelI") == std::string::npos &&
        name.find("22split_attention_kernelI") == std::string::npos)
      continue;
    const bool hopper = count.architecture == "sm_90a";
    EXPECT_EQ(count.warpgroup > 0, hopper) << name;
    found += hopper;
  }
  EXPECT_EQ(found, 8);  // bf16, fp16, turbo and split, each for D = 64 and 128
}

// Attention, and the products and matches of the model; the means of its merged tokens, which wait for
// memory, keep sums there.
TEST(KernelResources, NothingIsInLocalMemory) {
  for (const char* library : {VGGT_ATTENTION_LIBRARY, VGGT_MODEL_LIBRARY}) {
    std::set<std::string> found;
    for (const Resources& kernel : resources_of(library)) {
      found.insert(kernel.architecture);
      if (kernel.name.find("mean_kernel") != std::string::npos) continue;
      EXPECT_EQ(kernel.stack, 0) << kernel.architecture << ' ' << kernel.name;
      EXPECT_EQ(kernel.local, 0) << kernel.architecture << ' ' << kernel.name;
      EXPECT_GT(kernel.registers, 0) << kernel.architecture << ' ' << kernel.name;
    }
    EXPECT_EQ(found, wanted_architectures()) << library;
  }
}

// As many blocks share a multiprocessor as the plans count on (cuda_plan.cpp, tensor_tile.h).
TEST(KernelResources, RegistersLeaveRoomForTheBlocksThatPlansCountOn) {
  int ampere = 0, hopper = 0;
  for (const Resources& kernel : resources_of(VGGT_ATTENTION_LIBRARY)) {
    if (const auto shape =
            numbers_in(kernel.name, R"(mma_kernel<.*Shape<\d+, (\d+), .*CudaTile\{(\d+), (\d+)\})");
        !shape.empty()) {
      const vggt::CudaTile tile{shape[1], shape[2]};
      const int blocks = vggt::blocks80(tile, shape[0]);
      EXPECT_LE(blocks * block_registers(kernel, vggt::kThreads80), kRegisters)
          << kernel.architecture << ' ' << kernel.name;
      ++ampere;
    }
    // Of Hopper's blocks one warpgroup of 128 threads fetches, the others multiply.
    if (const auto shape = numbers_in(kernel.name, R"(hopper::Shape<\d+, \d+, (\d+), )"); !shape.empty()) {
      EXPECT_LE(block_registers(kernel, 128 * (shape[0] + 1)), kRegisters)
          << kernel.architecture << ' ' << kernel.name;
      if (kernel.architecture == "sm_90a") ++hopper;  // elsewhere they end where they begin
    }
  }
  const auto architectures = static_cast<int>(wanted_architectures().size());
  EXPECT_EQ(ampere, 15 * architectures);
  EXPECT_EQ(hopper > 0, VGGT_SM90A);
}

}  // namespace
