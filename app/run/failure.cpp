#include "app/run/failure.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/adjust/bundle_adjustment.h"
#include "app/events/events.h"
#include "app/run/refine_depth.h"
#include "attention/out_of_memory.h"
#include "io/files/system_fault.h"
#include "io/files/text.h"
#include "model/ranks/group.h"

namespace vggt {
namespace {

/// Of LibTorch's messages the first line; the rest is for its developers.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Of a GPU that fails the libraries say some of what they say where memory lacks.
Failure out_of_memory(const std::string& what) {
  const bool may_be_lost =
      what.find("NOT_INITIALIZED") != what.npos || what.find("unable to find") != what.npos;
  // LibTorch's allocator of the host names its source before itself.
  constexpr std::string_view kAllocator = "DefaultCPUAllocator: ";
  const std::size_t at = what.find(kAllocator);
  const std::string text = first_line(at == what.npos ? what : what.substr(at + kAllocator.size()));
  return {ExitCode::out_of_resources, "out of memory" + (text.empty() ? "" : ": " + text), may_be_lost};
}

Failure stopped() {
  return {ExitCode::stopped, "stopped, nothing was written"};
}

/// Whether a message of LibTorch, or of ours, is about a GPU that does no more work.
bool means_lost_device(const std::string& message) {
  for (const char* sign : {"CUDA error", "CUDA: ", "CUBLAS_STATUS", "cuDNN error"}) {
    if (message.find(sign) != std::string::npos) return true;
  }
  return false;
}

/// `what`: the error's message.
Failure failed(const std::exception& error, const std::string& what) {
  if (is_out_of_memory(error)) return out_of_memory(what);
  return {ExitCode::failed, first_line(what), means_lost_device(what)};
}

/// Of std::filesystem's messages the path and the reason.
std::string text_of(const std::system_error& error) {
  const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (!files || files->path1().empty()) return error.what();
  const std::string other = files->path2().empty() ? "" : " to " + files->path2().string();
  return files->path1().string() + other + ": " + error.code().message();
}

Failure of_system(const std::system_error& error) {
  if (error.code() == std::errc::interrupted) return stopped();  // while it waited for a pipe
  std::string text = text_of(error);
  if (text == error.code().message() && error.code() == std::errc::resource_unavailable_try_again)
    text = "no memory or no number for another thread: " + text;  // all that std::thread says
  if (error.code() == std::errc::not_enough_memory) return out_of_memory(text);
  switch (fault_of(error.code())) {
    case SystemFault::input:
      return {ExitCode::bad_input, text};
    case SystemFault::resources:
      return {ExitCode::out_of_resources, text, true};
    case SystemFault::machine:
      break;
  }
  return {ExitCode::failed, text, true};
}

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Stopped& e) {
    // Who stops more than one run has words of its own.
    return e.what() == std::string(Stopped().what()) ? stopped() : Failure{ExitCode::stopped, e.what()};
  } catch (const RankLost& e) {
    return {ExitCode::out_of_resources, e.what(), true};
  } catch (const TooManyEquations& e) {
    return out_of_memory(e.what());
  } catch (const NoRoomToRefine& e) {
    return out_of_memory(e.what());
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const c10::Error& e) {
    return failed(e, e.what_without_backtrace());
  } catch (const std::invalid_argument& e) {
    return {ExitCode::bad_input, e.what()};
  } catch (const std::system_error& e) {
    return of_system(e);
  } catch (const std::exception& e) {
    return failed(e, e.what());
  } catch (...) {
    return {ExitCode::failed, "an unknown error"};
  }
}

}  // namespace

Failure explain(const std::exception_ptr& error) {
  Failure failure = failure_of(error);
  failure.message = one_line(failure.message);
  return failure;
}

}  // namespace vggt
