#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attention/bench/inputs.h"
#include "attention/bench/timing.h"

namespace vggt {

/// A kernel that takes part, ours or LibTorch's, and what was measured of it on one set of inputs.
struct Entry {
  std::string name;
  bool ours = false;
  std::function<at::Tensor(const AttentionInputs&)> run;  // out [1,A,N,D]
  std::string failure;                                    // why it did not run; empty where it did
  double error = 0;
  std::optional<double> extra_bytes;  // besides the output
  std::vector<double> seconds;
};

/// Our kernels with these names, or all that can run where there are none, and LibTorch's backends. Throws as
/// our_kernels().
std::vector<Entry> entries_for(at::Device device, at::ScalarType type, int64_t dim,
                               const std::vector<std::string>& names);

/// Takes the error and the memory of one call, which is also the warm-up.
void try_out(Entry& entry, const AttentionInputs& x, const SampledRows& sample);

/// Times in turns those that have not failed.
void time_all(std::vector<Entry>& entries, const AttentionInputs& x, const Turns& turns);

}  // namespace vggt
