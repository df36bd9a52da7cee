#pragma once
#include <ATen/ATen.h>

#include "attention/attention_types.h"
#include "attention/stream/quorum.h"
#include "attention/stream/stream_rows.h"

namespace vggt {

/// The states of all queries of a sequence in the host's memory. fp32; fp64 for fp64.
class HostStates {
 public:
  explicit HostStates(const StreamInput& input);

  /// Elements of the states of so many queries, as merge() takes them: m [A,n], s [A,n], w [n,A,D].
  int64_t size_of(int64_t queries) const { return queries * heads_ * (dim_ + 2); }
  at::ScalarType type() const { return m_.scalar_type(); }

  /// Merges the states of some rows of a part. Allocates nothing, so that it is done wholly.
  void merge(const QuorumPart& part, RowRange rows, const void* states);

  /// Writes all outputs.
  void finish(const StreamInput& input, const StreamOutput& output) const;

 private:
  template <class T>
  void merge_run(int64_t token, int64_t row, int64_t count, int64_t rows, const T* states);

  int64_t tokens_, heads_, dim_;
  at::Tensor m_, s_;  // [N,A]
  at::Tensor w_;      // [N,A,D]
};

}  // namespace vggt
