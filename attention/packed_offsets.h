#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace vggt {

/// Throws c10::Error, naming `name`, unless offsets is a contiguous int64 CPU tensor [sequences + 1] that
/// ascends from 0 to `tokens`.
void check_offsets(const at::Tensor& offsets, int64_t tokens, const char* name);

/// Tokens of the longest of the packed sequences; offsets [sequences + 1] as check_offsets() takes them.
int64_t longest_sequence(const at::Tensor& offsets);

}  // namespace vggt
