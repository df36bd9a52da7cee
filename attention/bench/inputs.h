#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace vggt {

/// q, k and v [1,A,N,D] of one type and device. They are slices of one [1,N,3,A,D], as in the model.
struct AttentionInputs {
  at::Tensor q, k, v;
  at::Tensor offsets;            // int64 on the CPU, [sequences + 1]; undefined: one sequence
  at::Tensor offsets_on_device;  // the same as int32, where q is
  int64_t longest = 0;           // tokens of a sequence

  int64_t sequences() const { return offsets.defined() ? offsets.numel() - 1 : 1; }
};

at::ScalarType bench_type(const std::string& name);

/// Unit-normal inputs of sequences of these lengths, packed where there are several. Seeded.
AttentionInputs normal_inputs(const std::vector<int64_t>& lengths, int64_t heads, int64_t dim,
                              at::ScalarType type, at::Device device);

/// Inputs whose logits drift by 128 from the first key to the last, upwards for every other query and
/// downwards for the rest. Around the drift they have a standard deviation of about 4.5. The maximum of half
/// of the queries rises with every tile of keys; the sums of the other half underflow. Seeded.
AttentionInputs stress_inputs(int64_t n, int64_t heads, int64_t dim, at::ScalarType type, at::Device device);

/// At most `most` token numbers below n, evenly spread, with the first and the last.
at::Tensor spread_rows(int64_t n, int64_t most, at::Device device);

/// Sequence i of packed inputs; the inputs themselves where they are one sequence.
AttentionInputs sequence_of(const AttentionInputs& x, int64_t i);

/// The exact output in float64 of some rows of each sequence, and where these rows are in the output.
struct SampledRows {
  at::Tensor rows;   // [R]
  at::Tensor exact;  // [1,A,R,D]
  /// ||got - exact|| / ||exact|| over the rows of an output [1,A,N,D].
  double error_of(const at::Tensor& out) const;
};
SampledRows sample_exactly(const AttentionInputs& x, int64_t rows_per_sequence);

}  // namespace vggt
