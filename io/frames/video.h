#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <opencv2/core/mat.hpp>
#include <opencv2/videoio.hpp>
#include <optional>
#include <string>

#include "io/frames/video_container.h"

namespace vggt {

/// Which frames of a video are wanted: `per_second` of them, or every stride-th.
struct VideoSampling {
  double per_second = 1;
  std::optional<int> stride;
};

/// What a video takes and promises, as the header of its container tells it: nothing is opened that decodes.
struct VideoHeader {
  cv::Size size;                  // as VideoReader::size()
  std::size_t decoder_bytes = 0;  // the same, but of the codec's usual format where the header tells none
  bool has_format = false;        // whether it does
  std::size_t promised_frames = 0;
};

/// Nothing where the header does not tell codec and size.
std::optional<VideoHeader> read_video_header(const std::filesystem::path& path,
                                             const VideoSampling& sampling);

/// Reads the wanted frames of a video, one after the other. The others are never converted to pixels.
class VideoReader {
 public:
  /// Throws std::invalid_argument if the file cannot be opened as a video.
  VideoReader(const std::filesystem::path& path, const VideoSampling& sampling);

  /// Goes to the next wanted frame; false at the end of the video, whatever number of frames the container
  /// names.
  bool advance();
  /// The frame's number in the video, from 0, and its time in seconds.
  int64_t frame_number() const { return number_; }
  double time_s() const { return time_s_; }
  /// How many frames are wanted of the seconds that the container promises; 0 where it promises none.
  std::size_t promised_frames() const;
  /// The upright frame's, as the container has it: before anything is decoded. Empty where it has none.
  cv::Size size() const;
  /// Bytes of the pixels of a frame.
  std::size_t frame_bytes() const;
  /// Bytes that the decoder takes for itself.
  std::size_t decoder_bytes() const;
  /// After the end: a warning if the container promises much more, or the decoder found errors: in programs
  /// that called quiet_decoders(), where another video that is read meanwhile may be the one. Empty if all is
  /// well.
  std::string defect() const;
  /// The frame in BGR, turned and mirrored as the container says. Empty if it cannot be decoded.
  cv::Mat pixels();

 private:
  bool wanted();

  cv::VideoCapture capture_;
  VideoSampling sampling_;
  std::string path_;
  double frame_seconds_ = 0, promised_seconds_ = 0;
  int64_t number_ = -1;
  double time_s_ = 0, last_step_s_ = 0;  // of this frame, and how long after the one before
  double last_tick_ = -1;
  int64_t errors_ = 0;  // of decoders, when the video was opened
  std::optional<double> damaged_s_;
  VideoContainer container_;
  int quarter_turns_ = 0;  // clockwise, from stored to upright, where nothing is mirrored
};

}  // namespace vggt
