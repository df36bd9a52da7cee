#include "model/refine/depth_refiner.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/refine/mix_pixels.h"

namespace vggt {
namespace {

constexpr int64_t kBlock = DepthRefiner::kBlock;
// As in weights/train/refiner.py. A block may take the nearest and the farthest depth within two windows
// around it (blocks a side), a pixel those within the first.
constexpr int64_t kWindow = 9, kWideWindow = 33, kBlockExtremes = 4;
constexpr double kMostOff = 2;  // the largest change of the depth's logarithm by these
constexpr int64_t kPixels = kBlock * kBlock;
constexpr int64_t kGrain = 512;  // blocks that a thread works on, at least
// What is added to the logarithms of shares.
constexpr double kForOwn = 4, kAgainstExtremes = -2, kAgainstExtremeBlocks = -4;
constexpr double kNearest = 1e-6;   // depth that counts as none
constexpr double kNoDepth = -13.8;  // logarithms that are less count as none, too

TensorShapes with_prefix(const TensorShapes& all, bool has) {
  TensorShapes found;
  for (const auto& tensor : all) {
    if (tensor.first.starts_with(kRefinerPrefix) == has) found.insert(tensor);
  }
  return found;
}

const ComputeKind kFp32{at::kFloat, at::kFloat, false, false};

std::string named(const char* name) {
  return std::string(kRefinerPrefix) + name;
}

at::Tensor resized(const at::Tensor& x, const at::Tensor& like) {
  return at::upsample_bilinear2d(x, {like.size(2), like.size(3)}, /*align_corners=*/false);
}

/// [..,H,W] as [1,..,4h,4w]: what is added repeats the last row and column.
at::Tensor padded(const at::Tensor& map) {
  const auto more = [](int64_t size) { return (kBlock - size % kBlock) % kBlock; };
  const at::Tensor x = map.dim() == 2 ? map.view({1, 1, map.size(0), map.size(1)}) : map.unsqueeze(0);
  const int64_t right = more(x.size(3)), below = more(x.size(2));
  return right == 0 && below == 0 ? x : at::replication_pad2d(x, {0, right, 0, below});
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The least and the most of x [1,1,h,w] within side×side around each place, less x: [1,2,h,w]. Where `none`
/// [1,1,h,w] they are 0, and what lies there does not count elsewhere.
at::Tensor extremes(const at::Tensor& x, const at::Tensor& none, int64_t side) {
  const auto most = [&](const at::Tensor& of) {
    const at::Tensor known = of.masked_fill(none, -kInfinity);
    return at::max_pool2d(at::max_pool2d(known, {side, 1}, 1, {side / 2, 0}), {1, side}, 1, {0, side / 2});
  };
  return at::cat({-most(-x) - x, most(x) - x}, 1).clamp_(-kMostOff, kMostOff).masked_fill_(none, 0);
}

at::Tensor channels_last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

/// The outputs of a 1×1 convolution. LibTorch computes these by one library or another, by how many threads
/// there are; as products of rows they are the same with any number.
at::Tensor of_single_pixels(const Conv2d& layer, const at::Tensor& x) {
  const Linear product(layer.weight.flatten(1), layer.bias, kFp32);
  return product(channels_last(x).permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

/// softmax(1). LibTorch's rounds by how many threads there are.
at::Tensor shares_of(const at::Tensor& logs) {
  const at::Tensor shares = (logs - logs.amax(1, true)).exp_();
  return shares / shares.sum(1, true);
}

/// Maps [1,..,h,w] in one, channels last.
at::Tensor joined(std::vector<at::Tensor> maps) {
  for (at::Tensor& map : maps) map = map.permute({0, 2, 3, 1});
  return at::cat(maps, 3).permute({0, 3, 1, 2});
}

}  // namespace

TensorShapes refiner_shapes(const TensorShapes& all) {
  return with_prefix(all, true);
}

TensorShapes network_shapes(const TensorShapes& all) {
  return with_prefix(all, false);
}

/// Channels; see the constructor for whose.
struct DepthRefiner::Widths {
  int64_t depths, half, quarter, eighth, merged, matching, cues, hidden, scores, gathered, first, second,
      third, sharpened;

  explicit Widths(const TensorShapes& shapes) {
    // At most those of weights/train/refiner.py: wider ones would take more memory than is planned for.
    constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
    const auto size = [&](const char* name, int64_t most, std::size_t axis = 0) {
      const auto found = shapes.find(named(name));
      if (found == shapes.end() || found->second.size() <= axis || found->second[axis] < 1)
        throw std::invalid_argument("the depth refiner lacks a tensor " + named(name) + " of its form");
      if (found->second[axis] > most)
        throw std::invalid_argument("the depth refiner's " + named(name) + " has a width of " +
                                    std::to_string(found->second[axis]) + ": it may have " +
                                    std::to_string(most));
      return found->second[axis];
    };
    depths = size("offsets", kAny);
    half = size("to_half.first.weight", 24);
    quarter = size("to_quarter.first.weight", 48);
    eighth = size("to_eighth.first.weight", 64);
    merged = size("from_eighth.weight", 48);
    matching = size("matching.weight", 24);
    cues = size("score_in.weight", kAny, 1);
    hidden = size("score_in.weight", kMostScores);
    scores = size("score_out.weight", 9);
    gathered = size("gather.weight", 64);
    first = size("enter.first.weight", 48);
    second = size("down.first.weight", 64);
    third = size("deepest.first.weight", 96);
    sharpened = size("sharpen_in.weight", 64);
    constexpr int64_t kRows = kPixels * kChoices;
    if (const int64_t rows = size("sharpen_out.weight", kAny); rows != kRows)
      throw std::invalid_argument("the depth refiner is of another form than this program's: its " +
                                  named("sharpen_out.weight") + " has " + std::to_string(rows) +
                                  " rows, expected " + std::to_string(kRows));
    if (cues <= kRefinerCues || matching % (cues - kRefinerCues) != 0 || scores < 2 || depths > kMostDepths ||
        cues - kRefinerCues > kMostGroups)
      throw std::invalid_argument("the depth refiner's " + named("score_in.weight") +
                                  ", features and offsets do not belong together");
  }
};

std::optional<Linear> DepthRefiner::by_choice(const Conv2d& sharpen) {
  if (!sharpen.weight.defined()) return std::nullopt;  // only checked
  const at::Tensor added = at::zeros({kChoices, 1});
  added[kNeighbours] = kForOwn;
  added.narrow(0, kNeighbours + 1, kPixelExtremes).fill_(kAgainstExtremes);
  const auto turned = [](const at::Tensor& x) { return x.view({kPixels, kChoices, -1}).transpose(0, 1); };
  return Linear(turned(sharpen.weight.flatten(1)).flatten(0, 1),
                (turned(sharpen.bias).squeeze(2) + added).flatten(), kFp32);
}

DepthRefiner::Pair::Pair(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t stride)
    : first(bind, named((name + ".first").c_str()), in, out, 3, stride, 1),
      second(bind, named((name + ".second").c_str()), out, out, 3, 1, 1) {}

at::Tensor DepthRefiner::Pair::operator()(const at::Tensor& x) const {
  return second(first(x).relu_()).relu_();
}

DepthRefiner::DepthRefiner(Binder& bind, const Widths& w)
    : groups_(w.cues - kRefinerCues),
      offsets_(bind.state(named("offsets"), {w.depths})),
      to_half_(bind, "to_half", 3, w.half, 2),
      to_quarter_(bind, "to_quarter", w.half, w.quarter, 2),
      to_eighth_(bind, "to_eighth", w.quarter, w.eighth, 2),
      from_eighth_(bind, named("from_eighth"), w.eighth, w.merged, 1),
      from_quarter_(bind, named("from_quarter"), w.quarter, w.merged, 1),
      matching_(bind, named("matching"), w.merged, w.matching, 3, 1, 1),
      score_in_{bind.operand(named("score_in.weight"), {w.hidden, w.cues}),
                bind.state(named("score_in.bias"), {w.hidden})},
      score_out_{bind.operand(named("score_out.weight"), {w.scores, w.hidden}),
                 bind.state(named("score_out.bias"), {w.scores})},
      gather_(bind, named("gather"), w.depths * w.scores, w.gathered, 1),
      enter_(bind, "enter", w.gathered + w.quarter + 2 + kBlockExtremes, w.first),
      down_(bind, "down", w.first, w.second, 2),
      deepest_(bind, "deepest", w.second, w.third, 2),
      up_(bind, "up", w.third + w.second, w.second),
      leave_(bind, "leave", w.second + w.first, w.first),
      change_(bind, named("change"), w.first, w.depths + 1 + kBlockExtremes, 1),
      sharpen_in_(bind, named("sharpen_in"), w.first + 4 * kBlock * kBlock, w.sharpened, 3, 1, 1),
      sharpen_out_(by_choice({bind, named("sharpen_out"), w.sharpened, kPixels * kChoices, 1})) {}

void DepthRefiner::check(const TensorShapes& shapes) {
  Binder names(nullptr, kFp32, at::kCPU);
  const DepthRefiner unloaded(names, Widths(shapes));
  check_shapes(names.taken(), shapes);
}

DepthRefiner DepthRefiner::load(const TensorSource& source) {
  const c10::InferenceMode guard;
  check(source.shapes);
  Binder bind(&source, kFp32, at::kCPU);
  return {bind, Widths(source.shapes)};
}

DepthRefiner::Frame DepthRefiner::look(const at::Tensor& image, const at::Tensor& depth,
                                       const at::Tensor& used) const {
  const c10::InferenceMode guard;
  Frame frame;
  frame.context = to_quarter_(to_half_(channels_last(padded(image) - 0.5)));
  at::Tensor merged = of_single_pixels(from_quarter_, frame.context);
  merged += resized(of_single_pixels(from_eighth_, to_eighth_(frame.context)), merged);
  const at::Tensor raw = matching_(merged.relu_()).contiguous();  // [1,m,h,w]
  const int64_t h = raw.size(2), w = raw.size(3);
  const at::Tensor grouped = raw.view({groups_, -1, h * w}),
                   matching = grouped * grouped.square().mean(1, true).add_(0.05).rsqrt_();
  frame.matching = at::zeros({h * w, raw.size(1) / groups_, kMostGroups}, raw.options());
  frame.matching.narrow(2, 0, groups_).copy_(matching.permute({2, 1, 0}));
  const at::Tensor usable = depth.gt(0).logical_and(depth.isfinite());
  const at::Tensor logs = at::where(usable, depth, kNearest).clamp_min(kNearest).log();
  frame.log_depth = channels_last(at::pixel_unshuffle(padded(logs), kBlock));
  frame.middle = std::get<0>(frame.log_depth.median(1, true));
  frame.shown = frame.middle;
  if (used.defined()) {
    const at::Tensor share = at::avg_pool2d(padded(used.to(at::kFloat)), kBlock);
    frame.shown = at::where(share.gt(0.5), frame.middle, std::numeric_limits<double>::quiet_NaN());
  }
  return frame;
}

at::Tensor DepthRefiner::evidence(const Frame& frame, const at::Tensor& rays,
                                  const std::vector<Source>& sources) const {
  const auto maps = [](const Frame& seen, const at::Tensor& log_depth) {
    return RefinerMaps{seen.matching.const_data_ptr<float>(), log_depth.const_data_ptr<float>()};
  };
  const EvidenceLayers layers{groups_,
                              score_in_.weight.size(0),
                              score_out_.weight.size(0),
                              offsets_.size(0),
                              score_in_.weight.const_data_ptr<float>(),
                              score_in_.bias.const_data_ptr<float>(),
                              score_out_.weight.const_data_ptr<float>(),
                              score_out_.bias.const_data_ptr<float>(),
                              offsets_.const_data_ptr<float>()};
  std::vector<EvidenceSource> seen;
  for (const Source& source : sources)
    seen.push_back({maps(*source.frame, source.frame->shown), source.transfer});
  const int64_t h = frame.middle.size(2), w = frame.middle.size(3);
  const at::Tensor result = at::empty({h * w, layers.scores * layers.depths}, rays.options());
  at::parallel_for(0, h * w, kGrain, [&](int64_t first, int64_t end) {
    gather_evidence(layers, frame.matching.size(1), h, w, kBlock, maps(frame, frame.middle),
                    rays[0].const_data_ptr<float>(), rays[1].const_data_ptr<float>(), seen, kMostSources,
                    first, end, result.mutable_data_ptr<float>());
  });
  return result.view({1, h, w, -1}).permute({0, 3, 1, 2});
}

at::Tensor DepthRefiner::mixed(const at::Tensor& seen, const Frame& frame, const at::Tensor& none,
                               const at::Tensor& change) const {
  const int64_t h = change.size(2), w = change.size(3);
  const at::Tensor changed = frame.middle + change,
                   ends = (changed + extremes(changed, none, kWindow)).contiguous();  // [1,2,h,w]
  const auto rows = [](const at::Tensor& map) {
    return channels_last(map).permute({0, 2, 3, 1}).flatten(0, 2);
  };
  const at::Tensor said = (*sharpen_out_)(rows(seen)), own = rows(frame.log_depth),
                   result = at::empty({kBlock * h, kBlock * w}, seen.options());
  const PixelMix mix{h,
                     w,
                     said.const_data_ptr<float>(),
                     own.const_data_ptr<float>(),
                     change.const_data_ptr<float>(),
                     changed.const_data_ptr<float>(),
                     ends.const_data_ptr<float>(),
                     none.const_data_ptr<bool>()};
  at::parallel_for(0, h * w, kGrain, [&](int64_t first, int64_t end) {
    mix_pixels(mix, first, end, result.mutable_data_ptr<float>());
  });
  return result;
}

at::Tensor DepthRefiner::refine(const Frame& frame, const at::Tensor& image, const at::Tensor& depth,
                                const at::Tensor& confidence, const at::Tensor& rays,
                                const std::vector<Source>& sources) const {
  const c10::InferenceMode guard;
  const at::Tensor& middle = frame.middle;
  const int64_t h = middle.size(2), w = middle.size(3), D = offsets_.size(0);
  const at::Tensor trusted =
      at::avg_pool2d(padded((confidence.clamp_min(1.0001) - 1).log_().clamp_(-6, 8).div_(4)), kBlock);
  // Blocks without depth, and those that a mask hides.
  const at::Tensor none = middle.lt(kNoDepth).logical_or(frame.shown.isnan());
  const at::Tensor reach = at::cat({extremes(middle, none, kWindow), extremes(middle, none, kWideWindow)}, 1);
  const at::Tensor gathered =
                       of_single_pixels(gather_, channels_last(evidence(frame, rays, sources))).relu_(),
                   entered =
                       enter_(joined({gathered, frame.context, middle - middle.mean(), trusted, reach})),
                   down = down_(entered), up = up_(joined({resized(deepest_(down), down), down})),
                   left = leave_(joined({resized(up, entered), entered})),
                   said = of_single_pixels(change_, left);  // [1,D+1+kBlockExtremes,h,w]
  const at::Tensor offsets = at::cat({offsets_.view({1, -1, 1, 1}).expand({1, D, h, w}), reach}, 1),
                   likely = shares_of(at::cat(
                       {said.narrow(1, 0, D), said.narrow(1, D + 1, kBlockExtremes) + kAgainstExtremeBlocks},
                       1));
  const at::Tensor change = (likely * offsets).sum(1, true) + (said.narrow(1, D, 1) * 0.3).tanh_().mul_(0.3);
  const at::Tensor detail = (frame.log_depth - middle).mul_(10).clamp_(-3, 3);
  const at::Tensor seen = joined({left, at::pixel_unshuffle(padded(image) - 0.5, kBlock), detail});
  const at::Tensor logs = mixed(sharpen_in_(seen).relu_(), frame, none, change);  // [4h,4w]
  const at::Tensor found = logs.narrow(0, 0, depth.size(0)).narrow(1, 0, depth.size(1)).exp();
  const auto is_depth = [](const at::Tensor& map) { return map.gt(0).logical_and(map.isfinite()); };
  return at::where(is_depth(depth).logical_and(is_depth(found)), found, depth);
}

}  // namespace vggt
