#include "attention/bench/drift.h"

#include <algorithm>
#include <cmath>

namespace vggt {
namespace {

double scale_of(const AttentionInputs& x) {
  return 1 / std::sqrt(static_cast<double>(x.q.size(3)));
}

/// The rows of head a, [R,D].
at::Tensor head_rows(const at::Tensor& t, int64_t a, const at::Tensor& rows) {
  return t[0][a].index_select(0, rows);
}

/// The sum over keys of p·log(p / middle), 0 where p is. [R]
at::Tensor divergence(const at::Tensor& p, const at::Tensor& middle) {
  return at::where(p > 0, p * (p / middle).log(), at::zeros({}, p.options())).sum(1);
}

void append(std::vector<double>& values, const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kCPU, at::kDouble).contiguous();
  const double* data = flat.const_data_ptr<double>();
  values.insert(values.end(), data, data + flat.numel());
}

/// A kernel's logits of all keys for the rows of head a, [R,N]. See Note [Weights of a kernel].
at::Tensor own_logits(const OurKernel& kernel, const Oracle& oracle, int64_t a) {
  constexpr int64_t kMostNumbers = int64_t{1} << 24;  // of the queries, which are copied for each key
  const AttentionInputs& x = oracle.x;
  const at::Tensor q = head_rows(x.q, a, oracle.rows);  // [R,D]
  const int64_t n = x.k.size(2), step = std::clamp<int64_t>(kMostNumbers / q.numel(), 1, n);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < n; first += step) {
    const int64_t count = std::min(step, n - first);
    auto keys = [&](const at::Tensor& t) {  // one to a head: [1,count,1,D]
      return t[0][a].narrow(0, first, count).unsqueeze(1).unsqueeze(0).contiguous();
    };
    const AttentionInputs single{
        q.expand({1, count, q.size(0), q.size(1)}).contiguous(), keys(x.k), keys(x.v), {}, {}, q.size(0)};
    const at::Tensor l = kernel.attend(single, AttentionWant::output_lse).lse;  // [1,count,R]
    parts.push_back(l[0].transpose(0, 1));
  }
  return at::cat(parts, 1);
}

}  // namespace

Oracle::Oracle(AttentionInputs inputs, int64_t most_rows) : x(std::move(inputs)) {
  rows = spread_rows(x.q.size(2), most_rows, x.q.device());
  for (int64_t a = 0; a < x.q.size(1); ++a) {
    const at::Tensor q = head_rows(x.q, a, rows).to(at::kDouble);  // [R,D]
    const at::Tensor k = x.k[0][a].to(at::kDouble), v = x.v[0][a].to(at::kDouble);
    p.push_back(at::softmax(at::matmul(q, k.t()).mul_(scale_of(x)), 1));
    y.push_back(at::matmul(p.back(), v));
  }
}

Drift Oracle::drift_of(const std::vector<at::Tensor>& their_p, const std::vector<at::Tensor>& their_y) const {
  Drift drift;
  for (std::size_t a = 0; a < p.size(); ++a) {
    const at::Tensor dp = their_p[a] - p[a], dy = their_y[a] - y[a];  // [R,N], [R,D]
    append(drift[max_dp], dp.abs().amax(1));
    append(drift[relative_dp], dp.norm(2, 1) / p[a].norm(2, 1));
    const at::Tensor middle = (p[a] + their_p[a]) / 2;
    append(drift[jensen_shannon],
           ((divergence(p[a], middle) + divergence(their_p[a], middle)) / 2).clamp_min(0));
    const at::Tensor top = their_p[a].argmax(1, /*keepdim=*/true);
    append(drift[argmax_differs], p[a].gather(1, top).squeeze(1) < p[a].amax(1));
    append(drift[max_dy], dy.abs().amax(1));
    append(drift[relative_dy], dy.norm(2, 1) / y[a].norm(2, 1));
  }
  return drift;
}

Drift drift_of(const OurKernel& kernel, const Oracle& oracle) {
  const AttentionResult whole = kernel.attend(oracle.x, AttentionWant::output_lse);
  std::vector<at::Tensor> p, y;
  for (int64_t a = 0; a < oracle.x.q.size(1); ++a) {
    const at::Tensor lse = whole.lse[0][a].index_select(0, oracle.rows).to(at::kDouble);  // [R]
    p.push_back((own_logits(kernel, oracle, a).to(at::kDouble) - lse.unsqueeze(1)).exp_());
    y.push_back(head_rows(whole.out, a, oracle.rows).to(at::kDouble));
  }
  return oracle.drift_of(p, y);
}

Drift drift_of_math(const Oracle& oracle, bool tf32) {
  std::vector<at::Tensor> p, y;
  AttentionInputs x = oracle.x;
  if (tf32) {
    // fp16 has TF32's mantissa, and its range suffices for our inputs.
    for (at::Tensor* t : {&x.q, &x.k, &x.v}) *t = t->to(at::kHalf).to(at::kFloat);
  }
  for (int64_t a = 0; a < x.q.size(1); ++a) {
    const at::Tensor q = head_rows(x.q, a, oracle.rows);  // [R,D]
    p.push_back(at::softmax(at::matmul(q, x.k[0][a].t()) * scale_of(x), 1).to(at::kDouble));
    auto one = [&](const at::Tensor& t) { return t[0][a].unsqueeze(0).unsqueeze(0); };  // [1,1,N,D]
    const at::Tensor out =
        std::get<0>(at::_scaled_dot_product_attention_math(q.unsqueeze(0).unsqueeze(0), one(x.k), one(x.v)));
    y.push_back(out[0][0].to(at::kDouble));
  }
  return oracle.drift_of(p, y);
}

}  // namespace vggt
