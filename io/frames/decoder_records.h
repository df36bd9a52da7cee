#pragma once
#include <cstdint>

#include "io/frames/container_bytes.h"
#include "io/frames/parameter_sets.h"
#include "io/frames/video_container.h"

// What containers hold for the decoder of a track: reference frames and format.
namespace vggt {

/// Of a decoder configuration record for H.264 (ISO/IEC 14496-15): of its sequence parameter sets.
void read_avc(const Bytes& file, uint64_t record, VideoContainer& container);
/// Of one for HEVC: of its first video parameter set, where that comes first of all, as it mostly does.
void read_hevc(const Bytes& file, uint64_t record, VideoContainer& container);
/// Of one for AV1 (AV1 Codec ISO Media File Format Binding, 2.3.3).
void read_av1(const Bytes& file, uint64_t record, VideoContainer& container);

/// Of one of H.264's sequence parameter sets: the most reference frames of all.
void take_set(const H264Parameters& set, VideoContainer& container);

/// H.264's parameter sets in the first megabyte of samples, each after its length of four bytes: of the same
/// size as the track's pictures, or else these bytes are none.
void look_for_sets(const Bytes& file, uint64_t begin, VideoContainer& container);

}  // namespace vggt
