#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

namespace vggt {

/// Writes the rows first .. first + rows - 1 to `to`, dense. A thread of its own calls it, in no order that a
/// caller should rely on. What it throws ends the call.
using StreamRead = std::function<void(int64_t first, int64_t rows, void* to)>;
/// Takes output rows [rows,A·D], each once.
using StreamWrite = std::function<void(int64_t first, int64_t rows, const void* from)>;

/// One sequence of N tokens: tensors, or functions where the tensors are undefined (q by itself, k and v
/// together).
struct StreamInput {
  at::Tensor q, k, v;       // [N,A,D] on the host, pinned or not, with dense [A,D]; q may lie on the device
  StreamRead read_queries;  // rows [rows,A,D]
  StreamRead read_keys_values;  // rows [rows,2,A,D]
  int64_t tokens = 0, heads = 0, dim = 0;
  at::ScalarType type = at::kFloat;
};

/// The input of tensors of their own, [N,A,D] each, or of one [N,3,A,D] as in the model.
StreamInput stream_input(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
StreamInput stream_input(const at::Tensor& qkv);

/// Where the output goes.
struct StreamOutput {
  at::Tensor out;  // [N,A·D] contiguous, type of the input, on the host or on the device; or undefined, and
  StreamWrite write;  // takes the rows, in ascending order
};

/// What is loaded of a token: its query [A,D], or its key and value [2,A,D].
enum class StreamPart { queries, keys_values };

/// The tensors of a part, in the order of its rows; none where it is read by a function.
std::vector<at::Tensor> tensors_of(const StreamInput& input, StreamPart part);

/// Throws c10::Error where input and output do not fit together or to this device.
void check_rows(const StreamInput& input, const StreamOutput& output, at::Device device);

/// Copies rows of a part to dense memory of the host, or the other way for the output.
void read_rows(const StreamInput& input, StreamPart part, int64_t first, int64_t rows, void* to);
void write_rows(const StreamOutput& output, int64_t first, int64_t rows, const void* from);

}  // namespace vggt
