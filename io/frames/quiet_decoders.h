#pragma once

namespace vggt {

/// Keeps OpenCV's log and its error messages, and FFmpeg's log, off stderr, for the whole process: a program
/// calls it at its start, before it has threads; libraries never do. OpenCV 4.6 still writes to std::cerr
/// about images whose decoder throws (BMP, TIFF, WebP with a damaged header): no setting of OpenCV stops
/// that.
void quiet_decoders();

}  // namespace vggt
