#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vggt {

/// Thrown where other ranks are gone or have failed, so that no result can come.
struct RankLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An exchange on its way.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// What the current stream is given from now on sees what was received and may overwrite what was sent.
  virtual void wait() = 0;
};

/// The ranks that work on one scene, as one of them sees them. Every rank calls the same members in the same
/// order. All throw RankLost, at the latest when a result is read.
class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;

  /// Sends ins[r] to rank r and receives outs[r] from it, for every r: contiguous tensors on this rank's
  /// device, of the size and type that the other side gives; undefined or empty: nothing is sent.
  virtual std::unique_ptr<Transfer> exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) = 0;
  /// A short text of each rank, in their order, on all of them.
  virtual std::vector<std::string> texts(const std::string& own) = 0;
};

/// Sends the own part to all ranks and receives theirs: parts[r] of rank r, parts[rank()] the own one.
inline void gather_parts(Group& group, const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> outs = parts, ins(parts.size(), parts[static_cast<size_t>(group.rank())]);
  outs[static_cast<size_t>(group.rank())] = ins[static_cast<size_t>(group.rank())] = at::Tensor();
  group.exchange(std::move(outs), std::move(ins))->wait();
}

/// Rank 0 receives parts[r] of rank r; every other rank r sends its parts[r]. What is undefined is left out.
inline void gather_at_first(Group& group, std::vector<at::Tensor> parts) {
  std::vector<at::Tensor> none(parts.size());
  const auto rank = static_cast<size_t>(group.rank());
  if (rank > 0) {
    std::vector<at::Tensor> ins(parts.size());
    ins[0] = parts[rank];
    group.exchange(std::move(none), std::move(ins))->wait();
  } else {
    parts[0] = at::Tensor();
    group.exchange(std::move(parts), std::move(none))->wait();
  }
}

}  // namespace vggt
