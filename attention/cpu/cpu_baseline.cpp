// The CPU kernel for any processor: four lanes in GCC's vector extension (SSE2 on x86-64, NEON on Arm).
#include "attention/cpu/cpu_tile.h"

namespace vggt {
namespace {

struct Vector : tile::Fp32Operands {
  typedef float Reg __attribute__((vector_size(16)));
  typedef unsigned Bits __attribute__((vector_size(16)));
  static constexpr int kLanes = 4, kRows = 6;

  static Reg set(float x) { return Reg{x, x, x, x}; }
  static Reg load(const float* p) {
    Reg r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
  }
  static void store(float* p, Reg r) { __builtin_memcpy(p, &r, sizeof r); }
  static Reg add(Reg a, Reg b) { return a + b; }
  static Reg sub(Reg a, Reg b) { return a - b; }
  static Reg mul(Reg a, Reg b) { return a * b; }
  static Reg mul_add(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg mul_sub(Reg a, Reg b, Reg c) { return a * b - c; }
  /// The larger of a and b; b where one of them is NaN.
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  static float sum(Reg r) { return (r[0] + r[1]) + (r[2] + r[3]); }
  static float largest(Reg r) { return joint_max(joint_max(r[0], r[1]), joint_max(r[2], r[3])); }
  /// 2^n from n + 1.5·2^23, n in [-127, 127]; 0 for -127.
  static Reg power_of_two(Reg shifted) {
    Bits bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    Reg r;
    __builtin_memcpy(&r, &bits, sizeof r);
    return r;
  }
  static void transpose(const float* from, int64_t from_step, float* to, int64_t to_step) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < kLanes; ++j) to[j * to_step + i] = from[i * from_step + j];
    }
  }
};

}  // namespace

void attend_baseline(const AttentionParams& p, const CpuTask& task, float* scratch) {
  tile::attend<Vector>(p, task, scratch);
}

}  // namespace vggt
