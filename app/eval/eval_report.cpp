#include "app/eval/eval_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace vggt {
namespace {

using nlohmann::ordered_json;

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string frames_text(const char* what, const FrameCount& frames) {
  std::string text = fmt::format("{:<31}{} of {} ({} true)\n", std::string(what) + " matched", frames.matched,
                                 frames.result, frames.truth);
  if (!frames.only_result.empty())
    text += "  only in the result:          " + list(frames.only_result) + "\n";
  if (!frames.only_truth.empty()) text += "  only in the truth:           " + list(frames.only_truth) + "\n";
  return text;
}

std::string poses_text(const TrajectoryError& error) {
  return fmt::format(
      "ATE rmse after Sim(3)          {:.6g}\n"
      "scale of the Sim(3)            {:.6g}\n"
      "median rotation error          {:.3f} deg\n"
      "median translation direction   {:.3f} deg\n"
      "AUC@5 / @15 / @30              {:.4f} / {:.4f} / {:.4f}\n"
      "  directions of either sign    {:.4f} / {:.4f} / {:.4f}\n",
      error.ate_rmse, error.scale, error.median_rotation, error.median_translation_direction, error.auc.at_5,
      error.auc.at_15, error.auc.at_30, error.auc_either_sign.at_5, error.auc_either_sign.at_15,
      error.auc_either_sign.at_30);
}

std::string fov_text(const FovError& error) {
  return fmt::format("field of view, median error    {:.3f} deg (largest {:.3f})\n", error.median_deg,
                     error.largest_deg);
}

std::string depth_text(const DepthError& error) {
  return fmt::format(
      "AbsRel after median scaling    {:.4f}\n"
      "delta < 1.25                   {:.4f}\n"
      "scale of the medians           {:.6g}\n"
      "true pixels with a result      {:.4f}\n",
      error.abs_rel, error.delta_1, error.scale, error.coverage);
}

std::string cloud_text(const CloudError& error, bool aligned) {
  return fmt::format(
      "cloud                          {}\n"
      "accuracy                       {:.6g}\n"
      "completeness                   {:.6g}\n"
      "chamfer (mean of the two)      {:.6g}\n"
      "F-score at {:<20.4g}{:.4f} (precision {:.4f}, recall {:.4f})\n",
      aligned ? "aligned by the cameras' Sim(3)" : "compared as it lies: no cameras on both sides",
      error.accuracy, error.completeness, error.chamfer, error.threshold, error.f_score, error.precision,
      error.recall);
}

void put_frames(ordered_json& json, const FrameCount& frames, const char* result_name) {
  json["matched"] = frames.matched;
  json[result_name] = frames.result;
  json["truth"] = frames.truth;
  json["only_result"] = frames.only_result;
  json["only_truth"] = frames.only_truth;
}

void put_poses(ordered_json& json, const TrajectoryError& error) {
  json["ate_rmse"] = error.ate_rmse;
  json["scale"] = error.scale;
  json["median_rotation_deg"] = error.median_rotation;
  json["median_translation_direction_deg"] = error.median_translation_direction;
  json["auc_5"] = error.auc.at_5;
  json["auc_15"] = error.auc.at_15;
  json["auc_30"] = error.auc.at_30;
  json["auc_5_either_sign"] = error.auc_either_sign.at_5;
  json["auc_15_either_sign"] = error.auc_either_sign.at_15;
  json["auc_30_either_sign"] = error.auc_either_sign.at_30;
}

ordered_json cloud_json(const CloudError& error, bool aligned) {
  return {
      {"aligned", aligned},           {"accuracy", error.accuracy},   {"completeness", error.completeness},
      {"chamfer", error.chamfer},     {"threshold", error.threshold}, {"f_score", error.f_score},
      {"precision", error.precision}, {"recall", error.recall}};
}

}  // namespace

std::string to_text(const EvalReport& report) {
  std::string text;
  if (report.scenes > 1) text += fmt::format("scenes                         {}\n", report.scenes);
  if (report.poses) text += frames_text("poses", report.pose_frames) + poses_text(*report.poses);
  if (report.fov) text += fov_text(*report.fov);
  if (report.depth) text += frames_text("depth maps", report.depth_frames) + depth_text(*report.depth);
  if (report.cloud) text += cloud_text(*report.cloud, report.cloud_aligned);
  if (!report.left_out.empty()) text += "not compared                   " + list(report.left_out) + "\n";
  return text;
}

std::string to_json(const EvalReport& report) {
  ordered_json json = {{"scenes", report.scenes}};
  if (report.poses) {
    put_frames(json, report.pose_frames, "poses");
    put_poses(json, *report.poses);
  }
  if (report.fov) {
    json["fov_frames"] = report.fov->frames;
    json["median_fov_error_deg"] = report.fov->median_deg;
    json["largest_fov_error_deg"] = report.fov->largest_deg;
  }
  if (report.depth) {
    ordered_json& depth = json["depth"];
    put_frames(depth, report.depth_frames, "result");
    depth["abs_rel"] = report.depth->abs_rel;
    depth["delta_1"] = report.depth->delta_1;
    depth["scale"] = report.depth->scale;
    depth["coverage"] = report.depth->coverage;
  }
  if (report.cloud) json["cloud"] = cloud_json(*report.cloud, report.cloud_aligned);
  if (!report.left_out.empty()) json["not_compared"] = report.left_out;
  // File names may be no UTF-8, which JSON has to be.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vggt
