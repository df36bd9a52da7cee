#pragma once
#include <cstdint>
#include <optional>

namespace vggt {

/// Bytes that FFmpeg's decoder of a video holds for each pixel of a frame: so many frames as it works on at
/// once, and those that others are predicted from. As measured of videos of 7680x4320 with two threads.
/// codec and pixel_format: OpenCV's CAP_PROP_FOURCC, or what the container tells, and
/// CAP_PROP_CODEC_PIXEL_FORMAT; reference_frames: what the container tells; threads: of the decoder, for
/// which OpenCV takes the machine's cores, up to 16.
double decoder_bytes_of_pixel(uint32_t codec, uint32_t pixel_format, std::optional<int> reference_frames,
                              unsigned threads);

/// Bytes of a pixel in a decoder's format, by FFmpeg's name of it: four letters, or such as "Y3", 11, 10:
/// three planes of 10 bits, of which two are halved in both directions (backwards where the bytes are), or
/// three letters beside the bits of a pixel.
double bytes_of_pixel(uint32_t name);

/// The format that a codec's decoder gives mostly, as CAP_PROP_CODEC_PIXEL_FORMAT tells it.
uint32_t usual_pixel_format(uint32_t codec);

}  // namespace vggt
