#pragma once
#include <cstdint>

namespace vggt {

/// Keeps OpenCV's log and its error messages, and FFmpeg's log, off stderr, for the whole process: a program
/// calls it at its start, before it has threads; libraries never do. OpenCV 4.6 still writes to std::cerr
/// about images whose decoder throws (BMP, TIFF, WebP with a damaged header): no setting of OpenCV stops
/// that.
void quiet_decoders();

/// From now on counts what FFmpeg's decoders find wrong in pictures, in programs that called
/// quiet_decoders(): its log is the process's. OpenCV takes the log for itself when it opens a video, so each
/// one that is opened calls this anew.
void count_decoder_errors();
/// How many were counted, in all videos of the process.
int64_t decoder_errors();

}  // namespace vggt
