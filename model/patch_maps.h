#pragma once
#include <array>
#include <filesystem>
#include <string>

#include "model/checkpoint.h"
#include "model/heads/dpt_head.h"
#include "model/schedule.h"
#include "model/trunk/frame_tensor.h"

namespace vggt {

/// What a dense head has projected of the layers that it reads, of all frames of a rank.
class PatchMaps {
 public:
  /// Of `frames` frames of this size in pixels, on the device of `options`.
  PatchMaps(const DptHead& head, const std::string& name, int64_t frames, int64_t height, int64_t width,
            const Config& config, const Schedule& schedule, const at::TensorOptions& options)
      : head_(head),
        name_(name),
        frames_(frames),
        patches_((height / config.patch_size) * (width / config.patch_size)),
        layers_(config.intermediate_layers),
        schedule_(&schedule),
        options_(options.dtype(head.operand_type())) {}

  /// tokens [F,P,2C] of a layer that is kept.
  void add(int64_t layer, int64_t first, const at::Tensor& tokens) {
    for (size_t level = 0; level < 4; ++level) {
      if (layers_[level] != layer) continue;
      if (!maps_[level].defined()) allocate(level);
      maps_[level].give(first, head_.project(level, tokens));
    }
  }
  /// Writes the maps that the checkpoint lacks.
  void save(Checkpoint& checkpoint) {
    for (size_t level = 0; level < 4; ++level) {
      if (maps_[level].defined() && !checkpoint.holds(name(level)))
        checkpoint.write(name(level), maps_[level]);
    }
  }
  /// Reads those of the layers that the checkpoint has finished.
  void restore(const Checkpoint& checkpoint) {
    for (size_t level = 0; level < 4; ++level) {
      if (layers_[level] >= checkpoint.layers()) continue;
      if (!maps_[level].defined()) allocate(level);
      checkpoint.read(name(level), maps_[level]);
    }
  }
  /// After the schedule has changed.
  void move() {
    for (size_t level = 0; level < 4; ++level) maps_[level].move_to(schedule_->maps, piece(), file(level));
  }
  /// [F,p,channels] each.
  std::array<at::Tensor, 4> take(int64_t first, int64_t count) {
    std::array<at::Tensor, 4> patches;
    for (size_t level = 0; level < 4; ++level) patches[level] = maps_[level].take(first, count);
    return patches;
  }

 private:
  void allocate(size_t level) {
    maps_[level] = FrameTensor({frames_, patches_, head_.channels(level)}, options_, schedule_->maps, piece(),
                               file(level));
  }
  int64_t piece() const { return std::max(schedule_->keep_frames, schedule_->dense_frames); }
  std::string name(size_t level) const { return name_ + std::to_string(level); }
  std::filesystem::path file(size_t level) const { return schedule_->scratch / name(level); }

  const DptHead& head_;
  std::string name_;
  int64_t frames_, patches_;
  std::array<int64_t, 4> layers_;
  const Schedule* schedule_;
  at::TensorOptions options_;
  std::array<FrameTensor, 4> maps_;  // [S,p,channels], each from its layer on
};

}  // namespace vggt
