#include "model/bench/network_pair.h"

#include <map>
#include <memory>
#include <utility>

#include "attention/bench/attempt.h"
#include "model/random_weights.h"

namespace vggt {
namespace {

/// The same, which loads a tensor once for all who ask for it.
TensorSource shared(const TensorSource& source) {
  using Loaded = std::map<std::pair<std::string, at::ScalarType>, at::Tensor>;
  TensorSource result = source;
  result.load = [load = source.load, loaded = std::make_shared<Loaded>()](
                    const std::string& name, at::ScalarType type, at::Device device) {
    at::Tensor& tensor = (*loaded)[{name, type}];
    if (!tensor.defined()) tensor = load(name, type, device);
    return tensor;
  };
  return result;
}

}  // namespace

NetworkPair::NetworkPair(const NetworkBench& bench)
    : bench_(bench),
      weight_bytes_(vggt::weight_bytes(memory_request(bench.config, bench.options))),
      budget_(bench.options.budget) {
  most_bytes_ = limit();
  const TensorSource source = shared(random_weights(bench.config, bench.options.heads, 1));
  ours_.emplace(bench.config, source, bench.options);
  if (their_bytes(bench.lengths.front()) > most_bytes_) return;
  limit() -= weight_bytes_;
  if (!ours_fits(bench.lengths.front())) {
    limit() = most_bytes_;
    return;
  }
  if (!attempt([&] { theirs_.emplace(bench.config, source, bench.options); }).empty()) limit() = most_bytes_;
}

void NetworkPair::prepare(int64_t frames) {
  if (!theirs_ || theirs_fits(frames)) return;
  theirs_.reset();
  limit() = most_bytes_;
}

bool NetworkPair::ours_fits(int64_t frames) const {
  MemoryRequest request = memory_request(bench_.config, bench_.options);
  request.budget = budget_;
  request.frames = frames;
  request.height = bench_.height;
  request.width = bench_.width;
  return plan_memory(request).fits;
}

bool NetworkPair::theirs_fits(int64_t frames) const {
  return theirs_ && their_bytes(frames) <= most_bytes_;
}

int64_t NetworkPair::their_bytes(int64_t frames) const {
  return 2 * weight_bytes_ +
         torch_network_bytes(bench_.config, bench_.options, {frames, bench_.height, bench_.width, {}});
}

}  // namespace vggt
