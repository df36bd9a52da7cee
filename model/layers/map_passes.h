#pragma once
#include <ATen/ATen.h>

namespace vggt {

// Passes over channels-last maps [F,C,h,w]. On a GPU, of fp32 or bf16, each reads and writes a number once
// and computes in fp32; elsewhere they are LibTorch's operations, each of which rounds to the map's type.

/// What is added to a map: the terms that are defined. Then perhaps ReLU.
struct MapTerms {
  at::Tensor bias = {};                // [C]; fp32 for a map in bf16
  at::Tensor first = {}, second = {};  // as the map, of its type
  bool relu = false;
};
void add_to_map_(at::Tensor& x, const MapTerms& terms);

/// What a map's places add to it: to the first half of the channels along its rows, to the second half along
/// its columns; fp32 for a map in bf16. Undefined: nothing.
struct PlaceTables {
  at::Tensor along_x;  // [columns,C/2]
  at::Tensor along_y;  // [rows,C/2]
};

/// x [F,C,h,w], resized bilinearly with its corners on the corners, plus bias [C] where it is defined, plus
/// what the places add -> [F,C,rows,columns], channels last.
at::Tensor resize_map(const at::Tensor& x, int64_t rows, int64_t columns, const at::Tensor& bias = {},
                      const PlaceTables& places = {});

/// The end of a dense head: relu(x + bias) [F,C,h,w], then a convolution of one pixel, which is computed in
/// the type of its weight [outputs,C,1,1] and offset [outputs] -> [F,outputs,h,w] of that type, channels
/// last. bias [C], of that type, may be undefined; x may be overwritten.
at::Tensor finish_map_(at::Tensor& x, const at::Tensor& bias, const at::Tensor& weight,
                       const at::Tensor& offset);

}  // namespace vggt
