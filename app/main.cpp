#include <c10/util/Exception.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "app/cli/bench_command.h"
#include "app/cli/command_line.h"
#include "app/events/console.h"
#include "app/cli/eval_command.h"
#include "app/run/reconstruct.h"
#include "app/events/stop.h"
#include "app/cli/weights_commands.h"

namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2, kOutOfMemory = 3, kStopped = 130 };

void fail(const std::string& message) {
  vggt::Console(vggt::Talk::quiet).error(message);
}

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

int out_of_memory(const std::string& what) {
  fail("out of memory" + (what.empty() ? "" : ": " + first_line(what)));
  return kOutOfMemory;
}

int stopped() {
  fail("stopped, nothing was written");
  return kStopped;
}

vggt::Talk talk_of(const vggt::Options& options) {
  if (options.quiet) return vggt::Talk::quiet;
  return options.verbose ? vggt::Talk::verbose : vggt::Talk::normal;
}

void execute(const vggt::Command& command) {
  if (const auto* text = std::get_if<vggt::ShowText>(&command)) {
    std::fputs(text->text.c_str(), stdout);
  } else if (const auto* options = std::get_if<vggt::Options>(&command)) {
    // OpenCV tells std::cerr about damaged images, which have their one warning; the console does not use it.
    if (!options->verbose) std::cerr.rdbuf(nullptr);
    vggt::Console console(talk_of(*options));
    vggt::reconstruct(*options, console);
  } else if (const auto* weights = std::get_if<vggt::WeightsCommand>(&command)) {
    vggt::run_weights_command(*weights);
  } else if (const auto* bench = std::get_if<vggt::BenchCommand>(&command)) {
    vggt::run_bench_command(*bench);
  } else {
    vggt::run_eval_command(std::get<vggt::EvalCommand>(command));
  }
}

/// The exit code for the exception in flight, after its one line on standard error.
int explain_failure() {
  try {
    throw;
  } catch (const vggt::Stopped&) {
    return stopped();
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (means_out_of_memory(what)) return out_of_memory(what);
    fail(first_line(what));
    return kFailed;
  } catch (const std::invalid_argument& error) {
    fail(error.what());
    return kBadInput;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::interrupted) return stopped();  // while it waited for a pipe
    if (error.code() == std::errc::not_enough_memory) return out_of_memory(error.what());
    fail(error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    if (means_out_of_memory(error.what())) return out_of_memory(error.what());
    fail(first_line(error.what()));
    return kFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A file size limit shall be an error of the write, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  vggt::catch_stop_signals();
  try {
    execute(vggt::parse_command_line(argc, argv));
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                              "cannot write standard output");
    }
    return kDone;
  } catch (...) {
    return explain_failure();
  }
}
