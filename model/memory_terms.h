#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/memory_plan.h"

// What each stage of a run holds on the device, term by term, and the counts that a plan is made from.
// Arithmetic alone, for memory_plan.cpp.
namespace vggt {

/// Sizes that every stage counts with.
struct Sizes {
  explicit Sizes(const MemoryRequest& request);

  int64_t S, H, W, C;      // S: frames of the rank that has most
  int64_t all;             // frames of all ranks
  int64_t head, own;       // channels of a head, and of the heads of the rank that has most
  int64_t rows, columns;   // of patches in a frame
  int64_t P;               // tokens of a frame
  int64_t operand, state;  // bytes of a number in the blocks' products, and in everything else
  int64_t dense;           // and in the dense heads' maps
};

/// Bytes of the weights whose names begin so, in the types that they are used in.
int64_t part_bytes(const MemoryRequest& r, const Sizes& z, std::string_view prefix);
/// Bytes that all dense heads keep of the layers below `layer`.
int64_t map_bytes(const MemoryRequest& r, const Sizes& z, int64_t layer);
/// Rows of a global block that merges tokens; 0 where none does.
int64_t merged_rows(const MemoryRequest& r, const Sizes& z);
/// How many heads read more than the last layer's camera tokens.
int64_t dense_heads(const MemoryRequest& r);
/// Bytes of the tracker's feature maps of one frame.
int64_t pyramid_frame_bytes(const MemoryRequest& r, const Sizes& z);
/// Bytes that the trunk holds throughout, at its worst layer.
int64_t held_bytes(const MemoryRequest& r, const Sizes& z, const Schedule& s);

/// The stages that run, in their order, by the schedule and the track sizes of the plan.
std::vector<StageMemory> stage_memory(const MemoryRequest& r, const Sizes& z, const MemoryPlan& plan);

}  // namespace vggt
