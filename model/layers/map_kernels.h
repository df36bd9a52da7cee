#pragma once
// Passes over channels-last maps of fp32 on a GPU: each reads and writes a number once. Free of torch.

#include <cstdint>

namespace vggt {

/// x = x + bias + first + second, and then perhaps ReLU: those that are not null. Maps [F,h,w,C], C a
/// multiple of 4; pointers are aligned to 16 bytes.
struct MapSum {
  float* x = nullptr;                               // [count]
  const float* bias = nullptr;                      // [channels]
  const float *first = nullptr, *second = nullptr;  // [count]
  int64_t count = 0;                                // of numbers
  int channels = 0;
  bool relu = false;
};

/// y = x resized bilinearly with its corners on the corners, plus bias, plus along_x to the first half of the
/// channels and along_y to the second: those that are not null. C a multiple of 4, of 8 with along_x;
/// pointers are aligned to 16 bytes.
struct MapResize {
  const float* x = nullptr;                            // [frames,rows,columns,channels]
  float* y = nullptr;                                  // [frames,to_rows,to_columns,channels]
  const float* bias = nullptr;                         // [channels]
  const float *along_x = nullptr, *along_y = nullptr;  // [to_columns,channels/2], [to_rows,channels/2]
  int frames = 0, rows = 0, columns = 0, to_rows = 0, to_columns = 0, channels = 0;
};

inline constexpr int kMostMapSide = 65535;  // frames and to_rows: a grid's limit

/// stream is a cudaStream_t. Throw std::runtime_error where the launch fails.
void map_sum_cuda(const MapSum& sum, void* stream);
void map_resize_cuda(const MapResize& resize, void* stream);

}  // namespace vggt
