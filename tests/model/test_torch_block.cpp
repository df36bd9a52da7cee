// The block that ours is measured beside computes the same; the rows of `bench` for blocks and linear layers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "attention/bench/rows.h"
#include "model/bench/block_rows.h"
#include "model/bench/torch_block.h"
#include "model/layers/block.h"

namespace vggt {
namespace {

constexpr int64_t kDim = 32, kHeads = 2, kFrames = 3, kSpecial = 5;

TEST(TorchBlock, IsOurBlock) {
  at::manual_seed(6);
  for (const auto& [operand, state, most] :
       {std::tuple{at::kDouble, at::kDouble, 1e-12}, {at::kFloat, at::kFloat, 1e-5}}) {
    Binder names(nullptr, {operand, state}, at::kCPU);
    const BlockSpec spec{.dim = kDim, .heads = kHeads, .norm_eps = 1e-5, .qk_norm = true};
    Block(names, "block", spec);
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, shape] : names.taken()) tensors[name] = at::randn(shape, at::kDouble);
    TensorSource source;
    source.load = [&](const std::string& name, at::ScalarType type, at::Device) {
      return tensors.at(name).to(type);
    };
    Binder for_ours(&source, {operand, state}, at::kCPU), for_theirs(&source, {operand, state}, at::kCPU);
    const Block ours(for_ours, "block", spec);
    const TorchBlock theirs(for_theirs, "block", spec);
    EXPECT_EQ(for_ours.taken(), for_theirs.taken());
    const Rope rope(2, 3, kSpecial, kDim / kHeads, 100, state);
    const int64_t P = rope.tokens_per_frame;
    for (const bool global : {false, true}) {
      const at::Tensor x = at::randn({global ? 1 : kFrames, global ? kFrames * P : P, kDim}, state);
      const int64_t turned = global ? kFrames : 1;
      const TorchBlock::Angles angles = TorchBlock::angles(rope, turned);
      const at::Tensor expected = theirs.forward(x, &angles);
      at::Tensor got = x.clone();
      ours.forward_(got, &rope);
      EXPECT_LE(((got - expected).norm() / expected.norm()).item<double>(), most) << operand << global;
    }
  }
}

NetworkBench small_network() {
  NetworkBench bench;
  bench.config.embed_dim = kDim;
  bench.config.num_heads = kHeads;
  bench.height = bench.width = 2 * bench.config.patch_size;
  bench.lengths = {1, 2};
  return bench;
}

TEST(BlockRows, HaveBothSidesOfEveryLength) {
  std::vector<nlohmann::ordered_json> rows;
  block_rows(small_network(), Pace(60, {}), [&](const auto& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) {
    EXPECT_FALSE(row.contains("failure")) << row;
    EXPECT_EQ(row["tokens"], row["frames"].get<int>() * (4 + kSpecial));
    EXPECT_NEAR(row["speedup"].get<double>(),
                row["libtorch_milliseconds"].get<double>() / row["milliseconds"].get<double>(), 1e-9);
    EXPECT_GT(row["milliseconds"], 0);
  }
  EXPECT_EQ(rows[0]["block"], "frame");
  EXPECT_EQ(rows[3]["block"], "global");
}

TEST(BlockRows, WithoutTimeTheFirstLengthAloneIsMeasuredAndTheOthersAreNamed) {
  std::vector<nlohmann::ordered_json> rows;
  block_rows(small_network(), Pace(0, {}), [&](const auto& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2], (nlohmann::ordered_json{{"frames", 2}, {"left_out", kBeyondTime}}));
}

TEST(BlockRows, EndWhereTheyAreStopped) {
  struct Stop : std::exception {};
  int checks = 0;
  const Pace pace(60, [&] {
    if (++checks == 3) throw Stop();
  });
  EXPECT_THROW(block_rows(small_network(), pace, [](const auto&) {}), Stop);
}

}  // namespace
}  // namespace vggt
