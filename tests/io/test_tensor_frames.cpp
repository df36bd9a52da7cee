// Frames out of a .safetensors file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "io/frames/frames.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using test::load_error;
using testing::HasSubstr;

template <typename T>
void write_images(const std::filesystem::path& path, const std::string& type, const std::string& shape,
                  const std::vector<T>& values, const std::string& name = "images") {
  const std::size_t bytes = values.size() * sizeof(T);
  const std::string header = "{\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
                             ",\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
  std::vector<uint8_t> file(8 + header.size() + bytes);
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  if (bytes > 0) std::memcpy(file.data() + 8 + header.size(), values.data(), bytes);
  test::write_bytes(path, file);
}

FrameOptions options_of(const std::filesystem::path& path) {
  FrameOptions options;
  options.source = path;
  return options;
}

constexpr int kCount = 3 * 14 * 28;

// The value of element i of frame s.
float value_of(int s, int i) {
  return static_cast<float>((s * 131 + i * 7) % 1025) / 1024.0F;
}

TEST(TensorFrames, EveryFloatType) {
  const test::TemporaryFolder folder;
  std::vector<float> f32;
  std::vector<double> f64;
  std::vector<uint16_t> f16, bf16;
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < kCount; ++i) {
      const float value = value_of(s, i);
      f32.push_back(value);
      f64.push_back(value);
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      bf16.push_back(static_cast<uint16_t>(bits >> 16));
      // Multiples of 1/1024 up to 1 are exact halves.
      int exponent = 0;
      const float mantissa = std::frexp(value, &exponent);
      f16.push_back(value == 0 ? 0
                               : static_cast<uint16_t>((exponent + 14) << 10 |
                                                       (static_cast<int>(mantissa * 2048) & 1023)));
    }
  }
  write_images(folder / "F32.safetensors", "F32", "[2,3,14,28]", f32);
  write_images(folder / "F64.safetensors", "F64", "[2,3,14,28]", f64);
  write_images(folder / "F16.safetensors", "F16", "[2,3,14,28]", f16);
  write_images(folder / "BF16.safetensors", "BF16", "[2,3,14,28]", bf16);
  for (const std::string type : {"F32", "F64", "F16", "BF16"}) {
    const FrameSet set = load_frames(options_of(folder / (type + ".safetensors")));
    ASSERT_EQ(set.width, 28);
    ASSERT_EQ(set.height, 14);
    ASSERT_EQ(set.frames.size(), 2U);
    for (int s = 0; s < 2; ++s) {
      const Frame& frame = set.frames[s];
      EXPECT_EQ(frame.file, type + ".safetensors#" + std::to_string(s));
      EXPECT_EQ(frame.time_s, s);
      EXPECT_EQ(frame.original_width, 28);
      EXPECT_EQ(frame.map.original_x(5), 5);
      std::vector<float> exact(kCount);
      ASSERT_EQ(set.frame_values(), exact.size());
      set.read_exact(static_cast<std::size_t>(s), exact);
      const std::vector<uint8_t> rgb = set.rgb(static_cast<std::size_t>(s));
      for (int i = 0; i < kCount; ++i) {
        ASSERT_NEAR(exact[i], value_of(s, i), type == "BF16" ? 1.0 / 256 : 0) << type;
        ASSERT_EQ(rgb[i], std::lround(exact[i] * 255));
      }
    }
  }
}

TEST(TensorFrames, SubnormalHalvesAndMaxFrames) {
  const test::TemporaryFolder folder;
  std::vector<uint16_t> halves(5 * kCount, 0x0001);
  write_images(folder / "a.safetensors", "F16", "[5,3,14,28]", halves);
  FrameOptions options = options_of(folder / "a.safetensors");
  options.max_frames = 2;
  const FrameSet set = load_frames(options);
  EXPECT_THAT(test::files_of(set), testing::ElementsAre("a.safetensors#0", "a.safetensors#4"));
  std::vector<float> exact(kCount);
  set.read_exact(1, exact);
  EXPECT_EQ(exact[0], std::ldexp(1.0F, -24));
}

TEST(TensorFrames, ValuesMustBeImages) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  for (const float bad : {-0.001F, 1.001F, 255.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(2 * kCount, 0.5F);
    values.back() = bad;
    write_images(path, "F32", "[2,3,14,28]", values);
    EXPECT_THAT(load_error(options_of(path)),
                testing::AllOf(HasSubstr("a.safetensors"), HasSubstr("frame 1")))
        << bad;
  }
}

TEST(TensorFrames, WrongFilesAreErrors) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  const auto error_of = [&](const std::string& type, const std::string& shape, std::size_t bytes,
                            const std::string& name) {
    write_images(path, type, shape, std::vector<uint8_t>(bytes), name);
    return load_error(options_of(path));
  };
  EXPECT_THAT(error_of("F32", "[1,3,14,28]", 4 * kCount, "image"), HasSubstr("no tensor `images`"));
  EXPECT_THAT(error_of("F32", "[3,14,28]", 4 * kCount, "images"), HasSubstr("[3,14,28], not [S,3,H,W]"));
  EXPECT_THAT(error_of("F32", "[1,14,28,3]", 4 * kCount, "images"), HasSubstr("not [S,3,H,W]"));
  EXPECT_THAT(error_of("F32", "[0,3,14,28]", 0, "images"), HasSubstr("not [S,3,H,W]"));
  EXPECT_THAT(error_of("F32", "[1,3,28,15]", 4 * 3 * 28 * 15, "images"), HasSubstr("multiples of 14"));
  EXPECT_THAT(error_of("U8", "[1,3,14,28]", kCount, "images"), HasSubstr("U8, not F64"));
  test::write_text(path, "no tensors");
  EXPECT_THAT(load_error(options_of(path)), HasSubstr("not a valid .safetensors"));
  test::write_bytes(path, {});
  EXPECT_THAT(load_error(options_of(path)), HasSubstr("not a valid .safetensors"));
}

}  // namespace
}  // namespace vggt
