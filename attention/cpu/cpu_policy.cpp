#include "attention/cpu/cpu_policy.h"

#include <algorithm>

#include "attention/cpu/cpu_kernel.h"

namespace vggt {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

CpuPolicy choose_cpu_policy(const AttentionParams& p, CpuIsa isa, int threads) {
  // Waking a thread costs some 5 µs, the time of this many multiplications.
  constexpr double kWorthAThread = 250e3;
  // Queries that share a packed key tile: packing is under 2 % of the work, and the states stay in the L2.
  constexpr int64_t kMaxBlock = 21 * kRowTile, kMinBlock = 2 * kRowTile;
  // Several tasks per thread even out a core that is slowed by its neighbours.
  constexpr int64_t kTasksPerThread = 4;

  CpuPolicy policy;
  policy.isa = isa;
  const int64_t rows = std::max<int64_t>(1, p.sequences * p.heads);
  const int64_t longest = std::max<int64_t>(1, p.longest);
  const double keys =
      static_cast<double>(p.keys) * static_cast<double>(p.batch) / std::max<int64_t>(1, p.sequences);
  const double work_per_query = 2.0 * keys * static_cast<double>(p.dim);
  const double work = work_per_query * static_cast<double>(p.queries * p.batch * p.heads);
  policy.threads = static_cast<int>(std::clamp(work / kWorthAThread, 1.0, static_cast<double>(threads)));

  const int64_t wanted = policy.threads == 1 ? 1 : divide_up(kTasksPerThread * policy.threads, rows);
  const int64_t size = std::clamp(divide_up(longest, wanted), kMinBlock, kMaxBlock);
  policy.block = std::min(longest, divide_up(size, kRowTile) * kRowTile);
  policy.blocks = divide_up(longest, policy.block);

  const int64_t tasks = rows * policy.blocks;
  const double small = kWorthAThread / std::max(1.0, work_per_query * static_cast<double>(policy.block));
  policy.grain = static_cast<int64_t>(
      std::clamp(small, 1.0, std::max(1.0, static_cast<double>(tasks / (kTasksPerThread * policy.threads)))));
  return policy;
}

}  // namespace vggt
