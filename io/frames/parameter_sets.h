#pragma once
#include <optional>
#include <string_view>

namespace vggt {

/// What an H.264 sequence parameter set says (ITU-T H.264, 7.3.2.1.1).
struct H264Parameters {
  int reference_frames = 0;   // max_num_ref_frames: decoded frames that others may be predicted from
  int width = 0, height = 0;  // of coded pixels: multiples of 16
  int chroma = 1, bits = 8;   // chroma_format_idc, and bits of luma
};

/// sps: the NAL unit, its header byte first. Nothing where it is damaged.
std::optional<H264Parameters> h264_parameters(std::string_view sps);

/// vps_max_dec_pic_buffering_minus1 of an HEVC video parameter set (ITU-T H.265, 7.3.2.1), the most of its
/// sub-layers: how many decoded frames are kept beside the one at work. Nothing where it is damaged.
std::optional<int> hevc_kept_frames(std::string_view vps);

}  // namespace vggt
