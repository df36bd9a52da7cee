// Whose pose is whose: cameras of a file and the frames of a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/scene/known_cameras.h"
#include "io/scene/image_view.h"
#include "io/scene/pose_files.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

FrameSet frames_named(const std::vector<std::string>& names, const std::vector<std::string>& not_taken = {}) {
  FrameSet set;
  for (const std::string& name : names) {
    Frame& frame = set.frames.emplace_back();
    frame.file = name;
    frame.time_s = static_cast<double>(set.frames.size() - 1);
  }
  set.not_taken = not_taken;
  return set;
}

FrameCamera named(const std::string& name, double x) {
  FrameCamera frame{name, std::nullopt, {}, 0};
  frame.camera.cam_from_world.translation().x() = x;
  return frame;
}

FrameCamera timed(double time_s, double x) {
  FrameCamera frame = named("", x);
  frame.time_s = time_s;
  return frame;
}

/// The x of each frame's camera, or -1.
std::vector<double> matched(const FrameSet& frames, const std::vector<FrameCamera>& known) {
  std::vector<double> result;
  for (const auto& camera : match_cameras(frames, known, "align: p.tum"))
    result.push_back(camera ? camera->cam_from_world.translation().x() : -1);
  return result;
}

TEST(MatchCameras, ByNameOrByTime) {
  const FrameSet frames = frames_named({"a.jpg", "b.jpg", "c.jpg"});
  EXPECT_EQ(matched(frames, {named("c.jpg", 3), named("a.jpg", 1)}), (std::vector<double>{1, -1, 3}));
  EXPECT_EQ(matched(frames, {named("images/b.png", 2)}), (std::vector<double>{-1, 2, -1}));
  EXPECT_EQ(matched(frames, {timed(2, 3), timed(0, 1), timed(77, 9)}), (std::vector<double>{1, -1, 3}));
  FrameCamera lost = named("nobody.jpg", 9);
  lost.camera.valid = false;
  EXPECT_EQ(matched(frames, {lost, named("a.jpg", 1)}), (std::vector<double>{1, -1, -1}));
}

TEST(MatchCameras, FramesThatWereNotTakenMayHavePoses) {
  const std::vector<FrameCamera> known = {named("a.jpg", 1), named("left_out.jpg", 2)};
  EXPECT_EQ(matched(frames_named({"a.jpg"}, {"left_out.jpg"}), known), std::vector<double>{1});
  EXPECT_EQ(refusal([&] { matched(frames_named({"a.jpg"}), known); }),
            "align: p.tum: names the frame 'left_out.jpg' that the frames do not include, such as 'a.jpg'");
  const std::vector<FrameCamera> video = {named("walk.mp4#0", 1), named("walk.mp4#5", 2)};
  EXPECT_EQ(matched(frames_named({"walk.mp4#0", "walk.mp4#30"}), video), (std::vector<double>{1, -1}));
  EXPECT_NE(refusal([&] { matched(frames_named({"run.mp4#0"}), video); }).find("and 1 others"),
            std::string::npos);
}

TEST(MatchCameras, WhatCannotBeMatchedIsRefused) {
  const FrameSet frames = frames_named({"a.jpg", "b.jpg"});
  EXPECT_EQ(refusal([&] {
              matched(frames, {named("a.jpg", 1), named("a.jpg", 2)});
            }),
            "align: p.tum: the poses: frame 'a.jpg' is there twice");
  EXPECT_EQ(refusal([&] {
              matched(frames, {timed(1, 1), timed(1, 2)});
            }),
            "align: p.tum: the poses: time 1 is there twice");
  EXPECT_EQ(refusal([&] { matched(frames, {named("", 1)}); }),
            "align: p.tum: its cameras have neither names nor times");
}

// COLMAP's cameras are of the images as their files store them; frames are upright.
TEST(MatchCameras, OfStoredImagesAreTurnedAsExifSays) {
  Camera upright;
  upright.width = upright.original_width = 300;
  upright.height = upright.original_height = 400;
  upright.k << 350, 0, 151.5, 0, 351, 197.25, 0, 0, 1;
  upright.cam_from_world.linear() =
      Eigen::AngleAxisd(.4, Eigen::Vector3d(.3, -1, .2).normalized()).toRotationMatrix();
  upright.cam_from_world.translation() << .1, -.3, .2;
  for (int turns = 0; turns < 4; ++turns) {
    FrameSet frames = frames_named({"a.jpg"});
    Frame& frame = frames.frames.front();
    frame.original_width = 300;
    frame.original_height = 400;
    frame.quarter_turns = turns;
    FrameCamera stored{"a.jpg", {}, ViewedImage(upright, {turns, false}).camera()};
    stored.as_stored = true;
    const auto expect_upright = [&](const FrameCamera& known) {
      const Camera found = *match_cameras(frames, {known}, "poses").front();
      EXPECT_TRUE(found.cam_from_world.isApprox(upright.cam_from_world, 1e-12)) << turns;
      if (known.camera.has_intrinsics()) {
        EXPECT_TRUE(found.k.isApprox(upright.k, 1e-12)) << turns;
      }
    };
    expect_upright(stored);
    FrameCamera pose_alone{"a.jpg", {}, {}};
    pose_alone.camera.cam_from_world = stored.camera.cam_from_world;
    pose_alone.as_stored = true;
    expect_upright(pose_alone);
    expect_upright({"a.jpg", {}, upright});
    if (turns % 2 == 0) continue;
    FrameCamera of_a_copy{"a.jpg", {}, upright};  // made upright: its shape says so, whatever its size
    of_a_copy.as_stored = true;
    of_a_copy.camera.width = 150;
    of_a_copy.camera.height = 201;
    expect_upright(of_a_copy);
  }
}

// fl_x as an angle is of the width of the stored image.
TEST(MatchCameras, AFieldOfViewIsOfTheStoredImage) {
  FrameSet frames = frames_named({"a.jpg"});
  Frame& frame = frames.frames.front();
  frame.original_width = 300;
  frame.original_height = 400;
  frame.quarter_turns = 1;
  FrameCamera known{"a.jpg", {}, {}};
  known.as_stored = true;
  set_simple_intrinsics(known.camera, 1, 0, 2);
  const Camera found = *match_cameras(frames, {known}, "poses").front();
  EXPECT_EQ(found.k(0, 0), 800);
  EXPECT_EQ(found.k(1, 1), 800);
  EXPECT_EQ(found.k(0, 2), 149.5);
  EXPECT_EQ(found.k(1, 2), 199.5);
}

TEST(MatchCameras, NamesOfExportsAreKnown) {
  EXPECT_EQ(matched(frames_named({"walk.mp4#0", "walk.mp4#12"}),
                    {named("images/walk_000012.jpg", 2), named("images/walk_000000.jpg", 1)}),
            (std::vector<double>{1, 2}));
  EXPECT_EQ(
      matched(frames_named({"nest/a/0.jpg", "nest/b/0.jpg"}), {named("b/0.jpg", 2), named("a/0.jpg", 1)}),
      (std::vector<double>{1, 2}));
  EXPECT_EQ(matched(frames_named({"a/0.jpg", "b/0.jpg"}),
                    {named("../../nest/b/0.jpg", 2), named("../../nest/a/0.jpg", 1)}),
            (std::vector<double>{1, 2}));
}

class PoseFiles : public ::testing::Test {
 protected:
  PoseFiles() {
    std::string name = (fs::temp_directory_path() / "vggt_poses_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~PoseFiles() override { fs::remove_all(dir_); }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  fs::path dir_;
};

TEST_F(PoseFiles, AreKnownByWhatTheyHold) {
  const fs::path tum = write("poses.txt", "# time x y z qx qy qz qw\n1 2 3 4 0 0 0 1\n");
  EXPECT_EQ(read_pose_file(tum).at(0).time_s, 1);
  EXPECT_EQ(read_pose_file(write("commented.txt", "1 2 3 4 0 0 0 1 # as of a survey\n")).at(0).time_s, 1);
  const std::string image = "1 1 0 0 0 7 8 9 1 a b.jpg\n\n";
  const fs::path colmap = write("sparse/images.txt", image);
  for (const fs::path& path : {colmap, dir_ / "sparse"}) {
    EXPECT_EQ(read_pose_file(path).at(0).file, "a b.jpg");
    EXPECT_EQ(read_pose_file(path).at(0).camera.cam_from_world.translation(), Eigen::Vector3d(7, 8, 9));
  }
  write("scene/sparse/0/images.txt", "\xEF\xBB\xBF" + image);
  EXPECT_EQ(read_pose_file(dir_ / "scene").at(0).file, "a b.jpg");
  const std::string nerf =
      R"( {"frames": [{"file_path": "x.png", "transform_matrix": [[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  write("nerf/transforms.json", "\xEF\xBB\xBF" + nerf);
  const fs::path json = write("nerf2/transforms.json", nerf);
  for (const fs::path& path : {json, dir_ / "nerf2"})
    EXPECT_LT((read_pose_file(path).at(0).camera.center() - Eigen::Vector3d(1, 2, 3)).norm(), 1e-12);
}

TEST_F(PoseFiles, OfAFolderTheTextComesBeforeTheBinaryFile) {
  for (const char* name : {"sparse/0/images.bin", "images.bin", "scene.cameras.json", "sparse/0/images.txt",
                           "transforms.json", "images.txt"}) {
    EXPECT_NE(pose_file_in(dir_), dir_ / name);
    write(name, "x");
    EXPECT_EQ(pose_file_in(dir_), dir_ / name);
  }
}

TEST_F(PoseFiles, OtherFilesAreRefused) {
  const auto says = [&](const fs::path& path, const std::string& words) {
    const std::string message = refusal([&] { read_pose_file(path); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  };
  says(write("image.png", std::string("\x89PNG\0\0", 6)),
       "neither TUM nor images.txt nor images.bin nor transforms.json");
  says(write("words.txt", "no poses here\n"), "words.txt:1");
  fs::create_directory(dir_ / "empty");
  says(dir_ / "empty", "holds no images.txt, images.bin, transforms.json or scene.cameras.json");
  write("binary/images.bin", "x");
  says(dir_ / "binary", "as COLMAP's binary file: it ends too early");
  says(write("binary/cameras.bin", "x"), "give images.bin beside it");
  EXPECT_THROW(read_pose_file(dir_ / "nowhere"), std::system_error);
}

}  // namespace
}  // namespace vggt
