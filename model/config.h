#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// Names and shapes of the tensors of a checkpoint.
using TensorShapes = std::map<std::string, std::vector<int64_t>>;

/// The sizes of one VGGT, with the values of VGGT-1B as defaults. Field names are config.json's keys.
struct Config {
  int64_t img_size = 518;  // side of the square that the position embedding was learned on, pixels
  int64_t patch_size = 14;
  int64_t embed_dim = 1024;  // C
  int64_t num_heads = 16;    // A
  int64_t depth = 24;        // pairs of frame and global blocks
  int64_t vit_depth = 24;
  int64_t vit_num_heads = 16;
  int64_t num_register_tokens = 4;
  double rope_freq = 100;
  int64_t camera_num_heads = 16;
  int64_t camera_trunk_depth = 4;
  int64_t dpt_features = 256;
  std::array<int64_t, 4> dpt_out_channels = {256, 512, 1024, 1024};
  std::array<int64_t, 4> intermediate_layers = {4, 11, 17, 23};
  int64_t track_features = 128;
  int64_t track_hidden = 384;
  int64_t track_depth = 6;
  int64_t track_corr_levels = 7;
  int64_t input_width = 518;   // default of --width
  bool bundle_adjust = false;  // default of --bundle-adjust
  std::string fit = "crop";    // default of --fit: crop, pad or whole

  int64_t special_tokens() const { return 1 + num_register_tokens; }
};

struct Heads {
  bool camera = false, depth = false, points = false, tracks = false;
  bool operator==(const Heads&) const = default;
};

/// The heads of which the checkpoint holds any tensor.
Heads heads_in(const TensorShapes& shapes);

/// The architecture: what config_json says, the rest read off the tensors (if `shapes` is not empty).
/// Throws std::invalid_argument naming the key: malformed JSON, an unknown key, a value that is not possible
/// or contradicts a tensor, or (without config_json) a depth whose intermediate layers are not known.
Config read_config(const std::optional<std::string>& config_json, const TensorShapes& shapes);

/// config.json's text for a config.
std::string config_to_json(const Config& config, const Heads& heads);

/// Layers of the trunk whose outputs these heads read; the run ends with the last of them.
std::set<int64_t> kept_layers(const Config& config, const Heads& heads);

}  // namespace vggt
