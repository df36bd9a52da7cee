// The program as a person meets it: exit codes, one clear line for each mistake, files that appear whole or
// not at all.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <thread>

#include "io/scene_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kFixtures = VGGT_FIXTURES;
const std::string kNano = (kFixtures / "golden/nano/weights.ts").string();

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    std::string name = (fs::temp_directory_path() / "vggt_cli_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    fs::create_directory(dir_ / "frames");
    for (int i = 0; i < 3; ++i) make_image("frames/" + std::to_string(i) + ".png", 64, 48, i);
  }
  ~CliTest() override {
    std::error_code ignored;
    fs::permissions(dir_, fs::perms::owner_all, ignored);
    fs::remove_all(dir_);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  void make_image(const std::string& name, int width, int height, int seed) {
    cv::Mat image(height, width, CV_8UC3);
    cv::RNG random(static_cast<uint64_t>(seed) + 1);
    random.fill(image, cv::RNG::UNIFORM, 30, 220);
    ASSERT_TRUE(cv::imwrite(path(name), image));
  }

  /// Runs the program through the shell, in the test's folder.
  Outcome run(const std::string& arguments, const std::string& before = "") {
    const std::string command = "cd '" + dir_.string() + "' && " + before + " '" VGGT_PROGRAM "' " +
                                arguments + " >'" + path("stdout") + "' 2>'" + path("stderr") + "'";
    const int status = std::system(command.c_str());
    Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path("stdout")),
                    text_of(path("stderr"))};
    fs::remove(path("stdout"));
    fs::remove(path("stderr"));
    return outcome;
  }
  Outcome reconstruct(const std::string& arguments, const std::string& before = "") {
    return run("--device cpu --weights '" + kNano + "' " + arguments, before);
  }

  /// Exit 2, exactly one error line, which holds `words`; nothing written beside what was there.
  void expect_refusal(const Outcome& outcome, const std::string& words) {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    expect_one_error(outcome, words);
  }
  void expect_one_error(const Outcome& outcome, const std::string& words) {
    const std::string prefix = "vggt-recon: error: ";
    std::size_t errors = 0;
    for (std::size_t at = 0; (at = outcome.err.find(prefix, at)) != std::string::npos; ++at) ++errors;
    EXPECT_EQ(errors, 1u) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << "expected '" << words << "' in: " << outcome.err;
    const std::size_t line = outcome.err.find(prefix);
    EXPECT_EQ(outcome.err.find('\n', std::min(line, outcome.err.size())), outcome.err.size() - 1)
        << outcome.err;
    EXPECT_LT(outcome.err.size(), 1000u);
  }
  void expect_no_outputs() {
    for (const auto& entry : fs::recursive_directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      EXPECT_FALSE(name.starts_with(".vggt") || name.ends_with(".ply") || name.ends_with(".tum") ||
                   name.ends_with("report.json") || name.starts_with("pred") || name == "out")
          << entry.path();
    }
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder))) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  fs::path dir_;
};

/// The parser takes no NaN or infinity.
json parse_strictly(const std::string& path) {
  return json::parse(text_of(path));
}

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

TEST_F(CliTest, PicturesOfWrongNamesAndPlacesAreRefused) {
  const std::string begin = "--frames frames --out out/ --picture ";
  expect_refusal(reconstruct(begin + "s.gif"), "picture: 's.gif' does not end in .png or .jpg");
  expect_refusal(reconstruct(begin + "s.png --picture-size 10x10"), "picture-size");
  expect_refusal(reconstruct("--frames frames --save-predictions p.safetensors --picture s.png"), "--out");
  expect_refusal(reconstruct(begin + "frames/s.png"), "frames/s.png would lie among the frames");
  expect_refusal(reconstruct(begin + "frames/s.png --dry-run"), "among the frames");
  write(dir_ / "list.txt", "frames/0.png\nframes/1.png\n");
  const std::string old = text_of(path("frames/1.png"));
  expect_refusal(reconstruct("--frames list.txt --out out/ --picture frames/1.png"),
                 "would replace an input");
  EXPECT_EQ(text_of(path("frames/1.png")), old);
  expect_refusal(reconstruct(begin + "frames/0.png/s.png"), "frames/0.png");
  expect_no_outputs();
  EXPECT_FALSE(fs::exists(path("s.png")));
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

TEST_F(CliTest, HelpVersionAndConfigAreForStandardOutput) {
  for (const char* arguments : {"--help", "--version", "weights --help"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_FALSE(outcome.out.empty()) << arguments;
    EXPECT_EQ(outcome.err, "") << arguments;
  }
  EXPECT_EQ(std::system("'" VGGT_PROGRAM "' --help >/dev/full 2>/dev/null") >> 8, 2);
  write(dir_ / "c.yaml",
        run("--print-config --frames frames --out out/ --voxel 0.01 --heads camera,depth").out);
  const Outcome outcome = reconstruct("--config c.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(parse_strictly(path("out/scene.report.json"))["options"]["voxel"], 0.01);
}

TEST_F(CliTest, WithoutFramesThereIsNothingToDo) {
  fs::create_directory(dir_ / "empty");
  write(dir_ / "list.txt", "\n");
  expect_refusal(reconstruct("--frames empty --out out/"), "empty");
  expect_refusal(reconstruct("--frames nowhere --out out/"), "nowhere");
  expect_refusal(reconstruct("--frames list.txt --out out/"), "list.txt");
  expect_refusal(reconstruct("--out out/"), "--frames");
  expect_refusal(run(""), "--frames");
  expect_no_outputs();
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

TEST_F(CliTest, DamagedWeightsAreRefused) {
  const std::string reference = (kFixtures / "golden/nano").string();
  const auto try_weights = [&](const std::string& file, const std::string& bytes) {
    write(dir_ / file, bytes);
    expect_refusal(run("--device cpu --frames frames --out out/ --weights " + file), "");
    fs::remove(dir_ / file);
  };
  fs::copy(reference + "/config.json", path("config.json"));
  for (const char* name : {"weights.ts", "weights.pt", "weights.safetensors"}) {
    const std::string good = text_of(reference + "/" + name);
    ASSERT_GT(good.size(), 1000u);
    try_weights(name, "");
    try_weights(name, good.substr(0, good.size() / 2));
    try_weights(name, std::string(8, '\xff') + good.substr(8));
  }
  // A bit flipped in a tensor: archives carry checksums.
  std::string flipped = text_of(kNano);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x10);
  try_weights("weights.ts", flipped);
  expect_refusal(run("--device cpu --frames frames --out out/ --weights nowhere.ts"), "nowhere.ts");
  expect_refusal(run("--device cpu --frames frames --out out/ --weights frames"), "frames");
  expect_no_outputs();
}

TEST_F(CliTest, APickleThatCallsCodeIsRefused) {
  write(dir_ / "evil.pt",
        "\x80\x02"
        "cos\nsystem\nX\x0c\0\0\0touch hacked\x85R.");
  expect_refusal(run("--device cpu --frames frames --out out/ --weights evil.pt"), "evil.pt");
  EXPECT_FALSE(fs::exists(path("hacked")));
}

TEST_F(CliTest, AConfigThatDoesNotMatchIsRefused) {
  fs::copy((kFixtures / "golden/nano/weights.safetensors").string(), path("w.safetensors"));
  const std::string run_it = "--device cpu --frames frames --out out/ --weights w.safetensors";
  expect_refusal(run(run_it), "config.json");  // the depth is not the official one
  json config = json::parse(text_of(kFixtures / "golden/nano/config.json"));
  const auto refused = [&](const std::string& key, const json& value) {
    json changed = config;
    changed[key] = value;
    write(dir_ / "config.json", changed.dump());
    expect_refusal(run(run_it), key);
  };
  refused("embed_dim", 128);
  refused("depth", "four");
  refused("no_such_key", 1);
  refused("intermediate_layers", {0, 1, 2, 30});
  write(dir_ / "config.json", "{\"depth\": 4");
  expect_refusal(run(run_it), "w.safetensors: config.json: ");
  expect_refusal(run("weights verify w.safetensors"), "w.safetensors: config.json: ");
  expect_no_outputs();
  write(dir_ / "config.json", config.dump());
  EXPECT_EQ(run(run_it).code, 0);
  std::string renamed = text_of(path("w.safetensors"));
  renamed.replace(renamed.find("mask_token"), 10, "mask_tokex");
  write(dir_ / "w.safetensors", renamed);
  expect_refusal(run(run_it + " --dry-run"),
                 "w.safetensors: the tensors do not fit the architecture; missing: ");
}

TEST_F(CliTest, UnknownOptionsAndValuesAreRefused) {
  expect_refusal(reconstruct("--frames frames --out out/ --voxle 1"), "did you mean '--voxel'");
  expect_refusal(reconstruct("--frames frames --out out/ --fit cropp"), "did you mean 'crop'");
  write(dir_ / "c.yaml", "frames: frames\nout: out/\nvoxle: 1\n");
  expect_refusal(reconstruct("--config c.yaml"), "c.yaml:3: unknown key 'voxle'; did you mean 'voxel'?");
  expect_refusal(reconstruct("--config nowhere.yaml"), "nowhere.yaml");
  expect_refusal(reconstruct("--frames frames --out x.obj"), ".ply");
  expect_refusal(reconstruct("--frames frames --save-predictions x.npz"), ".safetensors");
  expect_refusal(reconstruct("--frames frames --out out/ --width 57"), "multiple of 14");
  expect_refusal(reconstruct("--frames frames --out out/ extra"), "extra");
  expect_refusal(reconstruct("--frames --out out/"), "--frames needs a value");
  expect_no_outputs();
}

TEST_F(CliTest, WhatTheDeviceOrTheWeightsLackIsRefused) {
  for (const char* precision : {"fp16", "bf16", "tf32"}) {
    expect_refusal(reconstruct(std::string("--frames frames --out out/ --precision ") + precision),
                   precision);
  }
  expect_refusal(run("--frames frames --out out/ --device cuda:99"), "cuda:99");
  expect_refusal(reconstruct("--frames frames --out out/ --heads tracks"), "--query-points");
  expect_refusal(reconstruct("--frames frames --out x.ply --heads camera"), "cloud");
  // The small model that ships has no point and no track head.
  const std::string small = std::string("--device cpu --frames frames --out out/ --weights '") +
                            VGGT_SOURCE_DIR + "/weights/vggt-small.ts' ";
  expect_refusal(run(small + "--heads camera,points"), "'points'");
  expect_refusal(run(small + "--points head"), "point head");
  write(dir_ / "q.csv", "1,1\n");
  expect_refusal(run(small + "--query-points q.csv"), "'tracks'");
  expect_no_outputs();
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

TEST_F(CliTest, QueryPointsMustLieInFrameZero) {
  const auto refused = [&](const std::string& csv, const std::string& words) {
    write(dir_ / "q.csv", csv);
    expect_refusal(reconstruct("--frames frames --out out/ --query-points q.csv"), words);
  };
  refused("55,41\n55.5,3\n", "point 2");
  refused("-1,3\n", "point 1");
  refused("1,2\nx,y\n", "q.csv:2");
  refused("1,nan\n", "q.csv:1");
  refused("x,y\n", "no points");
  refused("1,2\n" + std::string(1000, '3'), "q.csv:2");
  expect_no_outputs();
}

TEST_F(CliTest, PlacesThatCannotBeWrittenAreNamedBeforeTheWork) {
  write(dir_ / "file", "x");
  expect_refusal(reconstruct("--frames frames --out file/x.ply"), "file: Not a directory");
  fs::create_directory(dir_ / "x.ply");
  fs::create_directory(dir_ / "taken");
  fs::create_directory(dir_ / "taken/scene.ply");
  expect_refusal(reconstruct("--frames frames --out taken"), "scene.ply");
  expect_refusal(reconstruct("--frames frames --out /proc/vggt/x.ply"), "/proc");
  expect_refusal(reconstruct("--frames frames --save-predictions /proc/p.safetensors"), "/proc");
  EXPECT_EQ(names_in("taken"), std::vector<std::string>{"scene.ply"});
}

TEST_F(CliTest, AFullDiskLeavesNothing) {
  // The shell counts file size limits in KiB or in blocks of 512 bytes: both are too small for the outputs.
  fs::create_directory(dir_ / "kept");
  write(dir_ / "kept/scene.tum", "old\n");
  for (const char* more : {"--out kept", "--save-predictions kept/p.safetensors", "--out fresh/deep/"}) {
    const Outcome outcome =
        reconstruct(std::string("--frames frames --conf-percentile 0 ") + more, "ulimit -f 16;");
    expect_refusal(outcome, "cannot");
    EXPECT_EQ(outcome.err.find(".vggt"), std::string::npos) << outcome.err;  // the file's name, not its place
  }
  EXPECT_EQ(names_in("kept"), std::vector<std::string>{"scene.tum"});
  EXPECT_EQ(text_of(path("kept/scene.tum")), "old\n");
  EXPECT_FALSE(fs::exists(path("fresh")));
}

TEST_F(CliTest, InputsAreNeverReplaced) {
  ASSERT_EQ(reconstruct("--frames frames --save-predictions p.safetensors").code, 0);
  const std::string old = text_of(path("p.safetensors"));
  fs::create_symlink("p.safetensors", dir_ / "link.safetensors");
  for (const char* out : {"p.safetensors", "./link.safetensors"}) {
    const Outcome outcome =
        reconstruct(std::string("--frames p.safetensors --max-frames 1 --save-predictions ") + out);
    expect_refusal(outcome, "would replace an input");
  }
  EXPECT_EQ(text_of(path("p.safetensors")), old);
}

TEST_F(CliTest, OldFilesStayUntilTheNewOnesAreWhole) {
  ASSERT_EQ(reconstruct("--frames frames --out out/").code, 0);
  const std::string old = text_of(path("out/scene.ply"));
  write(dir_ / "frames/0.png", "spoilt");
  expect_refusal(reconstruct("--strict --frames frames --out out/"), "0.png");
  EXPECT_EQ(text_of(path("out/scene.ply")), old);
  EXPECT_EQ(names_in("out").size(), 4u);
}

TEST_F(CliTest, CtrlCStopsCleanly) {
  fs::create_directory(dir_ / "many");
  for (int i = 0; i < 12; ++i) make_image("many/" + std::to_string(i) + ".png", 640, 480, i);
  const std::vector<std::string> arguments = {VGGT_PROGRAM,
                                              "--device",
                                              "cpu",
                                              "--weights",
                                              kNano,
                                              "--frames",
                                              path("many"),
                                              "--width",
                                              "518",
                                              "--out",
                                              path("out/x.ply"),
                                              "--save-predictions",
                                              path("out/p.safetensors")};
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<char*> argv;
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      if (!freopen(path("log").c_str(), "w", stderr)) _exit(99);
      execv(argv[0], argv.data());
      _exit(99);
    }
    ASSERT_GT(child, 0);
    // As soon as its hidden folder stands, the run is under way.
    for (int i = 0; i < 1000 && !fs::exists(path("out")); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "killed by " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 130) << text_of(path("log"));
    EXPECT_NE(text_of(path("log")).find("stopped"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

TEST_F(CliTest, WeightsAreMadeInspectedConvertedAndUsed) {
  const std::string config = (kFixtures / "golden/nano/config.json").string();
  ASSERT_EQ(run("weights random --config '" + config + "' r.safetensors --seed 3").code, 0);
  ASSERT_EQ(run("weights convert r.safetensors r.ts --type fp16").code, 0);
  for (const char* file : {"r.safetensors", "r.ts"}) {
    EXPECT_EQ(run(std::string("weights verify ") + file).code, 0);
    const Outcome inspected = run(std::string("weights inspect ") + file);
    EXPECT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_NE(inspected.out.find("camera, depth, points, tracks"), std::string::npos) << inspected.out;
    EXPECT_NE(inspected.out.find("\"track_corr_levels\": 2"), std::string::npos) << inspected.out;
    const Outcome used =
        run(std::string("--device cpu --frames frames --out out/ --points head --weights ") + file);
    EXPECT_EQ(used.code, 0) << used.err;
    EXPECT_GT(parse_strictly(path("out/scene.report.json"))["points"], 0);
  }
  ASSERT_EQ(run("weights random --config '" + config + "' again.safetensors --seed 3").code, 0);
  EXPECT_TRUE(text_of(path("again.safetensors")) == text_of(path("r.safetensors")));
  ASSERT_EQ(run("weights random --config '" + config + "' other.safetensors --seed 4").code, 0);
  EXPECT_FALSE(text_of(path("other.safetensors")) == text_of(path("r.safetensors")));
  expect_refusal(run("weights convert r.ts x.onnx"), "x.onnx");
  expect_refusal(run("weights inspect stdout"), "stdout");
  write(dir_ / "c.json", "{\"depth\": -3}");
  expect_refusal(run("weights random --config c.json x.ts"), "c.json: ");
}

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
  expect_refusal(run("eval --result b.tum --truth b.tum --threshold 0"), "--threshold");
  expect_refusal(run("eval --truth b.tum"), "--result");
}

}  // namespace
}  // namespace vggt
