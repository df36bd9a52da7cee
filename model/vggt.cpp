#include "model/vggt.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDACachingAllocator.h>

#include "attention/cuda/cuda.h"
#endif
#include "attention/cpu/cpu.h"
#include "attention/out_of_memory.h"
#include "model/layers/screened_match.h"
#include "model/network.h"
#include "model/network_run.h"
#include "model/ranks/group.h"
#include "model/refine/depth_refiner.h"

namespace vggt {
namespace {

/// Memory that LibTorch keeps for later goes back to the device.
void free_reserve([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

void check_group(const Group& group, const RunOptions& options, const FrameProvider& frames) {
  if (options.checkpoints) throw std::invalid_argument("several ranks keep no checkpoints");
  if (frames.frames < group.ranks()) {
    throw std::invalid_argument("frames: " + std::to_string(frames.frames) + " are fewer than the " +
                                std::to_string(group.ranks()) + " ranks that share them");
  }
}

}  // namespace

Vggt::Vggt(const Config& config, const TensorSource& source, const ModelOptions& options) {
  check_model_options(config, options);
  const Heads present = heads_in(source.shapes);
  const Heads& wanted = options.heads;
  check_shapes(expected_tensors(config, present), network_shapes(source.shapes));
  const auto need = [](bool want, bool have, const char* name) {
    if (want && !have) throw std::invalid_argument(std::string("the weights have no ") + name + " head");
  };
  need(wanted.camera, present.camera, "camera");
  need(wanted.depth, present.depth, "depth");
  need(wanted.points, present.points, "points");
  need(wanted.tracks, present.tracks, "tracks");
  if (wanted == Heads{}) throw std::invalid_argument("no head is on: nothing to compute");
  const c10::InferenceMode guard;
  Binder bind(&source, aggregator_kind(options.precision), options.device, options.weights_on_host);
  network_ = std::make_unique<Network>(bind, config, options);
}

Vggt::~Vggt() = default;
Vggt::Vggt(Vggt&&) noexcept = default;

const Config& Vggt::config() const {
  return network_->config;
}

void check_tracker_takes(const MemoryRequest& request) {
  const int64_t least = TrackHead::min_frame_side(request.config);
  if (!request.runs_tracker() || std::min(request.height, request.width) >= least) return;
  throw std::invalid_argument("the tracker needs frames of at least " + std::to_string(least) +
                              " pixels a side, got " + std::to_string(request.width) + "x" +
                              std::to_string(request.height));
}

RunReport Vggt::run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                    const Observer& observer) const {
  const ModelOptions& own = network_->options;
  return run(frames, query_points, sink, observer, {own.merge, own.budget, own.plans_passed});
}

RunReport Vggt::run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                    const Observer& observer, const RunOptions& options) const {
  const Network& net = *network_;
  const int64_t patch = net.config.patch_size;
  if (frames.frames < 1 || frames.height < patch || frames.width < patch || frames.height % patch != 0 ||
      frames.width % patch != 0) {
    throw std::invalid_argument("frames: expected at least one, with sides that are multiples of " +
                                std::to_string(patch) + ", got " + std::to_string(frames.frames) + " of " +
                                std::to_string(frames.width) + "x" + std::to_string(frames.height));
  }
  TORCH_CHECK(!query_points.defined() || (query_points.dim() == 2 && query_points.size(1) == 2),
              "query_points: expected [Q,2], got ", query_points.sizes());
  const bool with_tracks = net.track_head && query_points.defined() && query_points.size(0) > 0;
  const c10::InferenceMode guard;
  net.check_process();
  MemoryRequest request = memory_request(net.config, net.options);
  request.frames = frames.frames;
  request.height = frames.height;
  request.width = frames.width;
  request.query_points = with_tracks ? query_points.size(0) : 0;
  check_tracker_takes(request);
  request.merge = options.merge;
  request.checkpoints = options.checkpoints.has_value();
  if (options.group) check_group(*options.group, options, frames);
  request.ranks = options.group ? options.group->ranks() : 1;
  request.budget = options.budget;
  Run run(net, frames, request, options, sink, observer);
  const auto stage = [&](const char* name, const auto& work) {
    constexpr int kMostTries = 3;  // of one place by the smallest plan
    int64_t tried_at = -1;
    for (int tries = 1;;) {
      bool smaller = false;
      try {
        return work();
      } catch (const std::exception& error) {
        if (options.group || run.sink_failed() || !is_out_of_memory(error)) throw;
        free_reserve(net.options.device);
        smaller =
            request.gpu && is_out_of_host_memory(error) ? run.take_less_of_host(name) : run.take_less(name);
        // What has just gone back to the device may do, or others let go of memory.
        const bool same_place = !smaller && std::exchange(tried_at, run.stored()) == run.stored();
        tries = same_place ? tries + 1 : 1;
        if (tries >= kMostTries) throw;
      }
      free_reserve(net.options.device);
      if (tries > 1) continue;  // told already
      report_warning(observer, name,
                     std::string(name) + ": out of memory; " +
                         (smaller ? "going on with a plan of " : "once more with the plan of ") +
                         plan_text(run.plan()));
    }
  };
  stage("aggregator", [&] { run.trunk(); });
  stage("camera_head", [&] { run.camera(); });
  stage("depth_head", [&] { run.depth(); });
  stage("point_head", [&] { run.points(); });
  stage("track_head", [&] { run.tracks(query_points); });
  return run.report();
}

MemoryRequest memory_request(const Config& config, const ModelOptions& options) {
  MemoryRequest request;
  request.config = config;
  request.heads = options.heads;
  request.tensors = expected_tensors(config, options.heads);
  request.precision = options.precision;
  request.bf16_attention = takes_bf16(best_cpu_isa());
  request.screened_matches = can_screen_matches();
  request.heads_in_bf16 = options.heads_in_bf16;
  request.attention = options.attention;
  request.frames_per_chunk = options.frames_per_chunk;
  request.merge = options.merge;
  request.weights_on_host = options.weights_on_host;
  request.begin_heads = options.begin_heads;
  request.budget = options.budget;
#ifdef VGGT_CUDA
  if (options.device.is_cuda()) request.gpu = cuda_device(numbered(options.device));
#endif
  return request;
}

TensorShapes expected_tensors(const Config& config, const Heads& heads) {
  ModelOptions options;
  options.heads = heads;
  Binder bind(nullptr, aggregator_kind(Precision::fp32), at::kCPU);
  const Vggt::Network network(bind, config, options);
  return bind.taken();
}

at::Tensor unproject(const at::Tensor& depth, const at::Tensor& extrinsic, const at::Tensor& intrinsic) {
  const int64_t F = depth.size(0), H = depth.size(1), W = depth.size(2);
  const auto scalar = [&](int row, int column) {
    return intrinsic.select(1, row).select(1, column).view({F, 1, 1});
  };
  const at::Tensor u = at::arange(W, depth.options()).view({1, 1, W}),
                   v = at::arange(H, depth.options()).view({1, H, 1});
  const at::Tensor x = (u - scalar(0, 2)) * depth / scalar(0, 0),
                   y = (v - scalar(1, 2)) * depth / scalar(1, 1);
  const at::Tensor in_camera = at::stack({x, y, depth}, 3).view({F, H * W, 3});
  const at::Tensor rotation = extrinsic.narrow(2, 0, 3);                    // [F,3,3] camera from world
  const at::Tensor translation = extrinsic.select(2, 3).unsqueeze(1);       // [F,1,3]
  return at::matmul(in_camera - translation, rotation).view({F, H, W, 3});  // rotationᵀ from the left
}

}  // namespace vggt
