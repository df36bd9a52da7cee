#pragma once
#include <exception>
#include <string>

namespace vggt {

/// The program's exit status.
enum class ExitCode {
  done = 0,
  failed = 1,            // anything else
  bad_input = 2,         // usage, or input that cannot be used
  out_of_resources = 3,  // memory, disk space, open files
  stopped = 130,
};

/// How a run ended that threw.
struct Failure {
  ExitCode code = ExitCode::failed;
  std::string message;   // one line
  bool machine = false;  // a full disk, a device that fails: runs of other frames would end so as well
};

/// `error` must hold an exception.
Failure explain(const std::exception_ptr& error);

}  // namespace vggt
