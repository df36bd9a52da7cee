#pragma once
#include <optional>
#include <string>

#include "model/bench/network_bench.h"
#include "model/bench/torch_network.h"
#include "model/vggt.h"

namespace vggt {

/// Our network and, where memory holds both, LibTorch's of the same random weights.
class NetworkPair {
 public:
  /// The first of the lengths decides whether both are loaded.
  explicit NetworkPair(const NetworkBench& bench);

  const Vggt& ours() const { return *ours_; }
  /// Only where theirs_fits() says so of some length.
  const TorchNetwork& theirs() const { return *theirs_; }
  /// Of ours, and of LibTorch's too.
  double weight_bytes() const { return static_cast<double>(weight_bytes_); }
  /// Of a run of ours, less what the weights of LibTorch's take.
  const MemoryBudget& budget() const { return budget_; }

  /// Lets LibTorch's go where memory does not hold its run of so many frames, so that ours has all of it.
  void prepare(int64_t frames);
  /// Whether memory holds a run of so many frames beside the weights.
  bool ours_fits(int64_t frames) const;
  bool theirs_fits(int64_t frames) const;

 private:
  int64_t& limit() { return bench_.options.device.is_cuda() ? budget_.device : budget_.host; }
  int64_t their_bytes(int64_t frames) const;  // with the weights of both

  NetworkBench bench_;
  int64_t weight_bytes_, most_bytes_;
  MemoryBudget budget_;
  std::optional<Vggt> ours_;
  std::optional<TorchNetwork> theirs_;
};

}  // namespace vggt
