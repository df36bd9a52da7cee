#include "attention/bench/scan/scan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/bench/scan/scan_steps.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "attention/bench/scan/scan_problem.h"
#endif

namespace vggt {
namespace {

constexpr int kWide = 8;  // dims of W that are scanned together, each time with m and s
using Part = SoftmaxState<float, kWide>;
using Parts = std::vector<Part>;

void scan_two_levels(Parts& x, int block) {
  const int n = static_cast<int>(x.size()), blocks = (n + block - 1) / block;
  Parts other(static_cast<size_t>(block));
  Parts totals(static_cast<size_t>(power_of_two_from(blocks)));  // the rest are identities
  for (int b = 0; b < blocks; ++b) {
    Part* own = &x[static_cast<size_t>(b) * block];
    const int count = std::min(block, n - b * block);
    const Part* done = hillis_steele(HostLanes(), own, other.data(), count);
    if (done != own) std::copy_n(done, count, own);
    totals[b] = own[count - 1];
  }
  blelloch(HostLanes(), totals.data(), static_cast<int>(totals.size()));
  for (int i = 0; i < n; ++i) x[i] = merge(totals[i / block], x[i]);
}

void scan_chunks(Parts& x, int chunk) {
  const int n = static_cast<int>(x.size()), chunks = (n + chunk - 1) / chunk;
  Parts totals(static_cast<size_t>(chunks));
  for (int i = 0; i < n; ++i) totals[i / chunk] = merge(totals[i / chunk], x[i]);
  recurrence(Part(), chunks, [&](int c) -> Part& { return totals[c]; });
  for (int c = 0; c < chunks; ++c) {
    recurrence(c == 0 ? Part() : totals[c - 1], std::min(chunk, n - c * chunk),
               [&](int i) -> Part& { return x[static_cast<size_t>(c) * chunk + i]; });
  }
}

void scan(Parts& x, ScanForm form, int block) {
  switch (form) {
    case ScanForm::recurrence:
      recurrence(Part(), static_cast<int>(x.size()), [&](int i) -> Part& { return x[i]; });
      return;
    case ScanForm::two_level:
      return scan_two_levels(x, block);
    case ScanForm::chunked:
      return scan_chunks(x, block);
    default:
      TORCH_CHECK(false, "scan_states: ", name_of(form), " needs a GPU");
  }
}

/// x and out: contiguous.
void scan_on_host(const AttentionResult& x, ScanForm form, int block, const AttentionResult& out) {
  const int64_t n = x.m.size(2), dim = x.w.size(3), lines = x.m.size(0) * x.m.size(1);
  const float *m = x.m.const_data_ptr<float>(), *s = x.s.const_data_ptr<float>(),
              *w = x.w.const_data_ptr<float>();
  float *out_m = out.m.mutable_data_ptr<float>(), *out_s = out.s.mutable_data_ptr<float>(),
        *out_w = out.w.mutable_data_ptr<float>();
  Parts parts(static_cast<size_t>(n));
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t d = 0; d < dim; d += kWide) {
      for (int64_t i = 0; i < n; ++i) {
        parts[i].m = m[line * n + i];
        parts[i].s = s[line * n + i];
        std::copy_n(&w[(line * n + i) * dim + d], kWide, parts[i].w);
      }
      scan(parts, form, block);
      for (int64_t i = 0; i < n; ++i) {
        out_m[line * n + i] = parts[i].m;
        out_s[line * n + i] = parts[i].s;
        std::copy_n(parts[i].w, kWide, &out_w[(line * n + i) * dim + d]);
      }
    }
  }
}

#ifdef VGGT_CUDA
/// x and out: contiguous.
void scan_on_device(const AttentionResult& x, ScanForm form, int block, const AttentionResult& out) {
  TORCH_CHECK(x.w.size(3) == kScanDim && form != ScanForm::recurrence, "scan_states: ", name_of(form),
              " of D = ", x.w.size(3), " is not for GPUs; expected D = ", int{kScanDim});
  const c10::cuda::CUDAGuard guard(x.m.device());
  ScanProblem p;
  p.m = x.m.const_data_ptr<float>();
  p.s = x.s.const_data_ptr<float>();
  p.w = x.w.const_data_ptr<float>();
  p.out_m = out.m.mutable_data_ptr<float>();
  p.out_s = out.s.mutable_data_ptr<float>();
  p.out_w = out.w.mutable_data_ptr<float>();
  p.lines = static_cast<int>(x.m.size(0) * x.m.size(1));
  p.n = static_cast<int>(x.m.size(2));
  p.block = block;
  const int64_t bytes = scan_workspace_bytes(form, p);
  const at::Tensor workspace = at::empty({bytes}, x.m.options().dtype(at::kByte));
  const cudaError_t error =
      launch_scan(form, p, workspace.mutable_data_ptr(), bytes, c10::cuda::getCurrentCUDAStream().stream());
  if (error != cudaSuccess) cudaGetLastError();  // or LibTorch would report it at its next launch, as its own
  TORCH_CHECK(error == cudaSuccess, "scan_states: ", name_of(form), " with blocks of ", block, ": ",
              cudaGetErrorString(error));
}
#endif

/// The default number of states of a block or chunk of this form over n states.
int scan_block(ScanForm form, int n) {
  if (form != ScanForm::chunked) return 128;
  // As many chunks as states in a chunk: the recurrences of both levels are then equally long.
  int chunk = 16;
  while (chunk * int64_t{chunk} < n) chunk *= 2;
  return chunk;
}

void check(const AttentionResult& x) {
  TORCH_CHECK(x.m.defined() && x.s.defined() && x.w.defined() && x.m.dim() == 3 && x.w.dim() == 4,
              "scan_states: expected a state with m and s [B,A,N] and w [B,A,N,D]");
  TORCH_CHECK(x.m.scalar_type() == at::kFloat && x.w.scalar_type() == at::kFloat &&
                  x.m.sizes() == x.s.sizes() && x.w.sizes().slice(0, 3) == x.m.sizes() &&
                  x.w.size(3) % kWide == 0,
              "scan_states: expected fp32 m and s [B,A,N], w [B,A,N,D] with D a multiple of 8, got ",
              x.m.sizes(), ", ", x.s.sizes(), ", ", x.w.sizes());
  TORCH_CHECK(x.s.device() == x.m.device() && x.w.device() == x.m.device(),
              "scan_states: expected m, s and w on one device, got ", x.m.device(), ", ", x.s.device(), ", ",
              x.w.device());
  TORCH_CHECK(x.m.numel() <= std::numeric_limits<int>::max(), "scan_states: expected fewer than 2^31 states");
}

}  // namespace

const char* name_of(ScanForm form) {
  constexpr const char* kNames[] = {"recurrence", "two-level", "chunked", "cub-block", "cub-device"};
  return kNames[static_cast<int>(form)];
}

AttentionResult scan_states(const AttentionResult& states, ScanForm form, int block) {
  check(states);
  TORCH_CHECK(block >= 0, "scan_states: expected a block of at least one state, got ", block);
  AttentionResult in, out;
  in.m = states.m.contiguous();
  in.s = states.s.contiguous();
  in.w = states.w.contiguous();
  out.m = at::empty_like(in.m);
  out.s = at::empty_like(in.s);
  out.w = at::empty_like(in.w);
  if (in.m.numel() == 0) return out;
  if (block == 0) block = scan_block(form, static_cast<int>(in.m.size(2)));
  if (in.m.is_cpu()) {
    scan_on_host(in, form, block, out);
    return out;
  }
#ifdef VGGT_CUDA
  scan_on_device(in, form, block, out);
  return out;
#else
  TORCH_CHECK(false, "scan_states: this build has no CUDA, got a tensor on ", in.m.device());
#endif
}

}  // namespace vggt
