// What people try first: no arguments, a folder alone, a shell's pattern, a folder of scenes, a viewer.
#include "app/cli/first_contact.h"
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, WithoutArgumentsThereIsAShortHelp) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  const auto lines = std::ranges::count(outcome.err, '\n');
  EXPECT_GE(lines, 8);
  EXPECT_LE(lines, 15);
  for (const char* words : {"vggt-recon photos/", ".mp4", "--help"})
    EXPECT_NE(outcome.err.find(words), std::string::npos) << words;
  EXPECT_EQ(outcome.err.find("error"), std::string::npos);
}

TEST_F(CliTest, AFolderAloneIsReconstructedBesideIt) {
  const Outcome outcome = reconstruct("frames/ --max-frames 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(path("frames-scene/scene.ply")));
  EXPECT_TRUE(fs::exists(path("frames-scene/scene.cameras.json")));
  EXPECT_TRUE(fs::exists(path("frames-scene/scene.html")));
  EXPECT_EQ(names_in("frames").size(), 3u);  // nothing goes into the frames' folder
  const std::string last = outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  EXPECT_NE(last.find("frames-scene/scene.html"), std::string::npos) << outcome.out;

  // Again: as with --out, the files are replaced.
  const std::string before = text_of(path("frames-scene/scene.ply"));
  ASSERT_EQ(reconstruct("frames --quiet").code, 0);
  EXPECT_NE(text_of(path("frames-scene/scene.ply")), before);
}

TEST_F(CliTest, AnotherResultIsNotReplacedUnasked) {
  ASSERT_EQ(reconstruct("frames --max-frames 2 --export glb --quiet").code, 0);
  const Outcome again = reconstruct("frames/ --max-frames 1");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("of an earlier run, not of this one: "), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("frames-scene/scene.glb"), std::string::npos) << again.err;
  const std::string before = text_of(path("frames-scene/scene.ply"));
  fs::copy(path("frames/0.png"), path("frames.png"));
  expect_refusal(reconstruct("frames.png"),
                 "holds the result of frames: name a place for that of frames.png");
  EXPECT_EQ(reconstruct("frames.png --out frames.ply").code, 0);
  fs::remove(path("frames-scene/scene.report.json"));
  expect_refusal(reconstruct("frames"), "frames-scene/ holds files that are no result of frames");
  EXPECT_EQ(text_of(path("frames-scene/scene.ply")), before);
  EXPECT_EQ(reconstruct("frames --out frames-scene/ --quiet").code, 0);
}

TEST_F(CliTest, ACloudOfAnEarlierRunIsNamed) {
  ASSERT_EQ(reconstruct("frames --max-frames 2 --quiet").code, 0);
  const Outcome cameras = reconstruct("frames --max-frames 1 --heads camera");
  EXPECT_EQ(cameras.code, 0) << cameras.err;
  EXPECT_NE(cameras.err.find("of an earlier run, not of this one: "), std::string::npos) << cameras.err;
  EXPECT_NE(cameras.err.find("frames-scene/scene.ply"), std::string::npos) << cameras.err;
  EXPECT_EQ(cameras.err.find("scene.cameras.json"), std::string::npos) << cameras.err;
  const Outcome points = reconstruct("frames --max-frames 1 --heads points --out frames-scene/");
  EXPECT_NE(points.err.find("scene.cameras.json"), std::string::npos) << points.out << points.err;
  EXPECT_EQ(points.err.find("scene.ply,"), std::string::npos) << points.err;
}

TEST_F(CliTest, FramesAloneGoWithOptions) {
  ASSERT_EQ(reconstruct("frames --out other/s.ply --max-frames 1").code, 0);
  EXPECT_TRUE(fs::exists(path("other/s.ply")));
  ASSERT_EQ(reconstruct("--max-frames 1 frames/1.png").code, 0);
  EXPECT_TRUE(fs::exists(path("frames/1-scene/scene.ply")));
  const Outcome plan = reconstruct("frames --dry-run");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("frames-scene/scene.ply"), std::string::npos) << plan.out;
  EXPECT_FALSE(fs::exists(path("frames-scene")));
  EXPECT_EQ(run("plan frames --device cpu --no-autotune --weights '" + kNano + "'").code, 0);
  write(dir_ / "c.yaml", "frames: nowhere\nmax-frames: 1\n");
  EXPECT_EQ(reconstruct("frames --config c.yaml").code, 0);  // the command line comes first
}

TEST_F(CliTest, OfAFolderWithoutANameTheWholePathTellsIt) {
  ASSERT_EQ(run("--device cpu --weights '" + kNano + "' --max-frames 1 .", "cd frames && ").code, 0);
  EXPECT_TRUE(fs::exists(path("frames-scene/scene.ply")));
  EXPECT_EQ(names_in("frames").size(), 3u);
  // Others know whose it is.
  fs::copy(path("frames/0.png"), path("frames.png"));
  expect_refusal(reconstruct("frames.png"), "holds the result of frames: ");
  EXPECT_EQ(reconstruct("frames --max-frames 1 --quiet").code, 0);
}

TEST_F(CliTest, ClosedStandardStreamsGoNowhere) {
  EXPECT_EQ(
      run("--device cpu --weights '" + kNano + "' --frames frames --out s/ --max-frames 1 <&- >&- 2>&-").code,
      0);
  EXPECT_EQ(run("batch --scenes frames --device cpu --weights '" + kNano + "' --out results <&- 2>&-").code,
            2);
  fs::create_directories(path("scenes/a"));
  fs::copy(path("frames/0.png"), path("scenes/a/0.png"));
  EXPECT_EQ(
      run("batch --verbose --scenes scenes --device cpu --weights '" + kNano + "' --out r <&- >&- 2>&-").code,
      0);
  std::ifstream manifest(path("r/manifest.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(manifest, line); ++lines) EXPECT_EQ(line.front(), '{') << line;
  EXPECT_EQ(lines, 2);
}

TEST_F(CliTest, WhatIsNotOneSourceIsRefused) {
  expect_refusal(reconstruct("frames/0.png frames/1.png frames/2.png"), "3 paths are given");
  expect_refusal(reconstruct("frames --frames frames"), "give one");
  expect_refusal(reconstruct("photoz/"), "photoz/: no such file or folder");
  expect_refusal(run("weigths"), "did you mean 'weights'");
  expect_refusal(run("photographs"), "'photographs' is no file, folder or command");
  fs::create_directories(dir_ / "scenes/a");
  fs::create_directories(dir_ / "scenes/b");
  fs::copy(path("frames/0.png"), path("scenes/a/0.png"));
  expect_refusal(reconstruct("scenes"), "did you mean scenes/a?");
  fs::copy(path("frames/0.png"), path("scenes/b/0.png"));
  expect_refusal(reconstruct("scenes"), "`vggt-recon batch --scenes scenes`");
  EXPECT_FALSE(fs::exists(path("scenes-scene")));
  expect_no_outputs();
}

// A stand-in for the desktop's program notes what it is to show.
TEST_F(CliTest, OpensWhatItMade) {
  fs::create_directory(dir_ / "bin");
  write(dir_ / "bin/xdg-open", "#!/bin/sh\nprintf %s \"$1\" >'" + path("shown.part") + "'\nmv '" +
                                   path("shown.part") + "' '" + path("shown") + "'\n");
  fs::permissions(dir_ / "bin/xdg-open", fs::perms::owner_all);
  const std::string with_viewer = "PATH='" + path("bin") + "':$PATH ";
  const std::string arguments = "frames --max-frames 1 --picture s.png --open";
  Outcome outcome = reconstruct(arguments, with_viewer + "DISPLAY=:7 WAYLAND_DISPLAY=");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (int i = 0; i < 100 && !fs::exists(path("shown")); ++i) usleep(50'000);
  EXPECT_TRUE(fs::path(text_of(path("shown"))).is_absolute()) << text_of(path("shown"));
  EXPECT_TRUE(fs::exists(text_of(path("shown"))));
  EXPECT_NE(outcome.out.find(": opened"), std::string::npos) << outcome.out;

  fs::remove(path("shown"));
  outcome = reconstruct(arguments, with_viewer + "DISPLAY= WAYLAND_DISPLAY=");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("open: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("to look at"), std::string::npos) << outcome.out;
  EXPECT_FALSE(fs::exists(path("shown")));
}

TEST(OutBeside, IsASiblingThatBearsTheName) {
  EXPECT_EQ(out_beside("no/photos"), "no/photos-scene/");
  EXPECT_EQ(out_beside("no/photos/"), "no/photos-scene/");
  EXPECT_EQ(out_beside("photos.v2"), "photos.v2-scene/");
  EXPECT_EQ(out_beside("a b//"), "a b-scene/");
  EXPECT_THROW(out_beside("/"), std::invalid_argument);
  EXPECT_THROW(out_beside("/dev/null"), std::invalid_argument);
}

}  // namespace
}  // namespace vggt::test
