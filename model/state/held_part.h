#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/state/binder.h"

namespace vggt {

/// Tensors of one part of the network in the host's memory, page-locked for a GPU, in the types that the part
/// takes them in.
class HostWeights {
 public:
  /// Loads what `make` asks its binder for, with the kind and the source of `bind`, and records its names.
  HostWeights(Binder& bind, const std::function<void(Binder&)>& make);

  /// Hands out copies on the device, in the order of the current stream.
  const TensorSource& source() const { return source_; }
  int64_t bytes() const { return bytes_; }

 private:
  at::Tensor slab_;  // bytes of the small ones
  int64_t bytes_ = 0;
  std::shared_ptr<std::map<std::string, at::Tensor>> tensors_;
  TensorSource source_;
};

/// A part of the network, such as a block or a head, whose weights lie on the device, or on the host until
/// the part is opened.
template <class Part>
class HeldPart {
 public:
  HeldPart(Binder& bind, std::function<Part(Binder&)> make) {
    if (!bind.on_host()) {
      part_ = std::make_shared<const Part>(make(bind));
      return;
    }
    weights_ = std::make_shared<HostWeights>(bind, [&](Binder& of_host) { make(of_host); });
    make_ = std::move(make);
    kind_ = bind.kind();
    device_ = bind.device();
  }

  bool on_host() const { return part_ == nullptr; }
  /// Of what open() copies.
  int64_t host_bytes() const { return weights_ ? weights_->bytes() : 0; }
  /// The part on its device; from the host, a new one, whose memory is free when the last owner lets it go.
  std::shared_ptr<const Part> open() const {
    if (part_) return part_;
    Binder bind(&weights_->source(), kind_, device_);
    return std::make_shared<const Part>(make_(bind));
  }

 private:
  std::shared_ptr<const Part> part_;
  std::shared_ptr<const HostWeights> weights_;
  std::function<Part(Binder&)> make_;
  ComputeKind kind_ = {};
  at::Device device_ = at::kCPU;
};

}  // namespace vggt
