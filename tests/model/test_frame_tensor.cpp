// A tensor of all frames in each of its places: what is given comes back, in whatever pieces.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "model/trunk/frame_tensor.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

struct Where {
  Place place;
  at::Device device;
  friend std::ostream& operator<<(std::ostream& out, const Where& w) {
    constexpr const char* kNames[] = {"device", "host", "file"};
    return out << kNames[static_cast<int>(w.place)] << "_of_" << (w.device.is_cuda() ? "gpu" : "cpu");
  }
};

class FrameTensorIn : public ::testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (GetParam().device.is_cuda() && !at::hasCUDA()) GTEST_SKIP() << "no GPU";
    folder_ = fs::temp_directory_path() / ("frame_tensor" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  FrameTensor make(int64_t frames, int64_t piece) const {
    const auto options = at::TensorOptions().device(GetParam().device).dtype(at::kFloat);
    return {{frames, 3, 5}, options, GetParam().place, piece, folder_ / "tensor"};
  }
  fs::path folder_;
};

void fill(FrameTensor& tensor, const at::Tensor& values, int64_t piece) {
  for (int64_t first = 0; first < values.size(0); first += piece) {
    const int64_t count = std::min(piece, values.size(0) - first);
    at::Tensor place = tensor.blank(first, count);
    place.copy_(values.narrow(0, first, count));
    tensor.give(first, place);
  }
}

at::Tensor read(FrameTensor& tensor, int64_t frames, int64_t piece) {
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < frames; first += piece)
    parts.push_back(tensor.take(first, std::min(piece, frames - first)).cpu().clone());
  return at::cat(parts);
}

TEST_P(FrameTensorIn, PiecesComeBackAsTheyWereGiven) {
  for (const int64_t frames : {1, 2, 7, 23}) {
    for (const int64_t piece : {1, 3, 23}) {
      const at::Tensor values = at::rand({frames, 3, 5});
      FrameTensor tensor = make(frames, 23);
      fill(tensor, values, piece);
      for (const int64_t other : {1, 4, 23}) EXPECT_TRUE(at::equal(read(tensor, frames, other), values));
    }
  }
}

TEST_P(FrameTensorIn, PassesThatChangeEveryPieceSeeTheLastOnesWork) {
  constexpr int64_t kFrames = 37, kPiece = 4;
  FrameTensor tensor = make(kFrames, kPiece);
  fill(tensor, at::zeros({kFrames, 3, 5}), kPiece);
  for (int pass = 0; pass < 20; ++pass) {
    for (int64_t first = 0; first < kFrames; first += kPiece) {
      at::Tensor x = tensor.take(first, std::min(kPiece, kFrames - first));
      x.add_(static_cast<double>(first + 1));
      tensor.give(first, x);
    }
  }
  tensor.finish();
  const at::Tensor got = read(tensor, kFrames, kPiece);
  for (int64_t frame = 0; frame < kFrames; ++frame)
    EXPECT_TRUE(got[frame].eq(20.0 * static_cast<double>(frame / kPiece * kPiece + 1)).all().item<bool>());
}

TEST_P(FrameTensorIn, OfAnotherTensorIsStoredToo) {
  FrameTensor tensor = make(6, 3);
  const at::Tensor values = at::rand({6, 3, 5});
  tensor.give(0, values.narrow(0, 0, 3).to(GetParam().device));
  tensor.give(3, values.narrow(0, 3, 3).to(GetParam().device));
  EXPECT_TRUE(at::equal(read(tensor, 6, 2), values));
}

// After running out of memory: larger pieces may follow smaller ones, and pieces larger than the buffers.
TEST_P(FrameTensorIn, StaysWhatItIsWhereverItMoves) {
  FrameTensor tensor = make(9, 2);
  const at::Tensor values = at::rand({9, 3, 5});
  fill(tensor, values, 2);
  const fs::path file = folder_ / "tensor";
  for (const Place place : {Place::file, Place::host, Place::file, Place::device, GetParam().place}) {
    for (const int64_t piece : {4, 1, 3, 9}) {
      tensor.move_to(place, piece, file);
      EXPECT_TRUE(at::equal(read(tensor, 9, piece), values)) << piece;
      EXPECT_TRUE(at::equal(read(tensor, 9, 5), values)) << piece;
    }
  }
}

TEST_P(FrameTensorIn, OnlyAResidentOneIsThereAsAWhole) {
  FrameTensor tensor = make(6, 3);
  const bool resident =
      GetParam().place == Place::device || (GetParam().place == Place::host && GetParam().device.is_cpu());
  EXPECT_EQ(tensor.is_resident(), resident);
  if (resident) {
    EXPECT_EQ(tensor.whole().size(0), 6);
  } else {
    EXPECT_THROW(tensor.whole(), c10::Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, FrameTensorIn,
                         ::testing::Values(Where{Place::device, at::kCPU}, Where{Place::host, at::kCPU},
                                           Where{Place::file, at::kCPU}, Where{Place::device, at::kCUDA},
                                           Where{Place::host, at::kCUDA}, Where{Place::file, at::kCUDA}),
                         [](const auto& where) { return ::testing::PrintToString(where.param); });

}  // namespace
}  // namespace vggt
