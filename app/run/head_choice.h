#pragma once
#include <string>
#include <vector>

#include "app/options/options.h"
#include "model/config.h"

namespace vggt {

enum class CloudSource { none, depth, point_head };

struct HeadChoice {
  Heads run;
  CloudSource cloud = CloudSource::none;
  std::vector<std::string> notes;  // what a person should be told, one line each
};

/// Which heads run and what the cloud is made of, from the options and the heads that the weights hold.
/// names_cloud: --out names a .ply file; takes_points: the caller takes the cloud in memory. Throws
/// std::invalid_argument for a head that --heads names and the weights lack, and where a cloud is named that
/// the heads cannot give.
HeadChoice choose_heads(const Options& options, const Heads& in_weights, bool names_cloud,
                        bool takes_points = false);

/// Whether cameras and depth are adjusted to the images. "on" and "off" decide; "auto" is on where camera and
/// depth run and the cloud is not the point head's. With "on" and the point head's cloud, a note says that
/// this cloud is not adjusted. Throws std::invalid_argument for "on" without the heads camera and depth.
bool choose_adjustment(const Options& options, HeadChoice& heads);

/// Whether adjusted depth is refined. "auto": where it is adjusted and the weights have a refiner. Throws
/// std::invalid_argument for "on" where one of both is not so.
bool choose_refinement(const Options& options, bool adjusts, bool has_refiner);

/// Such as "camera, depth"; "none".
std::string heads_text(const Heads& heads);

}  // namespace vggt
