#pragma once
#include <string>

#include "model/layers/linear.h"

namespace vggt {

/// fc2(GELU(fc1(x))), exact GELU: [...,in] -> [...,out].
struct Mlp {
  Linear fc1, fc2;

  Mlp(Binder& bind, const std::string& name, int64_t in, int64_t hidden, int64_t out)
      : fc1(bind, name + ".fc1", in, hidden), fc2(bind, name + ".fc2", hidden, out) {}

  at::Tensor operator()(const at::Tensor& x) const {
    at::Tensor hidden = fc1(x);
    return fc2.of_gelu_(hidden);
  }
  /// The same of rows [M,in], which may be freed, into y [M,out], contiguous, of the weights' type; y may be
  /// the rows' memory.
  void write(at::Tensor& y, ProductRows&& rows) const {
    at::Tensor hidden = fc1(rows);  // [M,hidden]
    rows = {};                      // its memory serves the second product
    fc2.write_of_gelu_(y, hidden);
  }
};

}  // namespace vggt
