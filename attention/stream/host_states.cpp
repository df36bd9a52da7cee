#include "attention/stream/host_states.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "attention/result.h"
#include "attention/state.h"

namespace vggt {

HostStates::HostStates(const StreamInput& input)
    : tokens_(input.tokens), heads_(input.heads), dim_(input.dim) {
  const auto options = at::TensorOptions().dtype(state_type(input.type));
  m_ = at::full({tokens_, heads_}, -std::numeric_limits<double>::infinity(), options);
  s_ = at::zeros({tokens_, heads_}, options);
  w_ = at::zeros({tokens_, heads_, dim_}, options);
}

template <class T>
void HostStates::merge_run(int64_t token, int64_t row, int64_t count, int64_t rows, const T* states) {
  const T *other_m = states, *other_s = states + heads_ * rows, *other_w = states + 2 * heads_ * rows;
  T *own_m = m_.mutable_data_ptr<T>(), *own_s = s_.mutable_data_ptr<T>(), *own_w = w_.mutable_data_ptr<T>();
  at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t head = 0; head < heads_; ++head) {
        const int64_t to = (token + i) * heads_ + head, from = head * rows + row + i;
        const T m = joint_max(own_m[to], other_m[from]);
        const T own = shift(own_m[to], m), other = shift(other_m[from], m);
        own_m[to] = m;
        own_s[to] = own_s[to] * own + other_s[from] * other;
        T* target = own_w + to * dim_;
        const T* source = other_w + ((row + i) * heads_ + head) * dim_;
        for (int64_t d = 0; d < dim_; ++d) target[d] = target[d] * own + source[d] * other;
      }
    }
  });
}

void HostStates::merge(const QuorumPart& part, RowRange rows, const void* states) {
  int64_t row = 0;  // of the part
  for (const QuorumRun& run : part.runs) {
    const int64_t first = std::max(row, rows.first), end = std::min(row + run.count, rows.first + rows.count);
    if (first < end) {
      const int64_t token = run.first + first - row;
      if (type() == at::kDouble) {
        merge_run(token, first - rows.first, end - first, rows.count, static_cast<const double*>(states));
      } else {
        merge_run(token, first - rows.first, end - first, rows.count, static_cast<const float*>(states));
      }
    }
    row += run.count;
  }
}

void HostStates::finish(const StreamInput& input, const StreamOutput& output) const {
  constexpr int64_t kRows = 8192;  // at a time
  for (int64_t first = 0; first < tokens_; first += kRows) {
    const int64_t rows = std::min(kRows, tokens_ - first);
    const at::Tensor s = s_.narrow(0, first, rows).unsqueeze(-1);                       // [n,A,1]
    const at::Tensor out = w_.narrow(0, first, rows).div(s).to(input.type).flatten(1);  // [n,A·D]
    if (output.out.defined()) {
      output.out.narrow(0, first, rows).copy_(out);
    } else {
      write_rows(output, first, rows, out.const_data_ptr());
    }
  }
}

}  // namespace vggt
