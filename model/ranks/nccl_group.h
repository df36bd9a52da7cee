#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "model/ranks/group.h"
#include "model/ranks/rank_place.h"

namespace vggt {

/// Ranks that are processes with a GPU each: LibTorch's c10d with NCCL moves their tensors. A thread of its
/// own watches the other ranks: where one has failed or gives no sign of life for a quarter of a minute, work
/// that waits for it ends, and what is called next throws RankLost.
class NcclGroup final : public Group {
 public:
  /// Meets the others; every rank calls it. Throws RankLost where they cannot be reached within half a
  /// minute, and std::invalid_argument in a build without NCCL.
  NcclGroup(const RankPlace& place, at::Device device);
  ~NcclGroup() override;

  int64_t rank() const override;
  int64_t ranks() const override;
  std::unique_ptr<Transfer> exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override;
  std::vector<std::string> texts(const std::string& own) override;

  /// Tells the others that this rank has failed, and why.
  void fail(const std::string& why);
  /// Why the group has ended for this rank; empty: it has not.
  std::string lost() const;
  /// Calls `end` on the watching thread where the group has been lost for so long that the rank must be
  /// stuck.
  void on_stuck(std::function<void(const std::string& why)> end);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vggt
