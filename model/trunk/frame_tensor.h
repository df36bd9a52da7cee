#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "model/schedule.h"

namespace vggt {

/// A tensor [S,...] of all frames in one of three places, worked on in pieces of frames on one device. From
/// the host or a file, pieces are copied beside the computation: the next one while one is worked on, the
/// last one back. Errors of the file are std::system_error, from any later call.
class FrameTensor {
 public:
  FrameTensor();
  /// Uninitialised, shape [S,...]. options: type and device of the pieces. Place::host on the CPU is memory
  /// like any other. file: where Place::file keeps it; it is replaced.
  FrameTensor(std::vector<int64_t> shape, const at::TensorOptions& options, Place place, int64_t piece_frames,
              const std::filesystem::path& file = {});
  FrameTensor(FrameTensor&&) noexcept;
  FrameTensor& operator=(FrameTensor&&) noexcept;
  ~FrameTensor();

  bool defined() const { return impl_ != nullptr; }
  /// Whether the whole tensor lies on the device.
  bool is_resident() const;
  /// All frames [S,...]; throws c10::Error where they are not resident.
  const at::Tensor& whole() const;

  /// Frames [first, first + count) on the device; the next so many are read ahead. A count above piece_frames
  /// allocates larger buffers. Valid until the second take() from then. A pass that begins at frame 0 sees
  /// all that was given before.
  at::Tensor take(int64_t first, int64_t count);
  /// The same without the contents and without reading ahead, for a piece that is to be given.
  at::Tensor blank(int64_t first, int64_t count);
  /// Stores frames [first, first + piece.size(0)): nothing to do for a resident tensor's own piece.
  void give(int64_t first, const at::Tensor& piece);
  /// Waits until everything given is stored.
  void finish();
  /// Moves the contents to another place, or to other pieces. Where memory runs out they stay where they are.
  void move_to(Place place, int64_t piece_frames, const std::filesystem::path& file);

  /// Where Place::host keeps it [S,...], and on the CPU a resident one; else undefined. After finish().
  at::Tensor host() const;
  std::vector<int64_t> shape() const;  // [S,...]
  at::ScalarType scalar_type() const;
  int64_t bytes() const;
  /// Copies bytes of the contents from `offset` on, frame after frame, wherever they lie. After finish().
  void read(int64_t offset, void* to, int64_t bytes) const;
  void write(int64_t offset, const void* from, int64_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vggt
