// What tests of frames and scene files share: a folder that disappears, pictures whose pixels say where they
// are, EXIF blocks, and what reached stderr.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <random>
#include <string>
#include <vector>

#include "io/frames/frames.h"
#include "io/frames/quiet_decoders.h"

namespace vggt::test {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "vggt test XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  fs::path operator/(const fs::path& name) const { return path_ / name; }
  std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

inline void write_bytes(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush());
}

inline void write_text(const fs::path& path, const std::string& text) {
  write_bytes(path, std::vector<uint8_t>(text.begin(), text.end()));
}

inline std::vector<uint8_t> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The values as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Red grows from 0 to 255 with x, green with y: a pixel's colour says where it is.
inline cv::Mat position_picture(int width, int height) {
  cv::Mat picture(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.at<cv::Vec3b>(y, x) = {60, cv::saturate_cast<uint8_t>(255.0 * y / std::max(1, height - 1)),
                                     cv::saturate_cast<uint8_t>(255.0 * x / std::max(1, width - 1))};
    }
  }
  return picture;
}

inline cv::Mat flat_picture(int width, int height, int level) {
  return cv::Mat(height, width, CV_8UC3, cv::Scalar::all(level));
}

inline cv::Mat noise_picture(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  cv::Mat picture(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < 3 * width; ++x) picture.ptr<uint8_t>(y)[x] = static_cast<uint8_t>(random());
  }
  return picture;
}

/// How a camera that was held this way stores an upright picture.
inline cv::Mat stored_picture(const cv::Mat& upright, int orientation) {
  const bool sideways = orientation >= 5;
  cv::Mat stored(sideways ? upright.cols : upright.rows, sideways ? upright.rows : upright.cols, CV_8UC3);
  const int right = stored.cols - 1, bottom = stored.rows - 1;
  for (int row = 0; row <= bottom; ++row) {
    for (int column = 0; column <= right; ++column) {
      // EXIF names the visual side of the stored row 0 and column 0.
      const bool row_reversed = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
      const bool column_reversed =
          orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
      int y = sideways ? column : row, x = sideways ? row : column;
      if (row_reversed) y = upright.rows - 1 - y;
      if (column_reversed) x = upright.cols - 1 - x;
      stored.at<cv::Vec3b>(row, column) = upright.at<cv::Vec3b>(y, x);
    }
  }
  return stored;
}

/// A TIFF directory with the one entry that tells the orientation.
inline std::vector<uint8_t> exif_block(int orientation, bool big_endian) {
  const auto value = static_cast<uint8_t>(orientation);
  if (big_endian) {
    return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0};
  }
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0};
}

/// The JPEG with an APP1 segment after its first marker.
inline std::vector<uint8_t> with_exif(const std::vector<uint8_t>& jpeg, int orientation, bool big_endian) {
  std::vector<uint8_t> segment{'E', 'x', 'i', 'f', 0, 0};
  const std::vector<uint8_t> block = exif_block(orientation, big_endian);
  segment.insert(segment.end(), block.begin(), block.end());
  const std::size_t length = segment.size() + 2;
  std::vector<uint8_t> result(jpeg.begin(), jpeg.begin() + 2);
  for (const std::size_t byte : {std::size_t{0xFF}, std::size_t{0xE1}, length >> 8, length & 255}) {
    result.push_back(static_cast<uint8_t>(byte));
  }
  result.insert(result.end(), segment.begin(), segment.end());
  result.insert(result.end(), jpeg.begin() + 2, jpeg.end());
  return result;
}

inline std::vector<uint8_t> encoded(const std::string& extension, const cv::Mat& picture) {
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(cv::imencode(extension, picture, bytes, {cv::IMWRITE_JPEG_QUALITY, 98}));
  return bytes;
}

/// Collects stderr while it lives; the decoders are quiet, as in the program.
class StderrCapture {
 public:
  StderrCapture() {
    quiet_decoders();
    ::testing::internal::CaptureStderr();
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  ~StderrCapture() {
    if (running_) ::testing::internal::GetCapturedStderr();
  }
  std::string text() {
    running_ = false;
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  bool running_ = true;
};

/// The message of the std::invalid_argument that loading throws; empty if it throws none.
inline std::string load_error(const FrameOptions& options) {
  try {
    load_frames(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// Expects that sizes alone are those of the whole frames.
inline void expect_sized(FrameOptions options) {
  const FrameSet whole = load_frames(options);
  options.pixels = false;
  const FrameSet sized = load_frames(options);
  EXPECT_FALSE(sized.read_rgb);
  EXPECT_EQ(sized.width, whole.width);
  EXPECT_EQ(sized.height, whole.height);
  EXPECT_EQ(sized.warnings, whole.warnings);
  ASSERT_EQ(sized.frames.size(), whole.frames.size());
  for (std::size_t i = 0; i < whole.frames.size(); ++i) {
    const Frame &a = sized.frames[i], &b = whole.frames[i];
    EXPECT_EQ(a.file, b.file);
    EXPECT_EQ(a.time_s, b.time_s);
    EXPECT_EQ(a.original_width, b.original_width) << a.file;
    EXPECT_EQ(a.original_height, b.original_height) << a.file;
    EXPECT_EQ(a.camera, b.camera) << a.file;
    EXPECT_EQ(a.map.scale_x, b.map.scale_x) << a.file;
    EXPECT_EQ(a.map.scale_y, b.map.scale_y) << a.file;
    EXPECT_EQ(a.map.pad_x, b.map.pad_x) << a.file;
    EXPECT_EQ(a.map.pad_y, b.map.pad_y) << a.file;
  }
  options.first_frame = true;  // the size that a video's container has, before anything is decoded
  const Frame& first = load_frames(options).frames.at(0);
  EXPECT_EQ(first.original_width, whole.frames[0].original_width);
  EXPECT_EQ(first.original_height, whole.frames[0].original_height);
}

inline std::vector<std::string> files_of(const FrameSet& set) {
  std::vector<std::string> files;
  for (const Frame& frame : set.frames) files.push_back(frame.file);
  return files;
}

}  // namespace vggt::test
