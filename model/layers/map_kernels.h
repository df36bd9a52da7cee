#pragma once
// Passes over channels-last maps of T, fp32 or bf16, on a GPU: each reads and writes a number once, 16 bytes
// at a time, and computes in fp32. Free of torch.

#include <cstdint>

#include "model/layers/operand_type.h"

namespace vggt {

/// x = x + bias + first + second, and then perhaps ReLU: those that are not null. Maps [F,h,w,C], C a
/// multiple of 8; pointers are aligned to 16 bytes.
struct MapSum {
  void* x = nullptr;                               // [count] of T
  const float* bias = nullptr;                     // [channels]
  const void *first = nullptr, *second = nullptr;  // [count] of T
  int64_t count = 0;                               // of numbers
  int channels = 0;
  bool relu = false;
};

/// y = x resized bilinearly with its corners on the corners, plus bias, plus along_x to the first half of the
/// channels and along_y to the second: those that are not null. C a multiple of 8, of 16 with along_x and
/// bf16; pointers are aligned to 16 bytes.
struct MapResize {
  const void* x = nullptr;                             // [frames,rows,columns,channels] of T
  void* y = nullptr;                                   // [frames,to_rows,to_columns,channels] of T
  const float* bias = nullptr;                         // [channels]
  const float *along_x = nullptr, *along_y = nullptr;  // [to_columns,channels/2], [to_rows,channels/2]
  int frames = 0, rows = 0, columns = 0, to_rows = 0, to_columns = 0, channels = 0;
};

/// y = weight·relu(x + bias) + offset, pixel by pixel, all in fp32. Pointers are aligned to 16 bytes.
struct MapFinish {
  const void* x = nullptr;                           // [pixels,kFinishChannels] of T
  const float* bias = nullptr;                       // [kFinishChannels], or null
  const float *weight = nullptr, *offset = nullptr;  // [outputs,kFinishChannels], [outputs]
  float* y = nullptr;                                // [pixels,outputs]
  int64_t pixels = 0;
  int outputs = 0;  // 2 or 4
};

inline constexpr int kMostMapSide = 65535;  // frames and to_rows: a grid's limit
inline constexpr int kFinishChannels = 32;

/// stream is a cudaStream_t. Throw std::runtime_error where the launch fails, or for another type.
void map_sum_cuda(OperandType type, const MapSum& sum, void* stream);
void map_resize_cuda(OperandType type, const MapResize& resize, void* stream);
void map_finish_cuda(OperandType type, const MapFinish& finish, void* stream);

}  // namespace vggt
