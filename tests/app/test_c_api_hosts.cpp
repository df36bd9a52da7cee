// What the C interface promises to the program that it is in: errors as codes with messages, callbacks, runs
// at the same time, settings of the process as they were, no symbols but its own.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <opencv2/core/utility.hpp>
#include <set>
#include <thread>

#include "tests/support/c_api.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CApiHosts, UnknownAndBadOptionsAreNamed) {
  const ContextHandle context = small_context();
  EXPECT_STREQ(vggt_recon_error(context.get()), "");
  for (const auto& [name, value, message] :
       {std::tuple("conf-percentil", "20",
                   "unknown option 'conf-percentil'; did you mean 'conf-percentile'?"),
        {"conf-percentile", "120", "conf-percentile: '120' is not a number from 0 to 100"},
        {"heads", "camera,eyes", "heads: 'eyes' is not one of camera, depth, points, tracks"},
        {"strict", "maybe", "strict: 'maybe' is not true or false"},
        {"frames", "x", "frames: is no option of a library's run"},
        {"verbose", "true", "verbose: is no option"}}) {
    EXPECT_EQ(vggt_recon_set_option(context.get(), name, value), VGGT_RECON_BAD_INPUT);
    EXPECT_THAT(vggt_recon_error(context.get()), StartsWith(message));
  }
  const vggt_recon_option options[] = {{"conf-percentile", "20"}, {"voxel", "wide"}};
  vggt_recon_run_input input = input_of();
  input.options = options;
  input.option_count = 2;
  vggt_recon_scene* scene = nullptr;
  EXPECT_EQ(vggt_recon_run(context.get(), &input, &scene), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(scene, nullptr);
  EXPECT_THAT(vggt_recon_error(context.get()), StartsWith("voxel: 'wide'"));
  EXPECT_EQ(vggt_recon_set_option(context.get(), "width", nullptr), VGGT_RECON_DONE);
}

TEST(CApiHosts, EveryOptionIsListed) {
  std::size_t count = 0;
  const vggt_recon_option_info* options = vggt_recon_options(&count);
  const ContextHandle context = small_context();
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.insert(options[i].name);
    // Its default is a value of it.
    const bool has_default = options[i].value[0] != '\0';
    EXPECT_EQ(vggt_recon_set_option(context.get(), options[i].name, has_default ? options[i].value : nullptr),
              VGGT_RECON_DONE)
        << options[i].name;
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_TRUE(names.contains("out") && names.contains("bundle-adjust") && !names.contains("quiet"));
}

TEST(CApiHosts, FilesThatCannotBeUsed) {
  const test::TemporaryFolder folder;
  vggt_recon_context* none = nullptr;
  EXPECT_EQ(vggt_recon_open((folder / "no.ts").c_str(), &none), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(none, nullptr);
  EXPECT_THAT(vggt_recon_error(nullptr), HasSubstr("no.ts"));
  EXPECT_EQ(vggt_recon_open("", &none), VGGT_RECON_BAD_INPUT);
  EXPECT_THAT(vggt_recon_error(nullptr), HasSubstr("weights: the path is empty"));
  test::write_text(folder / "bad.safetensors", "this is no network");
  EXPECT_EQ(vggt_recon_open((folder / "bad.safetensors").c_str(), &none), VGGT_RECON_BAD_INPUT);
  EXPECT_THAT(vggt_recon_error(nullptr), HasSubstr("bad.safetensors"));

  const ContextHandle context = small_context();
  const std::string missing = folder / "photos";
  vggt_recon_run_input input = input_of(missing);
  EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(vggt_recon_error(context.get()), missing + ": no such file or folder");
  EXPECT_EQ(vggt_recon_error_number(context.get()), 0);
  const char* paths[] = {missing.c_str(), missing.c_str()};
  input = input_of();
  input.frames = nullptr;
  input.paths = paths;
  input.count = 2;
  EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
  EXPECT_THAT(vggt_recon_error(context.get()),
              StartsWith("none of the 2 frames can be used; the first: " + missing));
  paths[1] = nullptr;
  EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
  EXPECT_STREQ(vggt_recon_error(context.get()), "paths: one of them is null");
  const std::string out = (folder / "bad.safetensors").string() + "/x/";
  const vggt_recon_option option = {"out", out.c_str()};
  input = input_of();
  input.options = &option;
  input.option_count = 1;
  EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(vggt_recon_error_number(context.get()), ENOTDIR) << vggt_recon_error(context.get());
  EXPECT_NE(copy_of(run(context, input_of())).points.size(), 0u);  // it still works
}

TEST(CApiHosts, NullIsRefusedOrNothing) {
  vggt_recon_scene* scene = nullptr;
  EXPECT_EQ(vggt_recon_open(kSmall.c_str(), nullptr), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(vggt_recon_set_option(nullptr, "width", "56"), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(vggt_recon_run(nullptr, nullptr, &scene), VGGT_RECON_BAD_INPUT);
  EXPECT_STREQ(vggt_recon_error(nullptr), "context: is null");
  EXPECT_EQ(vggt_recon_save(nullptr, "x"), VGGT_RECON_BAD_INPUT);
  vggt_recon_close(nullptr);
  vggt_recon_free(nullptr);
  std::size_t count = 1, shape[3] = {1, 1, 1};
  EXPECT_EQ(vggt_recon_cameras(nullptr, &count), nullptr);
  EXPECT_EQ(vggt_recon_cameras(nullptr, nullptr), nullptr);
  EXPECT_EQ(vggt_recon_depth(nullptr, shape), nullptr);
  EXPECT_EQ(vggt_recon_depth(nullptr, nullptr), nullptr);
  EXPECT_EQ(vggt_recon_tracks(nullptr, &count), nullptr);
  EXPECT_EQ(vggt_recon_written(nullptr, &count), nullptr);
  EXPECT_EQ(vggt_recon_report(nullptr), nullptr);
  EXPECT_EQ(count + shape[0], 0u);

  const ContextHandle context = small_context();
  const auto refusal = [&](const vggt_recon_run_input* input) -> std::string {
    EXPECT_EQ(vggt_recon_run(context.get(), input, &scene), VGGT_RECON_BAD_INPUT);
    return vggt_recon_error(context.get());
  };
  EXPECT_EQ(vggt_recon_set_option(context.get(), nullptr, "1"), VGGT_RECON_BAD_INPUT);
  EXPECT_THAT(refusal(nullptr), HasSubstr("null"));
  vggt_recon_run_input input = {};
  EXPECT_THAT(refusal(&input), HasSubstr("size"));
  input.size = sizeof input + 8;
  EXPECT_THAT(refusal(&input), HasSubstr("size"));
  input.size = sizeof input;
  EXPECT_THAT(refusal(&input), HasSubstr("give one of frames"));
  const vggt_recon_image image = {};
  input.images = &image;
  EXPECT_THAT(refusal(&input), HasSubstr("no frames"));
  input.count = 1;
  EXPECT_THAT(refusal(&input), StartsWith("image 0 (image_000000): has no pixels"));
  input.frames = kRoom.c_str();
  EXPECT_THAT(refusal(&input), HasSubstr("give one of frames"));
  const char* paths[] = {nullptr};
  input = {};
  input.size = sizeof input;
  input.paths = paths;
  input.count = 1;
  EXPECT_NE(refusal(&input), "");
  input.paths = nullptr;
  input.frames = kRoom.c_str();
  input.option_count = 3;
  EXPECT_THAT(refusal(&input), StartsWith("options: "));
  input.option_count = 0;
  input.frames = "";
  EXPECT_EQ(refusal(&input), "frames: the path is empty");
}

TEST(CApiHosts, WhatGoesBesideTheResultNeedsOut) {
  const ContextHandle context = small_context();
  for (const auto& [name, value] : {std::pair("report", "true"), {"export", "glb"}, {"picture", "x.png"}}) {
    const vggt_recon_option option = {name, value};
    vggt_recon_run_input input = input_of();
    input.options = &option;
    input.option_count = 1;
    EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
    EXPECT_EQ(vggt_recon_error(context.get()),
              std::string(name) + ": it goes beside the result, which needs out");
  }
}

TEST(CApiHosts, StridesThatOverlapAreNamed) {
  const ContextHandle context = small_context();
  const std::vector<uint8_t> pixels(3 * 40 * 30);
  const auto refusal = [&](int w, int h, std::ptrdiff_t row, std::ptrdiff_t pixel, std::ptrdiff_t channel) {
    const vggt_recon_image image = {pixels.data(), w, h, row, pixel, channel, nullptr};
    vggt_recon_run_input input = input_of();
    input.frames = nullptr;
    input.images = &image;
    input.count = 1;
    EXPECT_EQ(vggt_recon_run(context.get(), &input, nullptr), VGGT_RECON_BAD_INPUT);
    return std::string(vggt_recon_error(context.get()));
  };
  EXPECT_EQ(refusal(40, 30, 100, 0, 0),
            "image 0: row_stride: steps of 100 bytes overlap, they need at least 120");
  EXPECT_THAT(refusal(40, 30, -119, 3, 1), StartsWith("image 0: row_stride: steps of 119 bytes"));
  EXPECT_THAT(refusal(40, 30, 120, 2, 1), StartsWith("image 0: pixel_stride: steps of 2 bytes"));
  EXPECT_THAT(refusal(40, 30, 0, -1, 0), StartsWith("image 0: pixel_stride: steps of 1 bytes"));
  EXPECT_THAT(refusal(40, 30, 40, 1, 600), StartsWith("image 0: channel_stride: steps of 600 bytes"));
  EXPECT_THAT(refusal(40, 30, 0, 0, 1200), StartsWith("image 0: channel_stride: steps of 1200 bytes"));
  EXPECT_THAT(refusal(40, 1, 1, 2, 1), StartsWith("image 0: pixel_stride"));  // of the row nobody asks
  EXPECT_THAT(refusal(1, 30, 2, 1, 1), StartsWith("image 0: row_stride"));
  // Nor are those read that no memory can be as large as.
  constexpr std::ptrdiff_t kMost = PTRDIFF_MAX, kLeast = PTRDIFF_MIN;
  for (const std::ptrdiff_t row : {kMost, kLeast, kMost / 30, std::ptrdiff_t{1} << 61})
    EXPECT_THAT(refusal(40, 30, row, 3, 1), StartsWith("image 0: row_stride"));
  for (const std::ptrdiff_t pixel : {kMost, kLeast, kMost / 2, kMost / 40})
    EXPECT_THAT(refusal(40, 30, 0, pixel, 1), StartsWith("image 0: pixel_stride"));
  for (const std::ptrdiff_t channel : {kMost, kLeast, kMost / 3})
    EXPECT_THAT(refusal(40, 30, 0, 0, channel), StartsWith("image 0: channel_stride"));
}

struct Watch {
  std::thread::id thread = std::this_thread::get_id();
  std::set<std::string> stages, messages;
  std::map<std::string, double> shares;
  bool from_elsewhere = false, fell_back = false;
  std::string stop_at;
  std::atomic<bool> stop = false;
};

void watch(vggt_recon_run_input& input, Watch& seen) {
  input.user = &seen;
  input.progress = [](void* user, const char* stage, const char*, int64_t done, int64_t total) {
    auto& watch = *static_cast<Watch*>(user);
    watch.stages.insert(stage);
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    watch.fell_back |= share < watch.shares[stage];
    watch.shares[stage] = share;
    watch.from_elsewhere |= std::this_thread::get_id() != watch.thread || (total > 0 && done > total);
    if (watch.stop_at == stage) watch.stop = true;
  };
  input.message = [](void* user, int, const char* text) { static_cast<Watch*>(user)->messages.insert(text); };
  input.cancel = [](void* user) { return static_cast<Watch*>(user)->stop ? 1 : 0; };
}

TEST(CApiHosts, CallbacksTellAndStop) {
  const test::TemporaryFolder folder;
  const std::string out = (folder / "scene").string() + "/";
  const vggt_recon_option option = {"out", out.c_str()};
  const ContextHandle context = small_context();
  for (const char* stage : {"weights", "frames", "aggregator", "depth_head"}) {
    vggt_recon_run_input input = input_of();
    input.options = &option;
    input.option_count = 1;
    Watch seen;
    seen.stop_at = stage;
    watch(input, seen);
    vggt_recon_scene* scene = nullptr;
    EXPECT_EQ(vggt_recon_run(context.get(), &input, &scene), VGGT_RECON_STOPPED) << stage;
    EXPECT_EQ(scene, nullptr);
    EXPECT_STREQ(vggt_recon_error(context.get()), "stopped, nothing was written");
    EXPECT_EQ(folder.file_count(), 0u) << stage;
    EXPECT_FALSE(seen.from_elsewhere);
  }
  vggt_recon_run_input input = input_of();
  Watch seen;
  watch(input, seen);
  ASSERT_NE(run(context, input), nullptr);
  EXPECT_TRUE(seen.stages.contains("camera_head"));
  EXPECT_FALSE(seen.stages.contains("weights")) << "a loaded model is used again";
  EXPECT_FALSE(seen.messages.empty());
  EXPECT_EQ(seen.shares["adjustment, pass 1"], 1);
  EXPECT_FALSE(seen.fell_back) << "the adjustment matches several times";
  const vggt_recon_option heads = {"heads", "camera"};
  input.options = &heads;
  input.option_count = 1;
  seen.shares.clear();
  ASSERT_NE(run(context, input), nullptr);
  EXPECT_TRUE(seen.stages.contains("weights")) << "other heads are another model";
}

// A run in the child would wait for ever for threads that only the parent has.
TEST(CApiHosts, AProcessForkedAfterARunIsRefused) {
  const ContextHandle context = small_context();
  EXPECT_NE(copy_of(run(context, input_of())).points.size(), 0u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const vggt_recon_run_input input = input_of();
    const bool refused = vggt_recon_run(context.get(), &input, nullptr) == VGGT_RECON_FAILED;
    const bool says = std::string(vggt_recon_error(context.get())).find("forked") != std::string::npos;
    _exit(refused && says ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CApiHosts, RunsAtTheSameTimeGiveWhatTheyGiveAlone) {
  const ContextHandle a = small_context(), b = small_context();
  ASSERT_EQ(vggt_recon_set_option(b.get(), "conf-percentile", "10"), VGGT_RECON_DONE);
  const Copied of_a = copy_of(run(a, input_of())), of_b = copy_of(run(b, input_of()));
  EXPECT_NE(of_a.points.size(), of_b.points.size());
  const auto start = [](const ContextHandle& context) {
    return std::async(std::launch::async, [&context] { return copy_of(run(context, input_of())); });
  };
  const ContextHandle fresh = small_context();  // whose weights two runs want at once
  std::vector<std::future<Copied>> runs;
  for (const ContextHandle* context : {&a, &b, &fresh, &fresh}) runs.push_back(start(*context));
  EXPECT_EQ(runs[0].get(), of_a);
  EXPECT_EQ(runs[1].get(), of_b);
  EXPECT_EQ(runs[2].get(), of_a);
  EXPECT_EQ(runs[3].get(), of_a);
}

TEST(CApiHosts, EachThreadHasItsErrors) {
  const ContextHandle context = small_context();
  vggt_recon_set_option(context.get(), "width", "13");
  const char* const own = vggt_recon_error(context.get());
  std::thread([&] {
    EXPECT_STREQ(vggt_recon_error(context.get()), "");
    vggt_recon_set_option(context.get(), "fit", "stretch");
    EXPECT_THAT(vggt_recon_error(context.get()), StartsWith("fit: "));
  }).join();
  EXPECT_THAT(own, StartsWith("width: "));
  EXPECT_THAT(vggt_recon_error(context.get()), StartsWith("width: "));
}

// The system gives the id of a thread that ended to the next one.
TEST(CApiHosts, ThreadsDoNotInheritErrors) {
  const ContextHandle context = small_context();
  for (int i = 0; i < 5; ++i) {
    std::thread([&] {
      EXPECT_STREQ(vggt_recon_error(context.get()), "") << i;
      EXPECT_EQ(vggt_recon_set_option(context.get(), "width", "13"), VGGT_RECON_BAD_INPUT);
      EXPECT_THAT(vggt_recon_error(context.get()), StartsWith("width: "));
    }).join();
  }
}

TEST(CApiHosts, TheProcessStaysAsItWas) {
  const ContextHandle context = small_context();
  ASSERT_EQ(vggt_recon_set_option(context.get(), "threads", "1"), VGGT_RECON_DONE);
  const int torch_threads = at::get_num_threads(), cv_threads = cv::getNumThreads();
  at::globalContext().setAllowTF32CuBLAS(true);
  auto* const buffer = std::cerr.rdbuf();
  struct sigaction before[3], after = {};
  const int signals[3] = {SIGINT, SIGPIPE, SIGXFSZ};
  for (int i = 0; i < 3; ++i) sigaction(signals[i], nullptr, &before[i]);
  vggt_recon_run_input input = input_of();
  const vggt_recon_option option = {"heads", "camera"};
  input.options = &option;
  input.option_count = 1;
  EXPECT_NE(run(context, input), nullptr);
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  ASSERT_EQ(vggt_recon_process_tf32(0), VGGT_RECON_DONE);
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_EQ(at::get_num_threads(), torch_threads);
  EXPECT_EQ(cv::getNumThreads(), cv_threads);
  EXPECT_EQ(std::cerr.rdbuf(), buffer);
  for (int i = 0; i < 3; ++i) {
    sigaction(signals[i], nullptr, &after);
    EXPECT_EQ(after.sa_handler, before[i].sa_handler) << signals[i];
  }
  EXPECT_EQ(vggt_recon_process_threads(0), VGGT_RECON_BAD_INPUT);
}

TEST(CApiHosts, ShowsNoSymbolsButItsOwn) {
  FILE* const pipe = popen("nm -D --defined-only '" VGGT_SHARED_LIBRARY "'", "r");
  ASSERT_NE(pipe, nullptr);
  int own = 0;
  char address[32], kind[8], name[4096];
  while (std::fscanf(pipe, "%31s %7s %4095s", address, kind, name) == 3) {
    if (kind[0] == 't') continue;  // not seen from outside
    EXPECT_TRUE(std::string(name).starts_with("vggt_recon_")) << name;
    ++own;
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_GT(own, 20);
}

}  // namespace
}  // namespace vggt
