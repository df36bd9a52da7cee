#include "attention/reference.h"

#include <algorithm>
#include <limits>

#include "attention/result.h"

namespace vggt {

AttentionResult attention_by_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        double scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr int64_t kLogits = int64_t{1} << 21;  // held at a time: 16 MB, which stay in the cache
  AttentionResult state = empty_result(q, AttentionWant::state);
  state.m.fill_(-kInfinity);
  state.s.zero_();
  state.w.zero_();
  const int64_t queries = q.size(2), keys = k.size(2);
  if (q.numel() == 0 || keys == 0) return state;

  const at::Tensor k_columns = k.contiguous().transpose(2, 3);  // [B,A,D,Nk]
  const at::Tensor values = v.contiguous();                     // [B,A,Nk,D]
  const int64_t step = std::max<int64_t>(1, kLogits / (q.size(0) * q.size(1) * keys));
  for (int64_t first = 0; first < queries; first += step) {
    const int64_t count = std::min(step, queries - first);
    at::Tensor p = at::matmul(q.narrow(2, first, count), k_columns).mul_(scale);  // [B,A,count,Nk]
    const at::Tensor m = p.amax(-1);                                              // [B,A,count]
    p.sub_(m.masked_fill(m == -kInfinity, 0).unsqueeze(-1)).exp_();
    state.m.narrow(2, first, count).copy_(m);
    state.s.narrow(2, first, count).copy_(p.sum(-1));
    state.w.narrow(2, first, count).copy_(at::matmul(p, values));
  }
  return state;
}

}  // namespace vggt
