#pragma once
#include "io/frames/container_bytes.h"
#include "io/frames/video_container.h"

namespace vggt {

/// Of a Matroska file (RFC 9559).
VideoContainer read_matroska(const Bytes& file);

}  // namespace vggt
