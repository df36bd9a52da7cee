#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "model/config.h"

namespace vggt {

/// The tensors of a small network that read_config() looks at. heads: a bit for each head; from 16 on there
/// are no tensors at all.
inline TensorShapes small_shapes(uint8_t heads) {
  if (heads >= 16) return {};
  TensorShapes shapes = {{"aggregator.patch_embed.patch_embed.proj.weight", {64, 3, 14, 14}},
                         {"aggregator.patch_embed.pos_embed", {1, 17, 64}},
                         {"aggregator.camera_token", {1, 2, 1, 64}},
                         {"aggregator.register_token", {1, 2, 4, 64}},
                         {"aggregator.frame_blocks.0.attn.q_norm.weight", {32}},
                         {"aggregator.frame_blocks.1.attn.q_norm.weight", {32}},
                         {"aggregator.patch_embed.blocks.0.norm1.weight", {64}}};
  const auto add_dpt = [&](const std::string& prefix) {
    shapes[prefix + "scratch.layer1_rn.weight"] = {32, 16, 3, 3};
    for (const char* i : {"0", "1", "2", "3"}) shapes[prefix + "projects." + i + ".weight"] = {16, 128, 1, 1};
  };
  if ((heads & 1) != 0) shapes["camera_head.trunk.0.norm1.weight"] = {128};
  if ((heads & 2) != 0) add_dpt("depth_head.");
  if ((heads & 4) != 0) add_dpt("point_head.");
  if ((heads & 8) != 0) {
    add_dpt("track_head.feature_extractor.");
    shapes["track_head.tracker.fmap_norm.weight"] = {16};
    shapes["track_head.tracker.updateformer.input_transform.weight"] = {32, 100};
    shapes["track_head.tracker.updateformer.time_blocks.0.norm1.weight"] = {32};
    shapes["track_head.tracker.corr_mlp.fc1.weight"] = {32, 162};
  }
  return shapes;
}

/// Reads a config.json, which are all bytes but the first, for the tensors that the first byte chooses.
/// Aborts if an accepted config differs when it is read back from its own text. Throws std::invalid_argument
/// for a refused one.
inline void check_config(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const TensorShapes shapes = small_shapes(static_cast<uint8_t>(bytes[0]));
  const Config config =
      read_config(std::string(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1), shapes);
  const std::string text = config_to_json(config, heads_in(shapes));
  if (config_to_json(read_config(text, shapes), heads_in(shapes)) != text) std::abort();
}

}  // namespace vggt
