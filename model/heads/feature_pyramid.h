#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace vggt {

/// Feature maps of all frames, each level half as large as the one before. The first frames stay on the
/// device, up to a limit in bytes; those beyond it lie in host memory, pinned where the device is a GPU.
class FeaturePyramid {
 public:
  FeaturePyramid(int64_t frames, int64_t levels, int64_t device_bytes);

  /// Takes the maps [F,h,w,C] of the frames [first, first + F) and halves them. All maps are of one size.
  void put(int64_t first, const at::Tensor& maps);

  int64_t frames() const { return frames_; }
  int64_t levels() const { return levels_; }
  /// Frames from this one on lie in host memory.
  int64_t device_frames() const { return device_frames_; }

  /// All levels of the frames [first, first + F), on the device: [F,C,h,w] each. The frames lie on one side
  /// of device_frames(); those in host memory are copied.
  std::vector<at::Tensor> get(int64_t first, int64_t count) const;

 private:
  struct Level {
    at::Tensor device, host;  // [device_frames,C,h,w], [frames - device_frames,C,h,w]
  };

  void allocate(const at::Tensor& maps);

  int64_t frames_, levels_, device_bytes_, device_frames_ = 0;
  at::Device device_ = at::kCPU;
  std::vector<Level> levels_of_;
};

}  // namespace vggt
