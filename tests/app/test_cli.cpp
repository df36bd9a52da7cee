// What a run of the program writes and says.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <thread>

#include "io/scene/tum.h"
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, WritesAWholeScene) {
  const Outcome outcome = reconstruct("--frames frames --out out/new/room.ply --conf-percentile 20");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("out/new/room.ply"), std::string::npos) << outcome.out;
  EXPECT_EQ(names_in("out/new"),
            (std::vector<std::string>{"room.cameras.json", "room.ply", "room.report.json", "room.tum"}));

  const json report = parse_strictly(path("out/new/room.report.json"));
  EXPECT_EQ(report["precision"], "fp32");
  EXPECT_EQ(report["frames"]["count"], 3);
  EXPECT_EQ(report["options"]["conf-percentile"], 20);
  EXPECT_GT(report["seconds"]["aggregator"], 0);
  EXPECT_GT(report["seconds"]["total"], report["seconds"]["aggregator"]);
  EXPECT_GT(report["peak_host_bytes"], 1 << 20);
  for (const char* name : {"vggt-recon", "torch", "opencv", "open3d"})
    EXPECT_TRUE(report["versions"].contains(name));
  EXPECT_GT(report["points"], 0);
  EXPECT_EQ(report["filters"][0]["before"], 3 * 56 * 42);

  const json cameras = parse_strictly(path("out/new/room.cameras.json"));
  EXPECT_NE(cameras.dump().find("2.png"), std::string::npos);
  const std::string ply = text_of(path("out/new/room.ply"));
  EXPECT_NE(ply.find("element vertex " + report["points"].dump()), std::string::npos) << ply.substr(0, 300);
  const auto is_valid = [](const json& camera) { return camera["valid"].get<bool>(); };
  const auto valid = std::ranges::count_if(cameras["cameras"], is_valid);
  EXPECT_EQ(read_tum(path("out/new/room.tum")).size(), static_cast<std::size_t>(valid));
}

TEST_F(CliTest, FolderHoldsSceneFiles) {
  for (const std::string out : {"out", "out2/", "frames"}) {
    const Outcome outcome = reconstruct("--quiet --frames frames --max-frames 1 --out " + out);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(fs::exists(path(out + "/scene.ply"))) << out;
    EXPECT_EQ(parse_strictly(path(out + "/scene.report.json"))["frames"]["count"], 1);
  }
}

TEST_F(CliTest, DrawsAPicture) {
  const Outcome outcome =
      reconstruct("--frames frames --out s.ply --picture new/s.png --picture-size 200x150");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("new/s.png: picture"), std::string::npos) << outcome.out;
  const cv::Mat picture = cv::imread(path("new/s.png"));
  EXPECT_EQ(picture.size(), cv::Size(200, 150));
  cv::Scalar mean, deviation;
  cv::meanStdDev(picture, mean, deviation);
  EXPECT_GT(deviation[0] + deviation[1] + deviation[2], 3);
  EXPECT_EQ(names_in("new"), std::vector<std::string>{"s.png"});

  ASSERT_EQ(reconstruct("--frames frames --picture s.jpg --heads camera --out o/").code, 0);
  EXPECT_EQ(cv::imread(path("s.jpg")).size(), cv::Size(1280, 960));
}

TEST_F(CliTest, SavesPredictionsThatPythonCanRead) {
  write(dir_ / "q.csv", "x,y\n3,4\n\n10.5, 20.25\n");
  const Outcome outcome = reconstruct(
      "--frames frames --save-predictions pred.safetensors --query-points q.csv --conf-percentile 50");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "pred.safetensors: predictions\n");  // no --out: no cloud
  const std::string file = text_of(path("pred.safetensors"));
  uint64_t header_bytes = 0;
  std::copy_n(file.data(), sizeof header_bytes, reinterpret_cast<char*>(&header_bytes));
  const json header = json::parse(file.substr(8, header_bytes));
  const std::map<std::string, std::vector<int>> expected = {{"images", {3, 3, 42, 56}},
                                                            {"pose_enc", {3, 9}},
                                                            {"extrinsic", {3, 3, 4}},
                                                            {"intrinsic", {3, 3, 3}},
                                                            {"depth", {3, 42, 56}},
                                                            {"depth_conf", {3, 42, 56}},
                                                            {"world_points", {3, 42, 56, 3}},
                                                            {"world_points_conf", {3, 42, 56}},
                                                            {"track", {3, 2, 2}},
                                                            {"track_vis", {3, 2}},
                                                            {"track_conf", {3, 2}}};
  EXPECT_EQ(header.size(), expected.size());
  uint64_t end = 0;
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(header.contains(name)) << name;
    EXPECT_EQ(header[name]["shape"], json(shape)) << name;
    EXPECT_EQ(header[name]["dtype"], "F32");
    end = std::max(end, header[name]["data_offsets"][1].get<uint64_t>());
  }
  ASSERT_EQ(file.size(), 8 + header_bytes + end);
  const auto* values = reinterpret_cast<const float*>(file.data() + 8 + header_bytes +
                                                      header["track"]["data_offsets"][0].get<uint64_t>());
  EXPECT_EQ(std::vector<float>(values, values + 4),
            (std::vector<float>{3, 4, 10.5, 20.25}));  // frame 0: the queries
  const auto* images = reinterpret_cast<const float*>(file.data() + 8 + header_bytes +
                                                      header["images"]["data_offsets"][0].get<uint64_t>());
  EXPECT_TRUE(std::all_of(images, images + 3 * 3 * 42 * 56, [](float v) { return v > 0 && v < 1; }));
}

TEST_F(CliTest, SaysWhatBecameOfAnAdjustment) {
  const Outcome outcome = reconstruct("--frames frames --max-frames 1 --out o/ --bundle-adjust on");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: cameras and depth not adjusted: one frame"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(parse_strictly(path("o/scene.report.json"))["poses"], "camera head, not adjusted: one frame");
  const Outcome points =
      reconstruct("--frames frames --out h/ --points head --heads camera,depth,points --bundle-adjust on");
  ASSERT_EQ(points.code, 0) << points.err;
  EXPECT_NE(points.err.find("the point head's cloud is not"), std::string::npos) << points.err;
}

TEST_F(CliTest, TheShippedModelReconstructsTheExample) {
  const std::string example = "'" VGGT_SOURCE_DIR "/examples/room";
  const auto error = [&](const std::string& options) {
    const Outcome done = run("--device cpu --frames " + example +
                             "' --out o/ --save-predictions p.safetensors --heads camera,depth" + options);
    EXPECT_EQ(done.code, 0) << done.err;
    const Outcome compared = run("eval --result o/scene.cameras.json p.safetensors --truth " + example +
                                 "/transforms.json' " + example + "/depth' --json e.json");
    EXPECT_EQ(compared.code, 0) << compared.err;
    return parse_strictly(path("e.json"));
  };
  const json adjusted = error(""), plain = error(" --bundle-adjust off");
  EXPECT_GT(adjusted["auc_5"], 0.95);
  EXPECT_LT(adjusted["depth"]["abs_rel"], 0.02);
  EXPECT_LT(plain["auc_5"], 0.9);
  EXPECT_LT(adjusted["ate_rmse"], 0.4 * plain["ate_rmse"].get<double>());
  EXPECT_LT(adjusted["depth"]["abs_rel"], 0.9 * plain["depth"]["abs_rel"].get<double>());
}

TEST_F(CliTest, PredictionsAreAsGoodAsTheirSource) {
  // Frames given as tensors come out as they went in, bit for bit.
  const std::string golden = (kFixtures / "golden/nano/frames2_42x56.safetensors").string();
  ASSERT_EQ(reconstruct("--frames '" + golden + "' --save-predictions pred.safetensors --heads camera").code,
            0);
  const auto tensor = [](const std::string& path, const std::string& name) {
    const std::string file = text_of(path);
    uint64_t header_bytes = 0;
    std::copy_n(file.data(), sizeof header_bytes, reinterpret_cast<char*>(&header_bytes));
    const json place = json::parse(file.substr(8, header_bytes))[name]["data_offsets"];
    return file.substr(8 + header_bytes + place[0].get<uint64_t>(),
                       place[1].get<uint64_t>() - place[0].get<uint64_t>());
  };
  EXPECT_FALSE(tensor(golden, "images").empty());
  EXPECT_TRUE(tensor(path("pred.safetensors"), "images") == tensor(golden, "images"));
}

TEST_F(CliTest, DryRunSaysAllAndWritesNothing) {
  const Outcome outcome =
      reconstruct("--frames frames --out out/x.ply --save-predictions pred.safetensors --dry-run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* words : {"3 frames of 56x42", "weights.ts", "CPU", "fp32", "camera, depth, points", "GiB",
                            "out/x.ply", "out/x.tum", "pred.safetensors"}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << " in " << outcome.out;
  }
  expect_no_outputs();
  expect_refusal(reconstruct("--frames frames --out frames/0.png/x.ply --dry-run"), "cannot write");
}

TEST_F(CliTest, MergesTokensWhereAsked) {
  const std::string begin = "--frames frames --heads camera --save-predictions ";
  const auto poses = [&](const std::string& name, const std::string& options) {
    const Outcome outcome = reconstruct(begin + name + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return text_of(path(name));
  };
  const std::string exact = poses("a.safetensors", "");
  EXPECT_NE(poses("b.safetensors", " --merge on"), exact);
  EXPECT_EQ(poses("c.safetensors", " --merge on --merge-start 4"), exact);  // the model has four blocks
  EXPECT_EQ(poses("d.safetensors", " --merge-ratio 0.5"), exact);           // off
  const Outcome plan = reconstruct(begin + "e.safetensors --merge on --merge-seed 7 --dry-run");
  EXPECT_NE(plan.out.find("merging:   from block 0, ratio 0.9, protect 0.1, seed 7"), std::string::npos)
      << plan.out;
}

TEST_F(CliTest, HelpVersionAndConfigAreForStandardOutput) {
  for (const char* arguments : {"--help", "--version", "weights --help"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_FALSE(outcome.out.empty()) << arguments;
    EXPECT_EQ(outcome.err, "") << arguments;
  }
  EXPECT_EQ(std::system("'" VGGT_PROGRAM "' --help >/dev/full 2>/dev/null") >> 8, 3);
  const Outcome full = reconstruct("--frames frames --out full/ >/dev/full; exit $? ;");
  EXPECT_EQ(full.code, 3) << full.err;
  EXPECT_TRUE(fs::exists(dir_ / "full/scene.ply"));
  write(dir_ / "c.yaml",
        run("--print-config --frames frames --out out/ --voxel 0.01 --heads camera,depth").out);
  const Outcome outcome = reconstruct("--config c.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(parse_strictly(path("out/scene.report.json"))["options"]["voxel"], 0.01);
}

TEST_F(CliTest, BadImagesAmongGoodOnesAreSkipped) {
  write(dir_ / "frames/a_empty.png", "");
  write(dir_ / "frames/b_text.jpg", "this is no image\n");
  const std::string good = text_of(path("frames/1.png"));
  write(dir_ / "frames/c_cut.png", good.substr(0, good.size() / 2));
  make_image("frames/d_flat.png", 3000, 2, 5);
  make_image("frames/e_cut.tif", 64, 48, 6);  // OpenCV would have its own say about this one
  fs::resize_file(dir_ / "frames/e_cut.tif", fs::file_size(dir_ / "frames/e_cut.tif") - 200);
  const Outcome outcome = reconstruct("--frames frames --out out/");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = parse_strictly(path("out/scene.report.json"));
  EXPECT_EQ(report["frames"]["count"], 3);
  EXPECT_EQ(report["frames"]["skipped"].size(), 5u);
  for (const char* name : {"a_empty.png", "b_text.jpg", "c_cut.png", "d_flat.png", "e_cut.tif"}) {
    EXPECT_NE(outcome.err.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(outcome.err.find("OpenCV"), std::string::npos) << outcome.err;
  fs::remove_all(dir_ / "out");
  expect_refusal(reconstruct("--strict --frames frames --out out/"), "frames/");
  for (int i = 0; i < 3; ++i) fs::remove(dir_ / "frames" / (std::to_string(i) + ".png"));
  EXPECT_EQ(reconstruct("--frames frames --out out/").code, 2);
  expect_no_outputs();
}

TEST_F(CliTest, OddSizesRun) {
  fs::create_directory(dir_ / "odd");
  make_image("odd/tiny.png", 1, 1, 1);
  EXPECT_EQ(reconstruct("--frames odd --out out/tiny.ply --heads camera,depth").code, 0);
  EXPECT_TRUE(fs::exists(path("out/tiny.ply")));
}

TEST_F(CliTest, HeadsDecideWhatIsWritten) {
  const Outcome poses = reconstruct("--frames frames --out poses/ --heads camera");
  EXPECT_EQ(poses.code, 0) << poses.err;
  EXPECT_NE(poses.err.find("no cloud is written"), std::string::npos) << poses.err;
  EXPECT_EQ(names_in("poses"),
            (std::vector<std::string>{"scene.cameras.json", "scene.report.json", "scene.tum"}));
  write(dir_ / "q.csv", "1,1\n");
  const Outcome points = reconstruct("--frames frames --out points/ --heads points --query-points q.csv");
  EXPECT_EQ(points.code, 0) << points.err;
  EXPECT_NE(points.err.find("point head"), std::string::npos) << points.err;
  EXPECT_NE(points.err.find("query-points is not used"), std::string::npos) << points.err;
  EXPECT_EQ(names_in("points"), (std::vector<std::string>{"scene.ply", "scene.report.json"}));
  EXPECT_EQ(parse_strictly(path("points/scene.report.json"))["cloud_source"], "point head");
}

// The launcher looks at the options, too, and must leave a pipe to the program.
TEST_F(CliTest, OptionsMayComeFromAPipe) {
  ASSERT_EQ(::mkfifo(path("options").c_str(), 0600), 0);
  std::thread writer([this] { write(dir_ / "options", "max-frames: 2\n"); });
  const Outcome outcome = reconstruct("--frames frames --out out/ --dry-run --config options");
  writer.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 frames"), std::string::npos) << outcome.out;
}

// Its decoder makes up for what it cannot read, with what is in other frames.
TEST_F(CliTest, AVideoThatIsDamagedInsideIsSaid) {
  constexpr std::size_t kInKeyFrame = 763;
  std::string video = text_of(fs::path(VGGT_SOURCE_DIR) / "tests/fixtures/videos/variable.mp4");
  write(dir_ / "whole.mp4", video);
  for (std::size_t i = kInKeyFrame; i < kInKeyFrame + 6; ++i) video[i] ^= 0x5a;
  write(dir_ / "damaged.mp4", video);
  const Outcome damaged = run("--frames damaged.mp4 --fps 5 --out out/ --dry-run"),
                whole = run("--frames whole.mp4 --fps 5 --out out/ --dry-run");
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_NE(damaged.err.find("warning: damaged.mp4: is damaged near 0 s"), std::string::npos) << damaged.err;
  EXPECT_EQ(whole.err.find("damaged"), std::string::npos) << whole.err;
}

// A camera that pans with little parallax: the network's depth, trusted, made 846 and 1121 pixels of it.
TEST_F(CliTest, TheFocalLengthOfAVideoIsThatOfItsLensWhicheverFramesAreTaken) {
  const fs::path video = fs::path(VGGT_SOURCE_DIR).parent_path() / "shared/scenes/great_wall.mp4";
  if (!fs::exists(video)) GTEST_SKIP() << video << " is not there";
  const auto focal = [&](const std::string& which) -> double {
    const Outcome outcome = run("--device cpu --frames " + video.string() + which + " --out out/");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.code != 0) return NAN;
    return parse_strictly(path("out/scene.cameras.json"))["cameras"][0]["k_original"][0][0];
  };
  const std::vector<double> focals{focal(""), focal(" --fps 2"), focal(" --stride 5")};
  const auto [least, most] = std::ranges::minmax(focals);
  EXPECT_LT(most, 1.05 * least) << least << " to " << most;
  EXPECT_NEAR(focal(" --stride 1 --max-frames 66") / least, 1, 0.1);  // was 1.27
  EXPECT_NEAR(focal(" --stride 1 --max-frames 48") / least, 1, 0.1);  // was 1.48
}

}  // namespace
}  // namespace vggt::test
