// A run within limits of memory: the same files as without, or one line that says what would do.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <opencv2/videoio.hpp>
#include <vector>

#include "io/files/clones.h"
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

const fs::path kRoot = VGGT_SOURCE_DIR;

class MemoryTest : public CliTest {
 protected:
  static constexpr int kFrames = 10;
  MemoryTest() {
    fs::create_directory(dir_ / "large");
    fs::create_directory(dir_ / "scratch");
    for (int i = 0; i < kFrames; ++i) make_image("large/" + std::to_string(i) + ".png", 518, 392, i);
  }
  /// A run of frames whose pixels and points take 39 MB in all.
  Outcome limited(const std::string& out, const std::string& more) {
    return reconstruct("--frames large --width 518 --no-autotune --merge off --points head --out " + out +
                       "/ --save-predictions " + out + ".safetensors " + more);
  }

  fs::path scratch() const { return dir_ / "scratch"; }
};

TEST_F(MemoryTest, LimitsThatNoRunKeepsAreRefused) {
  expect_refusal(reconstruct("--frames frames --out o/ --gpu-memory 6GB"),
                 "gpu-memory: the run is on the CPU");
  expect_refusal(reconstruct("--frames frames --out o/ --host-memory 50MB"),
                 "host-memory: the program itself");
  expect_refusal(reconstruct("--frames frames --out o/ --host-memory lots"), "host-memory: 'lots'");
  expect_refusal(reconstruct("--frames frames --out o/ --scratch nowhere"),
                 "scratch: no folder can be made in");
  EXPECT_FALSE(fs::exists(path("o")));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take terabytes of address space
TEST_F(MemoryTest, ALimitOfAddressSpaceIsToldNotCrashedOn) {
  int refused = 0;
  for (int megabytes = 600; megabytes <= 1800; megabytes += 100) {
    const std::string limit = std::to_string(megabytes);
    const Outcome outcome = reconstruct("--frames large --out out" + limit + "/",
                                        "ulimit -v " + std::to_string(megabytes * 1024) + ";");
    // With that the loader ends the process itself.
    if (outcome.err.find("thread-local data: ABORT") != outcome.err.npos) continue;
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 3) << limit << ": " << outcome.code << outcome.err;
    EXPECT_EQ(outcome.code == 3, outcome.err.find("vggt-recon: error: ") != outcome.err.npos) << outcome.err;
    EXPECT_EQ(outcome.code == 0, fs::exists(path("out" + limit))) << limit;
    refused += outcome.code == 3;
  }
  EXPECT_GT(refused, 0);
}
#endif

TEST_F(MemoryTest, FilesHoldWhatMemoryMayNot) {
  for (int i = kFrames; i < 24; ++i) make_image("large/" + std::to_string(i) + ".png", 518, 392, i);
  // Too little for frames and points, which take 94 MB, beside the network; too little for the network alone,
  // which then works in other pieces, on a CPU with the same sums.
  const std::string for_points = "--host-memory 525MB ", for_network = "--host-memory 465MB ";
  expect_refusal(limited("a", for_network), "--scratch");
  expect_refusal(limited("b", for_points), "--scratch");
  EXPECT_FALSE(fs::exists(path("a")) || fs::exists(path("b")) || fs::exists(path("b.safetensors")));

  ASSERT_EQ(limited("memory", "").code, 0);
  for (const auto& [name, budget] : {std::pair("c", for_points), std::pair("d", for_network)}) {
    const Outcome outcome = limited(name, budget + "--scratch scratch");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const std::string file : {"/scene.ply", "/scene.cameras.json", "/scene.tum", ".safetensors"})
      EXPECT_TRUE(text_of(path("memory" + file)) == text_of(path(name + file))) << budget << file;
    EXPECT_TRUE(fs::is_empty(scratch()));
  }
  const json report = parse_strictly(path("d/scene.report.json"));
  const double files = report["peak_scratch_bytes"], predicted = report["predicted_scratch_bytes"];
  EXPECT_GT(files, 10e6);
  EXPECT_NEAR(predicted, files, 0.1 * files);
}

// They take 235 MB and a tenth of a second.
TEST_F(MemoryTest, CudasLibrariesAreNotLoadedForTheCpu) {
  const Outcome outcome = reconstruct("--frames frames --out o/", "LD_DEBUG=files");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("libtorch_cpu.so"), std::string::npos);
  for (const char* library : {"libcublas", "libcudnn", "libnccl"})
    EXPECT_EQ(outcome.err.find(library), std::string::npos) << library;
}

/// What a refusal says would do.
int64_t named_megabytes(const std::string& refusal) {
  for (const std::string sign : {"give at least ", "; --host-memory "}) {
    const std::size_t at = refusal.find(sign);
    if (at != std::string::npos) return std::stoll(refusal.substr(at + sign.size()));
  }
  return 0;
}

// The adjustment of cameras would show the least difference of what the network says.
TEST_F(MemoryTest, TheLeastBudgetGivesTheSameAdjustedScene) {
  const auto adjusted = [&](const std::string& out, const std::string& more) {
    return run("--frames '" + (kRoot / "examples/room").string() + "' --weights '" +
               (kRoot / "weights/vggt-small.ts").string() + "' --device cpu --no-autotune --out " + out +
               "/ " + more);
  };
  ASSERT_EQ(adjusted("freely", "").code, 0);
  const std::string least = "--scratch scratch --host-memory ";
  const int64_t enough = named_megabytes(adjusted("refused", least + "415MB").err);
  const Outcome outcome = adjusted("within", least + std::to_string(enough) + "MB");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = parse_strictly(path("within/scene.report.json"));
  EXPECT_GT(report["streams"].size(), 0);  // as the network's pieces are the smallest
  EXPECT_NE(std::string(report["poses"]).find("adjusted to"), std::string::npos) << report["poses"];
  if (runs_avx512()) {
    for (const std::string file : {"/scene.ply", "/scene.cameras.json"})
      EXPECT_TRUE(text_of(path("freely" + file)) == text_of(path("within" + file))) << file;
  }
  // Without AVX-512 oneDNN's products of other numbers of rows round otherwise (linear_onednn).
  const json free = parse_strictly(path("freely/scene.cameras.json"))["cameras"],
             bound = parse_strictly(path("within/scene.cameras.json"))["cameras"];
  ASSERT_EQ(free.size(), bound.size());
  for (std::size_t i = 0; i < free.size(); ++i) {
    for (std::size_t k = 0; k < 12; ++k)
      EXPECT_NEAR(free[i]["cam_from_world"][k / 4][k % 4], bound[i]["cam_from_world"][k / 4][k % 4], 1e-5)
          << i;
  }
}

TEST_F(MemoryTest, PhotographsThatDoNotFitAreRefusedAndTheNamedBudgetDoes) {
  fs::create_directory(dir_ / "photographs");
  for (int i = 0; i < 4; ++i) make_image("photographs/" + std::to_string(i) + ".png", 4000, 3000, i);
  const auto export_within = [&](int64_t megabytes, const std::string& more) {
    return reconstruct(
        "--frames photographs --out o/ --scratch scratch --export colmap,depth --camera radial " +
        ("--export-images undistort --threads 4 --host-memory " + std::to_string(megabytes)) + "MB " + more);
  };
  const Outcome small = export_within(425, "");
  expect_refusal(small, "host-memory: beside the program, its weights and what waits, one image takes ");
  const int64_t enough = named_megabytes(small.err);
  EXPECT_GT(enough, 475);
  for (const char* more : {"", "--dry-run"})
    EXPECT_EQ(named_megabytes(export_within(enough - 1, more).err), enough) << more;
  EXPECT_FALSE(fs::exists(path("o")));

  const Outcome outcome = export_within(enough, "");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(parse_strictly(path("o/scene.report.json"))["peak_host_bytes"], enough * 1'000'000);
  EXPECT_EQ(names_in("o/colmap/images").size(), 4U);
}

/// Of all child processes that have ended.
int64_t most_bytes_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss * 1024;
}

// Opening one takes memory, too: what the header tells is enough, even of a file that has nothing else.
TEST_F(MemoryTest, ALargeVideoIsRefusedBeforeItIsOpened) {
  const auto box = [](const std::string& type, const std::string& content) {
    const std::size_t size = content.size() + 8;
    return std::string(2, '\0') + static_cast<char>(size >> 8) + static_cast<char>(size & 0xff) + type +
           content;
  };
  const auto zeros = [](std::size_t count) { return std::string(count, '\0'); };
  const std::string size_8k("\x1e\0\x10\xe0", 4),
      entry = box("avc1", zeros(24) + size_8k + zeros(50)),
      media = box("mdia",
                  box("hdlr", zeros(8) + "vide") + box("minf", box("stbl", box("stsd", zeros(8) + entry))));
  write(path("header.mp4"), box("moov", box("trak", box("tkhd", zeros(100)) + media)));
  for (const std::string more : {"", " --dry-run"}) {
    const Outcome small = reconstruct("--frames header.mp4 --out o/ --host-memory 410MB" + more);
    expect_refusal(small, "host-memory: beside the program, its weights and what waits, one image takes ");
    EXPECT_GT(named_megabytes(small.err), 1000);
    EXPECT_NE(small.err.find("MB, if its pixels are in its codec's usual format"), std::string::npos);
  }
  const Outcome large = reconstruct("--frames header.mp4 --out o/ --host-memory 8GB");
  expect_refusal(large, "header.mp4: cannot be opened as a video");
}

TEST_F(MemoryTest, AVideoThatDoesNotFitIsRefusedBeforeItIsDecoded) {
  {
    const cv::Size size(7680, 4320);
    cv::VideoWriter writer(path("large.mp4"), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('m', 'p', '4', 'v'), 1,
                           size);
    for (int i = 0; i < 2; ++i) writer.write(cv::Mat(size, CV_8UC3, cv::Scalar(60, 90 * i, 120)));
  }
  const auto within = [&](int64_t megabytes) {
    return reconstruct("--frames large.mp4 --out o/ --threads 2 --bundle-adjust off --host-memory " +
                       std::to_string(megabytes) + "MB");
  };
  constexpr int64_t kSmall = 665;
  const Outcome small = within(kSmall);
  expect_refusal(small, "host-memory: beside the program, its weights and what waits, one image takes ");
  EXPECT_LT(most_bytes_of_children(), kSmall * 1'000'000);
  const int64_t enough = named_megabytes(small.err);
  const Outcome outcome = within(enough);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(parse_strictly(path("o/scene.report.json"))["peak_host_bytes"], enough * 1'000'000);
}

TEST_F(MemoryTest, APeakAboveTheLimitIsToldOf) {
  // The header tells the size of the first pictures alone.
  std::string both;
  for (const cv::Size size : {cv::Size(320, 240), cv::Size(8000, 8000)}) {
    {
      cv::VideoWriter writer(path("part.ts"), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('m', 'p', '4', 'v'), 25,
                             size);
      for (int i = 0; i < 3; ++i) writer.write(cv::Mat(size, CV_8UC3, cv::Scalar(60, 90 * i, 120)));
    }
    both += text_of(path("part.ts"));
  }
  write(path("grows.ts"), both);
  const Outcome outcome = reconstruct(
      "--frames grows.ts --stride 1 --out o/ --threads 2 --bundle-adjust off --host-memory 485MB");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = parse_strictly(path("o/scene.report.json"));
  ASSERT_GT(report["peak_host_bytes"], 485'000'000);
  EXPECT_NE(outcome.err.find(" MB, more than --host-memory"), std::string::npos) << outcome.err;
}

TEST_F(MemoryTest, FiltersOfAllPointsKeepTheLimit) {
  for (const std::string filter : {"--voxel 0.00001", "--outliers on"}) {
    const Outcome outcome = reconstruct(
        "--frames large --width 518 --no-autotune --merge off --bundle-adjust off --conf-percentile 0 "
        "--out f/ --scratch scratch --host-memory 555MB " +
        filter);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("--host-memory holds no more of them"), std::string::npos) << outcome.err;
    const json report = parse_strictly(path("f/scene.report.json"));
    EXPECT_LT(report["peak_host_bytes"], 555'000'000) << filter;
    EXPECT_GT(report["points"], 10'000) << filter;
  }
}

TEST_F(MemoryTest, ARefusedBudgetNamesOneThatDoes) {
  const auto within = [&](int64_t megabytes) {
    return limited("o", "--scratch scratch --host-memory " + std::to_string(megabytes) + "MB");
  };
  const int64_t enough = named_megabytes(within(410).err);
  const Outcome small = within(enough - 1);
  expect_refusal(small, "--host-memory " + std::to_string(enough) + "MB would do");
  EXPECT_EQ(within(enough).code, 0);
}

TEST_F(MemoryTest, WithoutScratchABudgetForFramesAndMapsIsNamedThatDoes) {
  for (int i = kFrames; i < 40; ++i) make_image("large/" + std::to_string(i) + ".png", 518, 392, i);
  const auto within = [&](int64_t megabytes, const std::string& more = "") {
    return limited("o", "--host-memory " + std::to_string(megabytes) + "MB " + more);
  };
  const int64_t enough = named_megabytes(within(555).err);
  expect_refusal(within(enough - 1, "--dry-run"), "give at least " + std::to_string(enough) + "MB");
  expect_refusal(within(enough - 1), "frames and maps take");
  EXPECT_EQ(within(enough, "--dry-run").code, 0);
  const Outcome outcome = within(enough);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(MemoryTest, ADryRunRefusesABudgetBeforeMasksAreRead) {
  fs::create_directory(dir_ / "masks");
  for (int i = 0; i < kFrames; ++i)
    fs::copy_file(path("large/" + std::to_string(i) + ".png"), path("masks/" + std::to_string(i) + ".png"));
  const auto within = [&](int64_t megabytes, const std::string& more) {
    return limited("o", "--masks masks --host-memory " + std::to_string(megabytes) + "MB " + more);
  };
  const int64_t enough = named_megabytes(within(406, "--dry-run").err);
  EXPECT_EQ(named_megabytes(within(406, "").err), enough);
  EXPECT_EQ(within(enough, "--dry-run").code, 0);
}

TEST_F(MemoryTest, PlansTenThousandFramesAndSaysWhereTheyLie) {
  const std::string plan =
      "plan --device cpu --no-autotune --frame-count 10000 --frame-size 518x392 --weights '" + kNano +
      "' --host-memory 8GB";
  const Outcome in_memory = run(plan), in_files = run(plan + " --scratch scratch");
  EXPECT_EQ(in_files.code, 0) << in_files.err;
  EXPECT_EQ(in_memory.code, 2);
  for (const Outcome& outcome : {in_memory, in_files}) {
    for (const char* words : {"where:", "exact: ", "merged: ", "GiB of memory"})
      EXPECT_NE(outcome.out.find(words), std::string::npos) << words << " in " << outcome.out;
  }
  EXPECT_EQ(in_memory.out.find("in files"), std::string::npos) << in_memory.out;
  EXPECT_NE(in_files.out.find("in files"), std::string::npos) << in_files.out;
  EXPECT_TRUE(fs::is_empty(scratch()));
}

TEST_F(MemoryTest, EveryPresetLoadsWhereThereIsNoGpu) {
  int presets = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(VGGT_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const Outcome outcome = reconstruct("--no-autotune --dry-run --frames frames --out o/ --config '" +
                                        entry.path().string() + "'");
    EXPECT_EQ(outcome.code, 0) << entry.path() << outcome.err;
    ++presets;
  }
  EXPECT_GE(presets, 5);
}

}  // namespace
}  // namespace vggt::test
