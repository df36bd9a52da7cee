// A frame that cannot be read is told apart from a machine that fails.
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <system_error>

#include "io/files/system_fault.h"
#include "io/frames/frame_workers.h"

namespace vggt {
namespace {

/// Three frames, of which decoding the second one calls `fail`.
std::vector<FrameResult> run_with(const std::function<void()>& fail, bool strict = false) {
  FrameOptions options;
  options.width = 28;
  options.threads = 2;
  options.strict = strict;
  int next = 0;
  const NextTask tasks = [&]() -> std::optional<FrameTask> {
    if (next == 3) return std::nullopt;
    FrameTask task;
    task.file = task.where = std::to_string(next) + ".png";
    task.decode = [bad = next == 1, fail](std::optional<DecodingBudget::Lease>&) {
      if (bad) fail();
      DecodedImage image;
      image.pixels = cv::Mat(28, 28, CV_8UC3, cv::Scalar(1, 2, 3));
      return image;
    };
    ++next;
    return task;
  };
  PieceStore pixels(std::make_shared<HostSpace>(), "frames");
  return run_frame_tasks(options, tasks, pixels, {});
}

std::function<void()> system_error(int code) {
  return [code] { throw std::system_error(code, std::generic_category(), "1.png"); };
}

TEST(FrameWorkers, ABadFrameIsAProblemOfItsOwn) {
  for (const int code : {ENOENT, EACCES}) {
    const std::vector<FrameResult> results = run_with(system_error(code));
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[0].problem, "");
    EXPECT_NE(results[1].problem.find("1.png: cannot be read"), std::string::npos) << results[1].problem;
    EXPECT_EQ(results[2].problem, "");
  }
  EXPECT_NE(run_with([] { throw std::invalid_argument("is damaged"); })[1].problem.find("is damaged"),
            std::string::npos);
}

TEST(FrameWorkers, AFailingMachineEndsTheLoading) {
  for (const int code : {EIO, EMFILE, ENFILE, ENOMEM, ESTALE}) {
    for (const bool strict : {false, true}) {
      try {
        run_with(system_error(code), strict);
        ADD_FAILURE() << code << " is taken for a bad frame";
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), code);
        EXPECT_NE(fault_of(error.code()), SystemFault::input);
      }
    }
  }
  EXPECT_THROW(run_with([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace vggt
