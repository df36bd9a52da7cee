#include "attention/stream/lean.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "attention/attention.h"
#include "attention/packed_offsets.h"
#include "attention/result.h"
#include "attention/stream/key_chunks.h"
#ifdef VGGT_CUDA
#include "attention/stream/cuda_keys.h"
#endif

namespace vggt {
namespace {

/// The chunks of keys that lie on the CPU, with the members of CudaKeys.
class CpuKeys {
 public:
  explicit CpuKeys(const KeyChunks& all) : all_(all) {}

  KeyValue begin_chunk(int64_t chunk) const { return chunk_of(all_, chunk); }
  void end_chunk(int64_t) {}
  void finish(LeanTimes* times) const {
    if (!times) return;
    *times = {};
    times->total_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    times->compute_ms = times->total_ms;
  }

 private:
  KeyChunks all_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The options for the keys [first, first + count) alone, with the offsets of packed sequences cut to them.
AttentionOptions chunk_options(const AttentionOptions& options, int64_t first, int64_t count) {
  AttentionOptions part = options;
  part.want = AttentionWant::state;
  part.any_m |= options.want != AttentionWant::state;
  if (options.k_offsets.defined()) part.k_offsets = (options.k_offsets - first).clamp(0, count);
  return part;
}

/// Queries whose state over a chunk is held at a time.
int64_t queries_at_once(const at::Tensor& q, const AttentionOptions& options) {
  constexpr int64_t kRows = 1 << 16;                  // queries × heads: enough to fill any GPU
  if (options.q_offsets.defined()) return q.size(2);  // packed sequences go together
  const int64_t heads = std::max<int64_t>(1, q.size(0) * q.size(1));
  return std::max<int64_t>(kRows / heads / 256, 1) * 256;  // whole tiles
}

/// Merges the states over one chunk into `state`; makes them the state where it is still undefined.
void take_chunk(AttentionResult& state, const at::Tensor& q, const KeyValue& chunk,
                const AttentionOptions& options) {
  const int64_t queries = q.size(2), step = queries_at_once(q, options);
  const bool first = !state.m.defined();
  if (first && queries <= step) {
    state = attention(q, chunk.k, chunk.v, options);
    return;
  }
  if (first) state = empty_result(q, AttentionWant::state);
  for (int64_t i = 0; i < queries; i += step) {
    const int64_t count = std::min(step, queries - i);
    const AttentionResult part = attention(q.narrow(2, i, count), chunk.k, chunk.v, options);
    AttentionResult rows = slice_result(state, 2, i, count);
    if (first) {
      copy_result(rows, part);
    } else {
      merge_into(rows, part);
    }
  }
}

template <class Keys>
AttentionResult attend(const at::Tensor& q, const KeyChunks& all, Keys& keys, const AttentionOptions& options,
                       LeanTimes* times) {
  AttentionResult state;
  for (int64_t i = 0; i < all.count(); ++i) {
    const KeyValue chunk = keys.begin_chunk(i);
    take_chunk(state, q, chunk, chunk_options(options, all.first(i), all.size(i)));
    keys.end_chunk(i);
  }
  if (options.want != AttentionWant::state) {
    state = finalise_own(std::move(state), q.scalar_type());
    if (options.want == AttentionWant::output) state.lse.reset();
  }
  keys.finish(times);
  return state;
}

void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t eta,
           const AttentionOptions& options) {
  TORCH_CHECK(eta >= 1, "attention_lean: expected eta of at least 1 key, got ", eta);
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes(),
              "attention_lean: expected q [B,A,Nq,D], k and v [B,A,Nk,D], got ", q.sizes(), ", ", k.sizes(),
              ", ", v.sizes());
  TORCH_CHECK(v.device() == k.device() && (k.device() == q.device() || k.is_cpu()),
              "attention_lean: expected k and v on one device, the CPU or ", q.device(), ", got ", k.device(),
              " and ", v.device());
  TORCH_CHECK(v.scalar_type() == k.scalar_type(), "attention_lean: expected one type, got ", k.scalar_type(),
              " and ", v.scalar_type());
  // attention() sees the offsets only after they have been cut to a chunk.
  if (options.k_offsets.defined()) check_offsets(options.k_offsets, k.size(2), "k_offsets");
}

}  // namespace

AttentionResult attention_lean(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t eta,
                               const AttentionOptions& options, LeanTimes* times) {
  check(q, k, v, eta, options);
  const KeyChunks all{k, v, std::clamp<int64_t>(k.size(2), 1, eta)};
#ifdef VGGT_CUDA
  if (q.is_cuda()) {
    CudaKeys keys(all, q.device(), times != nullptr);
    return attend(q, all, keys, options, times);
  }
#endif
  CpuKeys keys(all);
  return attend(q, all, keys, options, times);
}

}  // namespace vggt
