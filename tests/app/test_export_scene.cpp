// What exports say of a scene: names and views of images, shared intrinsics, tracks, and maps at the images'
// pixels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <opencv2/videoio.hpp>

#include "app/export/export_maps.h"
#include "app/export/export_scene.h"
#include "io/scene/colmap_text.h"
#include "io/scene/depth_files.h"
#include "io/scene/ply.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kWidth = 56;

FrameSet load(const std::filesystem::path& source) {
  FrameOptions options;
  options.source = source;
  options.width = kWidth;
  return load_frames(options);
}

/// A plan that asks for everything, into a folder.
ExportPlan plan_into(const std::filesystem::path& folder, const std::string& images = "auto") {
  Options options;
  options.exports = {"colmap", "nerfstudio", "kitti", "glb", "depth", "confidence"};
  options.export_images = images;
  return plan_exports(options, folder / "scene", true);
}

/// Upright pictures of 100×140 whose pixels say where they are: as they are, turned and mirrored by EXIF.
class ExportTest : public ::testing::Test {
 protected:
  ExportTest() {
    const cv::Mat upright = test::position_picture(100, 140);
    std::filesystem::create_directories(folder_ / "in/more");
    for (const int orientation : {1, 2, 6, 8}) {
      const auto jpeg = test::encoded(".jpg", test::stored_picture(upright, orientation));
      test::write_bytes(folder_ / ("in/" + std::to_string(orientation) + ".jpg"),
                        test::with_exif(jpeg, orientation, false));
    }
    EXPECT_TRUE(cv::imwrite((folder_ / "in/more/1.png").string(), upright));
  }
  /// A list of images in in/.
  std::filesystem::path list(const std::string& names) {
    test::write_text(folder_ / "in/list.txt", names);
    return folder_ / "in/list.txt";
  }
  std::vector<FrameCamera> cameras_of(const FrameSet& frames) {
    std::vector<FrameCamera> cameras;
    for (const Frame& frame : frames.frames) {
      FrameCamera& camera = cameras.emplace_back(FrameCamera{frame.file, frame.time_s});
      camera.camera.map = frame.map;
      camera.camera.width = frames.width;
      camera.camera.height = frames.height;
      camera.camera.original_width = frame.original_width;
      camera.camera.original_height = frame.original_height;
      camera.camera.k << 60, 0, 27.5, 0, 60, 27.5, 0, 0, 1;
      camera.camera.model = CameraModel::simple_pinhole;
      camera.camera.camera_id = 0;
      camera.camera.cam_from_world.translation().x() = static_cast<double>(cameras.size());
    }
    return cameras;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ExportTest, OriginalsAreNamedAsTheyAreStored) {
  const FrameSet frames = load(list("6.jpg\nmore/1.png\n8.jpg\n1.jpg\n"));
  const ExportedImages images(plan_into(folder_.path()), folder_ / "in/list.txt", frames);
  EXPECT_FALSE(images.are_copies());
  EXPECT_EQ(images.originals(), folder_ / "in");
  EXPECT_EQ(images.name(1), "more/1.png");
  EXPECT_EQ(images.view(0).quarter_turns, 1);
  EXPECT_EQ(images.view(1).quarter_turns, 0);
  EXPECT_EQ(images.view(2).quarter_turns, 3);
  EXPECT_THAT(map_names(images, 4, MapFormat::exr), ElementsAre("6.exr", "more/1.exr", "8.exr", "1.exr"));
}

// A new export of the images that an export links to would otherwise link to itself.
TEST_F(ExportTest, OriginalsAreNotNamedThroughAFolderThatIsReplaced) {
  const ExportPlan plan = plan_into(folder_.path());
  const std::filesystem::path elsewhere = folder_ / "elsewhere", exported = folder_ / "colmap/images";
  ASSERT_EQ(std::ranges::count(plan.folders(), folder_ / "colmap"), 1);
  std::filesystem::create_directory(folder_ / "colmap");
  for (const auto& link : {elsewhere, exported})
    std::filesystem::create_directory_symlink(folder_ / "in", link);
  const std::filesystem::path list = folder_ / "linked.txt";
  for (const auto& [folder, expected] :
       {std::pair(exported, std::filesystem::canonical(folder_ / "in")), {elsewhere, elsewhere}}) {
    test::write_text(list, (folder / "6.jpg").string() + "\n" + (folder / "8.jpg").string() + "\n");
    const ExportedImages images(plan, list, load(list));
    EXPECT_EQ(images.originals(), expected);
    EXPECT_EQ(images.name(1), "8.jpg");
  }
}

TEST_F(ExportTest, WhatCannotBeReferredToIsCopiedOrRefused) {
  for (const auto& [names, reason] :
       {std::pair("2.jpg\n1.jpg\n", "2.jpg is stored mirrored"), {"1.jpg\n1.jpg\n", "1.jpg is two frames"}}) {
    const FrameSet frames = load(list(names));
    const std::filesystem::path source = folder_ / "in/list.txt";
    EXPECT_TRUE(ExportedImages(plan_into(folder_.path()), source, frames).are_copies());
    EXPECT_THAT(refusal([&] { ExportedImages(plan_into(folder_.path(), "refer"), source, frames); }),
                HasSubstr(std::string("export-images: refer cannot be, as ") + reason));
  }
}

// Readers of text end a name at the line's end, take blanks off its ends, and refuse what is no UTF-8.
TEST_F(ExportTest, NamesThatReadersWouldChangeAreCopiedUnderOthers) {
  for (const auto& [stored, exported] : {std::pair(" a.jpg", "_a.jpg"),
                                         {"a\xff.jpg", "a?.jpg"},
                                         {"a\nb.jpg", "a?b.jpg"},
                                         {"\xc3\xa9 \xe2\x82\xac.jpg", "\xc3\xa9 \xe2\x82\xac.jpg"}}) {
    const std::filesystem::path folder = folder_ / "names";
    std::filesystem::create_directory(folder);
    std::filesystem::copy_file(folder_ / "in/1.jpg", folder / stored);
    const FrameSet frames = load(folder);
    const ExportedImages images(plan_into(folder_.path()), folder, frames);
    EXPECT_EQ(images.are_copies(), std::string(stored) != exported);
    EXPECT_EQ(images.name(0), exported);
    if (images.are_copies()) {
      EXPECT_THAT(refusal([&] { ExportedImages(plan_into(folder_.path(), "refer"), folder, frames); }),
                  HasSubstr(std::string(exported) + " has a name that readers of exports would change"));
    }
    std::filesystem::remove_all(folder);
  }
}

TEST_F(ExportTest, InputsAreNotReplaced) {
  std::filesystem::rename(folder_ / "in/more", folder_ / "colmap");
  const FrameSet frames = load(folder_ / "colmap");
  EXPECT_THAT(refusal([&] { ExportedImages(plan_into(folder_.path()), folder_ / "colmap", frames); }),
              HasSubstr("colmap: would replace an input of this run"));
}

TEST_F(ExportTest, CopiesAreUprightAndHaveNamesOfTheirOwn) {
  const FrameSet frames = load(list("6.jpg\nmore/1.png\n1.jpg\n2.jpg\n1.jpg\n"));
  const ExportedImages images(plan_into(folder_.path(), "copy"), folder_ / "in/list.txt", frames);
  std::vector<FrameCamera> cameras = cameras_of(frames);
  cameras[3].camera.valid = false;
  std::filesystem::create_directory(folder_ / "out");
  images.write_copies(folder_ / "out", cameras, {});
  EXPECT_EQ(images.name(4), "1_2.jpg");
  EXPECT_EQ(test::read_bytes(folder_ / "out/1.jpg"), test::read_bytes(folder_ / "in/1.jpg"));
  EXPECT_EQ(test::read_bytes(folder_ / "out/more/1.png"), test::read_bytes(folder_ / "in/more/1.png"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/2.jpg"));
  const cv::Mat turned =
      cv::imread((folder_ / "out/6.jpg").string(), cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  ASSERT_EQ(turned.size(), cv::Size(100, 140));
  EXPECT_LT(cv::norm(turned, test::position_picture(100, 140), cv::NORM_INF), 16);
}

// The cameras are those of the images that were decoded.
TEST_F(ExportTest, ImagesThatChangeMeanwhileAreTold) {
  const FrameSet frames = load(list("more/1.png\n6.jpg\n"));
  const ExportedImages images(plan_into(folder_.path(), "copy"), folder_ / "in/list.txt", frames);
  EXPECT_EQ(images.changed(), std::vector<std::string>());
  std::filesystem::copy_file(folder_ / "in/more/1.png", folder_ / "in/6.jpg",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(images.changed(), std::vector<std::string>{"6.jpg"});
  std::filesystem::remove(folder_ / "in/6.jpg");
  EXPECT_EQ(images.changed(), std::vector<std::string>{"6.jpg"});
  EXPECT_THAT(refusal([&] { images.write_copies(folder_ / "out", cameras_of(frames), {}); }),
              HasSubstr("in/6.jpg: is gone"));
}

TEST_F(ExportTest, FramesOfAVideoAreCopiedByTheirNumbers) {
  const std::filesystem::path path = folder_ / "walk.avi";
  {
    cv::VideoWriter writer(path.string(), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 10,
                           {112, 84});
    ASSERT_TRUE(writer.isOpened());
    for (int i = 0; i < 21; ++i) writer.write(test::flat_picture(112, 84, 10 * i));
  }
  const FrameSet frames = load(path);  // one a second
  ASSERT_EQ(frames.frames.size(), 3U);
  const ExportedImages images(plan_into(folder_.path()), path, frames);
  std::filesystem::create_directory(folder_ / "out");
  images.write_copies(folder_ / "out", cameras_of(frames), {});
  for (const auto& [name, level] :
       {std::pair("walk_000000.jpg", 0), {"walk_000010.jpg", 100}, {"walk_000020.jpg", 200}}) {
    const cv::Mat copy = cv::imread((folder_ / "out" / name).string());
    ASSERT_EQ(copy.size(), cv::Size(112, 84)) << name;
    EXPECT_NEAR(cv::mean(copy)[0], level, 4) << name;
  }
  EXPECT_THAT(refusal([&] { ExportedImages(plan_into(folder_.path(), "refer"), path, frames); }),
              HasSubstr("no image files of their own"));
}

TEST_F(ExportTest, AVideosNameIsMadeReadableToo) {
  const std::filesystem::path path = folder_ / "walk\xff.avi";
  {
    cv::VideoWriter writer(path.string(), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 10,
                           {112, 84});
    ASSERT_TRUE(writer.isOpened());
    writer.write(test::flat_picture(112, 84, 10));
  }
  const FrameSet frames = load(path);
  EXPECT_EQ(ExportedImages(plan_into(folder_.path()), path, frames).name(0), "walk?_000000.jpg");
}

TEST_F(ExportTest, UndistortedCopiesAreAPinholes) {
  const FrameSet frames = load(list("more/1.png\n"));
  const ExportedImages images(plan_into(folder_.path(), "undistort"), folder_ / "in/list.txt", frames);
  std::vector<FrameCamera> cameras = cameras_of(frames);
  Camera& camera = cameras[0].camera;
  camera.model = CameraModel::simple_radial;
  camera.distortion << .1, 0;
  std::filesystem::create_directory(folder_ / "out");
  images.write_copies(folder_ / "out", cameras, {});
  const cv::Mat copy = cv::imread((folder_ / "out" / images.name(0)).string());
  ASSERT_EQ(copy.size(), cv::Size(100, 140));
  int black = 0;  // of noise of the JPEG, nearly
  for (int i = 0; i < 14000; ++i) {
    const auto& bgr = copy.at<cv::Vec3b>(i / 100, i % 100);
    black += std::max({bgr[0], bgr[1], bgr[2]}) < 30 ? 1 : 0;
  }
  EXPECT_GT(black, 100);
  EXPECT_NEAR(most_black_share(images, cameras), black / 14000., .01);
  camera.distortion << .01, 0;  // thin rims
  EXPECT_GT(most_black_share(images, cameras), .001);
  camera.distortion << -.1, 0;
  EXPECT_EQ(most_black_share(images, cameras), 0);
  camera.distortion << .1, 0;
  const Camera original = original_camera(camera);
  for (const Eigen::Vector2d& pixel : {Eigen::Vector2d(30, 40), {70, 90}, {50, 20}}) {
    // A pinhole shows at `pixel` what the distorted original shows at `from`.
    const Eigen::Vector3d ray = original.k.inverse() * pixel.homogeneous();
    const Eigen::Vector2d from = original.project(ray);
    const auto& bgr = copy.at<cv::Vec3b>(static_cast<int>(pixel.y()), static_cast<int>(pixel.x()));
    EXPECT_NEAR(bgr[2], 255 * from.x() / 99, 1.5);
    EXPECT_NEAR(bgr[1], 255 * from.y() / 139, 1.5);
    EXPECT_GT((from - pixel).norm(), .1);
  }
}

TEST_F(ExportTest, CamerasOfOneLensShareWhatTheyCan) {
  const FrameSet frames = load(list("6.jpg\nmore/1.png\n1.jpg\n8.jpg\n"));
  const ExportedImages images(plan_into(folder_.path()), folder_ / "in/list.txt", frames);
  std::vector<FrameCamera> cameras = cameras_of(frames);
  cameras[2].camera.k(0, 0) += 1e-6;
  std::vector<Track> tracks{{{0, 0, 4}, {1, 2, 3}, 0, {{0, {10, 20}}, {1, {30, 40}}, {3, {5, 6}}}},
                            {{0, 0, 4}, {1, 2, 3}, 0, {{0, {10, 20}}, {3, {5, 6}}}}};
  cameras[3].camera.valid = false;
  const ExportedScene scene = exported_scene({cameras, tracks, {}, nullptr, {}, kWidth}, images);
  ASSERT_EQ(scene.images.size(), 3U);
  EXPECT_EQ(scene.images[1].camera.camera_id, scene.images[2].camera.camera_id);
  EXPECT_NE(scene.images[0].camera.camera_id, scene.images[1].camera.camera_id);
  EXPECT_EQ(scene.images[1].camera.k, scene.images[2].camera.k);
  ASSERT_EQ(scene.tracks.size(), 1U);  // of the other one image is left
  ASSERT_EQ(scene.tracks[0].observations.size(), 2U);
  EXPECT_EQ(scene.tracks[0].observations[0].pixel, Eigen::Vector2d(20, 99 - 10));  // turned
  EXPECT_EQ(scene.tracks[0].observations[1].pixel, Eigen::Vector2d(30, 40));
  double error = 0;
  for (const Observation& seen : scene.tracks[0].observations) {
    const Camera& camera = scene.images[static_cast<std::size_t>(seen.frame)].camera;
    error += (camera.project(camera.cam_from_world * Eigen::Vector3d(0, 0, 4)) - seen.pixel).norm() / 2;
  }
  EXPECT_NEAR(scene.tracks[0].error_px, error, 1e-9);
}

// COLMAP's bundle adjustment would move what a few tracks hold: images with fewer than ten, and groups apart
// from the others with fewer than thirty an image.
TEST_F(ExportTest, TracksThatHoldNoImageAreLeftOut) {
  std::string names;
  for (int i = 0; i < 8; ++i) names += "more/1.png\n";
  const FrameSet frames = load(list(names));
  const ExportedImages images(plan_into(folder_.path()), folder_ / "in/list.txt", frames);
  const std::vector<FrameCamera> cameras = cameras_of(frames);
  const auto exported = [&](const std::vector<std::pair<int, std::vector<int>>>& groups) {
    std::vector<Track> tracks;
    for (const auto& [count, of] : groups) {
      Track track{{0, 0, 4}, {1, 2, 3}, 0, {}};
      for (const int frame : of) track.observations.push_back({frame, {10, 20}});
      tracks.insert(tracks.end(), static_cast<std::size_t>(count), track);
    }
    return exported_scene({cameras, tracks, {}, nullptr, {}, kWidth}, images).tracks.size();
  };
  EXPECT_EQ(exported({{100, {0, 1, 2}}}), 100U);
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {9, {0, 1, 3}}}), 100U);
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {10, {0, 1, 3}}}), 110U);
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {7, {0, 3}}, {5, {3, 4}}}), 100U);  // first 4, then 3
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {29, {3, 4, 5}}}), 100U);
  EXPECT_EQ(exported({{29, {0, 1, 2}}, {100, {3, 4, 5}}, {10, {2, 6, 7}}}), 100U);
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {30, {3, 4, 5}}}), 130U);
  EXPECT_EQ(exported({{100, {0, 1, 2}}, {29, {3, 4, 5}}, {12, {2, 3}}}), 141U);  // linked
  EXPECT_EQ(exported({{5, {0, 1, 2}}}), 5U);                                     // better than nothing
  EXPECT_EQ(exported({}), 0U);
}

// A scene that hardly a track holds begins with the cloud's points, as one without tracks does.
TEST_F(ExportTest, PointsOfTheCloudStandInForTracksThatHoldNoImage) {
  const FrameSet frames = load(list("more/1.png\nmore/1.png\nmore/1.png\n"));
  const ExportedImages images(plan_into(folder_.path()), folder_ / "in/list.txt", frames);
  const std::vector<FrameCamera> cameras = cameras_of(frames);
  PointCloud cloud;
  for (int i = 0; i < 50; ++i) {
    cloud.points.emplace_back(i, 0, 4);
    cloud.colors.emplace_back(1, 2, 3);
  }
  write_ply(folder_ / "cloud.ply", cloud);
  const auto exported = [&](std::size_t tracks) {
    const Track track{{0, 0, 4}, {1, 2, 3}, 0, {{0, {10, 20}}, {1, {10, 20}}, {2, {10, 20}}}};
    return exported_scene({cameras, std::vector(tracks, track), folder_ / "cloud.ply", nullptr, {}, kWidth},
                          images);
  };
  EXPECT_EQ(exported(9).tracks.size(), 0U);
  EXPECT_EQ(exported(9).points.points.size(), 50U);
  EXPECT_EQ(exported(10).tracks.size(), 10U);
  EXPECT_EQ(exported(10).points.points.size(), 0U);
}

std::vector<float> values_of(const ValueMap& map) {
  const auto width = static_cast<std::size_t>(map.width);
  std::vector<float> values(width * static_cast<std::size_t>(map.height));
  for (int y = 0; y < map.height; ++y)
    map.read_row(y, std::span(values).subspan(static_cast<std::size_t>(y) * width, width));
  return values;
}

/// Depth that says which pixel of the upright original it belongs to: x + 1000·y, where y is of the original.
std::vector<float> depth_of_rows(const Frame& frame, int width, int height) {
  std::vector<float> values;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) values.push_back(static_cast<float>(100 + frame.map.original_y(y)));
  }
  return values;
}

TEST_F(ExportTest, MapsLieOnThePixelsOfTheirImages) {
  const FrameSet frames = load(list("6.jpg\n1.jpg\n"));
  ASSERT_EQ(frames.height, kWidth);  // cropped: of 84 rows 14 above and below are not seen
  const ExportedImages images(plan_into(folder_.path()), folder_ / "in/list.txt", frames);
  const std::vector<FrameCamera> cameras = cameras_of(frames);
  const FrameView seen{0, kWidth, 0, kWidth};
  for (const std::size_t i : {0, 1}) {
    const Camera& camera = cameras[i].camera;
    const std::vector<float> map = depth_of_rows(frames.frames[i], kWidth, kWidth);
    const std::vector<float> values = values_of(at_image_size(map, kWidth, seen, camera, images.view(i)));
    const ViewedImage image(camera, images.view(i));
    const int width = image.camera().width;
    ASSERT_EQ(width, i == 0 ? 140 : 100);
    ASSERT_EQ(values.size(), 14000U);
    int inside = 0;
    for (int p = 0; p < 14000; ++p) {
      const Eigen::Vector2d original = image.to_original({p % width, p / width});
      const double y = camera.map.network_y(original.y());
      if (y < -.5 || y >= kWidth - .5) {
        ASSERT_EQ(values[static_cast<std::size_t>(p)], 0);
      } else if (y >= 0 && y <= kWidth - 1) {
        ASSERT_NEAR(values[static_cast<std::size_t>(p)], 100 + original.y(), 1e-3);
        ++inside;
      }
    }
    EXPECT_GT(inside, 8000);
  }
}

TEST_F(ExportTest, EdgesStaySharpAndHolesStayHoles) {
  Camera camera;
  camera.width = camera.height = 4;
  camera.original_width = camera.original_height = 8;
  camera.map = {.5, .5, 0, 0};
  const std::vector<float> map{1, 1, 5, 5, 1, 1, 5, 5, 1, NAN, 5, 5, 1, 1, 5, 5};
  const std::vector<float> values = values_of(at_image_size(map, 4, {0, 4, 0, 4}, camera, {}));
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      const bool hole = y / 2 == 2 && x / 2 == 1;
      EXPECT_EQ(values[static_cast<std::size_t>(8 * y + x)], hole ? 0 : x < 4 ? 1 : 5) << x << " " << y;
    }
  }
}

TEST_F(ExportTest, EverythingIsWrittenTogether) {
  const std::filesystem::path source = list("6.jpg\nmore/1.png\n1.jpg\n");
  const FrameSet frames = load(source);
  const std::vector<FrameCamera> cameras = cameras_of(frames);
  const std::vector<FrameView> seen(3, FrameView{0, kWidth, 0, kWidth});
  DenseMaps maps(std::make_shared<HostSpace>(), "test");
  for (int i = 0; i < 3; ++i) {
    std::vector<float> depth = depth_of_rows(frames.frames[static_cast<std::size_t>(i)], kWidth, kWidth);
    depth[0] = 1e6;  // an outlier must not take the others' precision
    maps.put(i, depth, std::vector<float>(kWidth * kWidth, 2));
  }
  const ReadMask read_mask = [&](std::size_t, std::span<uint8_t> used) {
    std::ranges::fill(used, uint8_t{1});
    std::fill_n(used.begin() + 30 * kWidth, kWidth, uint8_t{0});  // a row of the network's
  };
  write_ply(folder_ / "cloud.ply", {{{0, 0, 4}, {1, 0, 4}}, {{1, 2, 3}, {4, 5, 6}}});
  for (const char* how : {"refer", "copy"}) {
    const std::filesystem::path out = folder_ / how;
    const ExportPlan plan = plan_into(out, how);
    const ExportedImages images(plan, source, frames);
    StagedFiles files(plan.files(), plan.folders());
    export_scene(plan, images, {cameras, {}, folder_ / "cloud.ply", &maps, seen, kWidth, read_mask}, files);
    files.commit();
    const std::vector<FrameCamera> read = read_colmap_images(out / "colmap/sparse/0/images.txt");
    ASSERT_EQ(read.size(), 3U);
    for (const FrameCamera& image : read) {
      const cv::Mat pixels = cv::imread((out / "colmap/images" / image.file).string(),
                                        cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
      EXPECT_EQ(pixels.size(), cv::Size(image.camera.width, image.camera.height)) << how << image.file;
    }
    const auto transforms = nlohmann::json::parse(std::ifstream(out / "nerfstudio/transforms.json"));
    for (const auto& frame : transforms["frames"]) {
      EXPECT_TRUE(std::filesystem::exists(out / "nerfstudio" / frame["file_path"])) << frame;
      EXPECT_TRUE(std::filesystem::exists(out / "nerfstudio" / frame["depth_file_path"])) << frame;
    }
    EXPECT_EQ(read_ply_points(out / "nerfstudio/points.ply").size(), 2U);
    const auto list = nlohmann::json::parse(std::ifstream(out / "depth/maps.json"));
    const DepthMap depth = read_depth_png(out / "depth/more/1.png", list["unit"]);
    EXPECT_EQ(depth.width, 100);
    EXPECT_EQ(depth.height, 140);
    EXPECT_NEAR(depth.values[70 * 100 + 50], 170, .1);
    const int masked = static_cast<int>(std::lround(cameras[1].camera.map.original_y(30)));
    EXPECT_EQ(depth.values[static_cast<std::size_t>(masked) * 100 + 50], 0);
    EXPECT_EQ(read_depth_png(out / "confidence/6.png", 1).width, how == std::string("refer") ? 140 : 100);
    EXPECT_TRUE(std::filesystem::exists(out / "kitti.txt"));
    EXPECT_TRUE(std::filesystem::exists(out / "scene.glb"));
  }
}

}  // namespace
}  // namespace vggt
