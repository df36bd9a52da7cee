#pragma once
// One prefix scan over states on a GPU, without torch.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/bench/scan/scan_form.h"

namespace vggt {

/// Inclusive prefixes over the n states of each line; in and out may not overlap.
struct ScanProblem {
  const float *m = nullptr, *s = nullptr, *w = nullptr;        // [lines,n], [lines,n], [lines,n,kScanDim]
  float *out_m = nullptr, *out_s = nullptr, *out_w = nullptr;  // likewise
  int lines = 0, n = 0;
  int block = 0;  // states of a block or chunk
};

constexpr int kScanDim = 64;

/// Bytes of workspace that a form needs, 16-byte aligned. 0 where the problem cannot be started.
int64_t scan_workspace_bytes(ScanForm form, const ScanProblem& p);

/// Starts the scan. The block-wise forms take blocks of 64, 128 or 256 states. lines and n are at least 1.
/// bytes: scan_workspace_bytes(). cudaErrorInvalidValue for a problem that does not fit.
cudaError_t launch_scan(ScanForm form, const ScanProblem& p, void* workspace, int64_t bytes,
                        cudaStream_t stream);

}  // namespace vggt
