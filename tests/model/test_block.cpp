// A block's two halves on pieces of rows against the whole; two runs of one model at once.
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "attention/attention.h"
#include "model/layers/block.h"
#include "model/random_weights.h"
#include "tests/support/golden.h"

namespace vggt {
namespace {

constexpr int64_t kDim = 32, kHeads = 2, kFrames = 3, kRows = 2, kColumns = 3, kSpecial = 5;
constexpr int64_t kTokens = kSpecial + kRows * kColumns;  // of a frame

Block make_block(bool qk_norm) {
  TensorSource source;
  Binder names(nullptr, {at::kDouble, at::kDouble}, at::kCPU);
  const BlockSpec spec{.dim = kDim, .heads = kHeads, .norm_eps = 1e-5, .qk_norm = qk_norm};
  Block(names, "block", spec);
  source.load = [&](const std::string& name, at::ScalarType type, at::Device) {
    return at::randn(names.taken().at(name), type);
  };
  Binder bind(&source, {at::kDouble, at::kDouble}, at::kCPU);
  return Block(bind, "block", spec);
}

class BlockPieces : public ::testing::TestWithParam<bool> {};

TEST_P(BlockPieces, OfWholeFramesGiveWhatTheWholeGives) {
  at::manual_seed(4);
  const Block block = make_block(GetParam());
  const Rope rope(kRows, kColumns, kSpecial, kDim / kHeads, 100, at::kDouble);
  const Rope* turn = GetParam() ? &rope : nullptr;
  const at::Tensor x = at::randn({kFrames, kTokens, kDim}, at::kDouble);
  for (const int64_t sequences : {int64_t{1}, kFrames}) {
    at::Tensor whole = x.clone().view({sequences, -1, kDim}), pieces = x.clone().view({-1, kDim});
    block.forward_(whole, turn);
    std::vector<at::Tensor> parts;
    for (int64_t frame = 0; frame < kFrames; ++frame)
      parts.push_back(block.project(pieces.narrow(0, frame * kTokens, kTokens), turn));
    const at::Tensor qkv = at::cat(parts);  // [S·P,3,A,D]
    EXPECT_EQ(qkv.sizes(), at::IntArrayRef({kFrames * kTokens, 3, kHeads, kDim / kHeads}));
    const at::Tensor mixed = block.attend(qkv, sequences);  // [S·P,C]
    for (int64_t first = 0; first < kFrames * kTokens; first += 7) {
      const int64_t count = std::min<int64_t>(7, kFrames * kTokens - first);
      at::Tensor rows = pieces.narrow(0, first, count);
      block.finish_(rows, mixed.narrow(0, first, count));
    }
    EXPECT_LE((whole.view({-1, kDim}) - pieces).abs().max().item<double>(), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(QkNorm, BlockPieces, ::testing::Bool());

TEST_P(BlockPieces, OfTheProjectionAreWhatTheWholeHas) {
  at::manual_seed(5);
  const Block block = make_block(GetParam());
  const Rope rope(kRows, kColumns, kSpecial, kDim / kHeads, 100, at::kDouble);
  const Rope* turn = GetParam() ? &rope : nullptr;
  const at::Tensor rows = at::randn({kFrames * kTokens, kDim}, at::kDouble);
  const at::Tensor whole = block.project(rows, turn);  // [S·P,3,A,D]
  at::Tensor all = at::full(whole.sizes(), NAN, at::kDouble);
  at::Tensor frames = all.narrow(0, kTokens, 2 * kTokens);
  block.project_into(frames, rows.narrow(0, kTokens, 2 * kTokens), turn);
  EXPECT_LE((frames - whole.narrow(0, kTokens, 2 * kTokens)).abs().max().item<double>(), 1e-12);
  EXPECT_TRUE(all.narrow(0, 0, kTokens).isnan().all().item<bool>());
  for (int64_t part = 0; part < 3; ++part) {
    at::Tensor alone = at::full({kFrames * kTokens, kHeads, kDim / kHeads}, NAN, at::kDouble);
    block.project_part_into(alone, part, rows);
    // Each token is merged with itself alone.
    const at::Tensor tokens = at::arange(kFrames * kTokens + 1);
    at::Tensor means = at::full_like(alone, NAN);
    if (part < 2) block.merge_into(means, part, alone, turn, tokens.slice(0, 0, -1), tokens);
    EXPECT_LE(((part < 2 ? means : alone) - whole.select(1, part)).abs().max().item<double>(), 1e-12) << part;
  }
  at::Tensor normed = at::full(rows.sizes(), NAN, at::kDouble);
  block.norm_into(normed, rows);
  EXPECT_LE((block.project_values(normed) - whole.select(1, 2)).abs().max().item<double>(), 1e-12);
  at::Tensor metric = at::full(rows.sizes(), NAN, at::kDouble);
  block.metric_into(metric, rows);
  EXPECT_EQ(metric.scalar_type(), block.metric_type());
  EXPECT_TRUE(at::equal(metric, block.metric(rows)));
  const at::Tensor some = at::tensor({4, 0, 3}, at::kLong);
  at::Tensor of_some = at::empty({3, rows.size(1)}, rows.options());
  block.metric_into(of_some, rows, &some);
  EXPECT_TRUE(at::equal(of_some, metric.index_select(0, some)));
  EXPECT_LE((metric.norm(2, {1}) - 1).abs().max().item<double>(), 1e-12);
}

TEST_P(BlockPieces, GoOnlyIntoRoomOfTheirShape) {
  const Block block = make_block(GetParam());
  const Rope rope(kRows, kColumns, kSpecial, kDim / kHeads, 100, at::kDouble);
  const at::Tensor rows = at::randn({kTokens, kDim}, at::kDouble);
  at::Tensor narrow = at::empty({kTokens - 1, 3, kHeads, kDim / kHeads}, at::kDouble);
  at::Tensor part = at::empty({kTokens, kHeads, kDim / kHeads}, at::kDouble);
  EXPECT_THROW(block.project_into(narrow, rows, &rope), c10::Error);
  EXPECT_THROW(block.project_part_into(part, 3, rows), c10::Error);
  at::Tensor apart = at::empty({kTokens, 3, kHeads, kDim / kHeads}, at::kDouble).select(1, 0);
  EXPECT_THROW(block.project_part_into(apart, 0, rows), c10::Error);
}

// Of heads of 64 numbers q and k go to attention in parts, with bounds of v.
TEST(Block, InFp32OnAGpuIsThatInFloat64) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  at::manual_seed(6);
  const BlockSpec spec{.dim = 256, .heads = 4, .norm_eps = 1e-5, .qk_norm = true};
  Binder names(nullptr, {at::kDouble, at::kDouble}, at::kCPU);
  Block(names, "block", spec);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, shape] : names.taken())
    tensors[name] = shape.size() == 2 ? at::randn(shape) / 16 : 1 + 0.2 * at::randn(shape);
  TensorSource source;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device device) {
    return tensors.at(name).to(device, type);
  };
  Binder for_gpu(&source, {at::kFloat, at::kFloat}, at::Device("cuda:0")),
      for_exact(&source, {at::kDouble, at::kDouble}, at::kCPU);
  const Block block(for_gpu, "block", spec), exact(for_exact, "block", spec);
  const Rope rope(20, 30, kSpecial, 64, 100, at::device(at::Device("cuda:0")).dtype(at::kFloat)),
      exact_rope(20, 30, kSpecial, 64, 100, at::kDouble);
  const int64_t P = rope.tokens_per_frame;
  for (const int64_t sequences : {int64_t{1}, kFrames}) {
    const at::Tensor x = at::randn({sequences, kFrames * P / sequences, 256});
    at::Tensor expected = x.to(at::kDouble), got = x.cuda();
    exact.forward_(expected, &exact_rope);
    block.forward_(got, &rope);
    EXPECT_LE(testing::relative_error(got.cpu(), expected), 1e-5) << sequences;
    // In pieces of frames, whose attention is over all.
    const at::Tensor rows = x.cuda().view({-1, 256});
    const std::optional<QkParts> parts = block.room_for_parts(sequences, rows.size(0) / sequences, &rope);
    at::Tensor qkv = at::empty({rows.size(0), 3, 4, 64}, rows.options());
    for (int64_t first = 0; first < rows.size(0); first += P) {
      at::Tensor piece = qkv.narrow(0, first, P);
      block.project_into(piece, rows.narrow(0, first, P), &rope, parts ? &*parts : nullptr, first);
    }
    const at::Tensor plain = block.attend(qkv, sequences).cpu();
    ASSERT_EQ(parts.has_value(),
              room_for_parts({sequences, 4, rows.size(0) / sequences, 64}, rows.options(), {}).has_value());
    if (!parts) continue;
    const at::Tensor looseness =
        parts->bounds[2] / qkv.select(1, 2).abs().amax({0, 2}).expand({sequences, 4});
    EXPECT_GE(looseness.min().item<double>(), 1) << sequences;
    EXPECT_LE(looseness.max().item<double>(), 16) << sequences;
    EXPECT_LE(testing::relative_error(block.attend(qkv, sequences, &*parts).cpu(), plain), 2e-6);
    parts->q.zero_();  // and they are what is read
    EXPECT_GT(testing::relative_error(block.attend(qkv, sequences, &*parts).cpu(), plain), 1e-3);
  }
}

TEST(Block, RefusesPartsOfFramesWhereTokensAreRotated) {
  const Block block = make_block(true);
  const Rope rope(kRows, kColumns, kSpecial, kDim / kHeads, 100, at::kDouble);
  EXPECT_THROW(block.project(at::randn({kTokens + 1, kDim}, at::kDouble), &rope), c10::Error);
}

TEST(Model, RunsOnTwoThreadsAtOnceAsOnOne) {
  const WeightFile file = WeightFile::open(std::filesystem::path(VGGT_FIXTURES) / "golden/nano/weights.pt");
  const TensorSource source = testing::source_of(file);
  const testing::Tensors golden =
      testing::load_tensors(std::filesystem::path(VGGT_FIXTURES) / "golden/nano/frames2_42x56.safetensors");
  const Vggt model(read_config(file.config_json(), source.shapes), source,
                   {.heads = heads_in(source.shapes)});
  const auto run = [&] { return testing::run_all(model, golden.at("images"), golden.at("query_points")); };
  const testing::Tensors alone = run();
  std::future<testing::Tensors> other = std::async(std::launch::async, run);
  const std::vector<testing::Tensors> both = {run(), other.get()};
  for (const testing::Tensors& got : both) {
    ASSERT_EQ(got.size(), alone.size());
    for (const auto& [name, tensor] : alone) EXPECT_TRUE(at::equal(got.at(name), tensor)) << name;
  }
}

}  // namespace
}  // namespace vggt
