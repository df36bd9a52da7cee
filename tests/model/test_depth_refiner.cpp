// The refiner of depth beside PyTorch's (tests/weights/test_refiner.py), and what a fixture cannot show.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/refine/depth_refiner.h"
#include "tests/support/golden_refiner.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using testing::load_refiner;
using testing::refiner_weights;
using testing::Tensors;

at::Tensor of_frame(const char* name, int64_t frame) {
  return testing::golden_refiner().at(name)[frame];
}

/// From the first frame to the second, of the fixture, in frames of this size.
RefinerTransfer transfer(int64_t from, int64_t to, int64_t height, int64_t width) {
  const auto pose = [](int64_t frame) { return of_frame("extrinsic", frame).to(at::kDouble); };
  const at::Tensor turn = pose(to).narrow(1, 0, 3).matmul(pose(from).narrow(1, 0, 3).t()),
                   shift = pose(to).select(1, 3) - turn.matmul(pose(from).select(1, 3)),
                   k = of_frame("intrinsic", to);
  RefinerTransfer result{};
  for (int64_t i = 0; i < 9; ++i)
    result.turn[static_cast<std::size_t>(i)] = static_cast<float>(turn[i / 3][i % 3].item<double>());
  for (int64_t i = 0; i < 3; ++i)
    result.shift[static_cast<std::size_t>(i)] = static_cast<float>(shift[i].item<double>());
  result.fx = k[0][0].item<float>();
  result.fy = k[1][1].item<float>();
  result.cx = k[0][2].item<float>();
  result.cy = k[1][2].item<float>();
  result.end_x = static_cast<float>(width);
  result.end_y = static_cast<float>(height);
  return result;
}

/// Where a ray of the frame that goes through a point with this distortion shows it, x and y of (x, y, 1).
at::Tensor rays(int64_t frame, int64_t height, int64_t width, double k1 = 0) {
  const at::Tensor k = of_frame("intrinsic", frame);
  const int64_t rows = (height + 3) / 4, columns = (width + 3) / 4;
  const at::Tensor u = at::arange(columns, at::kDouble).mul(4).add(1.5).sub(k[0][2]).div(k[0][0]),
                   v = at::arange(rows, at::kDouble).mul(4).add(1.5).sub(k[1][2]).div(k[1][1]);
  at::Tensor shown =
                 at::stack({u.expand({rows, columns}), v.unsqueeze(1).expand({rows, columns})}).flatten(1),
             found = shown.clone();
  for (int i = 0; i < 100; ++i) found = shown / (1 + k1 * found.square().sum(0, true));
  return found.to(at::kFloat);
}

at::Tensor refined(const DepthRefiner& refiner, int64_t frame, const std::vector<int64_t>& others) {
  std::vector<DepthRefiner::Frame> seen;
  for (const int64_t other : others)
    seen.push_back(refiner.look(of_frame("images", other), of_frame("depth", other)));
  std::vector<DepthRefiner::Source> sources;
  for (std::size_t i = 0; i < others.size(); ++i)
    sources.push_back({&seen[i], transfer(frame, others[i], 28, 36)});
  const at::Tensor image = of_frame("images", frame), depth = of_frame("depth", frame);
  return refiner.refine(refiner.look(image, depth), image, depth, of_frame("confidence", frame),
                        rays(frame, 28, 36), sources);
}

/// The fixture's first frame, as a refiner is given it.
struct FirstFrame {
  DepthRefiner refiner = load_refiner(refiner_weights());
  at::Tensor image = of_frame("images", 0), depth = of_frame("depth", 0),
             confidence = of_frame("confidence", 0), here = rays(0, 28, 36);
  DepthRefiner::Frame seen = refiner.look(image, depth);

  /// The second frame. used: as look() has it.
  DepthRefiner::Frame second(const at::Tensor& used = {}) const {
    return refiner.look(of_frame("images", 1), of_frame("depth", 1), used);
  }
  at::Tensor refined(const at::Tensor& by, const std::vector<DepthRefiner::Source>& sources) const {
    return refiner.refine(seen, image, depth, confidence, by, sources);
  }
  at::Tensor refined(const std::vector<DepthRefiner::Source>& sources) const {
    return refined(here, sources);
  }
};

double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  return (found / expected).log().abs().max().item<double>();
}

TEST(DepthRefiner, GivesPyTorchsDepth) {
  const DepthRefiner refiner = load_refiner(refiner_weights());
  const at::Tensor references = testing::golden_refiner().at("references"),
                   sources = testing::golden_refiner().at("sources");
  for (int64_t i = 0; i < references.size(0); ++i) {
    std::vector<int64_t> others;
    for (int64_t k = 0; k < sources.size(1); ++k) {
      const auto other = static_cast<int64_t>(sources[i][k].item<float>());
      if (other >= 0) others.push_back(other);
    }
    const auto frame = static_cast<int64_t>(references[i].item<float>());
    EXPECT_LT(largest_error(refined(refiner, frame, others), testing::golden_refiner().at("refined")[i]),
              2e-6)
        << i;
  }
}

/// The fixture's wide frame by itself, with this depth.
at::Tensor refined_alone(const at::Tensor& depth) {
  const DepthRefiner refiner = load_refiner(refiner_weights());
  const auto& golden = testing::golden_refiner();
  const at::Tensor image = golden.at("wide_image");
  return refiner.refine(refiner.look(image, depth), image, depth, golden.at("wide_confidence"),
                        rays(0, 8, 160), {});
}

TEST(DepthRefiner, LooksAsFarAroundAsPyTorch) {
  const auto& golden = testing::golden_refiner();
  EXPECT_LT(largest_error(refined_alone(golden.at("wide_depth")), golden.at("wide_refined")), 2e-6);
}

TEST(DepthRefiner, ABlockWithoutDepthHardlyMovesOthers) {
  const auto with = [](double depth) {
    at::Tensor map = testing::golden_refiner().at("wide_depth").clone();
    map.narrow(0, 0, 4).narrow(1, 8, 4).fill_(depth);
    return map;
  };
  const at::Tensor hole = with(0), found = refined_alone(hole), whole = refined_alone(with(2.1));
  EXPECT_TRUE(at::equal(found.narrow(0, 0, 4).narrow(1, 8, 4), at::zeros({4, 4})));
  EXPECT_GT(found.masked_select(hole.gt(0)).min().item<double>(), 0.5);
  EXPECT_LT(largest_error(found.narrow(1, 24, 136), whole.narrow(1, 24, 136)), 0.015);
}

TEST(DepthRefiner, FramesNeedNotBeWholeBlocks) {
  const DepthRefiner refiner = load_refiner(refiner_weights());
  const auto cut = [](const char* name, int64_t frame) {
    return of_frame(name, frame).slice(-2, 0, 26).slice(-1, 0, 33).contiguous();
  };
  const auto whole = [](const at::Tensor& map) {
    const at::Tensor x = map.dim() == 2 ? map.unsqueeze(0) : map;
    return at::replication_pad2d(x, {0, 3, 0, 2})
        .view_as(map.dim() == 2 ? at::empty({28, 36}) : at::empty({3, 28, 36}));
  };
  const auto depth_of = [&](const auto& prepared) {
    const auto take = [&](const char* name, int64_t frame) { return prepared(cut(name, frame)); };
    const DepthRefiner::Frame other = refiner.look(take("images", 1), take("depth", 1));
    return refiner.refine(refiner.look(take("images", 0), take("depth", 0)), take("images", 0),
                          take("depth", 0), take("confidence", 0), rays(0, 26, 33),
                          {{&other, transfer(0, 1, 26, 33)}});
  };
  const at::Tensor found = depth_of([](const at::Tensor&map) { return map; }), padded = depth_of(whole);
  EXPECT_EQ(found.sizes(), (at::IntArrayRef{26, 33}));
  EXPECT_TRUE(at::equal(found, padded.slice(0, 0, 26).slice(1, 0, 33)));
}

TEST(DepthRefiner, SourcesMayBeDistorted) {
  const FirstFrame frame;
  // From a frame to itself each point stays where it is, whatever the lens.
  const auto by_itself = [&](double k1, double in_source) {
    RefinerTransfer self = transfer(0, 0, 28, 36);
    self.distortion[0] = static_cast<float>(in_source);
    return frame.refined(rays(0, 28, 36, k1), {{&frame.seen, self}});
  };
  const at::Tensor plain = by_itself(0, 0);
  EXPECT_LT(largest_error(by_itself(-0.2, -0.2), plain), 1e-4);
  EXPECT_GT(largest_error(by_itself(-0.2, 0), plain), 1e-3);
}

TEST(DepthRefiner, DepthThatIsNoneStays) {
  const DepthRefiner refiner = load_refiner(refiner_weights());
  at::Tensor depth = of_frame("depth", 0).clone();
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  depth[0][0] = 0;
  depth[5][7] = nan;
  depth[6][7] = infinity;
  depth[20][30] = -1;
  const at::Tensor image = of_frame("images", 0);
  const DepthRefiner::Frame other = refiner.look(of_frame("images", 1), of_frame("depth", 1));
  const at::Tensor found = refiner.refine(refiner.look(image, depth), image, depth, of_frame("confidence", 0),
                                          rays(0, 28, 36), {{&other, transfer(0, 1, 28, 36)}});
  EXPECT_EQ(found[0][0].item<float>(), 0);
  EXPECT_TRUE(std::isnan(found[5][7].item<float>()));
  EXPECT_EQ(found[6][7].item<float>(), infinity);
  EXPECT_EQ(found[20][30].item<float>(), -1);
  const at::Tensor usable = depth.gt(0).logical_and(depth.isfinite());
  EXPECT_EQ(usable.sum().item<int64_t>(), 28 * 36 - 4);
  EXPECT_TRUE(found.masked_select(usable).isfinite().all().item<bool>());
  EXPECT_TRUE(found.masked_select(usable).gt(0).all().item<bool>());
}

TEST(DepthRefiner, ConfidenceThatIsNoNumberLeavesDepth) {
  const FirstFrame frame;
  const at::Tensor none = at::full({28, 36}, std::numeric_limits<double>::quiet_NaN());
  const at::Tensor found = frame.refiner.refine(frame.seen, frame.image, frame.depth, none, frame.here, {});
  EXPECT_TRUE(at::equal(found, frame.depth));
}

/// Where the lens shows no point at a pixel, its ray is no number.
TEST(DepthRefiner, ARayThatIsNoNumberSpoilsNothing) {
  const FirstFrame frame;
  const DepthRefiner::Frame other = frame.second();
  const auto found = [&](const at::Tensor& by) {
    return frame.refined(by, {{&other, transfer(0, 1, 28, 36)}});
  };
  at::Tensor some = frame.here.clone(), behind = frame.here.clone();
  some.select(1, 0).fill_(std::numeric_limits<float>::quiet_NaN());
  behind.select(1, 0).fill_(-1e6F);
  // Neither is seen by the other frame: at the same place the same is said of both.
  const at::Tensor unseen = found(behind);
  EXPECT_TRUE(unseen.isfinite().all().item<bool>());
  EXPECT_FALSE(at::equal(unseen, frame.depth));
  EXPECT_LT(largest_error(found(some), unseen), 1e-6);
  EXPECT_GT(largest_error(found(frame.here), unseen), 1e-4);
}

TEST(DepthRefiner, WhatTheDistortionFoldsBackIsNotSeen) {
  const FirstFrame frame;
  // A camera that looks 80° aside, through a lens that shows what is 80° off near its middle.
  RefinerTransfer aside = transfer(0, 0, 28, 36);
  const float sine = 0.985F, cosine = 0.174F;
  aside.turn = {cosine, 0, sine, 0, 1, 0, -sine, 0, cosine};
  aside.distortion = {-0.03F, 0};
  const at::Tensor alone = frame.refined({});
  EXPECT_GT(largest_error(frame.refined({{&frame.seen, aside}}), alone), 1e-3);
  aside.most_r2 = 1 / 0.09F;
  EXPECT_LT(largest_error(frame.refined({{&frame.seen, aside}}), alone), 1e-6);
}

TEST(DepthRefiner, MaskedPixelsTellOtherFramesNothing) {
  const FirstFrame frame;
  const auto with = [&](const at::Tensor& used) {
    const DepthRefiner::Frame other = frame.second(used);
    return frame.refined({{&other, transfer(0, 1, 28, 36)}});
  };
  const at::Tensor none = at::zeros({28, 36}, at::kByte), all = at::ones({28, 36}, at::kByte),
                   without = frame.refined({});
  at::Tensor left = none.clone();
  left.narrow(1, 0, 18).fill_(1);
  EXPECT_LT(largest_error(with(none), without), 1e-6);
  EXPECT_TRUE(at::equal(with(all), with({})));
  EXPECT_GT(largest_error(with(left), without), 1e-3);
  EXPECT_GT(largest_error(with(left), with({})), 1e-3);
}

TEST(DepthRefiner, TensorsHaveToFit) {
  const auto refused = [](auto change) {
    Tensors weights = refiner_weights();
    change(weights);
    return refusal([&] { load_refiner(weights); });
  };
  EXPECT_NE(refused([](Tensors& w) { w.erase("depth_refiner.offsets"); }).find("offsets"), std::string::npos);
  EXPECT_NE(refused([](Tensors& w) { w["depth_refiner.offsets"] = at::zeros({17}); }).find("belong"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) { w.erase("depth_refiner.up.second.bias"); }).find("missing"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) { w["depth_refiner.other"] = at::zeros({1}); }).find("left over"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) {
              w["depth_refiner.change.weight"] = at::zeros({3, 3, 3, 3});
            }).find("misshapen"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) {
              w["depth_refiner.sharpen_out.weight"] = at::zeros({160, 8, 1, 1});
            }).find("of another form than this program's"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) {
              w["depth_refiner.gather.weight"] = at::zeros({65, 1, 1, 1});
            }).find("gather.weight has a width of 65: it may have 64"),
            std::string::npos);
  EXPECT_NE(refused([](Tensors& w) {
              w["depth_refiner.score_in.weight"] = at::zeros({6, 5});
            }).find("belong"),
            std::string::npos);
}

}  // namespace
}  // namespace vggt
