#pragma once
#include <filesystem>
#include <string>

#include "app/batch/scene_list.h"
#include "app/options/options.h"

namespace vggt {

/// Throws std::invalid_argument for options of a run that a batch sets itself, and for names of files in the
/// scenes' folders that lead out of them.
void check_batch_options(const Options& options);

/// The options of one scene, of those of the batch, whose `out` is the results' folder: its frames, its
/// folder, in which picture and predictions lie, and its name in place of {scene} in masks, intrinsics, poses
/// and align.
Options scene_options(const Options& batch, const BatchScene& scene);

/// What all scenes' options have in common, as the options of a run that does not exist: what is wrong with
/// them is wrong with the batch.
Options common_options(const Options& batch);

/// RESULTS/NAME.
std::filesystem::path scene_folder(const Options& batch, const std::string& name);

}  // namespace vggt
