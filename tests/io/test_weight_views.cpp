#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/weights/weight_file.h"
#include "tests/support/torch_bytes.h"

// Tensors of a .pt are views of storages: strided, with an offset, several of one storage.
namespace vggt {
namespace {

namespace fs = std::filesystem;
using torch_bytes::View;

at::Tensor ramp(int64_t count) {
  return at::arange(count, at::kFloat).div(count);
}

std::string bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class WeightViews : public ::testing::TestWithParam<int64_t> {};

// With 3000 columns the storage has many pieces, with 7 it fits one.
TEST_P(WeightViews, EqualAsStrided) {
  const int64_t rows = 900, columns = GetParam(), count = rows * columns;
  const std::vector<View> views = {
      {"0", count, 0, {rows / 2, columns}, {columns, 1}},                      // a half
      {"0", count, columns * 3, {5, columns}, {columns, 1}},                   // some rows
      {"0", count, 0, {columns, rows}, {1, columns}},                          // transposed
      {"0", count, 4, {rows}, {columns}},                                      // a column
      {"0", count, 1, {rows / 2, 3}, {2 * columns, 2}},                        // every other row and column
      {"0", count, 0, {columns, rows / 9, 9}, {1, 9 * columns, columns}},      // permuted
      {"0", count, 2, {9, columns - 3, rows / 9}, {columns, 1, 9 * columns}},  // permuted, a part
      {"0", count, count - 1, {}, {}},                                         // the last element
      {"0", count, count, {0, 5}, {5, 1}},                                     // nothing, at the end
      {"0", count, 0, {1, rows, 1}, {77, columns, 99}},  // sizes of 1 may have any stride
  };
  const at::Tensor storage = ramp(count);
  std::vector<std::pair<std::string, std::string>> items;
  for (std::size_t i = 0; i < views.size(); ++i)
    items.emplace_back("view" + std::to_string(i), views[i].opcodes());
  const fs::path path = torch_bytes::scratch("weight_views_strided");
  torch_bytes::write_file(path, torch_bytes::archive({{"data.pkl", torch_bytes::state_dict(items)},
                                                      {"data/0", bytes_of(storage)}}));
  const WeightFile file = WeightFile::open(path);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const at::Tensor expected = storage.as_strided(views[i].shape, views[i].strides, views[i].offset);
    for (const auto type : {at::kFloat, at::kHalf}) {
      const at::Tensor loaded = file.load(items[i].first, type, at::kCPU);
      EXPECT_TRUE(loaded.is_contiguous());
      EXPECT_TRUE(at::equal(loaded, expected.to(type))) << items[i].first << " " << type;
    }
  }
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Columns, WeightViews, ::testing::Values(7, 3000));

TEST(WeightViewsOf, WrappersParametersAndAttributesAreUnderstood) {
  const std::string tensor = View{"0", 4, 0, {4}, {1}}.opcodes();
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + tensor + "\x88" + "ccollections\nOrderedDict\n)RtR";
  const std::string metadata = "}" + torch_bytes::text("_metadata") + "ccollections\nOrderedDict\n)Rsb";
  const std::string ordered = "ccollections\nOrderedDict\n)R(" + torch_bytes::text("a") + tensor +
                              torch_bytes::text("b") + parameter + "u" + metadata;
  const std::string other = torch_bytes::text("epoch") + torch_bytes::integer(3);
  const std::vector<std::string> bodies = {
      ordered,
      "}(" + torch_bytes::text("model") + ordered + other + "u",
      "}(" + other + torch_bytes::text("state_dict") + ordered + "u",
  };
  for (const std::string& body : bodies) {
    const fs::path path = torch_bytes::scratch("weight_views_wrapped");
    torch_bytes::write_file(path, torch_bytes::archive({{"data.pkl", torch_bytes::pickle(body)},
                                                        {"data/0", torch_bytes::floats({1, 2, 3, 4})}}));
    const WeightFile file = WeightFile::open(path);
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_TRUE(at::equal(file.load("a", at::kFloat, at::kCPU), at::arange(1, 5, at::kFloat)));
    EXPECT_TRUE(at::equal(file.load("b", at::kFloat, at::kCPU), at::arange(1, 5, at::kFloat)));
    fs::remove(path);
  }
}

TEST(WeightViewsOf, OfADamagedStorageAreRefusedEvenIfTheyMissTheDamage) {
  const fs::path path = torch_bytes::scratch("weight_views_damaged");
  const std::string pickle = torch_bytes::state_dict(
      {{"start", View{"0", 4, 0, {2}, {1}}.opcodes()}, {"strided", View{"0", 4, 0, {2}, {2}}.opcodes()}});
  std::string bytes =
      torch_bytes::archive({{"data.pkl", pickle}, {"data/0", torch_bytes::floats({1, 2, 3, 4})}});
  torch_bytes::write_file(path, bytes);
  EXPECT_EQ(WeightFile::open(path).load("strided", at::kFloat, at::kCPU)[1].item<float>(), 3);
  bytes[bytes.find(torch_bytes::floats({4}))] ^= 1;
  torch_bytes::write_file(path, bytes);
  const WeightFile file = WeightFile::open(path);
  for (const char* name : {"start", "strided"})
    EXPECT_THROW(file.load(name, at::kFloat, at::kCPU), std::invalid_argument);
  fs::remove(path);
}

TEST(WeightViewsOf, NotFiniteValuesAreNamedWithTheirPosition) {
  const fs::path path = torch_bytes::scratch("weight_views_infinite");
  const std::string pickle =
      torch_bytes::state_dict({{"whole", View{"0", 6, 0, {2, 3}, {3, 1}}.opcodes()},
                               {"transposed", View{"0", 6, 0, {3, 2}, {1, 3}}.opcodes()}});
  const float inf = INFINITY;
  torch_bytes::write_file(
      path,
      torch_bytes::archive({{"data.pkl", pickle}, {"data/0", torch_bytes::floats({1, 2, 3, 4, -inf, NAN})}}));
  const WeightFile file = WeightFile::open(path);
  const auto message = [&](const std::string& name) -> std::string {
    try {
      file.load(name, at::kFloat, at::kCPU);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("whole"), path.string() + ": tensor 'whole' holds -inf at [1,1]");
  EXPECT_EQ(message("transposed"), path.string() + ": tensor 'transposed' holds -inf at [1,1]");
  fs::remove(path);
}

}  // namespace
}  // namespace vggt
