#include "io/frames/video.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/core/utility.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "io/files/input_file.h"
#include "io/files/memory_room.h"
#include "io/frames/decoder_memory.h"
#include "io/frames/fourcc.h"
#include "io/frames/frame_sources.h"
#include "io/frames/quiet_decoders.h"

namespace vggt {
namespace {

constexpr double kFallbackRate = 30;  // frames a second, where the container names no rate

// Quarter turns clockwise from stored to upright. OpenCV 4.6.0 turns videos the wrong way
// (opencv/opencv#22088), so VideoReader turns them itself.
int read_quarter_turns(cv::VideoCapture& capture) {
  capture.set(cv::CAP_PROP_ORIENTATION_AUTO, 0);
  const double degrees = capture.get(cv::CAP_PROP_ORIENTATION_META);
  if (!(std::abs(degrees) <= 360)) return 0;  // of a display matrix that turns nothing, such as zeros
  const int turns = (cvRound(degrees / 90) % 4 + 4) % 4;
  const bool reversed =
      cv::getVersionMajor() == 4 && cv::getVersionMinor() == 6 && cv::getVersionRevision() == 0;
  return reversed ? (4 - turns) % 4 : turns;
}

bool mirrors(const std::array<int, 4>& matrix) {
  return matrix[0] * matrix[3] - matrix[1] * matrix[2] < 0;
}

void mirror(const cv::Mat& frame, cv::Mat& upright, const std::array<int, 4>& matrix) {
  constexpr int kUpsideDown = 0, kLeftToRight = 1, kBoth = -1;
  const auto [a, b, c, d] = matrix;
  if (a != 0) return cv::flip(frame, upright, a < 0 ? kLeftToRight : kUpsideDown);
  cv::transpose(frame, upright);
  if (b < 0) cv::flip(upright, upright, kBoth);
}

/// Nothing for what FFmpeg gives where it knows no time.
std::optional<double> known_seconds(double seconds) {
  constexpr double kMost = 1e9;
  return seconds >= 0 && seconds < kMost ? std::optional(seconds) : std::nullopt;
}

/// With OpenCV's copy of a frame of so many pixels.
std::size_t bytes_of_decoder(uint32_t codec, uint32_t format, const VideoContainer& container,
                             std::size_t pixels) {
  constexpr double kBgr = 3;
  const double of_pixel = kBgr + decoder_bytes_of_pixel(codec, format, container.reference_frames,
                                                        std::thread::hardware_concurrency());
  return static_cast<std::size_t>(of_pixel * static_cast<double>(pixels));
}

/// How many frames are wanted of so many seconds.
std::size_t frames_in(double seconds, double frame_seconds, const VideoSampling& sampling) {
  const double rate = sampling.stride ? 1 / (frame_seconds * *sampling.stride) : sampling.per_second;
  const double frames = seconds * std::min(rate, 1 / frame_seconds);
  return frames > 0 && frames < 1e9 ? static_cast<std::size_t>(frames) + 1 : 0;
}

cv::Size upright(cv::Size stored, bool lies) {
  return lies ? cv::Size(stored.height, stored.width) : stored;
}

/// Whether FFmpeg could take the file for a list of other files, or of addresses, which it then would open.
bool is_playlist(const std::filesystem::path& path) {
  std::string text = head_of(InputFile(path), 4096);
  if (text.find('\0') == text.npos) return true;
  text.resize(text.find('\0'));
  constexpr std::array kSigns = {"#EXTM3U", "ffconcat", "<MPD", "<?xml", "c=IN IP"};
  return std::ranges::any_of(kSigns, [&](const char* sign) { return text.find(sign) != text.npos; });
}

}  // namespace

std::optional<VideoHeader> read_video_header(const std::filesystem::path& path,
                                             const VideoSampling& sampling) {
  constexpr int kMost = 1 << 16;
  const VideoContainer container = read_video_container(path);
  const cv::Size stored(container.width, container.height);
  if (container.named_codec == 0 || stored.empty() || std::max(stored.width, stored.height) >= kMost)
    return std::nullopt;
  const uint32_t format =
      container.pixel_format != 0 ? container.pixel_format : usual_pixel_format(container.named_codec);
  const std::size_t pixels = static_cast<std::size_t>(stored.width) * static_cast<std::size_t>(stored.height);
  VideoHeader header;
  header.size = upright(stored, container.matrix && container.matrix->at(0) == 0);
  header.has_format = container.pixel_format != 0;
  header.decoder_bytes = bytes_of_decoder(container.named_codec, format, container, pixels);
  header.promised_frames =
      frames_in(container.seconds.value_or(0), 1 / container.rate.value_or(kFallbackRate), sampling);
  return header;
}

VideoReader::VideoReader(const std::filesystem::path& path, const VideoSampling& sampling)
    : sampling_(sampling), path_(path.string()) {
  // FFmpeg takes a relative "a:b.mp4" for a protocol.
  bool opened = false;
  try {
    opened = !is_playlist(path) && capture_.open(std::filesystem::absolute(path).string(), cv::CAP_FFMPEG);
  } catch (const cv::Exception&) {
    opened = false;
  }
  if (!opened && !has_room_for(0)) throw std::bad_alloc();
  if (!opened) throw std::invalid_argument(path.string() + ": cannot be opened as a video");
  count_decoder_errors();
  errors_ = decoder_errors();
  const double rate = capture_.get(cv::CAP_PROP_FPS);
  quarter_turns_ = read_quarter_turns(capture_);
  container_ = read_video_container(path);
  frame_seconds_ = 1 / (std::isfinite(rate) && rate > 0 ? rate : kFallbackRate);
  last_step_s_ = frame_seconds_;
  promised_seconds_ = container_.seconds.value_or(
      known_seconds(capture_.get(cv::CAP_PROP_FRAME_COUNT) * frame_seconds_).value_or(0));
}

bool VideoReader::advance() {
  while (capture_.grab()) {
    ++number_;
    const double before = time_s_;
    time_s_ = known_seconds(capture_.get(cv::CAP_PROP_POS_MSEC) / 1000).value_or(0);
    // Some containers have no times, or times that do not grow; and OpenCV has none of the last frames of
    // streams that predict from later frames (B-frames).
    if (number_ > 0 && !(time_s_ > before)) time_s_ = before + last_step_s_;
    if (number_ > 0) last_step_s_ = time_s_ - before;
    if (!damaged_s_ && decoder_errors() > errors_) damaged_s_ = time_s_;
    if (wanted()) return true;
  }
  // A decoder without memory ends as a video does.
  if ((number_ < 0 || !defect().empty()) && !has_room_for(0)) throw std::bad_alloc();
  return false;
}

bool VideoReader::wanted() {
  if (sampling_.stride) return number_ % *sampling_.stride == 0;
  constexpr double kRounding = 1e-6;  // times are in milliseconds or multiples of a time base
  const double tick = std::floor(time_s_ * sampling_.per_second + kRounding);
  if (number_ > 0 && tick <= last_tick_) return false;
  last_tick_ = tick;
  return true;
}

std::size_t VideoReader::promised_frames() const {
  return frames_in(promised_seconds_, frame_seconds_, sampling_);
}

cv::Size VideoReader::size() const {
  constexpr double kMost = 1 << 16;
  const double width = capture_.get(cv::CAP_PROP_FRAME_WIDTH),
               height = capture_.get(cv::CAP_PROP_FRAME_HEIGHT);
  if (!(width > 0 && width < kMost && height > 0 && height < kMost)) return {};
  const bool is_mirrored = container_.matrix && mirrors(*container_.matrix),
             lies = is_mirrored ? container_.matrix->at(0) == 0 : quarter_turns_ % 2 == 1;
  return upright({static_cast<int>(width), static_cast<int>(height)}, lies);
}

std::size_t VideoReader::frame_bytes() const {
  const cv::Size frame = size();
  return 3 * static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(frame.height);
}

std::size_t VideoReader::decoder_bytes() const {
  const auto property = [&](int which) { return static_cast<uint32_t>(std::llround(capture_.get(which))); };
  // OpenCV gives FFmpeg's name of a codec where that has four letters, and else the container's.
  const uint32_t told = property(cv::CAP_PROP_FOURCC);
  const bool is_ffmpegs = told == fourcc("h264") || told == fourcc("hevc");
  const uint32_t codec = container_.codec > 0 && !is_ffmpegs ? container_.codec : told;
  return bytes_of_decoder(codec, property(cv::CAP_PROP_CODEC_PIXEL_FORMAT), container_, frame_bytes() / 3);
}

int64_t decoder_bytes(const std::filesystem::path& video) {
  try {
    return static_cast<int64_t>(VideoReader(video, {1, 1}).decoder_bytes());
  } catch (const std::exception&) {
    return 0;  // loading says why
  }
}

std::string VideoReader::defect() const {
  // Containers round, guess, and count sound that goes on after the last picture.
  constexpr double kTolerance = 1.2, kTolerance_s = 0.5;
  const double seen = time_s_ + frame_seconds_;
  std::ostringstream text;
  if (container_.is_cut_off) {
    text << path_ << ": ends after " << seen << " s: the file is truncated";
  } else if (container_.counts_from_first && promised_seconds_ > kTolerance * seen + kTolerance_s) {
    text << path_ << ": ends after " << seen << " s of the " << promised_seconds_
         << " s it promises: truncated?";
  } else if (damaged_s_) {
    text << path_ << ": is damaged near " << *damaged_s_
         << " s: its decoder found errors, and what it made up for may look smeared";
  }
  return text.str();
}

cv::Mat VideoReader::pixels() {
  cv::Mat frame, upright;
  if (!capture_.retrieve(frame)) return {};
  if (container_.matrix && mirrors(*container_.matrix)) {
    mirror(frame, upright, *container_.matrix);
    return upright;
  }
  constexpr std::array kTurns{cv::ROTATE_90_CLOCKWISE, cv::ROTATE_180, cv::ROTATE_90_COUNTERCLOCKWISE};
  if (quarter_turns_ == 0) return frame.clone();  // the decoder writes the next frame into the same memory
  cv::rotate(frame, upright, kTurns[static_cast<std::size_t>(quarter_turns_ - 1)]);
  return upright;
}

}  // namespace vggt
