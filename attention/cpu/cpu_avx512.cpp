// The CPU kernel for AVX-512F.
#include "attention/cpu/cpu_tile.h"
#include "attention/cpu/cpu_vector_avx512.h"

namespace vggt {
namespace {

struct Vector : Avx512, tile::Fp32Operands {};

}  // namespace

void attend_avx512(const AttentionParams& p, const CpuTask& task, float* scratch) {
  tile::attend<Vector>(p, task, scratch);
}

}  // namespace vggt
