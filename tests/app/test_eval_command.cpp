// `vggt-recon eval`, on files of every kind.
#include <gtest/gtest.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, PosesAreCompared) {
  std::string truth, off;
  for (int i = 0; i < 4; ++i) {
    truth += std::to_string(i) + " " + std::to_string(i * i) + " " + std::to_string(i) + " 0 0 0 0 1\n";
    off += std::to_string(i) + " " + std::to_string(2 * i * i) + " " + std::to_string(2 * i) + " 5 0 0 0 1\n";
  }
  write(dir_ / "a.tum", off);
  write(dir_ / "b.tum", truth);
  const Outcome outcome = run("eval --poses a.tum --truth b.tum --json e.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("AUC"), std::string::npos);
  const json errors = parse_strictly(path("e.json"));
  EXPECT_NEAR(errors["scale"], 0.5, 1e-9);
  EXPECT_NEAR(errors["ate_rmse"], 0, 1e-9);
  EXPECT_EQ(outcome.err.find("in one place"), std::string::npos) << outcome.err;
  write(dir_ / "still.tum", "0 1 2 3 0 0 0 1\n1 1 2 3 0 0 1 0\n2 1 2 3 0 1 0 0\n");
  const Outcome still = run("eval --poses a.tum --truth still.tum");
  EXPECT_EQ(still.code, 0) << still.err;
  EXPECT_NE(still.err.find("still.tum: all poses are in one place"), std::string::npos) << still.err;
  write(dir_ / "bad.tum", "0 1 2\n");
  expect_refusal(run("eval --poses bad.tum --truth b.tum"), "bad.tum");
  expect_refusal(run("eval --poses nowhere.tum --truth b.tum"), "nowhere.tum");
}

TEST_F(CliTest, FilesAreComparedByWhatTheyHold) {
  write(dir_ / "truth.txt",
        "1 1 0 0 0 0 0 0 1 a.jpg\n2 1 0 0 0 -1 0 0 1 b.jpg\n3 1 0 0 0 0 -1 0 1 c.jpg\n4 1 0 0 0 9 9 9 1 "
        "d.jpg\n");
  write(dir_ / "t.json", R"({"frames": [
    {"file_path": "x/a", "transform_matrix": [[1,0,0,0],[0,-1,0,0],[0,0,-1,0]]},
    {"file_path": "x/b", "transform_matrix": [[1,0,0,2],[0,-1,0,0],[0,0,-1,0]]},
    {"file_path": "x/c", "transform_matrix": [[1,0,0,0],[0,-1,0,2],[0,0,-1,0]]}]})");
  const std::string header =
      "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float "
      "z\nend_header\n";
  write(dir_ / "twice.ply", header + "0 0 2\n4 0 2\n");
  write(dir_ / "once.ply", header + "0 0 1\n2 0 1.5\n");
  fs::create_directory(dir_ / "depth");
  fs::create_directory(dir_ / "true depth");
  for (const char* name : {"a.png", "b.png"}) {
    ASSERT_TRUE(cv::imwrite(path(std::string("depth/") + name), cv::Mat(14, 14, CV_16UC1, cv::Scalar(1000))));
    ASSERT_TRUE(
        cv::imwrite(path(std::string("true depth/") + name), cv::Mat(14, 14, CV_16UC1, cv::Scalar(3000))));
  }
  const Outcome outcome =
      run("eval --result twice.ply t.json depth --truth 'true depth' once.ply truth.txt --threshold 0.25 "
          "--json e.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json errors = parse_strictly(path("e.json"));
  EXPECT_EQ(errors["matched"], 3);
  EXPECT_EQ(errors["only_truth"], json({"d.jpg"}));
  EXPECT_EQ(errors["auc_5"], 1);
  EXPECT_NEAR(errors["scale"], 0.5, 1e-9);
  EXPECT_EQ(errors["depth"]["matched"], 2);
  EXPECT_NEAR(errors["depth"]["abs_rel"], 0, 1e-6);
  EXPECT_NEAR(errors["depth"]["scale"], 3, 1e-6);
  EXPECT_EQ(errors["cloud"]["aligned"], true);
  EXPECT_NEAR(errors["cloud"]["accuracy"], 0.25, 1e-9);  // one point is right, one 0.5 off
  EXPECT_NEAR(errors["cloud"]["f_score"], 0.5, 1e-9);
  EXPECT_NE(outcome.out.find("only in the truth:           d.jpg"), std::string::npos) << outcome.out;

  const Outcome cloud = run("eval --result twice.ply t.json --truth once.ply");
  EXPECT_NE(cloud.out.find("compared as it lies"), std::string::npos) << cloud.out;
  EXPECT_NE(cloud.out.find("poses of the result"), std::string::npos) << cloud.out;
}

TEST_F(CliTest, FieldsOfViewAreComparedWhereBothSidesTellThem) {
  const auto transforms = [](const std::string& all, const std::string& first) {
    return "{" + all + R"("frames": [
      {)" + first +
           R"("file_path": "a", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]},
      {"file_path": "b", "transform_matrix": [[1,0,0,2],[0,1,0,0],[0,0,1,0]]}]})";
  };
  write(dir_ / "ours.json", transforms("", R"("w": 200, "fl_x": 100, )"));  // 90°, and nothing for b
  write(dir_ / "true.json", transforms(R"("camera_angle_x": 1.5533430342749532, )", ""));  // 89°
  write(dir_ / "none.json", transforms("", ""));
  const Outcome outcome = run("eval --result ours.json --truth true.json --json e.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("1.000 deg (largest 1.000)"), std::string::npos) << outcome.out;
  const json errors = parse_strictly(path("e.json"));
  EXPECT_EQ(errors["fov_frames"], 1);
  EXPECT_NEAR(errors["median_fov_error_deg"], 1, 1e-9);
  EXPECT_NEAR(errors["largest_fov_error_deg"], 1, 1e-9);
  EXPECT_EQ(run("eval --result ours.json --truth none.json").out.find("field of view"), std::string::npos);
  // With k1 the image's side, at 100 / 90, shows x / z = 1: 45°. A lens that is known in part is compared
  // without distortion.
  write(dir_ / "bent.json", transforms(R"("w": 200, "fl_x": 90, "k1": 0.1111111111111111, )", ""));
  write(dir_ / "more.json", transforms(R"("w": 200, "fl_x": 90, "k1": 0.2, "p1": 0.001, )", ""));
  EXPECT_NE(run("eval --result bent.json --truth true.json").out.find("1.000 deg (largest 1.000)"),
            std::string::npos);
  EXPECT_NE(run("eval --result bent.json --truth more.json").out.find("0.000 deg (largest 0.000)"),
            std::string::npos);
}

TEST_F(CliTest, PredictionsGetTheNamesOfTheCamerasBesideThem) {
  ASSERT_EQ(reconstruct("--frames frames --out s.ply --save-predictions p.safetensors").code, 0);
  fs::create_directory(dir_ / "depth");
  ASSERT_TRUE(cv::imwrite(path("depth/1.png"), cv::Mat(48, 64, CV_16UC1, cv::Scalar(2000))));
  const Outcome outcome = run("eval --result p.safetensors s.cameras.json --truth depth s.tum --json e.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json errors = parse_strictly(path("e.json"));
  EXPECT_EQ(errors["depth"]["matched"], 1);
  EXPECT_EQ(errors["depth"]["only_result"], json({"0.png", "2.png"}));
  EXPECT_EQ(errors["matched"], 3);
  EXPECT_EQ(errors["auc_30"], 1);
  EXPECT_LT(errors["ate_rmse"], 1e-6);
}

TEST_F(CliTest, PredictionsAloneGoByPosition) {
  ASSERT_EQ(reconstruct("--frames frames --out s.ply --save-predictions p.safetensors").code, 0);
  fs::create_directory(dir_ / "depth");
  for (const char* name : {"depth/a.png", "depth/b.png", "depth/c.png"})
    ASSERT_TRUE(cv::imwrite(path(name), cv::Mat(48, 64, CV_16UC1, cv::Scalar(2000))));
  const Outcome outcome = run("eval --result p.safetensors --truth depth --json e.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(parse_strictly(path("e.json"))["depth"]["matched"], 3);
}

TEST_F(CliTest, DepthOfOurExportIsInTheUnitOfItsList) {
  for (const char* folder : {"ours", "plain"}) {
    fs::create_directory(dir_ / folder);
    ASSERT_TRUE(
        cv::imwrite(path(std::string(folder) + "/a.png"), cv::Mat(14, 14, CV_16UC1, cv::Scalar(1000))));
  }
  const auto scale = [&](const std::string& arguments) {
    const Outcome outcome = run("eval --json e.json --result " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_strictly(path("e.json"))["depth"]["scale"].get<double>();
  };
  write(dir_ / "ours/maps.json", R"({"unit": 0.0002, "none": 0, "maps": []})");
  EXPECT_NEAR(scale("ours --truth plain"), 5, 1e-6);
  EXPECT_NEAR(scale("ours/a.png --truth plain"), 5, 1e-6);
  EXPECT_NEAR(scale("ours --truth plain --depth-unit 0.01"), 1, 1e-6);
  for (const char* other : {R"({"unit": -1, "maps": []})", R"({"unit": "m", "maps": []})", "[1]", "{", ""}) {
    write(dir_ / "ours/maps.json", other);
    EXPECT_NEAR(scale("ours --truth plain"), 1, 1e-6) << other;
  }
  write(dir_ / "ours/maps.json", R"({"values": "confidence", "unit": 0.01, "none": 0, "maps": []})");
  for (const char* arguments : {"ours", "ours/a.png", "ours --depth-unit 0.01"})
    expect_refusal(run(std::string("eval --truth plain --result ") + arguments), "holds confidence");
}

TEST_F(CliTest, TheOrderOfLinesDoesNotMatter) {
  write(dir_ / "a.tum", "0 0 0 0 0 0 0 1\n1 1 0 0 0 0 0.1 1\n2 2 1 0 0 0.2 0 1\n");
  write(dir_ / "b.tum", "2 2 1.2 0 0 0.2 0 1\n1 1 0.1 0 0 0 0.3 1\n0 0 0 0.1 0 0 0 1\n");
  write(dir_ / "c.tum", "0 0 0 0.1 0 0 0 1\n1 1 0.1 0 0 0 0.3 1\n2 2 1.2 0 0 0.2 0 1\n");
  EXPECT_EQ(run("eval --result b.tum --truth a.tum").out, run("eval --result c.tum --truth a.tum").out);
}

TEST_F(CliTest, WhatCannotBeComparedIsRefused) {
  write(dir_ / "b.tum", "0 0 0 0 0 0 0 1\n1 1 0 0 0 0 0 1\n");
  write(dir_ / "c.txt", "1 1 0 0 0 0 0 0 1 a.jpg\n2 1 0 0 0 -1 0 0 1 b.jpg\n");
  write(dir_ / "empty.tum", "");
  write(dir_ / "junk", std::string("\0\1\2", 3));
  write(dir_ / "x.ply",
        "ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nproperty float y\nproperty float "
        "z\nend_header\n");
  write(dir_ / "x.safetensors", "12345");
  fs::create_directory(dir_ / "none");
  expect_refusal(run("eval --result b.tum --truth empty.tum"), "empty.tum: holds no poses");
  expect_refusal(run("eval --result b.tum --truth c.txt"), "names");
  expect_refusal(run("eval --result b.tum --truth x.ply"), "nothing to compare");
  expect_refusal(run("eval --result x.ply --truth x.ply"), "x.ply: holds no points");
  expect_refusal(run("eval --result junk --truth b.tum"), "junk: ");
  expect_refusal(run("eval --result x.safetensors --truth b.tum"), "x.safetensors: ");
  expect_refusal(run("eval --result none --truth b.tum"), "none: holds no images.txt");
  expect_refusal(run("eval --result /dev/null --truth b.tum"), "/dev/null: not a file");
  expect_refusal(run("eval --result b.tum b.tum --truth b.tum"), "poses of 2 scenes against 1");
  for (const std::string option : {"--threshold 0", "--threshold nan", "--max-depth nan", "--depth-unit -1"})
    expect_refusal(run("eval --result b.tum --truth b.tum " + option), option.substr(0, option.find(' ')));
  expect_refusal(run("eval --result b.tum --truth b.tum --json b.tum"), "would replace an input");
  fs::create_symlink("b.tum", dir_ / "link.tum");
  expect_refusal(run("eval --result b.tum --truth b.tum --json link.tum"), "would replace an input");
  expect_refusal(run("eval --result b.tum --truth b.tum --json nowhere/e.json"), "nowhere");
  const std::string far =
      "ply\nformat ascii 1.0\nelement vertex 1\nproperty double x\nproperty double y\nproperty double "
      "z\nend_header\n1e200 0 0\n";
  write(dir_ / "far.ply", far);
  expect_refusal(run("eval --result far.ply --truth far.ply"), "farther away");
  write(dir_ / "angle.json",
        R"({"camera_angle_x": -3, "frames": [{"file_path": "a.png", "transform_matrix":
            [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})");
  expect_refusal(run("eval --result angle.json --truth angle.json"), "camera_angle_x");
  expect_refusal(run("eval --truth b.tum"), "--result");
}

}  // namespace
}  // namespace vggt::test
