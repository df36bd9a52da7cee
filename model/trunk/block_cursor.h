#pragma once
#include <memory>
#include <vector>

#include "model/layers/block.h"
#include "model/overlap.h"
#include "model/state/held_part.h"

namespace vggt {

using HeldBlocks = std::vector<HeldPart<Block>>;

/// The blocks of one stack on their device, one after another. Weights on the host are copied beside the
/// computation: those of the next block while one is used. One run has one cursor.
class BlockCursor {
 public:
  /// keep: blocks that have come from the host stay for the whole run.
  BlockCursor(const HeldBlocks& blocks, at::Device device, bool keep);
  ~BlockCursor();

  void keep(bool keep) { keep_ = keep; }
  /// Of weights from the host, up to now. Waits for the device.
  Overlap overlap() const;
  /// Block i, ready for what the current stream is given next; valid until the next call.
  const Block& at(std::size_t i);

 private:
  struct Copies;
  void load(std::size_t i);

  const HeldBlocks& blocks_;
  bool keep_;
  std::vector<std::shared_ptr<const Block>> open_;
  std::unique_ptr<Copies> copies_;
};

}  // namespace vggt
