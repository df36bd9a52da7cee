#pragma once
#include <ATen/ATen.h>

namespace vggt {

// Passes over channels-last maps [F,C,h,w]. On a GPU, of fp32, each reads and writes a number once; elsewhere
// they are LibTorch's operations.

/// What is added to a map: the terms that are defined. Then perhaps ReLU.
struct MapTerms {
  at::Tensor bias = {};                // [C]
  at::Tensor first = {}, second = {};  // as the map
  bool relu = false;
};
void add_to_map_(at::Tensor& x, const MapTerms& terms);

/// What a map's places add to it: to the first half of the channels along its rows, to the second half along
/// its columns. Undefined: nothing.
struct PlaceTables {
  at::Tensor along_x;  // [columns,C/2]
  at::Tensor along_y;  // [rows,C/2]
};

/// x [F,C,h,w], resized bilinearly with its corners on the corners, plus bias [C] where it is defined, plus
/// what the places add -> [F,C,rows,columns], channels last.
at::Tensor resize_map(const at::Tensor& x, int64_t rows, int64_t columns, const at::Tensor& bias = {},
                      const PlaceTables& places = {});

}  // namespace vggt
