// What the program refuses: exit code 2 and one clear line for each mistake.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

/// The bytes of a .safetensors file without the tensors whose names begin with one of the prefixes.
std::string without(const std::string& file, const std::vector<std::string>& prefixes) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const auto header = nlohmann::json::parse(file.substr(8, length));
  nlohmann::json kept;
  std::string data;
  for (const auto& [name, tensor] : header.items()) {
    if (std::ranges::any_of(prefixes, [&](const auto& prefix) { return name.starts_with(prefix); })) continue;
    kept[name] = tensor;
    if (name == "__metadata__") continue;
    const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    kept[name]["data_offsets"] = {data.size(), data.size() + end - begin};
    data += file.substr(8 + length + begin, end - begin);
  }
  const std::string text = kept.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

TEST_F(CliTest, WithoutFramesThereIsNothingToDo) {
  fs::create_directory(dir_ / "empty");
  write(dir_ / "list.txt", "\n");
  expect_refusal(reconstruct("--frames empty --out out/"), "empty");
  expect_refusal(reconstruct("--frames nowhere --out out/"), "nowhere");
  expect_refusal(reconstruct("--frames list.txt --out out/"), "list.txt");
  expect_refusal(reconstruct("--out out/"), "--frames");
  expect_no_outputs();
}

TEST_F(CliTest, UnknownOptionsAndValuesAreRefused) {
  expect_refusal(reconstruct("--frames frames --out out/ --voxle 1"), "did you mean '--voxel'");
  expect_refusal(reconstruct("--frames frames --out out/ --fit cropp"), "did you mean 'crop'");
  expect_refusal(reconstruct("--frames frames --out out/ --merge onn"), "did you mean 'on'");
  for (const char* share : {"-0.1", "1.1", "nan"})
    expect_refusal(reconstruct(std::string("--frames frames --out out/ --merge-ratio ") + share), share);
  write(dir_ / "c.yaml", "frames: frames\nout: out/\nvoxle: 1\n");
  expect_refusal(reconstruct("--config c.yaml"), "c.yaml:3: unknown key 'voxle'; did you mean 'voxel'?");
  expect_refusal(reconstruct("--config nowhere.yaml"), "nowhere.yaml");
  expect_refusal(reconstruct("--frames frames --out x.obj"), ".ply");
  expect_refusal(reconstruct("--frames frames --save-predictions x.npz"), ".safetensors");
  expect_refusal(reconstruct("--frames frames --out out/ --width 57"), "multiple of 14");
  expect_refusal(reconstruct("--frames frames --out out/ extra"), "extra");
  expect_refusal(reconstruct("--frames --out out/"), "--frames needs a value");
  expect_refusal(reconstruct("--frames frames --out out/ --width 56 --width 70"), "--width: given 2 times; give it once");
  expect_refusal(run("--conf-percentile 5 batch --scenes frames --out out/"), "stands before batch");
  expect_refusal(run("bench --json a merge --frames frames"), "--json stands before merge");
  expect_refusal(reconstruct("--frames frames --out out/ --masks ''"),
                 "--masks needs a value, found an empty");
  expect_no_outputs();
}

TEST_F(CliTest, WhatTheDeviceOrTheWeightsLackIsRefused) {
  for (const char* precision : {"fp16", "tf32"}) {
    expect_refusal(reconstruct(std::string("--frames frames --out out/ --precision ") + precision),
                   precision);
  }
  for (const char* attention : {"strict", "split", "turbo", "half", "sdpa"}) {
    expect_refusal(reconstruct(std::string("--frames frames --out out/ --attention ") + attention),
                   "attention: '" + std::string(attention) + "' needs a GPU");
  }
  expect_refusal(reconstruct("--frames frames --out out/ --attention turbo --precision fp32"),
                 "attention: 'turbo' goes with precision tf32");
  expect_refusal(run("--frames frames --out out/ --device cuda:99"), "cuda:99");
  expect_refusal(reconstruct("--frames frames --out out/ --heads tracks"), "--query-points");
  expect_refusal(reconstruct("--frames frames --out x.ply --heads camera"), "cloud");
  make_safetensors();
  write(dir_ / "few.safetensors",
        without(text_of(path("nano.safetensors")), {"point_head.", "track_head.", "__metadata__"}));
  fs::copy_file(kFixtures / "golden/nano/config.json", dir_ / "config.json");
  const std::string small = "--device cpu --frames frames --out out/ --weights few.safetensors ";
  expect_refusal(run(small + "--heads camera,points"), "'points'");
  expect_refusal(run(small + "--points head"), "point head");
  expect_refusal(reconstruct("--frames frames --out out/ --heads camera,points --bundle-adjust on"),
                 "bundle-adjust: needs the heads camera and depth");
  write(dir_ / "q.csv", "1,1\n");
  expect_refusal(run(small + "--query-points q.csv"), "'tracks'");
  expect_no_outputs();
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
  // Frames are 64×48 pixels, which the network sees as 56×42.
  fs::create_directory(dir_ / "masks");
  for (int i = 0; i < 3; ++i) {
    cv::Mat mask(48, 64, CV_8UC1, cv::Scalar(255));
    mask.colRange(0, 32).setTo(i == 0 ? 0 : 255);
    ASSERT_TRUE(cv::imwrite(path("masks/" + std::to_string(i) + ".png"), mask));
  }
  write(dir_ / "q.csv", "40,10\n10,10\n");
  const std::string begin = "--frames frames --heads camera,depth,tracks --query-points q.csv --out ";
  expect_refusal(reconstruct(begin + "out/ --masks masks"), "point 2 (10.000000, 10.000000) lies where");
  EXPECT_FALSE(fs::exists(path("out")));
  write(dir_ / "q.csv", "40,10\n");
  EXPECT_EQ(reconstruct(begin + "out/ --masks masks --save-predictions p.safetensors").code, 0);
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
  fs::create_directory(path("masks"));
  fs::copy(path("frames"), path("masks"));
  expect_refusal(reconstruct(begin + "masks/1.png --masks masks"), "masks/1.png: would replace an input");
  // Through a folder that the run makes.
  expect_refusal(reconstruct("--frames frames --out new/ --picture new/../frames/1.png"),
                 "would replace an input");
  expect_refusal(reconstruct("--frames frames --out new/ --picture new/../frames/x.png"), "among the frames");
  EXPECT_EQ(text_of(path("masks/1.png")), old);
  fs::remove_all(path("masks"));
  EXPECT_EQ(text_of(path("frames/1.png")), old);
  expect_refusal(reconstruct(begin + "frames/0.png/s.png"), "frames/0.png");
  expect_no_outputs();
  EXPECT_FALSE(fs::exists(path("s.png")));
}

TEST_F(CliTest, DamagedWeightsAreRefused) {
  const fs::path reference = kFixtures / "golden/nano";
  make_safetensors();
  const auto try_weights = [&](const std::string& file, const std::string& bytes) {
    write(dir_ / file, bytes);
    expect_refusal(run("--device cpu --frames frames --out out/ --weights " + file), "");
    fs::remove(dir_ / file);
  };
  fs::copy(reference / "config.json", path("config.json"));
  for (const fs::path& file :
       {reference / "weights.ts", reference / "weights.pt", dir_ / "nano.safetensors"}) {
    const std::string good = text_of(file), name = "bad" + file.extension().string();
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
  make_safetensors();
  write(dir_ / "w.safetensors", without(text_of(path("nano.safetensors")), {"__metadata__"}));
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

}  // namespace
}  // namespace vggt::test
