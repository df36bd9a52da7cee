// Exports as a person asks for them, and what is refused.
#include <gtest/gtest.h>

#include "tests/support/cli.h"
#include "tests/support/media.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, ExportsStandInTheResultsFolder) {
  const Outcome outcome =
      reconstruct("--frames frames --out out/ --export colmap,nerfstudio,kitti,glb,depth,confidence");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* name : {"colmap/sparse/0/images.bin", "nerfstudio/transforms.json", "kitti.txt",
                           "scene.glb", "depth/0.png", "confidence/2.png"}) {
    EXPECT_TRUE(fs::exists(dir_ / "out" / name)) << name;
  }
  EXPECT_NE(outcome.out.find("out/colmap: exported"), std::string::npos) << outcome.out;
  // The same command may be given again: it replaces what it wrote.
  const Outcome again = reconstruct("--frames frames --out out/ --export colmap,depth --depth-format npy");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(fs::exists(dir_ / "out/depth/0.npy"));
  EXPECT_FALSE(fs::exists(dir_ / "out/depth/0.png"));
}

TEST_F(CliTest, ExportsBesideANamedCloud) {
  const Outcome outcome =
      reconstruct("--frames frames --out a.ply --export colmap,kitti,depth --depth-size network");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(dir_ / "a.colmap/sparse/0/cameras.txt"));
  EXPECT_TRUE(fs::exists(dir_ / "a.kitti.txt"));
  const cv::Mat depth = cv::imread(path("a.depth/0.png"), cv::IMREAD_UNCHANGED);
  EXPECT_EQ(depth.cols % 14, 0);
}

// COLMAP passes over EXIF: its cameras, and those that we export for it, are of the images as stored.
TEST_F(CliTest, ExportsOfTurnedPhotographsAreReadBackUpright) {
  fs::create_directory(dir_ / "turned");
  int number = 0;
  for (const int orientation : {6, 8, 3, 1}) {
    const cv::Mat upright = noise_picture(number < 2 ? 84 : 112, number < 2 ? 112 : 84, 3);
    const std::vector<uint8_t> jpeg = encoded(".jpg", stored_picture(upright, orientation));
    write_bytes(dir_ / "turned" / (std::to_string(number++) + ".jpg"), with_exif(jpeg, orientation, true));
  }
  const std::string frames = "--frames turned --fit whole --bundle-adjust off --out ";
  ASSERT_EQ(reconstruct(frames + "out/ --export colmap,nerfstudio").code, 0);
  const json cameras = parse_strictly(path("out/scene.cameras.json"))["cameras"];
  EXPECT_EQ(cameras[0]["quarter_turns"], 1);
  EXPECT_EQ(cameras[1]["quarter_turns"], 3);
  EXPECT_EQ(cameras[2]["quarter_turns"], 2);
  EXPECT_FALSE(cameras[3].contains("quarter_turns"));
  for (const std::string model : {"colmap", "nerfstudio"}) {
    const Outcome again =
        reconstruct(frames + "again/ --poses out/" + model + " --intrinsics out/" + model + " --no-autotune");
    ASSERT_EQ(again.code, 0) << again.err;
    const json read = parse_strictly(path("again/scene.cameras.json"))["cameras"];
    for (std::size_t i = 0; i < 4; ++i) {
      for (const char* matrix : {"cam_from_world", "k_original"}) {
        for (std::size_t row = 0; row < 3; ++row) {
          for (std::size_t column = 0; column < 3; ++column)
            EXPECT_NEAR(read[i][matrix][row][column], cameras[i][matrix][row][column].get<double>(), 1e-6)
                << model << ' ' << i << ' ' << matrix;
        }
      }
    }
    const Outcome eval =
        run("eval --result out/scene.cameras.json --truth out/" + model + " --json eval.json");
    ASSERT_EQ(eval.code, 0) << eval.err;
    EXPECT_LT(parse_strictly(path("eval.json"))["median_rotation_deg"], 1e-3) << model;
    fs::remove_all(path("again"));
  }
}

TEST_F(CliTest, AFolderThatIsNotOursIsLeftAlone) {
  fs::create_directories(dir_ / "out/colmap/sparse");
  write(dir_ / "out/colmap/sparse/mine.txt", "x");
  const std::string asked = "--frames frames --out out/ --export kitti,colmap";
  for (const std::string& arguments : {asked, asked + " --dry-run"})
    expect_refusal(reconstruct(arguments), "out/colmap: exists and holds 'sparse/mine.txt'");
  EXPECT_EQ(names_in("out"), std::vector<std::string>{"colmap"});
  EXPECT_EQ(text_of(dir_ / "out/colmap/sparse/mine.txt"), "x");
}

TEST_F(CliTest, ExportsThatCannotBeAreRefused) {
  expect_refusal(reconstruct("--frames frames --save-predictions p.safetensors --export kitti"),
                 "export: it goes beside the result, which needs --out");
  expect_refusal(reconstruct("--frames frames --out out/ --export ply"),
                 "export: 'ply' is not one of colmap");
  expect_refusal(reconstruct("--frames frames --out out/ --heads points --export kitti"),
                 "export: needs the head camera");
  expect_refusal(reconstruct("--frames frames --out out/ --heads camera,points --export depth"),
                 "export: depth and confidence need the head depth");
  expect_refusal(reconstruct("--frames frames --out frames/ --export colmap --export-images sideways"),
                 "export-images");
  expect_refusal(reconstruct("--frames frames --out out/ --export glb --export-images copy"),
                 "export-images: of the exports none has images");
  ASSERT_EQ(reconstruct("--frames frames --save-predictions p.safetensors").code, 0);
  expect_refusal(reconstruct("--frames p.safetensors --out out/ --export colmap --export-images refer"),
                 "export-images: refer cannot be, as the frames are no image files of their own; give copy");
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

TEST_F(CliTest, ExportsReplaceNoMasks) {
  ASSERT_EQ(reconstruct("--frames frames --out out/ --export colmap --export-images copy").code, 0);
  const std::string old = text_of(path("out/colmap/images/1.png"));
  expect_refusal(reconstruct("--frames frames --out out/ --export colmap --masks out/colmap/images"),
                 "colmap: would replace an input");
  EXPECT_EQ(text_of(path("out/colmap/images/1.png")), old);
}

TEST_F(CliTest, FramesThatAreNoFilesAreCopied) {
  ASSERT_EQ(reconstruct("--frames frames --save-predictions p.safetensors").code, 0);
  const Outcome outcome = reconstruct("--frames p.safetensors --out out/ --export colmap,nerfstudio");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(names_in("out/colmap/images").size(), 3U);
  EXPECT_EQ(names_in("out/nerfstudio/images"), names_in("out/colmap/images"));
}

TEST_F(CliTest, DepthIsExportedBesideThePointHeadsCloud) {
  const Outcome outcome = reconstruct("--frames frames --out out/ --points head --export depth");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(dir_ / "out/depth/maps.json"));
  EXPECT_EQ(cv::imread(path("out/depth/1.png"), cv::IMREAD_UNCHANGED).size(), cv::Size(64, 48));
}

TEST_F(CliTest, AFullDiskLeavesNoExports) {
  const Outcome outcome = reconstruct("--frames frames --out out/ --export colmap,depth", "ulimit -f 4;");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  expect_one_error(outcome, "cannot");
  EXPECT_EQ(outcome.err.find(".vggt"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

}  // namespace
}  // namespace vggt::test
