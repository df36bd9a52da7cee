#include "attention/cuda/cuda.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "attention/cuda/cuda_check.h"
#include "attention/cuda/cuda_launch.h"
#include "attention/cuda/cuda_problem.h"
#include "attention/packed_offsets.h"
#include "attention/result.h"

namespace vggt {
namespace {

constexpr CudaCheck check{"attention"};

int narrow(int64_t size) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() - 255;  // kernels count to the end of a tile
  TORCH_CHECK(size <= kMost, "attention: expected sizes of at most ", kMost, ", got ", size);
  return static_cast<int>(size);
}

AttentionStrides strides_of(const at::Tensor& x) {
  return {x.stride(0), x.stride(1), x.stride(2)};
}

CudaProblem problem_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const AttentionOptions& options, const AttentionResult& result) {
  CudaProblem p;
  p.type = cuda_element(q.scalar_type());
  p.q = q.const_data_ptr();
  p.k = k.const_data_ptr();
  p.v = v.const_data_ptr();
  p.q_strides = strides_of(q);
  p.k_strides = strides_of(k);
  p.v_strides = strides_of(v);
  p.batch = narrow(q.size(0));
  p.heads = narrow(q.size(1));
  p.queries = narrow(q.size(2));
  p.keys = narrow(k.size(2));
  p.dim = narrow(q.size(3));
  p.scale = static_cast<float>(options.scale);
  const CudaSizes sizes = cuda_sizes(q, k, options);
  p.sequences = narrow(sizes.rows / std::max<int64_t>(1, p.heads));
  p.longest_queries = narrow(sizes.queries);
  p.longest_keys = narrow(sizes.keys);
  auto data = [](const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; };
  p.out = result.out.defined() ? result.out.mutable_data_ptr() : nullptr;
  p.w = data(result.w);
  p.out_strides = strides_of(result.out.defined() ? result.out : result.w);
  p.lse = data(result.lse);
  p.m = data(result.m);
  p.s = data(result.s);
  p.wants_largest = options.want == AttentionWant::state && !options.any_m;
  if (const QkParts* parts = options.parts) {
    const std::vector<int64_t> of_q{2, q.size(0), q.size(1), q.size(2), q.size(3)},
        of_k{2, k.size(0), k.size(1), k.size(2), k.size(3)};
    TORCH_CHECK(parts->q.sizes() == at::IntArrayRef(of_q) && parts->k.sizes() == at::IntArrayRef(of_k),
                "attention: expected parts of q ", q.sizes(), " and k ", k.sizes(), ", got ",
                parts->q.sizes(), " and ", parts->k.sizes());
    for (const at::Tensor* half : {&parts->q, &parts->k})
      TORCH_CHECK(half->scalar_type() == at::kHalf && half->is_contiguous() && half->device() == q.device(),
                  "attention: expected contiguous parts in fp16 beside q");
    for (const at::Tensor* of_heads : {&parts->bounds, &parts->largest}) {
      const int64_t count = of_heads == &parts->bounds ? 3 : 2;
      TORCH_CHECK(of_heads->scalar_type() == at::kFloat && of_heads->is_contiguous() &&
                      of_heads->numel() == count * q.size(0) * q.size(1) && of_heads->device() == q.device(),
                  "attention: expected bounds of q's, k's and v's heads and largest numbers of q's and k's, "
                  "got ",
                  of_heads->sizes());
    }
    p.ready = {parts->q.mutable_data_ptr(), parts->k.mutable_data_ptr(),
               parts->bounds.const_data_ptr<float>(), parts->largest.const_data_ptr<float>()};
  }
  return p;
}

}  // namespace

CudaElement cuda_element(at::ScalarType type) {
  return type == at::kFloat      ? CudaElement::fp32
         : type == at::kBFloat16 ? CudaElement::bf16
                                 : CudaElement::fp16;
}

CudaSizes cuda_sizes(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const bool packed = options.q_offsets.defined();
  CudaSizes sizes;
  sizes.rows = q.size(1) * (packed ? options.q_offsets.numel() - 1 : q.size(0));
  sizes.queries = packed ? longest_sequence(options.q_offsets) : q.size(2);
  sizes.keys = packed ? longest_sequence(options.k_offsets) : k.size(2);
  sizes.dim = q.size(3);
  return sizes;
}

namespace {

CudaDevice ask_device(const at::Device& device) {
  auto ask = [&](cudaDeviceAttr attribute) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, device.index()), "asking the GPU for its properties");
    return value;
  };
  CudaDevice d;
  d.capability = 10 * ask(cudaDevAttrComputeCapabilityMajor) + ask(cudaDevAttrComputeCapabilityMinor);
  const c10::cuda::CUDAGuard guard(device);
  d.strict = d.capability >= 75 && strict_built();
  d.mma = d.capability >= 80 && sm80_built();
  d.wgmma = d.capability == 90 && sm90a_built();
  d.multiprocessors = ask(cudaDevAttrMultiProcessorCount);
  d.shared_per_block = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  d.shared_per_multiprocessor = ask(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return d;
}

}  // namespace

CudaDevice cuda_device(const at::Device& device) {
  static std::mutex mutex;
  static std::map<at::DeviceIndex, CudaDevice> known;  // every call of attention() asks
  const std::lock_guard lock(mutex);
  const auto found = known.find(device.index());
  if (found != known.end()) return found->second;
  return known[device.index()] = ask_device(device);
}

CudaPlan plan_cuda(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const CudaDevice device = cuda_device(q.device());
  const CudaElement type = cuda_element(q.scalar_type());
  const std::string refusal = variant_refusal(options.variant, type, q.size(3), device);
  TORCH_CHECK(refusal.empty(), "attention: variant ", variant_name(options.variant), " ", refusal);
  return choose_cuda_plan(options.variant, type, cuda_sizes(q, k, options), device);
}

AttentionResult attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionOptions& options, const CudaPlan& plan) {
  const int64_t dim = q.size(3), width = kernel_dim(dim);
  if (q.numel() == 0) return empty_result(q, options.want);
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor wide_q = padded_rows(q, width), wide_k = padded_rows(k, width),
                   wide_v = padded_rows(v, width);
  AttentionResult result = empty_result(wide_q, options.want);
  CudaProblem p = problem_of(wide_q, wide_k, wide_v, options, result);
  at::Tensor q_offsets, k_offsets, workspace;  // [sequences + 1], [sequences + 1], [floats]
  if (options.q_offsets.defined()) {
    q_offsets = options.q_offsets.to(at::kInt).to(q.device());
    k_offsets = options.k_offsets.to(at::kInt).to(q.device());
    p.q_offsets = q_offsets.const_data_ptr<int>();
    p.k_offsets = k_offsets.const_data_ptr<int>();
  }
  p.partitions = plan.partitions;
  if (p.partitions > 1) {
    workspace = at::empty({workspace_floats(p)}, q.options().dtype(at::kFloat));
    p.workspace = workspace.mutable_data_ptr<float>();
  }
  check(launch_attention(p, plan, c10::cuda::getCurrentCUDAStream().stream()), kernel_name(plan.kernel));
  if (result.out.defined()) result.out = joinable(result.out, dim);
  if (result.w.defined()) result.w = joinable(result.w, dim);
  return result;
}

}  // namespace vggt
