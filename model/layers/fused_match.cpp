#include "model/layers/fused_match.h"

#include <algorithm>
#include <climits>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "attention/cuda/cuda.h"
#include "attention/cuda/cuda_check.h"
#include "model/layers/alignment.h"
#include "model/layers/match_kernels.h"
#include "model/layers/split_layout.h"
#include "model/layers/work_sizes.h"
#endif

namespace vggt {

#ifdef VGGT_CUDA
namespace {

constexpr CudaCheck check{"matching tokens"};

/// Rows of fp32, split piece by piece into the same memory.
class SplitPieces {
 public:
  explicit SplitPieces(const at::Tensor& rows) : rows_(rows), columns_(static_cast<int>(rows.size(1))) {
    constexpr int64_t kWhole = 256;  // pieces but the last one are a multiple of these
    const int64_t fit = kSplitPieceBytes / 2 / (split_width(columns_) * 2 + 4) / kWhole * kWhole;
    piece_ = std::min(rows.size(0), std::max(kWhole, fit));
    memory_ = at::empty({split_matrix_bytes(piece_, columns_)}, rows.options().dtype(at::kByte));
  }
  int64_t piece() const { return piece_; }
  SplitMatrix split(int64_t first, cudaStream_t stream) const {
    const int64_t count = std::min(piece_, rows_.size(0) - first);
    const SplitMatrix to = split_matrix(static_cast<int>(count), columns_, memory_.mutable_data_ptr());
    check(split_rows({rows_.const_data_ptr<float>() + first * columns_, columns_}, to, stream),
          "splitting rows");
    return to;
  }

 private:
  const at::Tensor rows_;  // [rows,columns]
  const int columns_;
  int64_t piece_ = 0;
  at::Tensor memory_;
};

void match_split(const at::Tensor& x, const at::Tensor& y, uint64_t* keys, cudaStream_t stream) {
  const SplitPieces of_x(x), of_y(y);
  for (int64_t left = 0; left < y.size(0); left += of_y.piece()) {
    const SplitMatrix candidates = of_y.split(left, stream);
    for (int64_t top = 0; top < x.size(0); top += of_x.piece()) {
      check(match_split_sm90(of_x.split(top, stream), candidates, static_cast<int>(left), keys + top, stream),
            "split products");
    }
  }
}

}  // namespace

bool can_match_fused(const at::Tensor& x, const at::Tensor& y) {
  const at::ScalarType type = x.scalar_type();
  const bool is_half = type == at::kBFloat16 || type == at::kHalf;
  const int64_t columns = x.size(1), most = is_half ? INT_MAX : kMostSplitColumns;
  return x.is_cuda() && (is_half || type == at::kFloat) && columns > 0 && columns % 8 == 0 &&
         columns <= most && std::max(x.size(0), y.size(0)) < INT_MAX / 2 && is_aligned(x) && is_aligned(y) &&
         cuda_device(x.device()).wgmma;
}

void match_fused(const at::Tensor& x, const at::Tensor& y, at::Tensor& score, at::Tensor& best) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const int64_t s = x.size(0);
  if (s == 0) return;
  auto* const keys = reinterpret_cast<uint64_t*>(best.mutable_data_ptr<int64_t>());
  check(start_matches(keys, s, stream), "keys");
  if (x.scalar_type() == at::kFloat) {
    match_split(x, y, keys, stream);
  } else {
    const HalfMatch match{x.const_data_ptr(),          y.const_data_ptr(),
                          static_cast<int>(s),         static_cast<int>(y.size(0)),
                          static_cast<int>(x.size(1)), x.scalar_type() == at::kBFloat16};
    check(match_half_sm90(match, keys, stream), "products");
  }
  check(finish_matches(keys, score.mutable_data_ptr<float>(), s, stream), "scores");
}
#else
bool can_match_fused(const at::Tensor&, const at::Tensor&) {
  return false;
}
void match_fused(const at::Tensor&, const at::Tensor&, at::Tensor&, at::Tensor&) {
  TORCH_CHECK(false, "matching tokens: this build has no CUDA");
}
#endif

}  // namespace vggt
