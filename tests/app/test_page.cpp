// The report's page and that of a batch are whole without a browser: their parts, their data, and no names as markup.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>

#include "app/report/batch_page.h"
#include "app/report/page.h"
#include "app/report/page_scene.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kHostile = "a</script><script>alert(1)</script><!--\xff\xe2\x80\xa8.jpg";
constexpr int kWidth = 64, kHeight = 48, kFrames = 3;

class Page : public ::testing::Test {
 protected:
  Page() {
    std::string name = (fs::temp_directory_path() / "vggt_page_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~Page() override { fs::remove_all(dir_); }

  static MapReaders readers() {
    MapReaders readers{kWidth, kHeight, std::vector<FrameView>(kFrames, {0, kWidth, 0, kHeight}), {}, {}, {}};
    readers.read_rgb = [](std::size_t frame, std::span<uint8_t> rgb) {
      for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(40 * frame + i % 97);
    };
    readers.read_depth = [](int frame, std::span<float> depth) {
      for (std::size_t i = 0; i < depth.size(); ++i)
        depth[i] = i % 11 == 0 ? NAN : 1 + static_cast<float>(frame) + 0.01F * static_cast<float>(i % kWidth);
    };
    readers.read_confidence = readers.read_depth;
    return readers;
  }

  static PageContent content(int64_t points) {
    PageContent content;
    content.name = kHostile;
    for (int i = 0; i < kFrames; ++i) {
      FrameCamera camera;
      camera.camera.width = kWidth;
      camera.camera.height = kHeight;
      camera.camera.k << 60, 0, 32, 0, 60, 24, 0, 0, 1;
      camera.camera.cam_from_world.translation().x() = -0.3 * i;
      camera.camera.valid = i != 1;
      content.cameras.push_back(camera);
    }
    for (int64_t i = 0; i < points; ++i) {
      const auto t = static_cast<float>(i);
      content.cloud.points.emplace_back(std::sin(t), std::cos(1.7F * t), 3 + std::sin(0.31F * t));
      content.cloud.colors.emplace_back(static_cast<uint8_t>(i % 251), uint8_t{20}, uint8_t{200});
    }
    content.thumbnails = make_thumbnails(readers(), {});
    return content;
  }

  static Report report() {
    Report report;
    report.frames_used = {kHostile, "b.jpg", "c.jpg"};
    report.warnings = {kHostile + " is odd"};
    report.options.frames = kHostile;
    report.options.conf_percentile = 20;
    report.cloud_source = "depth";
    report.stage_seconds = {{"depth_head", 1.5}};
    report.health.emplace();
    report.health->frames.resize(kFrames);
    report.health->warnings = {{"apart", 0, 0, kHostile + " sees nothing"}};
    report.health->confidence = {1, 3, {4, 5, 6}};
    return report;
  }

  std::string written(const PageContent& content) {
    write_page(dir_ / "scene.html", report(), content);
    std::ifstream file(dir_ / "scene.html", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// What stands in the script of this id.
  static std::string script(const std::string& page, const std::string& id) {
    const std::string mark = " id=\"" + id + "\">";
    const std::size_t first = page.find(mark) + mark.size();
    return page.substr(first, page.find("</script>", first) - first);
  }
  static std::size_t count(const std::string& text, const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; at += words.size()) ++count;
    return count;
  }

  fs::path dir_;
};

TEST_F(Page, HoldsTheSceneAndNeedsNothingElse) {
  const std::string page = written(content(5000));
  const json scene = json::parse(script(page, "scene")), report = json::parse(script(page, "report"));
  EXPECT_EQ(scene.at("points").at("count"), 5000);
  EXPECT_EQ(script(page, "points").size(), (5000 * 9 + 2) / 3 * 4);
  EXPECT_EQ(scene.at("cameras").size(), 3u);
  EXPECT_TRUE(scene.at("cameras").at(1).is_null());
  EXPECT_EQ(scene.at("histogram").at("counts"), json({4, 5, 6}));
  EXPECT_EQ(scene.at("given"), json({"frames", "conf-percentile"}));
  EXPECT_EQ(report.at("health").at("warnings").size(), 1u);
  const json thumbnails = json::parse(script(page, "thumbnails"));
  EXPECT_EQ(thumbnails.at("panels"), 3);
  EXPECT_EQ(thumbnails.at("images").size(), 3u);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  for (const char* mark : {"@preview@", "@style@", "@still@", "@report@", "@scene@", "@thumbnails@", "@points@"})
    EXPECT_EQ(page.find(mark), std::string::npos) << mark;
  const std::string preview = page_preview(dir_ / "scene.html");
  EXPECT_TRUE(preview.starts_with("data:image/jpeg;base64,/9j/")) << preview.substr(0, 60);
}

TEST_F(Page, NamesOfFilesNeverBecomeMarkup) {
  const std::string page = written(content(10));
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(count(page, "<script"), 6u);
  EXPECT_EQ(count(page, "</script>"), 6u);
  const json report = json::parse(script(page, "report"));
  const std::string name = report.at("frames").at("files").at(0);
  EXPECT_TRUE(name.starts_with("a</script><script>alert(1)</script><!--")) << name;
}

TEST_F(Page, WorksWithoutPointsCamerasDepthAndHealth) {
  PageContent bare;
  bare.name = "bare";
  MapReaders images = readers();
  images.read_depth = images.read_confidence = nullptr;
  bare.thumbnails = make_thumbnails(images, {});
  Report report = Page::report();
  report.health.reset();
  write_page(dir_ / "bare.html", report, bare);
  std::ifstream file(dir_ / "bare.html", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const json scene = json::parse(script(page, "scene"));
  EXPECT_TRUE(scene.at("points").is_null());
  EXPECT_NE(page.find("src=\"\""), std::string::npos);  // no picture of nothing
  EXPECT_EQ(page_preview(dir_ / "bare.html"), "");
  EXPECT_EQ(scene.at("cameras"), json({nullptr, nullptr, nullptr}));
  EXPECT_EQ(json::parse(script(page, "thumbnails")).at("panels"), 1);
  EXPECT_TRUE(json::parse(script(page, "report")).at("health").is_null());
}

TEST(ThinnedPoints, CoverNearAndFarSurfacesAlike) {
  PointCloud cloud;  // two squares of one size, one of them with nine times the points
  for (int i = 0; i < 100'000; ++i) {
    const auto t = static_cast<float>(i);
    const bool dense = i % 10 != 0;
    cloud.points.emplace_back(std::fmod(0.618034F * t, 1.0F), std::fmod(0.754878F * t, 1.0F), dense ? 0.0F : 5.0F);
    cloud.colors.emplace_back(static_cast<uint8_t>(dense), uint8_t{0}, uint8_t{0});
  }
  const PointCloud thin = thinned_evenly(cloud, 4000);
  ASSERT_LE(thin.points.size(), 4000u);
  EXPECT_GT(thin.points.size(), 3000u);
  std::size_t dense = 0;
  for (const auto& color : thin.colors) dense += color[0];
  EXPECT_LT(dense, thin.points.size() * 2 / 3);
  EXPECT_EQ(thinned_evenly(cloud, 100'000).points.size(), 100'000u);
  PointCloud one;
  for (int i = 0; i < 10; ++i) one.add(cloud, 7);
  EXPECT_EQ(thinned_evenly(one, 3).points.size(), 1u);
}

TEST(PackedPoints, KeepPlacesToAFineStepAndLeaveOutWhatLiesFarOff) {
  PointCloud cloud;
  for (int i = 0; i < 1000; ++i) {
    cloud.points.emplace_back(0.001F * static_cast<float>(i), std::sin(static_cast<float>(i)), 5);
    cloud.colors.emplace_back(static_cast<uint8_t>(i % 256), uint8_t{7}, uint8_t{9});
  }
  cloud.points.emplace_back(1e6F, 0, 0);
  cloud.colors.emplace_back(uint8_t{0}, uint8_t{0}, uint8_t{0});
  const PackedPoints packed = packed_points(cloud);
  ASSERT_EQ(packed.count, 1000);
  ASSERT_EQ(packed.bytes.size(), 9000u);
  for (std::size_t i = 0; i < 1000; ++i) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t at = 6 * i + 2 * axis;
      const int place = packed.bytes[at] + 256 * packed.bytes[at + 1];
      const auto a = static_cast<Eigen::Index>(axis);
      const float value = packed.low[a] + packed.side[a] * static_cast<float>(place) / 65535;
      EXPECT_NEAR(value, cloud.points[i][a], packed.side[a] / 65535) << i;
    }
    EXPECT_EQ(packed.bytes[6000 + 3 * i], i % 256);
  }
  EXPECT_EQ(packed_points({}).count, 0);
}

TEST(Thumbnails, StayInTheirBudgetForThousandsOfFrames) {
  MapReaders readers{518, 392, std::vector<FrameView>(2500, {0, 518, 0, 392}), {}, {}, {}};
  readers.read_rgb = [](std::size_t frame, std::span<uint8_t> rgb) {
    uint32_t state = static_cast<uint32_t>(frame) + 1;
    for (uint8_t& value : rgb) value = static_cast<uint8_t>((state = state * 1664525U + 1013904223U) >> 25);
  };
  constexpr int64_t kBudget = 1'000'000;
  const Thumbnails thumbnails = make_thumbnails(readers, {}, kBudget, 200);
  std::size_t bytes = 0, shown = 0;
  for (const auto& jpeg : thumbnails.jpegs) {
    bytes += jpeg.size();
    shown += !jpeg.empty();
  }
  EXPECT_EQ(thumbnails.jpegs.size(), 2500u);
  EXPECT_EQ(shown, 200u);
  EXPECT_FALSE(thumbnails.jpegs.front().empty() || thumbnails.jpegs.back().empty());
  EXPECT_LT(bytes, 2 * kBudget);  // noise takes more than what cameras see
  EXPECT_GT(bytes, kBudget / 10);
  const cv::Mat image = cv::imdecode(thumbnails.jpegs.front(), cv::IMREAD_COLOR);
  EXPECT_EQ(image.cols, thumbnails.width);
  EXPECT_EQ(image.rows, thumbnails.height);
}

TEST(FilledPage, RefusesATemplateWithoutItsMark) {
  EXPECT_EQ(filled_page("a @x@ b", {{"x", "@x@"}}), "a @x@ b");  // what is put in is not looked through
  EXPECT_THROW(filled_page("a b", {{"x", "1"}}), std::logic_error);
}

TEST_F(Page, OfABatchListsItsScenes) {
  written(content(100));
  const std::vector<BatchRow> rows = {
      {kHostile, "done", 100, 3, 1.5, {kHostile}, "", "x y/javascript:#?.html", dir_ / "scene.html"},
      {"b", "failed", 0, 0, 0, {}, "no frames: <b>", "", dir_ / "missing.html"}};
  write_batch_page(dir_ / "index.html", "results <i>", rows);
  std::ifstream file(dir_ / "index.html", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(count(page, "<script"), 2u);
  EXPECT_EQ(page.find("<i>"), std::string::npos);
  const json data = json::parse(script(page, "data"));
  EXPECT_EQ(data.at("title"), "results <i>");
  const json& scenes = data.at("scenes");
  ASSERT_EQ(scenes.size(), 2u);
  EXPECT_EQ(scenes.at(0).at("link"), "./x%20y/javascript%3A%23%3F.html");
  EXPECT_TRUE(scenes.at(0).at("picture").get<std::string>().starts_with("data:image/jpeg;base64,"));
  EXPECT_EQ(scenes.at(1).at("picture"), "");
  EXPECT_EQ(scenes.at(1).at("error"), "no frames: <b>");
  EXPECT_EQ(page_preview(dir_ / "index.html"), "");  // a page, but not of a scene
}

}  // namespace
}  // namespace vggt
