#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/health/scene_health.h"
#include "app/options/options.h"
#include "app/scene/scene_builder.h"

namespace vggt {

/// What a run did, as <name>.report.json says it.
struct Report {
  Options options;
  std::string weights, device, precision, head_precision, heads, poses, cloud_source;
  std::vector<std::string> frames_used, frames_skipped, warnings, notes;
  std::vector<std::string> attention;  // the kernels that computed it on a GPU since the model was loaded
  int network_width = 0, network_height = 0;
  std::vector<FilterCount> filters;
  double conf_threshold = 0, median_depth = 0;
  int64_t points = 0;
  std::vector<std::pair<std::string, double>> stage_seconds;
  // Of the network's stages where the rates of this machine are known, of others where earlier runs tell;
  // and in all, where that is known of each.
  std::vector<std::pair<std::string, double>> predicted_seconds;
  std::optional<double> predicted_total_seconds;
  // Of stages that nobody knows before, and then in all: by stage and "total", "middle", "least" and "most".
  std::map<std::string, std::map<std::string, double>> likely_seconds;
  double total_seconds = 0;
  // Most that the network takes where it runs, weights included, and what it pins of the host's memory.
  int64_t predicted_network_bytes = 0, predicted_pinned_bytes = 0;
  int64_t predicted_host_bytes = 0;       // of the network's tensors there
  int64_t predicted_scratch_bytes = 0;    // of all files at once
  int64_t predicted_peak_host_bytes = 0;  // of the whole process
  std::string memory_plan;                // in words
  // What was streamed beside the computation: copy_ms, wait_ms, total_ms, bytes, overlap; by name.
  std::map<std::string, std::map<std::string, double>> streams;
  // Most memory on the GPU since the process began: of tensors, and as LibTorch reserved it for them. 0 on
  // the CPU.
  int64_t peak_device_bytes = 0, peak_device_reserved_bytes = 0;
  std::vector<int64_t> rank_peak_bytes;  // of a run on several GPUs: most memory of tensors, by rank
  std::map<std::string, std::string> versions;
  std::optional<SceneHealth> health;
};

/// Versions of the program and of the libraries that do not come with torch.
std::map<std::string, std::string> library_versions();
/// Largest resident size of this process so far.
int64_t peak_host_bytes();

/// The report as JSON.
std::string report_text(const Report& report);
void write_report(const std::filesystem::path& path, const Report& report);

}  // namespace vggt
