#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace vggt {

/// What a video's container says that OpenCV does not hand on.
struct VideoContainer {
  bool is_cut_off = false;  // it speaks of more bytes than the file has
  /// Whether the time of the last picture tells how long it should be: not where pictures may begin late.
  bool counts_from_first = true;
  std::optional<double> seconds;  // of the first track of pictures, as they are to be shown
  /// Of that track: a, b, c, d of its display matrix, (x, y) -> (a·x + c·y, b·x + d·y), each -1, 0 or 1;
  /// nothing if it is none of the eight that turn and mirror by quarters.
  std::optional<std::array<int, 4>> matrix;
  /// Of that track, in H.264 or HEVC: decoded frames that are kept for others.
  std::optional<int> reference_frames;
  /// Of that track: its FourCC, where CAP_PROP_FOURCC often tells none; 0: ask that.
  uint32_t codec = 0;
  /// Of that track: its pixels as they are stored, its codec's FourCC, and its decoder's format as
  /// CAP_PROP_CODEC_PIXEL_FORMAT tells it: before a decoder is opened. 0: the header does not tell.
  int width = 0, height = 0;
  uint32_t named_codec = 0, pixel_format = 0;
  std::optional<double> rate;  // frames a second
};

/// Of MP4 and MOV (ISO/IEC 14496-12) and Matroska (RFC 9559); of an MPEG program stream its usual codec, of
/// AVI and Theora what their headers say, of others H.264's parameter sets in the first megabyte; of
/// unreadable and damaged files the defaults above. Never throws for a file's content.
VideoContainer read_video_container(const std::filesystem::path& path);

}  // namespace vggt
