// Known intrinsics and poses: read, checked against the frames, and given to the cameras.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "app/run/given_cameras.h"
#include "io/scene/cameras_json.h"
#include "io/scene/lens_numbers.h"

namespace {

using namespace vggt;

FrameSet three_frames() {
  FrameSet set;
  set.width = 320;
  set.height = 240;
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg"}) {
    Frame frame;
    frame.file = name;
    frame.time_s = static_cast<double>(set.frames.size());
    frame.original_width = 640;
    frame.original_height = 480;
    frame.map = {0.5, 0.5, 0, 0};
    set.frames.push_back(frame);
  }
  return set;
}

/// As a network gives them: three cameras in a row, one unit from each other.
std::vector<Camera> predicted(const FrameSet& set) {
  std::vector<Camera> cameras;
  for (const Frame& frame : set.frames) {
    Camera camera;
    camera.width = set.width;
    camera.height = set.height;
    camera.map = frame.map;
    camera.original_width = frame.original_width;
    camera.original_height = frame.original_height;
    camera.k << 300, 0, 160, 0, 310, 120, 0, 0, 1;
    camera.cam_from_world.translation() << -1.0 * static_cast<double>(cameras.size()), 0, 0;
    cameras.push_back(camera);
  }
  return cameras;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// A file in a folder that goes with the process.
std::filesystem::path place_of(const char* name) {
  struct Folder {
    std::string path = (std::filesystem::temp_directory_path() / "vggt_given_XXXXXX").string();
    Folder() {
      if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return std::filesystem::path(folder.path) / name;
}

/// The cameras of a file: as predicted, but with so many units from one to the next.
std::string camera_file(const char* name, double step, std::size_t frames, int width = 640,
                        double k1 = -0.1) {
  const std::filesystem::path path = place_of(name);
  const FrameSet set = three_frames();
  std::vector<FrameCamera> cameras;
  for (const Camera& camera : predicted(set)) {
    if (cameras.size() == frames) break;
    FrameCamera& frame = cameras.emplace_back(FrameCamera{set.frames[cameras.size()].file, {}, camera, 0});
    frame.camera.cam_from_world.translation() *= step;
    frame.camera.original_width = width;
    frame.camera.distortion << k1, 0;
    frame.camera.k(1, 1) = 300;
    frame.camera.model = CameraModel::simple_radial;
  }
  write_cameras_json(path, cameras);
  return path.string();
}

double take_given(const GivenCameras& given, const FrameSet& frames, std::vector<Camera>& cameras) {
  take_intrinsics(given, frames, cameras);
  return take_poses(given, frames, cameras);
}

TEST(GivenCameras, FourNumbersAreOfAllFramesAndCountFromTheCorner) {
  Options options;
  options.intrinsics = "500,510,320,240";
  const GivenCameras given = plan_given(options);
  const FrameSet set = three_frames();
  check_given(given, set);
  std::vector<Camera> cameras = predicted(set);
  EXPECT_EQ(take_given(given, set, cameras), 1);
  for (const Camera& camera : cameras) {
    const Eigen::Matrix3d k = camera.k_original();
    EXPECT_NEAR(k(0, 0), 500, 1e-9);
    EXPECT_NEAR(k(1, 1), 510, 1e-9);
    EXPECT_NEAR(k(0, 2), 319.5, 1e-9);
    EXPECT_NEAR(k(1, 2), 239.5, 1e-9);
    EXPECT_EQ(camera.model, CameraModel::pinhole);
    EXPECT_EQ(camera.camera_id, 0);
  }
  EXPECT_EQ(plan_adjustment(options, given, true).intrinsics, Known::exactly);
  options.refine = {"intrinsics"};
  EXPECT_EQ(plan_adjustment(options, given, true).intrinsics, Known::nearly);
}

// An image that was cropped at one side looks beside its camera's axis, which the network does not know.
TEST(GivenCameras, CamerasTurnWithThePrincipalPoint) {
  Options options;
  options.intrinsics = "500,500,220,300";
  const FrameSet set = three_frames();
  const std::vector<Camera> before = predicted(set);
  std::vector<Camera> cameras = before;
  const std::vector<Eigen::Vector3d> axes = take_intrinsics(plan_given(options), set, cameras);
  ASSERT_EQ(axes.size(), 3U);
  const Eigen::Vector3d beside = Eigen::Vector3d(100, -60, 500).normalized();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT((axes[i] - beside).norm(), 1e-12);
    EXPECT_LT((cameras[i].center() - before[i].center()).norm(), 1e-12);
    const Eigen::Vector3d looks = cameras[i].cam_from_world.linear().transpose() * beside;
    EXPECT_LT((looks - before[i].cam_from_world.linear().transpose().col(2)).norm(), 1e-12);
  }
  // A point that is 2 along the axis is nearer along the camera's own.
  const std::vector<float> factors = axis_factors(cameras[1], axes[1]);
  ASSERT_EQ(factors.size(), 320U * 240U);
  for (const auto& [x, y] : {std::pair(0, 0), std::pair(160, 120), std::pair(319, 7)}) {
    const float factor = factors[static_cast<std::size_t>(y * 320 + x)];
    const Eigen::Vector3d point = 2 * factor * cameras[1].ray(Eigen::Vector2d(x, y));
    EXPECT_NEAR(point.dot(beside), 2, 1e-6);
  }
}

TEST(GivenCameras, CamerasWithThePrincipalPointInTheMiddleStay) {
  Options options;
  options.intrinsics = "500,510,320,240";
  const FrameSet set = three_frames();
  std::vector<Camera> cameras = predicted(set);
  const std::vector<Eigen::Vector3d> axes = take_intrinsics(plan_given(options), set, cameras);
  ASSERT_EQ(axes.size(), 3U);
  EXPECT_TRUE(cameras[1].cam_from_world.linear().isIdentity(0));
  EXPECT_TRUE(axis_factors(cameras[1], axes[1]).empty());
  options.intrinsics.clear();
  EXPECT_TRUE(take_intrinsics(plan_given(options), set, cameras).empty());
}

TEST(GivenCameras, ColmapsNumbersTellCamerasApart) {
  const FrameSet set = three_frames();
  const auto ids = [&](std::array<int, 3> numbers) {
    std::string lines;
    for (std::size_t i = 0; i < 3; ++i)
      lines += std::to_string(i) + " 1 0 0 0 0 0 0 " + std::to_string(numbers.at(i)) + " " +
               set.frames[i].file + "\n\n";
    std::ofstream(place_of("images.txt")) << lines;
    std::ofstream(place_of("cameras.txt")) << "1 PINHOLE 640 480 500 500 320 240\n"
                                              "2 PINHOLE 640 480 500 500 320 240\n"
                                              "3 PINHOLE 640 480 500 500 320 240\n";
    Options options;
    options.intrinsics = place_of("images.txt").string();
    std::vector<Camera> cameras = predicted(set);
    take_given(plan_given(options), set, cameras);
    return std::array{cameras[0].camera_id, cameras[1].camera_id, cameras[2].camera_id};
  };
  EXPECT_EQ(ids({1, 2, 1}), (std::array{0, 1, 0}));
  EXPECT_EQ(ids({2, 2, 2}), (std::array{0, 0, 0}));
  EXPECT_EQ(ids({1, 2, 3}), (std::array{0, 0, 0}));  // one for each image says nothing
}

TEST(GivenCameras, AFileMayHoldTheFourNumbers) {
  const auto written = [](const char* name, const char* text) {
    std::ofstream(place_of(name)) << text;
    Options options;
    options.intrinsics = place_of(name).string();
    return options;
  };
  for (const char* text :
       {"500,510,320,240\n", "500 510\t320 240", "500\r\n510\r\n320\r\n240\r\n",
        "\xEF\xBB\xBF"
        "500,510,320,240\r\n",
        "# fx fy cx cy\n500 510 320 240 # pixels\n", "[500, 510, 320, 240]", "500 0 320\n0 510 240\n0 0 1\n",
        "500,0,320\n0,510,240\n0,0,1", "[[500.0, 0, 320],\n [0, 510, 240], [0, 0, 1]]"}) {
    const GivenCameras given = plan_given(written("numbers.txt", text));
    ASSERT_EQ(given.intrinsics.size(), 1U) << text;
    const Eigen::Matrix3d& k = given.intrinsics.front().camera.k;
    EXPECT_EQ(Eigen::Vector4d(k(0, 0), k(1, 1), k(0, 2), k(1, 2)), Eigen::Vector4d(500, 510, 319.5, 239.5));
  }
  for (const char* text : {"500,510,320", "500,510,320,240,0", "500,510,320,x", "-500,510,320,240"})
    EXPECT_NE(refusal([&] { plan_given(written("other.txt", text)); }), "") << text;
  EXPECT_NE(refusal([&] {
              plan_given(written("other.txt", "500,510,320"));
            }).find("expected fx,fy,cx,cy, a 3x3 matrix or the cameras of frames, got 3 numbers"),
            std::string::npos);
  for (const char* text : {"500 1 320 0 510 240 0 0 1", "500 0 320 0 510 240 0 0 2"})
    EXPECT_NE(refusal([&] { plan_given(written("other.txt", text)); }).find("expected a matrix"),
              std::string::npos);
}

// transforms.json as of NeRF has a field of view for all sizes; others leave the height out.
TEST(GivenCameras, AFieldOfViewIsForTheFramesWidth) {
  const FrameSet set = three_frames();
  const std::string path = place_of("angle.json").string();
  for (const char* lens : {R"("camera_angle_x": 1.5707963267948966)", R"("w": 640, "fl_x": 320)"}) {
    std::ofstream out(path);
    out << "{" << lens << R"(, "frames": [)";
    for (std::size_t i = 0; i < 3; ++i)
      out << (i > 0 ? "," : "") << R"({"file_path": ")" << set.frames[i].file
          << R"(", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]})";
    out << "]}";
    out.close();
    Options options;
    options.intrinsics = path;
    const GivenCameras given = plan_given(options);
    check_given(given, set);
    std::vector<Camera> cameras = predicted(set);
    take_given(given, set, cameras);
    const Eigen::Matrix3d expected{{320, 0, 319.5}, {0, 320, 239.5}, {0, 0, 1}};
    EXPECT_LT((cameras[1].k_original() - expected).norm(), 1e-9) << lens;
  }
}

TEST(GivenCameras, PosesGiveTheScaleOfDepth) {
  Options options;
  options.poses = options.intrinsics = camera_file("given.json", 2.5, 3);
  const GivenCameras given = plan_given(options);
  const FrameSet set = three_frames();
  check_given(given, set);
  std::vector<Camera> cameras = predicted(set);
  EXPECT_NEAR(take_given(given, set, cameras), 2.5, 1e-9);
  EXPECT_NEAR(cameras[2].cam_from_world.translation().x(), -5, 1e-9);
  EXPECT_EQ(cameras[1].distortion, Eigen::Vector2d(-0.1, 0));
  EXPECT_NEAR(cameras[1].k(0, 0), 300, 1e-9);
  EXPECT_EQ(cameras[1].model, CameraModel::simple_radial);
  const AdjustOptions adjust = plan_adjustment(options, given, true);
  EXPECT_EQ(adjust.poses, Known::exactly);
  EXPECT_EQ(adjust.model, CameraModel::simple_radial);
}

// A refinement frees what the model has, though it begins at 0.
TEST(GivenCameras, CamerasKeepTheModelThatTheyAreGivenAs) {
  const std::string path = place_of("radial.json").string();
  std::vector<FrameCamera> known;
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg"}) {
    FrameCamera& frame = known.emplace_back();
    frame.file = name;
    set_simple_intrinsics(frame.camera, 640, 480, 500);
    frame.camera.original_width = 640;
    frame.camera.original_height = 480;
    frame.camera.model = CameraModel::radial;
  }
  write_cameras_json(path, known);
  Options options;
  options.intrinsics = path;
  options.refine = {"intrinsics"};
  const GivenCameras given = plan_given(options);
  EXPECT_EQ(plan_adjustment(options, given, true).model, CameraModel::radial);
  std::vector<Camera> cameras = predicted(three_frames());
  take_given(given, three_frames(), cameras);
  EXPECT_EQ(cameras[2].model, CameraModel::radial);
}

// Four numbers say nothing of it; a model that has none says that there is none.
TEST(GivenCameras, DistortionIsLookedForBesideFourNumbersThatAreRefined) {
  const auto looks_for_it = [](const std::string& intrinsics, const std::string& camera, bool is_refined) {
    Options options;
    options.intrinsics = intrinsics;
    options.camera = camera;
    if (is_refined) options.refine = {"intrinsics"};
    const AdjustOptions adjust = plan_adjustment(options, plan_given(options), true);
    EXPECT_EQ(adjust.may_distort, !adjust.model) << intrinsics << ' ' << camera;
    return lenses_are_open(adjust);
  };
  EXPECT_TRUE(looks_for_it("500,500,320,240", "auto", true));
  EXPECT_FALSE(looks_for_it("500,500,320,240", "auto", false));
  EXPECT_FALSE(looks_for_it("500,500,320,240", "simple-pinhole", true));
  EXPECT_FALSE(looks_for_it("500,510,320,240", "auto", true));
}

TEST(GivenCameras, APrincipalPointFarFromTheMiddleIsToldOf) {
  const auto doubt = [](const std::string& numbers) {
    Options options;
    options.intrinsics = numbers;
    return doubt_of_intrinsics(plan_given(options), three_frames());
  };
  EXPECT_EQ(doubt("500,510,320,240"), "");
  EXPECT_EQ(doubt("500,510,290,260"), "");
  EXPECT_EQ(
      doubt("250,255,160,120"),
      "250,255,160,120: the principal point 160, 120 is far from the middle of 'a.jpg' of 640x480 pixels: "
      "unless it was cropped at one side, they are of images of another size");
  EXPECT_NE(doubt("500,510,240,320"), "");
  EXPECT_EQ(doubt_of_intrinsics(plan_given(Options()), three_frames()), "");
}

TEST(GivenCameras, FourNumbersAreOfOneSize) {
  FrameSet set = three_frames();
  set.frames[1].original_width = 320;
  Options options;
  options.intrinsics = "500,500,160,240";
  EXPECT_EQ(
      refusal([&] { check_given(plan_given(options), set); }),
      "intrinsics: 500,500,160,240: of which size? 'a.jpg' has 640x480 pixels, 'b.jpg' 320x480; a file gives "
      "each frame its own");
}

// What a file rounds is one focal length still.
TEST(GivenCameras, FocalLengthsThatDifferByRoundingAreOne) {
  for (const auto& [fy, model] :
       {std::pair(808.5733193775012, CameraModel::simple_radial), {808.6, CameraModel::pinhole}}) {
    Camera camera;
    const LensNumbers lens{640, 480, 808.5733193775011, fy, {}, {}, model == CameraModel::pinhole ? 0 : -.1};
    set_lens(camera, lens, LensReading::whole);
    EXPECT_EQ(camera.model, model);
    EXPECT_EQ(camera.k(0, 0) == camera.k(1, 1), model == CameraModel::simple_radial);
  }
}

TEST(GivenCameras, WhatDoesNotFitIsRefused) {
  const FrameSet set = three_frames();
  const auto of = [&](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    return refusal([&] {
      const GivenCameras given = plan_given(options);
      plan_adjustment(options, given, options.bundle_adjust != "off");
      check_given(given, set);
    });
  };
  const std::string two = camera_file("two.json", 1, 2), wide = camera_file("wide.json", 1, 3, 641);
  EXPECT_EQ(of([&](Options& o) { o.poses = two; }), "poses: " + two + ": has none for 'c.jpg'");
  EXPECT_EQ(of([&](Options& o) { o.intrinsics = two; }), "intrinsics: " + two + ": has none for 'c.jpg'");
  EXPECT_EQ(of([&](Options& o) { o.intrinsics = wide; }),
            "intrinsics: " + wide + ": is for 641x480 pixels, but 'a.jpg' has 640x480");
  EXPECT_NE(of([](Options& o) { o.intrinsics = "0,500,320,240"; }).find("intrinsics: expected fx,fy,cx,cy"),
            std::string::npos);
  for (const char* text : {"500,500,320,240,", "500 500 320 240", "500,500,320", ","}) {
    EXPECT_EQ(of([&](Options& o) { o.intrinsics = text; }),
              std::string("intrinsics: expected the four numbers fx,fy,cx,cy or a file, got '") + text + "'");
  }
  for (const char* odd : {"1e300,1e300,320,240", "1e-300,300,320,240", "500,1,320,240"}) {
    EXPECT_EQ(of([&](Options& o) { o.intrinsics = odd; }),
              std::string("intrinsics: ") + odd + ": no focal length for 'a.jpg' of 640x480 pixels");
  }
  for (const char* odd : {"500,500,1e9,240", "500,500,320,-9999"}) {
    EXPECT_NE(of([&](Options& o) { o.intrinsics = odd; }).find("no principal point"), std::string::npos);
  }
  for (const char* outside : {"500,500,-2,240", "500,500,641,240", "500,500,320,481"}) {
    EXPECT_EQ(of([&](Options& o) { o.intrinsics = outside; }),
              std::string("intrinsics: ") + outside +
                  ": a principal point outside the image for 'a.jpg' of 640x480 pixels");
  }
  EXPECT_EQ(of([](Options& o) { o.intrinsics = "500, 500, 320, 240"; }), "");
  EXPECT_EQ(of([](Options& o) { o.intrinsics = "500,320,240"; }),
            "intrinsics: expected the four numbers fx,fy,cx,cy or a file, got '500,320,240'");
  const std::string small = camera_file("small.json", 1, 3, 320, -40);
  EXPECT_NE(of([&](Options& o) { o.intrinsics = small; }).find("is for 320x"), std::string::npos);
  for (const double k1 : {-40.0, 1e30}) {
    const std::string bent = camera_file("bent.json", 1, 3, 640, k1);
    EXPECT_NE(of([&](Options& o) { o.intrinsics = bent; }).find("no distortion for 'a.jpg'"),
              std::string::npos)
        << k1;
  }
  for (const bool refine : {false, true}) {
    EXPECT_NE(of([&](Options& o) {
                o.bundle_adjust = "off";
                o.intrinsics = refine ? "500,500,320,240" : "";
                if (refine) o.refine = {"intrinsics"};
                if (!refine) o.camera = "radial";
              }).find("bundle-adjust is off"),
              std::string::npos);
  }
  EXPECT_NE(of([](Options& o) { o.refine = {"poses"}; }).find("refine: poses"), std::string::npos);
  EXPECT_NE(of([](Options& o) {
              o.intrinsics = "500,500,320,240";
              o.camera = "radial";
            }).find("camera: the intrinsics are known"),
            std::string::npos);
}

// As with the point head's cloud: what says how to adjust would be lost without a word.
TEST(GivenCameras, WhatSaysHowToAdjustIsRefusedWhereNothingIsAdjusted) {
  Options camera, refine;
  camera.camera = "radial";
  refine.intrinsics = "500,500,320,240";
  refine.refine = {"intrinsics"};
  for (const Options& options : {camera, refine}) {
    const GivenCameras given = plan_given(options);
    EXPECT_NE(
        refusal([&] { plan_adjustment(options, given, false); }).find("needs the heads camera and depth"),
        std::string::npos);
    EXPECT_EQ(refusal([&] { plan_adjustment(options, given, true); }), "");
  }
}

}  // namespace
