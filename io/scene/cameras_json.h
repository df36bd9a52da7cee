#pragma once
#include <filesystem>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/lens_numbers.h"

namespace vggt {

/// {"cameras": [{file, time_s, valid, original_size [w,h], network_size, model (COLMAP's name), k_original
/// 3×3, k_network, distortion [k1,k2], cam_from_world 4×4, mean_confidence}]}, matrices as rows, OpenCV axes.
/// A number that is not finite, and a time that there is not, is null. Throws std::system_error if the file
/// cannot be written.
void write_cameras_json(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras);
/// What write_cameras_json() writes (`cameras`; k and size are those of the original; without model and
/// distortion, as earlier versions wrote it, a camera has none), or a transforms.json
/// as of NeRF and nerfstudio (`frames`; world_from_cam, OpenGL axes; fl_x, fl_y, cx, cy, k1, k2 or
/// camera_angle_x). Where a field of view is given without a width, the width is 1. Throws
/// std::invalid_argument naming path and entry, also for lenses that are to be read whole and cannot,
/// std::system_error if the file cannot be read.
std::vector<FrameCamera> read_cameras_json(const std::filesystem::path& path,
                                           LensReading lenses = LensReading::as_far_as_known);

}  // namespace vggt
