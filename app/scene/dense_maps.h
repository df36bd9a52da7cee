#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/files/piece_store.h"

namespace vggt {

/// What a dense head said of each frame: depth [H,W] or points [H,W,3], and the confidence [H,W]. In memory
/// or in the scratch folder, as the space has room. Frames come in any order, from any thread.
class DenseMaps {
 public:
  using Buffer = std::vector<std::byte>;

  /// `name` is that of the scratch files.
  DenseMaps(const std::shared_ptr<HostSpace>& space, const std::string& name)
      : values_(space, name), confidence_(space, name + "_conf") {}

  void put(int frame, std::span<const float> values, std::span<const float> confidence) {
    put_values(frame, values);
    confidence_.put(static_cast<std::size_t>(frame), std::as_bytes(confidence));
  }
  /// Depth or points alone, such as adjusted ones.
  void put_values(int frame, std::span<const float> values) {
    values_.put(static_cast<std::size_t>(frame), std::as_bytes(values));
  }
  bool has(int frame) const { return confidence_.has(static_cast<std::size_t>(frame)); }
  /// Valid until the buffer changes.
  std::span<const float> values(int frame, Buffer& buffer) const { return floats(values_, frame, buffer); }
  std::span<const float> confidence(int frame, Buffer& buffer) const {
    return floats(confidence_, frame, buffer);
  }

 private:
  static std::span<const float> floats(const PieceStore& store, int frame, Buffer& buffer) {
    const std::span<const std::byte> bytes = store.get(static_cast<std::size_t>(frame), buffer);
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  PieceStore values_, confidence_;
};

}  // namespace vggt
