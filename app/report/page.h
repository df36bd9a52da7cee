#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/report/report.h"
#include "app/report/thumbnails.h"
#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"

namespace vggt {

/// More points make the page larger and slower than they make it better: 3.6 MB of text.
constexpr int64_t kPagePoints = 300'000;

/// What a page shows beside the report.
struct PageContent {
  std::string name;                  // of the scene
  std::vector<FrameCamera> cameras;  // of all frames; none without the camera head
  PointCloud cloud;                  // at most kPagePoints of its points
  Thumbnails thumbnails;
};

/// Writes one HTML file that needs no other and no network: the scene in 3D, its frames, and what the report
/// says. Throws std::system_error if the file cannot be written.
void write_page(const std::filesystem::path& path, const Report& report, const PageContent& content);

/// The small picture in a page that write_page() wrote, as a data URI; empty if the file holds none. Throws
/// std::system_error if the file cannot be read.
std::string page_preview(const std::filesystem::path& path);

/// Parts of a page's text.
struct PagePart {
  std::string mark, text;
};
/// The template with each mark `@mark@` replaced by its text, once. Throws std::logic_error for one that is
/// not there.
std::string filled_page(std::string_view page, const std::vector<PagePart>& parts);

/// JSON as it may stand between script tags.
std::string script_json(const std::string& json);

}  // namespace vggt
