#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "model/heads/head_constants.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 8;
// The largest size in a config: products of two such sizes stay far from overflow.
constexpr int64_t kMaxSize = 1 << 20;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("config.json: " + what);
}

/// What the tensors say about one size; empty where they do not.
std::optional<int64_t> size_of(const TensorShapes& shapes, const std::string& name, size_t axis) {
  const auto found = shapes.find(name);
  if (found == shapes.end() || found->second.size() <= axis) return std::nullopt;
  return found->second[axis];
}

/// How many blocks prefix.0, prefix.1, ... there are; empty where there are no tensors at all.
std::optional<int64_t> count_blocks(const TensorShapes& shapes, const std::string& prefix) {
  if (shapes.empty()) return std::nullopt;
  int64_t count = 0;
  while (true) {
    const std::string name = prefix + std::to_string(count) + ".";
    const auto found = shapes.lower_bound(name);
    if (found == shapes.end() || found->first.compare(0, name.size(), name) != 0) return count;
    ++count;
  }
}

bool has_prefix(const TensorShapes& shapes, const std::string& prefix) {
  const auto found = shapes.lower_bound(prefix);
  return found != shapes.end() && found->first.compare(0, prefix.size(), prefix) == 0;
}

/// The prefix of one of the heads that read the four intermediate layers; empty where there is none.
std::string any_dpt_prefix(const Heads& heads) {
  if (heads.depth) return "depth_head.";
  if (heads.points) return "point_head.";
  return heads.tracks ? "track_head.feature_extractor." : "";
}

Json parse(const std::string& text) {
  if (text.size() > kMaxJsonBytes) fail("larger than 1 MB");
  std::set<std::string> keys;
  const auto check_event = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMaxJsonDepth) fail("nested too deeply");
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(value.get<std::string>()).second)
      fail("the key '" + value.get<std::string>() + "' is there twice");
    return true;
  };
  try {
    Json json = Json::parse(text, check_event);
    if (!json.is_object()) fail("expected an object");
    return json;
  } catch (const Json::exception& error) {
    fail(std::string("not valid JSON: ") + error.what());
  }
}

/// Reads the fields of a Config from JSON and from the tensors, which must agree.
class ConfigReader {
 public:
  ConfigReader(const Json& json, bool has_tensors) : json_(json), has_tensors_(has_tensors) {}

  void integer(const std::string& key, int64_t& field, std::optional<int64_t> from_tensors,
               bool required = true, int64_t least = 1) {
    known_.insert(key);
    if (json_.contains(key)) {
      field = to_integer(key, json_[key], least);
      if (from_tensors && *from_tensors != field) {
        fail(key + " is " + std::to_string(field) + ", but the tensors say " + std::to_string(*from_tensors));
      }
    } else if (from_tensors) {
      field = *from_tensors;
      if (field < least || field > kMaxSize)
        fail(key + " cannot be " + std::to_string(field) + ", as the tensors say");
    } else if (required && !has_tensors_) {
      fail(key + " is missing");
    } else if (required) {
      throw std::invalid_argument("the tensors do not tell the architecture (" + key +
                                  "): not a VGGT checkpoint, or it needs a config.json that says so");
    }
  }

  bool four(const std::string& key, std::array<int64_t, 4>& field, int64_t least) {
    known_.insert(key);
    if (!json_.contains(key)) return false;
    const Json& list = json_[key];
    if (!list.is_array() || list.size() != 4) fail(key + ": expected a list of 4 integers");
    for (size_t i = 0; i < 4; ++i) field[i] = to_integer(key, list[i], least);
    return true;
  }

  void number(const std::string& key, double& field) {
    known_.insert(key);
    if (!json_.contains(key)) return;
    if (!json_[key].is_number()) fail(key + ": expected a number, got " + json_[key].dump());
    field = json_[key].get<double>();
    // It enters fp32 arithmetic.
    if (!std::isnormal(static_cast<float>(field)) || field <= 0)
      fail(key + ": expected a positive number, got " + json_[key].dump());
  }

  void boolean(const std::string& key, bool& field) {
    known_.insert(key);
    if (!json_.contains(key)) return;
    if (!json_[key].is_boolean()) fail(key + ": expected true or false, got " + json_[key].dump());
    field = json_[key].get<bool>();
  }

  void choice(const std::string& key, std::string& field, const std::set<std::string>& choices) {
    known_.insert(key);
    if (!json_.contains(key)) return;
    const bool good = json_[key].is_string() && choices.contains(json_[key].get<std::string>());
    if (!good) fail(key + ": not a choice that there is: " + json_[key].dump());
    field = json_[key].get<std::string>();
  }

  /// Accepts a key of the official repository's own config.json that says nothing new.
  void ignore(const std::string& key) { known_.insert(key); }

  void check_unknown() const {
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) fail("unknown key '" + key + "'");
    }
  }

 private:
  static int64_t to_integer(const std::string& key, const Json& value, int64_t least) {
    const bool fits =
        value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > kMaxSize);
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > kMaxSize) {
      fail(key + ": expected an integer from " + std::to_string(least) + " to " + std::to_string(kMaxSize) +
           ", got " + value.dump());
    }
    return value.get<int64_t>();
  }

  const Json& json_;
  bool has_tensors_;
  std::set<std::string> known_;
};

void read_aggregator(ConfigReader& read, const TensorShapes& shapes, Config& config) {
  read.integer("patch_size", config.patch_size,
               size_of(shapes, "aggregator.patch_embed.patch_embed.proj.weight", 2));
  std::optional<int64_t> img_size;
  if (const auto rows = size_of(shapes, "aggregator.patch_embed.pos_embed", 1); rows && *rows > 1) {
    img_size = config.patch_size * std::llround(std::sqrt(static_cast<double>(*rows - 1)));
  }
  read.integer("img_size", config.img_size, img_size);
  read.integer("embed_dim", config.embed_dim, size_of(shapes, "aggregator.camera_token", 3));
  std::optional<int64_t> heads;
  if (const auto head_dim = size_of(shapes, "aggregator.frame_blocks.0.attn.q_norm.weight", 0);
      head_dim && *head_dim > 0) {
    heads = config.embed_dim / *head_dim;
  }
  read.integer("num_heads", config.num_heads, heads);
  read.integer("depth", config.depth, count_blocks(shapes, "aggregator.frame_blocks."));
  read.integer("vit_depth", config.vit_depth, count_blocks(shapes, "aggregator.patch_embed.blocks."), true,
               0);
  config.vit_num_heads = std::max<int64_t>(1, config.embed_dim / 64);
  read.integer("vit_num_heads", config.vit_num_heads, std::nullopt, false);
  read.integer("num_register_tokens", config.num_register_tokens,
               size_of(shapes, "aggregator.register_token", 2), true, 0);
  read.number("rope_freq", config.rope_freq);
}

void read_heads(ConfigReader& read, const TensorShapes& shapes, const Heads& heads, Config& config) {
  config.camera_num_heads = config.num_heads;
  read.integer("camera_num_heads", config.camera_num_heads, std::nullopt, false);
  read.integer("camera_trunk_depth", config.camera_trunk_depth,
               heads.camera ? count_blocks(shapes, "camera_head.trunk.") : std::nullopt, heads.camera, 0);

  const std::string dense = heads.depth ? "depth_head." : "point_head.";
  read.integer("dpt_features", config.dpt_features, size_of(shapes, dense + "scratch.layer1_rn.weight", 0),
               heads.depth || heads.points);
  const std::string dpt = any_dpt_prefix(heads);
  if (!read.four("dpt_out_channels", config.dpt_out_channels, 1) && !dpt.empty()) {
    for (size_t i = 0; i < 4; ++i) {
      const auto channels = size_of(shapes, dpt + "projects." + std::to_string(i) + ".weight", 0);
      if (!channels)
        throw std::invalid_argument("tensor " + dpt + "projects." + std::to_string(i) + ".weight is missing");
      config.dpt_out_channels[i] = *channels;
    }
  }
  if (!read.four("intermediate_layers", config.intermediate_layers, 0) && !dpt.empty() &&
      config.depth != 24) {
    throw std::invalid_argument("which layers the heads read is not known for depth " +
                                std::to_string(config.depth) +
                                ": a config.json with intermediate_layers is needed beside the weights");
  }

  read.integer("track_features", config.track_features,
               size_of(shapes, "track_head.tracker.fmap_norm.weight", 0), heads.tracks);
  read.integer("track_hidden", config.track_hidden,
               size_of(shapes, "track_head.tracker.updateformer.input_transform.weight", 0), heads.tracks);
  read.integer(
      "track_depth", config.track_depth,
      heads.tracks ? count_blocks(shapes, "track_head.tracker.updateformer.time_blocks.") : std::nullopt,
      heads.tracks);
  std::optional<int64_t> levels;
  if (const auto inputs = size_of(shapes, "track_head.tracker.corr_mlp.fc1.weight", 1))
    levels = *inputs / kCorrelationWindow;
  read.integer("track_corr_levels", config.track_corr_levels, levels, heads.tracks);
}

void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

/// Throws where the sizes do not fit each other as the network needs them to.
void check(const Config& config, const Heads& heads) {
  require(config.img_size % config.patch_size == 0, "img_size must be a multiple of patch_size");
  require(config.embed_dim % (4 * config.num_heads) == 0, "embed_dim must be a multiple of 4·num_heads");
  require(config.embed_dim % config.vit_num_heads == 0, "embed_dim must be a multiple of vit_num_heads");
  require(2 * config.embed_dim % config.camera_num_heads == 0,
          "2·embed_dim must be a multiple of camera_num_heads");
  require(config.input_width % config.patch_size == 0, "input_width must be a multiple of patch_size");
  require(config.depth <= 1024 && config.vit_depth <= 1024 && config.camera_trunk_depth <= 1024,
          "a depth over 1024");
  if (heads.depth || heads.points) {
    require(config.dpt_features % 8 == 0, "dpt_features must be a multiple of 8");
    for (const int64_t channels : config.dpt_out_channels) {
      require(channels % 4 == 0, "dpt_out_channels must be multiples of 4");
    }
  }
  if (!any_dpt_prefix(heads).empty()) {
    for (const int64_t layer : config.intermediate_layers) {
      require(layer < config.depth, "intermediate_layers: layer " + std::to_string(layer) +
                                        " of a depth of " + std::to_string(config.depth));
    }
  }
  if (heads.tracks) {
    require(config.track_features % 4 == 0, "track_features must be a multiple of 4");
    require(config.track_hidden % 8 == 0, "track_hidden must be a multiple of 8");
    require(config.track_depth <= 1024 && config.track_corr_levels <= 16, "a tracker size over its limit");
  }
}

}  // namespace

Heads heads_in(const TensorShapes& shapes) {
  return {has_prefix(shapes, "camera_head."), has_prefix(shapes, "depth_head."),
          has_prefix(shapes, "point_head."), has_prefix(shapes, "track_head.")};
}

Config read_config(const std::optional<std::string>& config_json, const TensorShapes& shapes) {
  const Json json = config_json ? parse(*config_json) : Json::object();
  const Heads heads = heads_in(shapes);
  Config config;
  ConfigReader read(json, !shapes.empty());
  read_aggregator(read, shapes, config);
  read_heads(read, shapes, heads, config);
  config.input_width = config.img_size;
  read.integer("input_width", config.input_width, std::nullopt, false);
  read.boolean("bundle_adjust", config.bundle_adjust);
  read.choice("fit", config.fit, {"crop", "pad", "whole"});
  for (const char* key : {"enable_camera", "enable_depth", "enable_point", "enable_track"}) read.ignore(key);
  read.check_unknown();
  check(config, heads);
  return config;
}

std::string config_to_json(const Config& config, const Heads& heads) {
  Json json = {{"img_size", config.img_size},
               {"patch_size", config.patch_size},
               {"embed_dim", config.embed_dim},
               {"num_heads", config.num_heads},
               {"depth", config.depth},
               {"vit_depth", config.vit_depth},
               {"vit_num_heads", config.vit_num_heads},
               {"num_register_tokens", config.num_register_tokens},
               {"rope_freq", config.rope_freq},
               {"camera_num_heads", config.camera_num_heads},
               {"camera_trunk_depth", config.camera_trunk_depth}};
  if (heads.depth || heads.points) json["dpt_features"] = config.dpt_features;
  if (!any_dpt_prefix(heads).empty()) {
    json["dpt_out_channels"] = config.dpt_out_channels;
    json["intermediate_layers"] = config.intermediate_layers;
  }
  if (heads.tracks) {
    json["track_features"] = config.track_features;
    json["track_hidden"] = config.track_hidden;
    json["track_depth"] = config.track_depth;
    json["track_corr_levels"] = config.track_corr_levels;
  }
  json["input_width"] = config.input_width;
  json["bundle_adjust"] = config.bundle_adjust;
  json["fit"] = config.fit;
  return json.dump(1) + "\n";
}

std::set<int64_t> kept_layers(const Config& config, const Heads& heads) {
  std::set<int64_t> kept;
  if (heads.depth || heads.points || heads.tracks)
    kept.insert(config.intermediate_layers.begin(), config.intermediate_layers.end());
  if (heads.camera) kept.insert(config.depth - 1);
  return kept;
}

}  // namespace vggt
