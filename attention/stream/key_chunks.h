#pragma once
// How attention_lean() cuts keys and values into chunks of eta keys.

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace vggt {

/// All keys and values of a call. There is at least one chunk, which may be empty.
struct KeyChunks {
  at::Tensor k, v;  // [B,A,Nk,D]
  int64_t eta = 1;  // keys of a chunk; the last may have fewer

  int64_t count() const { return std::max<int64_t>(1, (k.size(2) + eta - 1) / eta); }
  int64_t first(int64_t chunk) const { return chunk * eta; }
  int64_t size(int64_t chunk) const { return std::min(eta, k.size(2) - first(chunk)); }
};

struct KeyValue {
  at::Tensor k, v;  // [B,A,n,D]
};

inline KeyValue chunk_of(const KeyChunks& all, int64_t chunk) {
  return {all.k.narrow(2, all.first(chunk), all.size(chunk)),
          all.v.narrow(2, all.first(chunk), all.size(chunk))};
}

}  // namespace vggt
