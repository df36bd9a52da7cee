#include "app/report/report.h"

#include <open3d/Open3DConfig.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <opencv2/core/version.hpp>
#include <ostream>

#include "io/files/atomic_file.h"
#include "io/files/scratch_file.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json json_of(const Value& value) {
  return value;
}
template <class Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json options_json(const Options& options) {
  Json json;
  visit_options(options,
                [&](const OptionInfo& info, const auto& field) { json[info.name] = json_of(field); });
  return json;
}

Json filters_json(const std::vector<FilterCount>& filters) {
  Json json = Json::array();
  for (const FilterCount& filter : filters) {
    json.push_back({{"filter", filter.name}, {"before", filter.before}, {"after", filter.after}});
  }
  return json;
}

/// What is not known is left out, so that a page knows it from a number that is not finite.
void put(Json& json, const char* name, double value) {
  if (std::isfinite(value)) json[name] = value;
}

Json health_json(const SceneHealth& health, const std::vector<std::string>& files) {
  Json json;
  json["parts"] = health.parts;
  put(json, "agreement", health.agreement);
  json["warnings"] = Json::array();
  for (const HealthWarning& warning : health.warnings) {
    json["warnings"].push_back(
        {{"kind", warning.kind}, {"first", warning.first}, {"last", warning.last}, {"text", warning.text}});
  }
  json["frames"] = Json::array();
  for (std::size_t i = 0; i < health.frames.size(); ++i) {
    const FrameHealth& frame = health.frames[i];
    Json entry = {{"file", i < files.size() ? files[i] : std::string()}, {"part", frame.part}};
    put(entry, "confidence", frame.confidence);
    put(entry, "contrast", frame.contrast);
    put(entry, "overlap", frame.overlap);
    put(entry, "agreement", frame.agreement);
    put(entry, "link", frame.link);
    put(entry, "step", frame.step);
    entry["tracks"] = frame.tracks;
    put(entry, "reprojection_px", frame.reprojection_px);
    json["frames"].push_back(entry);
  }
  return json;
}

}  // namespace

std::map<std::string, std::string> library_versions() {
  return {{"vggt-recon", VGGT_VERSION}, {"opencv", CV_VERSION}, {"open3d", OPEN3D_VERSION}};
}

int64_t peak_host_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

std::string report_text(const Report& report) {
  Json json;
  json["versions"] = report.versions;
  json["weights"] = report.weights;
  json["device"] = report.device;
  json["precision"] = report.precision;
  json["head_precision"] = report.head_precision;
  json["heads"] = report.heads;
  if (!report.attention.empty()) json["attention"] = report.attention;
  json["poses"] = report.poses;
  json["cloud_source"] = report.cloud_source;
  json["network_size"] = {{"width", report.network_width}, {"height", report.network_height}};
  json["frames"] = {{"count", report.frames_used.size()},
                    {"files", report.frames_used},
                    {"skipped", report.frames_skipped}};
  json["points"] = report.points;
  json["filters"] = filters_json(report.filters);
  json["conf_threshold"] = report.conf_threshold;
  json["median_depth"] = report.median_depth;
  json["seconds"] = Json::object();
  for (const auto& [stage, seconds] : report.stage_seconds) json["seconds"][stage] = seconds;
  json["seconds"]["total"] = report.total_seconds;
  json["predicted_seconds"] = Json::object();
  for (const auto& [stage, seconds] : report.predicted_seconds) json["predicted_seconds"][stage] = seconds;
  if (report.predicted_total_seconds) json["predicted_seconds"]["total"] = *report.predicted_total_seconds;
  if (!report.likely_seconds.empty()) json["likely_seconds"] = report.likely_seconds;
  json["peak_host_bytes"] = peak_host_bytes();
  json["predicted_peak_host_bytes"] = report.predicted_peak_host_bytes;
  json["predicted_network_bytes"] = report.predicted_network_bytes;
  json["predicted_pinned_bytes"] = report.predicted_pinned_bytes;
  json["predicted_host_bytes"] = report.predicted_host_bytes;
  json["peak_scratch_bytes"] = peak_scratch_bytes();
  json["predicted_scratch_bytes"] = report.predicted_scratch_bytes;
  json["memory_plan"] = report.memory_plan;
  json["streams"] = report.streams;
  json["peak_device_bytes"] = report.peak_device_bytes;
  json["peak_device_reserved_bytes"] = report.peak_device_reserved_bytes;
  if (!report.rank_peak_bytes.empty()) json["rank_peak_bytes"] = report.rank_peak_bytes;
  json["health"] = report.health ? health_json(*report.health, report.frames_used) : Json();
  json["notes"] = report.notes;
  json["warnings"] = report.warnings;
  json["options"] = options_json(report.options);
  // nlohmann writes null for what is not finite; names of files may hold any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_report(const std::filesystem::path& path, const Report& report) {
  const std::string text = report_text(report);
  write_atomically(path, [&](std::ostream& out) { out << text << '\n'; });
}

}  // namespace vggt
