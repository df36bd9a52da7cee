#include "attention/stream/stream_rows.h"

#include <cstring>

namespace vggt {
namespace {

void check_part(const StreamInput& input, const at::Tensor& x, const char* name) {
  TORCH_CHECK(x.dim() == 3 && x.size(0) == input.tokens && x.size(1) == input.heads && x.size(2) == input.dim,
              "attention_streamed: expected ", name, " [", input.tokens, ",", input.heads, ",", input.dim,
              "], got ", x.sizes());
  TORCH_CHECK(x.scalar_type() == input.type, "attention_streamed: expected ", name, " of type ", input.type,
              ", got ", x.scalar_type());
  TORCH_CHECK(x.select(0, 0).is_contiguous(), "attention_streamed: expected ", name,
              " with dense heads, got strides ", x.strides());
}

}  // namespace

StreamInput stream_input(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  TORCH_CHECK(q.dim() == 3, "attention_streamed: expected q [N,A,D], got ", q.sizes());
  return {q, k, v, nullptr, nullptr, q.size(0), q.size(1), q.size(2), q.scalar_type()};
}

StreamInput stream_input(const at::Tensor& qkv) {
  TORCH_CHECK(qkv.dim() == 4 && qkv.size(1) == 3, "attention_streamed: expected qkv [N,3,A,D], got ",
              qkv.sizes());
  return stream_input(qkv.select(1, 0), qkv.select(1, 1), qkv.select(1, 2));
}

std::vector<at::Tensor> tensors_of(const StreamInput& input, StreamPart part) {
  if (part == StreamPart::queries) {
    if (!input.q.defined()) return {};
    return {input.q};
  }
  if (!input.k.defined()) return {};
  return {input.k, input.v};
}

void check_rows(const StreamInput& input, const StreamOutput& output, at::Device device) {
  TORCH_CHECK(input.tokens >= 1 && input.heads >= 1 && input.dim >= 1,
              "attention_streamed: expected tokens, heads and dim of at least 1, got ", input.tokens, ", ",
              input.heads, ", ", input.dim);
  TORCH_CHECK(input.k.defined() == input.v.defined(), "attention_streamed: expected both k and v, or none");
  TORCH_CHECK(input.q.defined() || input.read_queries,
              "attention_streamed: expected q, or a function to read it");
  TORCH_CHECK(input.k.defined() || input.read_keys_values,
              "attention_streamed: expected k and v, or a function to read them");
  if (input.q.defined()) {
    check_part(input, input.q, "q");
    TORCH_CHECK(input.q.is_cpu() || input.q.device() == device,
                "attention_streamed: expected q on the CPU or on ", device, ", got ", input.q.device());
  }
  if (input.k.defined()) {
    check_part(input, input.k, "k");
    check_part(input, input.v, "v");
    TORCH_CHECK(input.k.is_cpu() && input.v.is_cpu(), "attention_streamed: expected k and v on the CPU, got ",
                input.k.device(), " and ", input.v.device());
  }
  const at::Tensor& out = output.out;
  TORCH_CHECK(out.defined() != static_cast<bool>(output.write),
              "attention_streamed: expected an output tensor or a function to write it");
  if (!out.defined()) return;
  TORCH_CHECK(out.dim() == 2 && out.size(0) == input.tokens && out.size(1) == input.heads * input.dim &&
                  out.is_contiguous() && out.scalar_type() == input.type,
              "attention_streamed: expected an output [", input.tokens, ",", input.heads * input.dim,
              "] of type ", input.type, ", got ", out.sizes(), " of type ", out.scalar_type());
  TORCH_CHECK(out.is_cpu() || out.device() == device,
              "attention_streamed: expected the output on the CPU or on ", device, ", got ", out.device());
}

void read_rows(const StreamInput& input, StreamPart part, int64_t first, int64_t rows, void* to) {
  const std::vector<at::Tensor> tensors = tensors_of(input, part);
  if (tensors.empty()) {
    (part == StreamPart::queries ? input.read_queries : input.read_keys_values)(first, rows, to);
    return;
  }
  const auto width = static_cast<std::size_t>(input.heads * input.dim) * c10::elementSize(input.type);
  const std::size_t pitch = width * tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto* from = static_cast<const char*>(tensors[i].const_data_ptr());
    const std::size_t step = static_cast<std::size_t>(tensors[i].stride(0)) * c10::elementSize(input.type);
    auto* target = static_cast<char*>(to) + i * width;
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(target + static_cast<std::size_t>(row) * pitch,
                  from + static_cast<std::size_t>(first + row) * step, width);
  }
}

void write_rows(const StreamOutput& output, int64_t first, int64_t rows, const void* from) {
  if (output.write) {
    output.write(first, rows, from);
    return;
  }
  const auto width = static_cast<std::size_t>(output.out.size(1)) * output.out.element_size();
  std::memcpy(static_cast<char*>(output.out.mutable_data_ptr()) + static_cast<std::size_t>(first) * width,
              from, static_cast<std::size_t>(rows) * width);
}

}  // namespace vggt
