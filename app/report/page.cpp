#include "app/report/page.h"

#include <algorithm>
#include <initializer_list>
#include <opencv2/imgproc.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>

#include "app/report/page_assets.h"
#include "app/report/page_scene.h"
#include "app/report/picture.h"
#include "io/files/atomic_file.h"
#include "io/files/base64.h"
#include "io/files/input_file.h"
#include "io/frames/image_writer.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPictureWidth = 1280, kPictureHeight = 800, kPreviewWidth = 320;
constexpr std::string_view kPreview = "<meta name=\"vggt-preview\" content=\"";

std::string data_uri(const Picture& picture, int quality) {
  return "data:image/jpeg;base64," + base64(encode_jpeg(picture.width, picture.height, picture.rgb, quality));
}

Picture reduced(const Picture& picture, int width) {
  const int height = width * picture.height / picture.width;
  Picture small{width, height, std::vector<uint8_t>(static_cast<std::size_t>(3 * width * height))};
  const cv::Mat from(picture.height, picture.width, CV_8UC3, const_cast<uint8_t*>(picture.rgb.data()));
  cv::Mat to(height, width, CV_8UC3, small.rgb.data());
  cv::resize(from, to, to.size(), 0, 0, cv::INTER_AREA);
  return small;
}

std::string thumbnails_json(const Thumbnails& thumbnails) {
  Json images = Json::array();
  for (const auto& jpeg : thumbnails.jpegs) images.push_back(base64(jpeg));
  return Json({{"width", std::max(1, thumbnails.width)},
               {"height", std::max(1, thumbnails.height)},
               {"panels", thumbnails.panels},
               {"images", images}})
      .dump();
}

Json histogram_json(const SceneHealth& health) {
  return {
      {"low", health.confidence.low}, {"high", health.confidence.high}, {"counts", health.confidence.counts}};
}

std::string joined(std::initializer_list<std::string_view> assets) {
  std::string text;
  for (const std::string_view name : assets) text.append(page_asset(name)).append("\n");
  return text;
}

std::string text_of(const Report& report, const PageContent& content) {
  std::vector<Camera> cameras;
  for (const FrameCamera& frame : content.cameras) cameras.push_back(frame.camera);
  const PackedPoints points = packed_points(content.cloud);
  std::string preview, still;  // none where there is nothing to see
  if (points.count > 0 || std::ranges::any_of(cameras, &Camera::valid)) {
    const Picture picture = draw_picture(content.cloud, cameras, kPictureWidth, kPictureHeight);
    preview = data_uri(reduced(picture, kPreviewWidth), 80);
    still = data_uri(picture, 84);
  }
  Json scene = page_scene(report, content, points, kPictureWidth, kPictureHeight);
  scene["histogram"] = report.health ? histogram_json(*report.health) : Json();
  const auto dumped = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return filled_page(page_asset("page.html"), {{"preview", preview},
                                               {"style", std::string(page_asset("page.css"))},
                                               {"still", still},
                                               {"report", script_json(report_text(report))},
                                               {"scene", script_json(dumped(scene))},
                                               {"thumbnails", thumbnails_json(content.thumbnails)},
                                               {"points", base64(points.bytes)},
                                               {"view", joined({"shaders.js", "gestures.js", "view.js"})},
                                               {"script", joined({"cards.js", "page.js"})}});
}

}  // namespace

std::string script_json(const std::string& json) {
  // Inside of script tags "</script" and "<!--" are not JSON's.
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string filled_page(std::string_view page, const std::vector<PagePart>& parts) {
  std::string text;
  for (const PagePart& part : parts) {
    const std::string mark = "@" + part.mark + "@";
    const std::size_t at = page.find(mark);
    if (at == std::string_view::npos) throw std::logic_error("a page without its mark " + mark);
    text.append(page.substr(0, at)).append(part.text);
    page.remove_prefix(at + mark.size());
  }
  return text.append(page);
}

void write_page(const std::filesystem::path& path, const Report& report, const PageContent& content) {
  const std::string text = text_of(report, content);
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

std::string page_preview(const std::filesystem::path& path) {
  constexpr std::size_t kMost = 1 << 18;  // the picture is near the page's beginning
  const InputFile file(path);
  std::string head(std::min<uint64_t>(file.size(), kMost), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  const std::size_t mark = head.find(kPreview);
  if (mark == std::string::npos) return {};
  const std::size_t first = mark + kPreview.size(), last = head.find('"', first);
  if (last == std::string::npos) return {};
  const std::string uri = head.substr(first, last - first);
  constexpr std::string_view kKind = "data:image/jpeg;base64,";
  const auto is_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
  };
  const bool is_picture = uri.starts_with(kKind) && std::ranges::all_of(uri.substr(kKind.size()), is_digit);
  return is_picture ? uri : std::string();
}

}  // namespace vggt
