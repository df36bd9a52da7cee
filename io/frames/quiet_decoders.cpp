#include "io/frames/quiet_decoders.h"

extern "C" {
#include <libavutil/log.h>
}

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <string_view>

namespace vggt {
namespace {

int ignore_error(int, const char*, const char*, const char*, int, void*) {
  return 0;
}

std::atomic<bool> is_quiet = false;
std::atomic<int64_t> errors = 0;

/// FFmpeg calls it from any thread, for every message.
void count_error(void* source, int level, const char*, va_list) {
  if (!source || level > AV_LOG_ERROR) return;
  const AVClass* const of = *static_cast<const AVClass* const*>(source);
  if (of && std::string_view(of->class_name) == "AVCodecContext") ++errors;
}

}  // namespace

void quiet_decoders() {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::redirectError(ignore_error);
  ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);  // AV_LOG_QUIET; OpenCV reads it when it opens the first video
  is_quiet = true;
}

void count_decoder_errors() {
  if (is_quiet) ::av_log_set_callback(count_error);
}

int64_t decoder_errors() {
  return errors;
}

}  // namespace vggt
