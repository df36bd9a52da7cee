// Options: one set of fields behind the command line, YAML, --print-config and help.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>

#include "app/cli/command_line.h"
#include "app/options/options_yaml.h"
#include "app/options/spelling.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() : path_(fs::temp_directory_path() / ("vggt_options_" + std::to_string(getpid()) + ".yaml")) {}
  ~OptionsTest() override { fs::remove(path_); }

  std::string yaml(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_.string();
  }
  fs::path path_;
};

Command parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "vggt-recon");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal_of_yaml(const std::string& path) {
  return refusal([&] {
    Options options;
    read_options_yaml(path, options);
  });
}

/// Every field away from its default.
Options unusual() {
  Options o;
  o.frames = "a dir/#x: 'y' \"z\"";
  o.fps = 0.1;
  o.stride = 3;
  o.max_frames = 7;
  o.width = 280;
  o.fit = "pad";
  o.strict = true;
  o.weights = "null";
  o.heads = {"camera", "tracks"};
  o.points = "head";
  o.masks = "masks/";
  o.bundle_adjust = "on";
  o.refine_depth = "on";
  o.camera = "radial";
  o.intrinsics = "500,500,320,240";
  o.poses = "poses.tum";
  o.refine = {"intrinsics"};
  o.align = "colmap/";
  o.scale = 2.5;
  o.up = "auto";
  o.query_points = "~";
  o.precision = "bf16";
  o.head_precision = "fp32";
  o.attention = "half";
  o.no_autotune = true;
  o.merge = "on";
  o.merge_start = 4;
  o.merge_ratio = 0.75;
  o.merge_protect = 0;
  o.merge_seed = 5;
  o.merge_refresh = 3;
  o.merge_metric = 256;
  o.device = "cuda:3";
  o.gpu_memory = "1.5GiB";
  o.host_memory = "500 MB";
  o.scratch = "a disk/";
  o.resume = true;
  o.threads = 5;
  o.conf_percentile = 100.0 / 3;
  o.conf_threshold = -1e-7;
  o.mask_black = o.mask_white = true;
  o.depth_edge = 0.04;
  o.consistent = 2;
  o.voxel = 1e-3;
  o.outliers = "10,1.5";
  o.max_points = 1234567890123;
  o.seed = 9;
  o.out = "tab\there\nline";
  o.exports = {"colmap", "glb"};
  o.export_images = "copy";
  o.depth_format = "exr";
  o.depth_size = "network";
  o.picture = "p.png";
  o.picture_size = "64x48";
  o.save_predictions = "p.safetensors";
  o.open = o.report = o.dry_run = o.quiet = o.verbose = true;
  return o;
}

TEST_F(OptionsTest, PrintedConfigReadsBack) {
  for (const Options& written : {Options(), unusual()}) {
    Options read = written == Options() ? unusual() : Options();
    read_options_yaml(yaml(options_to_yaml(written)), read);
    EXPECT_EQ(options_to_yaml(read), options_to_yaml(written));
    EXPECT_TRUE(read == written) << options_to_yaml(written);
  }
}

TEST_F(OptionsTest, UnusualLeavesNoFieldAtItsDefault) {
  const Options odd = unusual(), defaults;
  std::vector<std::string> texts;
  visit_options(defaults, [&](const OptionInfo& info, const auto&) { texts.emplace_back(info.name); });
  std::istringstream a(options_to_yaml(odd)), b(options_to_yaml(defaults));
  std::string line_a, line_b;
  std::size_t different = 0;
  while (std::getline(a, line_a) && std::getline(b, line_b)) different += line_a != line_b;
  EXPECT_EQ(different, texts.size());
}

TEST_F(OptionsTest, CommandLineSetsEveryOptionByItsYamlName) {
  const std::string printed = std::get<ShowText>(parse({"--print-config"})).text;
  for (const std::string& name : option_names()) {
    EXPECT_NE(printed.find("\n" + name + ":"), std::string::npos) << name;
    EXPECT_NE(help_text().find("--" + name), std::string::npos) << name;
  }
}

TEST_F(OptionsTest, OneValueIsNoList) {
  const std::string path = yaml("out: o/\nframes: [a, b]\n");
  EXPECT_EQ(refusal_of_yaml(path), path + ":2: 'frames' takes one value, not a list");
  const std::string commas = yaml("heads: ['camera,depth']\n");
  EXPECT_EQ(refusal_of_yaml(commas), commas + ":1: 'heads' has an entry with a comma in it");
}

TEST_F(OptionsTest, HelpNamesEveryCommand) {
  for (const char* command : {"weights", "eval", "bench", "plan"}) {
    EXPECT_NE(help_text().find(std::string("vggt-recon ") + command), std::string::npos) << command;
  }
  EXPECT_NE(help_text().find("bench [attention|merge|stream"), std::string::npos);
}

TEST_F(OptionsTest, CommandLineWinsOverYaml) {
  const std::string path =
      yaml("frames: f\nout: o/\nvoxel: 0.5\nstrict: true\nheads: [camera, depth]\nseed: 4\n");
  const auto options = std::get<Options>(
      parse({"--voxel", "0.25", "--config", path.c_str(), "--strict=false", "--heads", "points"}));
  EXPECT_EQ(options.voxel, 0.25);
  EXPECT_FALSE(options.strict);
  EXPECT_EQ(options.heads, std::vector<std::string>{"points"});
  EXPECT_EQ(options.seed, 4);
  EXPECT_EQ(options.frames, "f");
}

TEST_F(OptionsTest, UnknownNamesAreAnsweredWithTheNearest) {
  EXPECT_NE(refusal([] {
              parse({"--fraems", "x"});
            }).find("'--fraems'; did you mean '--frames'?"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse({"--max-point=3"}); }).find("did you mean '--max-points'?"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse({"wieghts"}); }).find("did you mean 'weights'?"), std::string::npos);
  EXPECT_NE(refusal([] {
              parse({"weights", "verfy", "x"});
            }).find("did you mean 'verify'?"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse({"eval", "--pose", "x"});
            }).find("did you mean '--poses'?"),
            std::string::npos);
  const std::string path = yaml("frames: a\n\nmask_black: true\n");
  EXPECT_EQ(refusal_of_yaml(path), path + ":3: unknown key 'mask_black'; did you mean 'mask-black'?");
  EXPECT_NE(refusal([] { parse({"--precision", "bf61"}); }).find("--precision: 'bf61'"), std::string::npos);
  EXPECT_EQ(std::get<Options>(parse({"--camera", "SIMPLE_RADIAL", "--frames", "f", "--out", "o/"})).camera,
            "simple-radial");  // as COLMAP spells it
  EXPECT_NE(refusal([] { parse({"--precision", "bf61"}); }).find("did you mean 'bf16'?"), std::string::npos);
  EXPECT_NE(refusal([] {
              parse({"--camera", "SIMPLE_RADAIL"});
            }).find("did you mean 'simple-radial'?"),
            std::string::npos);
  EXPECT_EQ(refusal([] { parse({"--camera", "opencv"}); }).find("did you mean"), std::string::npos);
  EXPECT_NE(refusal([] {
              parse({"--heads", "camera,dept"});
            }).find("did you mean 'depth'?"),
            std::string::npos);
}

TEST_F(OptionsTest, ValuesOutOfRangeAreRefused) {
  for (const char* seed : {"9007199254740993", "18446744073709551615"})
    EXPECT_NE(refusal([&] {
                parse({"--merge-seed", seed});
              }).find("a whole number from 0 to 1e+15"),
              std::string::npos);
  EXPECT_NE(refusal([] {
              parse({"--merge-seed", "-1"});
            }).find("a whole number of at least 0"),
            std::string::npos);
  const std::vector<std::vector<const char*>> bad = {{"--conf-percentile", "101"},
                                                     {"--conf-percentile", "-1"},
                                                     {"--conf-percentile", "nan"},
                                                     {"--conf-percentile", "5x"},
                                                     {"--conf-threshold", "inf"},
                                                     {"--max-frames", "0"},
                                                     {"--max-frames", "2.5"},
                                                     {"--stride", "-1"},
                                                     {"--fps", "0"},
                                                     {"--seed", "-1"},
                                                     {"--seed", "99999999999999999999"},
                                                     {"--threads", ""},
                                                     {"--fit", "CROP"},
                                                     {"--points", "both"},
                                                     {"--strict=maybe"},
                                                     {"--voxel", "-0.1"},
                                                     {"--heads", ""},
                                                     {"--frames", "--out"}};
  for (const auto& arguments : bad) {
    const std::string message = refusal([&] { parse(arguments); });
    const std::string name = std::string(arguments[0]).substr(0, std::string(arguments[0]).find('='));
    EXPECT_NE(message.find(name), std::string::npos) << name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(OptionsTest, ContradictionsAreRefused) {
  const auto with = [](std::vector<const char*> more) {
    more.insert(more.end(), {"--frames", "f", "--out", "o/"});
    return refusal([&] { parse(more); });
  };
  EXPECT_EQ(with({}), "(accepted)");
  EXPECT_NE(with({"--fps", "2", "--stride", "3"}).find("not both"), std::string::npos);
  EXPECT_NE(with({"--quiet", "--verbose"}).find("not both"), std::string::npos);
  EXPECT_NE(with({"--heads", "camera,tracks"}).find("--query-points"), std::string::npos);
  EXPECT_NE(with({"--width", "100"}).find("try 98 or 112"), std::string::npos);
  for (const char* device : {"gpu", "cuda:", "cuda:-1", "cuda:1x"}) {
    EXPECT_NE(with({"--device", device}).find("device"), std::string::npos) << device;
  }
  EXPECT_EQ(with({"--attention", "half", "--precision", "fp32"}),
            "attention: 'half' goes with precision bf16 or fp16, not with fp32");
  EXPECT_NE(with({"--attention", "hlaf"}).find("did you mean 'half'?"), std::string::npos);
  for (const char* outliers : {"maybe", "20,", ",2", "0,2", "20,0", "20,2,1"}) {
    EXPECT_NE(with({"--outliers", outliers}).find("outliers"), std::string::npos) << outliers;
  }
  for (const char* size : {"640", "640x", "x480", "640x480x3", "0x480", "640X480", "9000x480", ""}) {
    EXPECT_NE(with({"--picture-size", size}).find("picture-size"), std::string::npos) << size;
  }
  for (const char* option : {"--gpu-memory", "--host-memory"}) {
    EXPECT_NE(with({option, "lots"}).find(option + 2), std::string::npos) << option;
  }
  EXPECT_NE(refusal([] {
              parse({"--frames", "f", "--save-predictions", "p.safetensors", "--picture", "p.png"});
            }).find("--out"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse({"--out", "o/"}); }).find("--frames"), std::string::npos);
  EXPECT_NE(refusal([] { parse({"--frames", "f"}); }).find("--out"), std::string::npos);
}

TEST_F(OptionsTest, WhatOthersLeaveWithoutEffectIsNamed) {
  const auto idle = [](void (*change)(Options&)) {
    Options options;
    change(options);
    const std::vector<std::string> lines = idle_options(options);
    return lines.empty() ? "" : lines.front().substr(0, lines.front().find(':'));
  };
  EXPECT_EQ(idle([](Options&) {}), "");
  EXPECT_EQ(idle([](Options& o) { o.merge = "off", o.merge_ratio = .5; }), "merge");
  EXPECT_EQ(idle([](Options& o) { o.merge = "auto", o.merge_ratio = .5; }), "");
  EXPECT_EQ(idle([](Options& o) { o.conf_threshold = 2, o.conf_percentile = 10; }), "conf-percentile");
  EXPECT_EQ(idle([](Options& o) { o.conf_threshold = 2; }), "");
  EXPECT_EQ(idle([](Options& o) { o.export_images = "copy"; }), "export-images");
  EXPECT_EQ(idle([](Options& o) { o.export_images = "copy", o.exports = {"nerfstudio"}; }), "");
  EXPECT_EQ(idle([](Options& o) { o.depth_format = "npy", o.exports = {"colmap"}; }), "depth-format");
  EXPECT_EQ(idle([](Options& o) { o.depth_format = "npy", o.exports = {"confidence"}; }), "");
  EXPECT_EQ(idle([](Options& o) { o.depth_size = "network"; }), "depth-size");
  EXPECT_EQ(idle([](Options& o) { o.picture_size = "640x480"; }), "picture-size");
  EXPECT_EQ(idle([](Options& o) { o.picture_size = "640x480", o.picture = "p.png"; }), "");
}

TEST_F(OptionsTest, AttentionGoesWithThePrecisionsOfItsKernels) {
  const std::map<std::string, std::vector<std::string>> pairs = {
      {"auto", {"auto", "fp32", "tf32", "bf16", "fp16"}},
      {"sdpa", {"auto", "fp32", "tf32", "bf16", "fp16"}},
      {"strict", {"auto", "fp32", "tf32"}},
      {"split", {"auto", "fp32", "tf32"}},
      {"turbo", {"auto", "tf32"}},
      {"half", {"auto", "bf16", "fp16"}}};
  for (const auto& [attention, good] : pairs) {
    for (const std::string& precision : pairs.at("auto")) {
      const std::string answer = refusal([&] {
        parse({"--frames", "f", "--out", "o/", "--attention", attention.c_str(), "--precision",
               precision.c_str()});
      });
      EXPECT_EQ(answer == "(accepted)", std::ranges::count(good, precision) == 1)
          << attention << " in " << precision << ": " << answer;
    }
  }
}

TEST_F(OptionsTest, OutliersSayNeighboursAndDeviations) {
  EXPECT_FALSE(parse_outliers("off", ""));
  EXPECT_EQ(parse_outliers("on", "")->neighbors, 20);
  EXPECT_EQ(parse_outliers("7", "")->neighbors, 7);
  EXPECT_EQ(parse_outliers("7,1.5", "")->std_ratio, 1.5);
}

TEST_F(OptionsTest, BytesAreSaidWithAUnit) {
  const std::vector<std::pair<const char*, int64_t>> good = {
      {"6GB", 6'000'000'000},  {"1.5GiB", 1'610'612'736}, {"500 MB", 500'000'000},    {"1000000", 1'000'000},
      {"12g", 12'000'000'000}, {"1 KiB", 1024},           {"2TB", 2'000'000'000'000}, {"1", 1},
      {"0.5 mib", 524'288}};
  for (const auto& [text, bytes] : good) EXPECT_EQ(parse_bytes(text, "x"), bytes) << text;
  EXPECT_FALSE(parse_bytes("", "x"));
  for (const char* text :
       {"0", "0GB", "-1", "-6GB", "+6GB", "lots", "GB", "6 G B", "6GBs", "1e30", "1e3MB", "nan", "inf",
        "1.2.3GB", "6,5GB", " ", "2000TB", "0.1", "9999999999999999999999"}) {
    EXPECT_EQ(refusal([&] { parse_bytes(text, "host-memory"); }),
              "host-memory: '" + std::string(text) + "' is not a size such as 6GB, 500MB or 1.5GiB");
  }
}

TEST_F(OptionsTest, MemoryIsLimitedFromYamlToo) {
  const std::string path =
      yaml("frames: f\nout: o/\ngpu-memory: 6GB\nhost-memory: 16000000000\nscratch: /big disk\n");
  const auto options = std::get<Options>(parse({"--config", path.c_str(), "--gpu-memory", "3 GB"}));
  EXPECT_EQ(options.gpu_memory, "3 GB");
  EXPECT_EQ(parse_bytes(options.host_memory, ""), 16'000'000'000);
  EXPECT_EQ(options.scratch, "/big disk");
  const std::string wrong = yaml("frames: f\nout: o/\nhost-memory: much\n");
  EXPECT_NE(refusal([&] {
              parse({"--config", wrong.c_str()});
            }).find("host-memory: 'much'"),
            std::string::npos);
}

TEST_F(OptionsTest, ProgramDecidesOnMergingByDefault) {
  EXPECT_EQ(Options().merge, "auto");
  EXPECT_EQ(std::get<Options>(parse({"--frames", "f", "--out", "o/"})).merge, "auto");
  EXPECT_NE(std::get<ShowText>(parse({"--print-config"})).text.find("\nmerge: auto\n"), std::string::npos);
  EXPECT_NE(
      std::get<ShowText>(parse({"batch", "--merge", "on", "--print-config"})).text.find("\nmerge: on\n"),
      std::string::npos);
}

TEST_F(OptionsTest, HostileYamlIsRefusedInOneLine) {
  const std::string deep(20000, '[');
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c < 'z'; ++c)
    bomb += std::string(1, c) + ": &" + c + " [*" + char(c - 1) + ", *" + char(c - 1) + "]\n";
  const std::vector<std::string> files = {deep,
                                          "frames: " + deep,
                                          "frames: " + std::string(30000, '{'),
                                          std::string(30000, '-') + "\n",
                                          bomb,
                                          "frames: &x a\nout: *x\n",
                                          "frames: {a: b}\n",
                                          "heads: [[camera]]\n",
                                          "frames: a\nframes: b\n",
                                          "frames: a\n---\nframes: b\n",
                                          "just words\n",
                                          "- frames\n",
                                          "? [frames]\n: a\n",
                                          "frames: a\n\tout: b\n",
                                          std::string("\0\xff\xfe", 3),
                                          "%YAML 9.9\n---\nframes: a\n...\n]",
                                          "frames: " + std::string(70000, 'x') + "\n"};
  for (const std::string& text : files) {
    const std::string message = refusal_of_yaml(yaml(text));
    EXPECT_EQ(message.rfind(path_.string() + ":", 0), 0u) << text.substr(0, 40) << " -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400u);
  }
  EXPECT_THROW(refusal_of_yaml("/nowhere/x.yaml"), std::system_error);
  EXPECT_EQ(refusal_of_yaml(yaml("")), "(accepted)");
  EXPECT_EQ(refusal_of_yaml(yaml("# nothing\n")), "(accepted)");
}

TEST_F(OptionsTest, DamagedYamlNeverEscapesAsAnythingElse) {
  std::mt19937 random(5);
  const std::string good = options_to_yaml(unusual());
  for (int round = 0; round < 500; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      static constexpr char kMarks[] = "[]{}:-?&*!|>'\"%@`#,\n\t \\~<=\0\xff";
      const std::size_t at = random() % text.size();
      if (random() % 2) {
        text[at] = kMarks[random() % sizeof kMarks];
      } else {
        text.erase(at, random() % 20);
      }
      if (text.empty()) text = " ";
    }
    EXPECT_FALSE(refusal_of_yaml(yaml(text)).empty()) << text;
  }
}

TEST_F(OptionsTest, PresetsLoadAndAreValid) {
  int presets = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(VGGT_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++presets;
    const std::string path = entry.path().string();
    const auto options = std::get<Options>(parse({"--frames", "f", "--out", "o/", "--config", path.c_str()}));
    Options plain;
    plain.frames = "f";
    plain.out = "o/";
    EXPECT_FALSE(options == plain) << path << " changes nothing";
  }
  EXPECT_GE(presets, 5);
}

TEST_F(OptionsTest, HelpFitsAScreen) {
  std::istringstream lines(std::get<ShowText>(parse({"--help"})).text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LE(count, 55);
  EXPECT_GE(count, 24);
}

TEST_F(OptionsTest, SubcommandsAreParsed) {
  const auto convert =
      std::get<WeightsCommand>(parse({"weights", "convert", "a.pt", "b.ts", "--type", "fp16"}));
  EXPECT_EQ(convert.action, "convert");
  EXPECT_EQ(convert.input, "a.pt");
  EXPECT_EQ(convert.output, "b.ts");
  EXPECT_EQ(convert.type, "fp16");
  EXPECT_EQ(std::get<WeightsCommand>(parse({"weights", "random", "--config", "c.json", "o.ts"})).output,
            "o.ts");
  EXPECT_EQ(std::get<EvalCommand>(parse({"eval", "--poses", "a", "--truth", "b"})).truth,
            std::vector<std::string>{"b"});
  EXPECT_NE(std::get<ShowText>(parse({"weights", "convert", "--help"})).text.find("--type"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse({"weights"}); }), "(accepted)");
  EXPECT_NE(refusal([] { parse({"weights", "convert", "a.pt"}); }).find("OUT"), std::string::npos);
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
  EXPECT_EQ(nearest_name("voxle", {"fps", "voxel", "out"}), "voxel");
}

}  // namespace
}  // namespace vggt
