// Where the scene lies and what it leaves out: --align, --scale, --up, --masks and --consistent, on the
// program.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>

#include "io/scene/cameras_json.h"
#include "io/scene/ply.h"
#include "io/scene/tum.h"
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

class PlacementTest : public CliTest {
 protected:
  std::vector<FrameCamera> cameras(const std::string& folder) const {
    return read_cameras_json(path(folder + "/scene.cameras.json"));
  }
  std::vector<Eigen::Vector3d> points(const std::string& folder) const {
    return read_ply_points(path(folder + "/scene.ply"));
  }
  json report(const std::string& folder) const { return parse_strictly(path(folder + "/scene.report.json")); }

  /// The poses of a result after a similarity, as another program would give them.
  std::vector<FrameCamera> moved_poses(const std::string& folder, const Eigen::Affine3d& similarity) const {
    std::vector<FrameCamera> poses = cameras(folder);
    const double scale = std::cbrt(similarity.linear().determinant());
    for (FrameCamera& frame : poses) {
      const Eigen::Matrix3d world_from_cam =
          similarity.linear() / scale * frame.camera.cam_from_world.linear().transpose();
      const Eigen::Vector3d center = similarity * frame.camera.center();
      frame.camera.cam_from_world.linear() = world_from_cam.transpose();
      frame.camera.cam_from_world.translation() = -(world_from_cam.transpose() * center);
    }
    return poses;
  }
  void expect_moved(const std::string& before, const std::string& after, const Eigen::Affine3d& similarity) {
    const std::vector<FrameCamera> old_cameras = cameras(before), new_cameras = cameras(after);
    ASSERT_EQ(old_cameras.size(), new_cameras.size());
    const double scale = std::cbrt(similarity.linear().determinant());
    for (std::size_t i = 0; i < old_cameras.size(); ++i) {
      const Eigen::Vector3d expected = similarity * old_cameras[i].camera.center();
      EXPECT_LT((new_cameras[i].camera.center() - expected).norm(), 1e-5 * scale) << i;
      EXPECT_LT((new_cameras[i].camera.k - old_cameras[i].camera.k).norm(), 1e-9);
    }
    const std::vector<Eigen::Vector3d> old_points = points(before), new_points = points(after);
    ASSERT_EQ(old_points.size(), new_points.size());
    for (std::size_t i = 0; i < old_points.size(); ++i)
      ASSERT_LT((new_points[i] - similarity * old_points[i]).norm(),
                1e-4 * scale * (1 + old_points[i].norm()));
    EXPECT_NEAR(report(after)["median_depth"].get<double>(),
                scale * report(before)["median_depth"].get<double>(), 1e-4 * scale);
  }
};

Eigen::Affine3d some_similarity() {
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  similarity.linear() =
      3.5 * Eigen::AngleAxisd(1.1, Eigen::Vector3d(1, 2, -1).normalized()).toRotationMatrix();
  similarity.translation() = Eigen::Vector3d(10, -20, 5);
  return similarity;
}

TEST_F(PlacementTest, AlignBringsCamerasCloudAndDepthIntoTheFrameOfPoses) {
  ASSERT_EQ(reconstruct("--frames frames --out plain/").code, 0);
  const std::vector<FrameCamera> poses = moved_poses("plain", some_similarity());
  write_tum(dir_ / "poses.tum", poses);
  write_cameras_json(dir_ / "poses.json", poses);
  for (const char* file : {"poses.tum", "poses.json"}) {
    const Outcome outcome = reconstruct(std::string("--frames frames --out aligned/ --align ") + file);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("aligned to 3 poses of " + std::string(file) + ": scale 3.5"),
              std::string::npos)
        << outcome.err;
    expect_moved("plain", "aligned", some_similarity());
    EXPECT_NE(report("aligned")["poses"].get<std::string>().find("aligned to 3 poses"), std::string::npos);
  }
}

TEST_F(PlacementTest, AlignLeavesAWrongPoseOutAndSaysSo) {
  for (int i = 3; i < 7; ++i)
    fs::copy_file(path("frames/0.png"), path("frames/" + std::to_string(i) + ".png"));
  ASSERT_EQ(reconstruct("--frames frames --out plain/").code, 0);
  std::vector<FrameCamera> poses = moved_poses("plain", some_similarity());
  poses[1].camera.cam_from_world.translation() += Eigen::Vector3d(500, 0, 0);
  write_cameras_json(dir_ / "poses.json", poses);
  const Outcome outcome = reconstruct("--frames frames --out aligned/ --align poses.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("align: poses.json: the poses of 1 frames do not fit to the others and are left "
                             "out: 1.png"),
            std::string::npos)
      << outcome.err;
  expect_moved("plain", "aligned", some_similarity());
}

TEST_F(PlacementTest, ScaleEnlargesTheScene) {
  ASSERT_EQ(reconstruct("--frames frames --out plain/").code, 0);
  ASSERT_EQ(reconstruct("--frames frames --out large/ --scale 40").code, 0);
  Eigen::Affine3d forty = Eigen::Affine3d::Identity();
  forty.prescale(40.0);
  expect_moved("plain", "large", forty);
}

TEST_F(PlacementTest, UpTurnsTheSceneAndSaysThatItGuesses) {
  ASSERT_EQ(reconstruct("--frames frames --out plain/").code, 0);
  const Outcome outcome = reconstruct("--frames frames --out up/ --up auto");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("a guess from the cameras' horizon"), std::string::npos) << outcome.err;
  // A turn about the world's origin, the same for cameras and points.
  const Eigen::Matrix3d turn = cameras("up")[0].camera.cam_from_world.linear().transpose() *
                               cameras("plain")[0].camera.cam_from_world.linear();
  Eigen::Affine3d similarity = Eigen::Affine3d::Identity();
  similarity.linear() = turn;
  expect_moved("plain", "up", similarity);
}

TEST_F(PlacementTest, PosesOfAnotherSceneAreSaid) {
  ASSERT_EQ(reconstruct("--frames frames --out plain/").code, 0);
  std::string other;
  for (int i = 0; i < 3; ++i) {  // the frames in another order
    const Eigen::Vector3d at = cameras("plain")[static_cast<std::size_t>((i + 1) % 3)].camera.center();
    other += std::to_string(i);
    for (const double number : at) other += " " + std::to_string(1000 * number);
    other += " 0 0 0 1\n";
  }
  write(dir_ / "other.tum", other);
  const Outcome outcome = reconstruct("--frames frames --out out/ --align other.tum");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("% of their spread: are they of this scene"), std::string::npos) << outcome.err;
}

TEST_F(PlacementTest, PosesThatDoNotFitAreRefused) {
  const std::string begin = "--frames frames --out out/ --align ";
  expect_refusal(reconstruct(begin + "nowhere.tum"), "nowhere.tum");
  write(
      dir_ / "other.json",
      R"({"frames": [{"file_path": "x.png", "transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})");
  expect_refusal(reconstruct(begin + "other.json"), "align: other.json: names the frame 'x.png'");
  write(dir_ / "one.tum", "0 1 2 3 0 0 0 1\n");
  expect_refusal(reconstruct(begin + "one.tum"), "has poses of 1 of the 3 frames");
  expect_refusal(reconstruct(begin + "one.tum --dry-run"), "has poses of 1 of the 3 frames");
  write(dir_ / "point.tum", "0 1 2 3 0 0 0 1\n1 1 2 3 0 0 0 1\n2 1 2 3 0 0 0 1\n");
  expect_refusal(reconstruct(begin + "point.tum --dry-run"), "all cameras stand in one place");
  write(dir_ / "bad.tum", "0 1 2\n");
  expect_refusal(reconstruct(begin + "bad.tum"), "bad.tum:1");
  expect_refusal(reconstruct(begin + "one.tum --scale 2"), "align: it sets scale and axes");
  expect_refusal(reconstruct("--frames frames --out out/ --scale 0"), "scale");
  expect_refusal(reconstruct("--frames frames --out out/ --up sideways"), "up");
  fs::remove(dir_ / "one.tum");
  fs::remove(dir_ / "point.tum");
  fs::remove(dir_ / "bad.tum");
  expect_no_outputs();
}

TEST_F(PlacementTest, MasksTakePointsAway) {
  fs::create_directory(dir_ / "masks");
  for (int i = 0; i < 3; ++i) {
    cv::Mat mask(48, 64, CV_8UC1, cv::Scalar(255));
    mask.colRange(0, 32).setTo(0);
    ASSERT_TRUE(cv::imwrite(path("masks/" + std::to_string(i) + ".png"), mask));
  }
  const std::string begin = "--frames frames --conf-percentile 0 --max-points 0 --out ";
  ASSERT_EQ(reconstruct(begin + "plain/").code, 0);
  ASSERT_EQ(reconstruct(begin + "masked/ --masks masks").code, 0);
  const double all = static_cast<double>(points("plain").size()),
               left = static_cast<double>(points("masked").size());
  EXPECT_NEAR(left / all, 0.5, 0.02);
  fs::remove(path("masks/1.png"));
  expect_refusal(reconstruct("--frames frames --out out/ --masks masks"),
                 "masks: masks holds no mask for the frame 1.png");
  ASSERT_TRUE(cv::imwrite(path("masks/1.png"), cv::Mat(64, 48, CV_8UC1, cv::Scalar(255))));
  expect_refusal(reconstruct("--frames frames --out out/ --masks masks"), "masks/1.png: has 48x64 pixels");
  EXPECT_FALSE(fs::exists(path("out")));
}

// Cropped at one side, then at the other: the network does not know that these look beside their axes.
TEST_F(PlacementTest, ImagesCroppedAtDifferentSidesFitTogetherByTheirIntrinsics) {
  constexpr int kCropped = 72, kFrames = 12;
  const fs::path room = fs::path(VGGT_SOURCE_DIR) / "examples/room";
  fs::create_directory(dir_ / "cropped");
  json known = {{"camera_model", "PINHOLE"}, {"frames", json::array()}};
  for (int i = 0; i < kFrames; ++i) {
    const std::string name = (i < 10 ? "0" : "") + std::to_string(i);
    const cv::Mat image = cv::imread(room / (name + ".jpg"));
    ASSERT_FALSE(image.empty());
    const int left = i % 2 == 0 ? kCropped : 0;
    const cv::Mat part = image.colRange(left, left + image.cols - kCropped);
    ASSERT_TRUE(cv::imwrite(path("cropped/" + name + ".png"), part));
    known["frames"].push_back({{"file_path", name + ".png"},
                               {"fl_x", 357.7709},
                               {"fl_y", 357.7709},
                               {"cx", 224.5 - left},
                               {"cy", 168.5},
                               {"w", part.cols},
                               {"h", part.rows}});
  }
  std::ofstream(path("known.json")) << known;
  const Outcome done = run("--device cpu --frames cropped --intrinsics known.json --out o/");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err.find("groups of frames"), std::string::npos) << done.err;
  const Outcome compared = run("eval --result o/scene.cameras.json --truth '" +
                               (room / "groundtruth.tum").string() + "' --json e.json");
  ASSERT_EQ(compared.code, 0) << compared.err;
  const json errors = parse_strictly(path("e.json"));
  EXPECT_LT(errors["median_rotation_deg"], 0.2);
  EXPECT_LT(errors["median_translation_direction_deg"], 1);
}

TEST_F(PlacementTest, ConsistencyAsksOtherFrames) {
  const std::string begin = "--frames frames --conf-percentile 0 --out ";
  ASSERT_EQ(reconstruct(begin + "all/").code, 0);
  ASSERT_EQ(reconstruct(begin + "one/ --consistent 1").code, 0);
  const Outcome none = reconstruct(begin + "none/ --consistent 3");  // there are only two others
  EXPECT_EQ(none.code, 0);
  EXPECT_NE(none.err.find("the cloud has no points: --consistent 3 asks for more frames than the 2 others"),
            std::string::npos)
      << none.err;
  const Outcome unsure = reconstruct(begin + "unsure/ --conf-threshold 1e9");
  EXPECT_NE(unsure.err.find("the cloud has no points\n"), std::string::npos) << unsure.err;
  EXPECT_LT(points("one").size(), points("all").size());
  make_safetensors();
  expect_refusal(
      run("--device cpu --weights nano.safetensors --frames frames --out out/ --heads points --consistent 1"),
      "consistent: needs the head camera");
}

}  // namespace
}  // namespace vggt::test
