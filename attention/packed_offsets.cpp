#include "attention/packed_offsets.h"

#include <algorithm>

namespace vggt {

void check_offsets(const at::Tensor& offsets, int64_t tokens, const char* name) {
  TORCH_CHECK(offsets.scalar_type() == at::kLong && offsets.is_cpu() && offsets.dim() == 1 &&
                  offsets.is_contiguous() && offsets.numel() > 0,
              "attention: expected ", name, " to be a contiguous int64 CPU tensor [sequences + 1], got ",
              offsets.toString(), " ", offsets.sizes());
  const int64_t* o = offsets.const_data_ptr<int64_t>();
  const int64_t last = offsets.numel() - 1;
  TORCH_CHECK(o[0] == 0 && o[last] == tokens, "attention: expected ", name, " from 0 to ", tokens, ", got ",
              o[0], " to ", o[last]);
  for (int64_t i = 0; i < last; ++i) {
    TORCH_CHECK(o[i] <= o[i + 1], "attention: expected ascending ", name, ", got ", o[i], " before ",
                o[i + 1]);
  }
}

int64_t longest_sequence(const at::Tensor& offsets) {
  const int64_t* o = offsets.const_data_ptr<int64_t>();
  int64_t most = 0;
  for (int64_t i = 0; i + 1 < offsets.numel(); ++i) most = std::max(most, o[i + 1] - o[i]);
  return most;
}

}  // namespace vggt
