#include "io/frames/quiet_decoders.h"

#include <cstdlib>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>

namespace vggt {
namespace {

int ignore_error(int, const char*, const char*, const char*, int, void*) {
  return 0;
}

}  // namespace

void quiet_decoders() {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::redirectError(ignore_error);
  ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);  // AV_LOG_QUIET; OpenCV reads it when it opens the first video
}

}  // namespace vggt
