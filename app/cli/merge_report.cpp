#include "app/cli/merge_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace vggt {
namespace {

using nlohmann::ordered_json;

StageSeconds total(const MergeReport& report) {
  StageSeconds sum{"total"};
  for (const StageSeconds& stage : report.stages) {
    sum.exact += stage.exact;
    sum.merged += stage.merged;
  }
  return sum;
}

std::string row_text(const StageSeconds& stage) {
  const double ratio = stage.exact > 0 ? stage.merged / stage.exact : 1;
  return fmt::format("{:<28}{:>10.3f}{:>10.3f}{:>10.2f}\n", stage.stage, stage.exact, stage.merged, ratio);
}

std::string spread_text(const char* what, const Spread& spread) {
  return fmt::format("{:<28}{:>10.4f}{:>10.4f}{:>10.4f}\n", what, spread.median, spread.ninety_percent,
                     spread.largest);
}

std::string camera_text(const CameraDifference& cameras) {
  return fmt::format("positions after Sim(3)      {:.4f} of the trajectory's extent (root mean squares)\n",
                     cameras.position) +
         fmt::format("AUC@5 / @15 / @30           {:.4f} / {:.4f} / {:.4f}, exact cameras as the truth\n",
                     cameras.auc.at_5, cameras.auc.at_15, cameras.auc.at_30);
}

std::string depth_text(const DepthDifference& depth) {
  return fmt::format(
             "depth                       compared in {} pixels, the more confident half, after scale "
             "{:.5f}\n",
             depth.pixels, depth.scale) +
         fmt::format("confidence                  median {:.4f} exact, {:.4f} merged; correlation {:.4f}\n",
                     depth.exact_confidence, depth.other_confidence, depth.confidence_correlation);
}

ordered_json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"ninety_percent", spread.ninety_percent}, {"largest", spread.largest}};
}

ordered_json merge_json(const MergeReport& report) {
  return {{"start", report.merge.start},     {"ratio", report.merge.ratio},
          {"protect", report.merge.protect}, {"seed", report.merge.seed},
          {"refresh", report.merge.refresh}, {"metric", report.merge.metric},
          {"blocks", report.blocks},         {"merging_blocks", report.merging_blocks},
          {"tokens", report.tokens},         {"most_rows", report.rows}};
}

ordered_json camera_json(const CameraDifference& cameras) {
  return {{"frames", cameras.frames},
          {"rotation_deg", spread_json(cameras.rotation_deg)},
          {"translation_direction_deg", spread_json(cameras.translation_direction_deg)},
          {"field_of_view_deg", spread_json(cameras.field_of_view_deg)},
          {"position", cameras.position},
          {"auc_5", cameras.auc.at_5},
          {"auc_15", cameras.auc.at_15},
          {"auc_30", cameras.auc.at_30}};
}

ordered_json depth_json(const DepthDifference& depth) {
  return {{"pixels", depth.pixels},
          {"scale", depth.scale},
          {"relative", spread_json(depth.relative)},
          {"exact_confidence", depth.exact_confidence},
          {"merged_confidence", depth.other_confidence},
          {"confidence_correlation", depth.confidence_correlation}};
}

ordered_json seconds_json(const MergeReport& report, double StageSeconds::*side) {
  ordered_json json;
  for (const StageSeconds& stage : report.stages) json[stage.stage] = stage.*side;
  json["total"] = total(report).*side;
  return json;
}

}  // namespace

std::string to_text(const MergeReport& report) {
  const PredictionDifference& difference = report.difference;
  std::string text = fmt::format(
      "{}, {} in {}\n{} frames of {}x{} pixels; the network alone, without bundle adjustment\n",
      report.machine, report.weights, report.precision, report.frames, report.width, report.height);
  text += fmt::format(
      "{} of {} global blocks merge, from block {}, ratio {}, protect {}, seed {}: ", report.merging_blocks,
      report.blocks, report.merge.start, report.merge.ratio, report.merge.protect, report.merge.seed);
  text += fmt::format("at most {} rows for {} tokens\n", report.rows, report.tokens);
  if (!report.nothing_merges.empty()) text += "nothing merges: " + report.nothing_merges + "\n";
  text += fmt::format("\n{:<28}{:>10}{:>10}{:>10}\n", "seconds", "exact", "merged", "ratio");
  for (const StageSeconds& stage : report.stages) text += row_text(stage);
  text += row_text(total(report));
  text += fmt::format("\n{:<28}{:>10}{:>10}{:>10}\n", "merged against exact", "median", "90 %", "largest");
  text += spread_text("rotation of pairs, deg", difference.cameras.rotation_deg);
  text += spread_text("direction of pairs, deg", difference.cameras.translation_direction_deg);
  text += spread_text("field of view, deg", difference.cameras.field_of_view_deg);
  if (difference.depth) text += spread_text("depth, relative", difference.depth->relative);
  text += camera_text(difference.cameras);
  if (difference.depth) text += depth_text(*difference.depth);
  return text;
}

std::string to_json(const MergeReport& report) {
  ordered_json json = {{"machine", report.machine},     {"weights", report.weights},
                       {"precision", report.precision}, {"frames", report.frames},
                       {"width", report.width},         {"height", report.height},
                       {"bundle_adjust", false},        {"merge", merge_json(report)}};
  json["nothing_merges"] =
      report.nothing_merges.empty() ? ordered_json() : ordered_json(report.nothing_merges);
  json["seconds"] = {{"exact", seconds_json(report, &StageSeconds::exact)},
                     {"merged", seconds_json(report, &StageSeconds::merged)}};
  json["cameras"] = camera_json(report.difference.cameras);
  const auto& depth = report.difference.depth;
  json["depth"] = depth ? depth_json(*depth) : ordered_json();
  // A file's name may be no UTF-8, which JSON has to be.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vggt
