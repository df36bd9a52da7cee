// How a run that failed ends: bad input, a failing machine and lack of resources are told apart.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "app/events/events.h"
#include "app/run/failure.h"
#include "attention/out_of_memory.h"

namespace vggt {
namespace {

template <class Error>
Failure explained(const Error& error) {
  return explain(std::make_exception_ptr(error));
}

std::system_error system_error(int code) {
  return {code, std::generic_category(), "cannot write x"};
}

TEST(Failure, APathThatCannotBeUsedIsBadInput) {
  for (const int code :
       {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP, EEXIST, EINVAL}) {
    EXPECT_EQ(explained(system_error(code)).code, ExitCode::bad_input) << code;
  }
  EXPECT_EQ(explained(std::invalid_argument("frames: none")).code, ExitCode::bad_input);
}

TEST(Failure, NoMemoryForAThreadIsNoMemory) {
  EXPECT_TRUE(is_out_of_memory(system_error(EAGAIN)));
  EXPECT_FALSE(is_out_of_memory(system_error(EIO)));
  EXPECT_FALSE(is_out_of_memory(system_error(ENOSPC)));
}

TEST(Failure, AMessageIsOneLine) {
  EXPECT_EQ(explained(std::invalid_argument("a\nb\x1b[31m.jpg: no image")).message, "a?b?[31m.jpg: no image");
}

TEST(Failure, OfFilesThePathAndTheReason) {
  const auto refused = std::make_error_code(std::errc::permission_denied);
  const Failure failure =
      explained(std::filesystem::filesystem_error("cannot create directories", "a/b", refused));
  EXPECT_EQ(failure.code, ExitCode::bad_input);
  EXPECT_EQ(failure.message, "a/b: " + refused.message());
  EXPECT_EQ(explained(std::filesystem::filesystem_error("cannot rename", "a", "b", refused)).message,
            "a to b: " + refused.message());
}

TEST(Failure, AFullDiskIsLackOfResources) {
  for (const int code : {ENOSPC, EDQUOT, EFBIG, ENOMEM, EMFILE, ENFILE}) {
    EXPECT_EQ(explained(system_error(code)).code, ExitCode::out_of_resources) << code;
  }
  EXPECT_EQ(explained(std::bad_alloc()).code, ExitCode::out_of_resources);
  EXPECT_EQ(explained(std::runtime_error("CUDA: out of memory")).code, ExitCode::out_of_resources);
  EXPECT_EQ(explained(std::runtime_error("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: "
                                         "can't allocate memory: you tried to allocate 9 bytes."))
                .message,
            "out of memory: can't allocate memory: you tried to allocate 9 bytes.");
  EXPECT_FALSE(
      explained(std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ...")).machine);
  // Which a GPU that fails says too: a batch ends.
  const Failure doubtful =
      explained(std::runtime_error("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when ..."));
  EXPECT_TRUE(doubtful.code == ExitCode::out_of_resources && doubtful.machine);
  EXPECT_EQ(explained(std::runtime_error("could not create a primitive")).code, ExitCode::out_of_resources);
  EXPECT_EQ(explained(std::runtime_error("could not create a primitive descriptor for x")).code,
            ExitCode::failed);
}

TEST(Failure, AMachineThatFailsIsNeither) {
  for (const int code : {EIO, ENXIO, ENODEV, ESTALE}) {
    EXPECT_EQ(explained(system_error(code)).code, ExitCode::failed) << code;
  }
  EXPECT_EQ(explained(std::runtime_error("CUDA: unspecified launch failure")).code, ExitCode::failed);
}

TEST(Failure, OfLibTorchTheFirstLine) {
  try {
    TORCH_CHECK(false, "CUDA error: device lost\nFor debugging consider ...");
  } catch (...) {
    const Failure failure = explain(std::current_exception());
    EXPECT_EQ(failure.code, ExitCode::failed);
    EXPECT_EQ(failure.message, "CUDA error: device lost");
  }
}

TEST(Failure, StoppingIsItsOwn) {
  EXPECT_EQ(explained(Stopped()).code, ExitCode::stopped);
  EXPECT_EQ(explained(system_error(EINTR)).code, ExitCode::stopped);
}

}  // namespace
}  // namespace vggt
