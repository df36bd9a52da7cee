#include "app/run/head_choice.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace vggt {
namespace {

constexpr std::array<std::pair<const char*, bool Heads::*>, 4> kHeads = {{{"camera", &Heads::camera},
                                                                          {"depth", &Heads::depth},
                                                                          {"points", &Heads::points},
                                                                          {"tracks", &Heads::tracks}}};

Heads named_heads(const std::vector<std::string>& names, const Heads& in_weights) {
  Heads heads;
  for (const auto& [name, head] : kHeads) {
    for (const std::string& named : names) heads.*head |= named == name;
    if (heads.*head && !(in_weights.*head)) {
      throw std::invalid_argument(std::string("heads: the weights have no head '") + name +
                                  "' (they have: " + heads_text(in_weights) + ")");
    }
  }
  return heads;
}

Heads default_heads(const Options& options, const Heads& in_weights) {
  const bool tracks = !options.query_points.empty();
  if (tracks && !in_weights.tracks)
    throw std::invalid_argument("query-points: the weights have no head 'tracks'");
  if (!options.save_predictions.empty())
    return {in_weights.camera, in_weights.depth, in_weights.points, tracks};
  const bool from_depth = options.points == "depth" && in_weights.depth && in_weights.camera;
  const bool exported = std::ranges::any_of(
      options.exports, [](const std::string& name) { return name == "depth" || name == "confidence"; });
  return {in_weights.camera, from_depth || (exported && in_weights.depth), !from_depth && in_weights.points,
          tracks};
}

CloudSource cloud_source(const Options& options, const Heads& run, bool takes_points) {
  if (options.out.empty() && !takes_points) return CloudSource::none;
  const bool depth_possible = run.camera && run.depth;
  if (options.points == "depth" && depth_possible) return CloudSource::depth;
  if (run.points) return CloudSource::point_head;
  return CloudSource::none;
}

}  // namespace

std::string heads_text(const Heads& heads) {
  std::string text;
  for (const auto& [name, head] : kHeads) {
    if (heads.*head) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

bool choose_adjustment(const Options& options, HeadChoice& heads) {
  const bool possible = heads.run.camera && heads.run.depth, stays = heads.cloud == CloudSource::point_head;
  if (options.bundle_adjust != "on") {
    const bool may = options.bundle_adjust == "auto";
    if (may && stays && heads.run.camera)
      heads.notes.emplace_back(
          "cameras are not adjusted, as the cloud is the point head's; --bundle-adjust on adjusts them");
    return may && possible && !stays;
  }
  if (!possible) {
    throw std::invalid_argument(
        "bundle-adjust: needs the heads camera and depth (running: " + heads_text(heads.run) + ")");
  }
  if (stays)
    heads.notes.emplace_back("bundle-adjust: cameras and depth are adjusted, the point head's cloud is not");
  return true;
}

bool choose_refinement(const Options& options, bool adjusts, bool has_refiner) {
  if (options.refine_depth != "on") return options.refine_depth == "auto" && adjusts && has_refiner;
  if (!has_refiner) throw std::invalid_argument("refine-depth: the weights have no depth refiner");
  if (!adjusts)
    throw std::invalid_argument("refine-depth: needs adjusted cameras, and they are not adjusted here");
  return true;
}

HeadChoice choose_heads(const Options& options, const Heads& in_weights, bool names_cloud,
                        bool takes_points) {
  if (options.points == "head" && !in_weights.points) {
    throw std::invalid_argument(
        "points: the weights have no point head (they have: " + heads_text(in_weights) + ")");
  }
  HeadChoice choice;
  choice.run =
      options.heads.empty() ? default_heads(options, in_weights) : named_heads(options.heads, in_weights);
  choice.cloud = cloud_source(options, choice.run, takes_points);
  if (options.heads.empty()) {
    Heads lacking;
    for (const auto& [name, head] : kHeads) lacking.*head = !(in_weights.*head);
    lacking.tracks = false;  // it runs where it is asked for alone
    if (lacking != Heads())
      choice.notes.push_back("heads that the weights lack are off: " + heads_text(lacking));
  }
  if (!options.query_points.empty() && !choice.run.tracks) {
    choice.notes.emplace_back("query-points is not used: --heads does not name tracks");
  }
  if (choice.cloud == CloudSource::point_head && options.points == "depth") {
    choice.notes.emplace_back("no depth with cameras: the cloud comes from the point head");
  }
  if (choice.cloud == CloudSource::none && !options.out.empty()) {
    const std::string needs =
        options.points == "head" ? "the head points" : "the heads camera and depth, or points";
    const std::string line = "a cloud needs " + needs + " (running: " + heads_text(choice.run) + ")";
    if (names_cloud) throw std::invalid_argument("out: " + line);
    choice.notes.push_back("no cloud is written: " + line);
  }
  return choice;
}

}  // namespace vggt
