#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "app/export/export_input.h"
#include "app/export/export_plan.h"
#include "app/export/exported_images.h"
#include "io/scene/depth_images.h"

namespace vggt {

/// Depth along the camera's axis, or how sure the network is of it.
enum class MapKind { depth, confidence };

/// A map of a frame, [H,W] network pixels, at the pixels of its exported image: [height,width] of that
/// image's size. Between neighbours that differ by more than a twentieth the nearest counts, else their
/// bilinear mean. 0: none, as where the network saw nothing of the image.
ValueMap at_image_size(std::vector<float> map, int network_width, const FrameView& seen, const Camera& camera,
                       const ImageView& view);

/// The memory that writing a map for an image of this size takes, in bytes, but for maps of network size.
std::size_t map_bytes(const ExportPlan& plan, int width, int height);

/// Where map files lie, relative to their folder, by frame: the image's name with the format's extension.
std::vector<std::string> map_names(const ExportedImages& images, std::size_t frames, MapFormat format);

/// Writes the maps of all frames into a folder that exists, one file a frame, frame by frame on as many
/// threads as input.image_bytes allows, and maps.json, which names frame and size of each. Masked pixels have
/// no value. Of PNGs one unit goes for all: at most 32 times the frames' median depth, or the greatest
/// confidence, is 65535 units. Throws std::system_error naming the file.
void export_maps(const std::filesystem::path& folder, MapKind kind, const ExportPlan& plan,
                 const ExportInput& input, const ExportedImages& images);

}  // namespace vggt
