// --report and health from the command line: faults planted among real frames are named, and what is whole is
// not.
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

const fs::path kRoot = VGGT_SOURCE_DIR;

class CliReport : public CliTest {
 protected:
  /// Every other frame of the room that ships.
  void take_room() {
    fs::create_directory(dir_ / "room");
    for (const char* name : {"00.jpg", "02.jpg", "04.jpg", "06.jpg", "08.jpg", "10.jpg"})
      fs::copy_file(kRoot / "examples/room" / name, dir_ / "room" / name);
  }
  Outcome reconstruct_room(const std::string& arguments) {
    return run("--device cpu --weights '" + (kRoot / "weights/vggt-small.ts").string() +
               "' --frames room --width 252 " + arguments);
  }
};

TEST_F(CliReport, NamesFramesOfAnotherSceneAndBlackOnes) {
  take_room();
  fs::copy_file(kFixtures / "health/another_scene.jpg", dir_ / "room/05.jpg");
  ASSERT_TRUE(cv::imwrite(path("room/09.jpg"), cv::Mat(336, 448, CV_8UC3, cv::Scalar(2, 2, 2))));
  for (const std::string adjust : {"off", "on"}) {
    const Outcome outcome = reconstruct_room("--out out/ --report --bundle-adjust " + adjust);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json health = parse_strictly(path("out/scene.report.json")).at("health");
    ASSERT_EQ(health.at("warnings").size(), 2u) << health.at("warnings").dump(1);
    const json &black = health["warnings"][0], &stranger = health["warnings"][1];
    EXPECT_EQ(black.at("kind"), "blank");
    EXPECT_EQ(black.at("first"), 6);
    EXPECT_EQ(stranger.at("kind"), "apart");
    EXPECT_EQ(stranger.at("first"), 3);
    EXPECT_EQ(stranger.at("last"), 3);
    EXPECT_NE(outcome.err.find("vggt-recon: warning: 05.jpg sees nothing that the others see"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(health.at("frames").size(), 8u);
    const std::string page = text_of(path("out/scene.html"));
    EXPECT_NE(page.find("05.jpg sees nothing"), std::string::npos);
    EXPECT_LT(page.size(), 8'000'000u);
  }
}

TEST_F(CliReport, SaysTheFirstOfManyWarnings) {
  fs::create_directory(dir_ / "room");
  for (int i = 0; i < 12; ++i) {
    const std::string number = (i < 10 ? "0" : "") + std::to_string(i);
    fs::copy_file(kRoot / "examples/room" / (number + ".jpg"), dir_ / "room" / (number + ".jpg"));
    ASSERT_TRUE(cv::imwrite(path("room/" + number + "b.png"), cv::Mat(48, 64, CV_8UC3, cv::Scalar(2, 2, 2))));
  }
  const Outcome outcome = run("--device cpu --width 112 --bundle-adjust off --weights '" +
                              (kRoot / "weights/vggt-small.ts").string() + "' --frames room --out out/");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json health = parse_strictly(path("out/scene.report.json")).at("health");
  const std::size_t warnings = health.at("warnings").size();
  EXPECT_GE(warnings, 12u);
  const std::string last =
      "warning: " + std::to_string(warnings - 10) + " more warnings such as these are in the report";
  EXPECT_NE(outcome.err.find(last), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("09b.png is of one colour"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("10b.png is of one colour"), std::string::npos) << outcome.err;
}

TEST_F(CliReport, HasNothingToSayOfAWholeScene) {
  take_room();
  const Outcome outcome = reconstruct_room("--out out/");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << outcome.err;
  const json health = parse_strictly(path("out/scene.report.json")).at("health");
  EXPECT_TRUE(health.at("warnings").empty()) << health.at("warnings").dump(1);
  EXPECT_EQ(health.at("parts"), 1);
  EXPECT_GT(health.at("agreement"), 0.6);
  EXPECT_FALSE(fs::exists(path("out/scene.html")));
}

TEST_F(CliReport, WritesThePageBesideTheSceneForOneFrameAndWithoutDepth) {
  ASSERT_EQ(reconstruct("--frames frames --max-frames 1 --out one/ --report").code, 0);
  EXPECT_EQ(names_in("one").size(), 5u);
  ASSERT_EQ(reconstruct("--frames frames --heads camera --out two/x.ply --report").code,
            2);  // a cloud is asked for
  ASSERT_EQ(reconstruct("--frames frames --heads camera --out three/ --report").code, 0);
  EXPECT_NE(text_of(path("three/scene.html")).find("<canvas"), std::string::npos);
  ASSERT_EQ(reconstruct("--frames frames --out named.ply --report --conf-percentile 100").code, 0);
  EXPECT_TRUE(fs::exists(path("named.html")));
}

TEST_F(CliReport, NeedsAPlace) {
  expect_refusal(reconstruct("--frames frames --report --save-predictions p.safetensors"), "--out");
  expect_no_outputs();
  fs::create_directories(dir_ / "taken/scene.html");
  expect_refusal(reconstruct("--frames frames --out taken/ --report"), "scene.html");
  EXPECT_EQ(names_in("taken"), std::vector<std::string>{"scene.html"});
}

}  // namespace
}  // namespace vggt::test
