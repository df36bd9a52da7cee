#include "model/bench/block_rows.h"

#include <c10/core/InferenceMode.h>

#include <optional>
#include <string>

#include "attention/bench/attempt.h"
#include "attention/bench/timing.h"
#include "model/bench/torch_block.h"
#include "model/layers/block.h"
#include "model/random_weights.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kBlock = "aggregator.frame_blocks.0";

/// Of frames × frame_tokens tokens of which each attends to `keys`.
double operations_of(double tokens, double keys, double dim) {
  return tokens * (24 * dim * dim + 4 * keys * dim);
}

at::ScalarType operand_of(Precision precision) {
  if (precision == Precision::bf16) return at::kBFloat16;
  return precision == Precision::fp16 ? at::kHalf : at::kFloat;
}

/// A block of ours and LibTorch's of the same weights.
class Blocks {
 public:
  Blocks(const NetworkBench& bench, Pace& pace)
      : config_(bench.config),
        device_(bench.options.device),
        rope_(bench.height / config_.patch_size, bench.width / config_.patch_size, config_.special_tokens(),
              config_.embed_dim / config_.num_heads, config_.rope_freq,
              at::TensorOptions().dtype(at::kFloat).device(device_)),
        pace_(pace) {
    const TensorSource source = random_weights(config_, {.camera = true}, 1);
    const ComputeKind kind{operand_of(bench.options.precision), at::kFloat};
    AttentionOptions attention;
    attention.variant = bench.options.attention;
    attention.tuner = bench.options.tuner;
    Binder for_ours(&source, kind, device_), for_theirs(&source, kind, device_);
    const BlockSpec spec{config_.embed_dim, config_.num_heads, 1e-5, true, attention};
    ours_.emplace(for_ours, kBlock, spec);
    theirs_.emplace(for_theirs, kBlock, spec);
  }

  double operations(int64_t frames, bool global) const {
    const auto S = static_cast<double>(frames), P = static_cast<double>(rope_.tokens_per_frame);
    return operations_of(S * P, global ? S * P : P, static_cast<double>(config_.embed_dim));
  }

  ordered_json measure(int64_t frames, bool global) {
    const int64_t P = rope_.tokens_per_frame;
    ordered_json row = {{"block", global ? "global" : "frame"}, {"frames", frames}, {"tokens", frames * P}};
    const std::string failure = attempt([&] {
      at::Tensor x = at::randn({global ? 1 : frames, global ? frames * P : P, config_.embed_dim},
                               at::TensorOptions().device(device_));  // [B,N,C]
      const TorchBlock::Angles angles = TorchBlock::angles(rope_, global ? frames : 1);
      const auto ours = pace_.checked([&] { ours_->forward_(x, &rope_); });
      const auto theirs = pace_.checked([&] { theirs_->forward(x, &angles); });
      ours();
      theirs();
      const auto seconds = Turns{device_, 7, pace_.left() / 4}.time(
          {ours, theirs}, [&](std::size_t, const std::string& why) { row["failure"] = why; });
      pace_.took(operations(frames, global), seconds);
      if (row.contains("failure")) return;
      row["milliseconds"] = 1e3 * median(seconds[0]);
      row["teraflops_per_second"] = 1e-12 * operations(frames, global) / median(seconds[0]);
      row["rounds"] = seconds[0].size();
      row["libtorch_milliseconds"] = 1e3 * median(seconds[1]);
      row["speedup"] = median(seconds[1]) / median(seconds[0]);
    });
    if (!failure.empty()) row["failure"] = failure;
    return row;
  }

 private:
  Config config_;
  at::Device device_;
  Rope rope_;
  Pace& pace_;
  std::optional<Block> ours_;
  std::optional<TorchBlock> theirs_;
};

}  // namespace

void block_rows(const NetworkBench& bench, Pace pace, const ShowRow& show) {
  const c10::InferenceMode guard;
  Blocks blocks(bench, pace);
  for (const int64_t frames : bench.lengths) {
    if (!pace.fits(blocks.operations(frames, false) + blocks.operations(frames, true))) {
      leave_out(show, {{"frames", frames}}, pace.why_not());
      continue;
    }
    for (const bool global : {false, true}) show(blocks.measure(frames, global));
  }
}

}  // namespace vggt
