#include "app/cli/failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <stdexcept>

#include "app/events/events.h"

namespace vggt {
namespace {

/// Of LibTorch's messages the first line; the rest is for its developers.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

bool means_out_of_memory(const std::string& message) {
  for (const char* sign : {"out of memory", "can't allocate memory", "not enough memory"}) {
    if (message.find(sign) != std::string::npos) return true;
  }
  return false;
}

Failure out_of_memory(const std::string& what) {
  return {ExitCode::out_of_resources, "out of memory" + (what.empty() ? "" : ": " + first_line(what))};
}

Failure stopped() {
  return {ExitCode::stopped, "stopped, nothing was written"};
}

/// Whatever it says, a message about memory is one about resources.
Failure failed(const std::string& what) {
  return means_out_of_memory(what) ? out_of_memory(what) : Failure{ExitCode::failed, first_line(what)};
}

Failure of_system(const std::system_error& error) {
  const ExitCode code = exit_code_of(error.code());
  if (code == ExitCode::stopped) return stopped();
  if (error.code() == std::errc::not_enough_memory) return out_of_memory(error.what());
  return {code, error.what()};
}

}  // namespace

ExitCode exit_code_of(const std::error_code& error) {
  constexpr std::array kResources = {ENOSPC, EDQUOT, EFBIG, ENOMEM, EMFILE, ENFILE, EAGAIN, ENOLCK, ENOBUFS};
  constexpr std::array kMachine = {EIO,       ENXIO,     ENODEV,    ESTALE, ENOTCONN,
                                   ETIMEDOUT, EREMOTEIO, ENOMEDIUM, EPIPE};
  if (error.category() != std::generic_category() && error.category() != std::system_category()) {
    return ExitCode::failed;
  }
  if (error.value() == EINTR) return ExitCode::stopped;  // while it waited for a pipe
  if (std::ranges::count(kResources, error.value()) > 0) return ExitCode::out_of_resources;
  if (std::ranges::count(kMachine, error.value()) > 0) return ExitCode::failed;
  return ExitCode::bad_input;
}

Failure explain(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Stopped&) {
    return stopped();
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const c10::OutOfMemoryError& e) {
    return out_of_memory(e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return failed(e.what_without_backtrace());
  } catch (const std::invalid_argument& e) {
    return {ExitCode::bad_input, e.what()};
  } catch (const std::system_error& e) {
    return of_system(e);
  } catch (const std::exception& e) {
    return failed(e.what());
  } catch (...) {
    return {ExitCode::failed, "an unknown error"};
  }
}

}  // namespace vggt
