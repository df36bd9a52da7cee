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
/// Throws std::invalid_argument: a head named that the weights lack, or a cloud named (`names_cloud`) that
/// the heads cannot give.
HeadChoice choose_heads(const Options& options, const Heads& in_weights, bool names_cloud);

/// Whether cameras and depth are adjusted to the images: as --bundle-adjust says, else as the weights'
/// config.json, if the cloud would follow. A note says where it does not. Throws std::invalid_argument for
/// "on" without its heads.
bool choose_adjustment(const Options& options, HeadChoice& heads, bool by_default);

/// Such as "camera, depth"; "none".
std::string heads_text(const Heads& heads);

}  // namespace vggt
