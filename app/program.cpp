#include "app/program.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <system_error>
#include <variant>

#include "app/cli/batch_command.h"
#include "app/cli/bench_command.h"
#include "app/cli/bench_merge.h"
#include "app/cli/bench_page.h"
#include "app/cli/command_line.h"
#include "app/cli/console.h"
#include "app/cli/eval_command.h"
#include "app/cli/plan_command.h"
#include "app/cli/reconstruct_command.h"
#include "app/cli/stop.h"
#include "app/cli/weights_commands.h"
#include "app/run/failure.h"
#include "io/frames/quiet_decoders.h"

namespace {

using vggt::Console, vggt::Verbosity;

Verbosity verbosity_of(const vggt::Options& options) {
  if (options.quiet) return Verbosity::quiet;
  return options.verbose ? Verbosity::verbose : Verbosity::normal;
}

vggt::ExitCode execute(const vggt::Command& command) {
  if (const auto* text = std::get_if<vggt::ShowText>(&command)) {
    std::fputs(text->text.c_str(), text->is_mistake ? stderr : stdout);
    if (text->is_mistake) return vggt::ExitCode::bad_input;
  } else if (const auto* options = std::get_if<vggt::Options>(&command)) {
    // OpenCV tells std::cerr about damaged images, which have their one warning; the console does not use it.
    if (!options->verbose) std::cerr.rdbuf(nullptr);
    Console console(verbosity_of(*options));
    const vggt::ExitCode code = vggt::run_reconstruct_command(*options, console);
    console.check_written();
    return code;
  } else if (const auto* weights = std::get_if<vggt::WeightsCommand>(&command)) {
    Console console(Verbosity::normal);
    vggt::run_weights_command(*weights, console);
  } else if (const auto* page = std::get_if<vggt::BenchPageCommand>(&command)) {
    Console console(Verbosity::normal);
    vggt::run_bench_page(*page, console);
  } else if (const auto* bench = std::get_if<vggt::BenchCommand>(&command)) {
    Console console(Verbosity::normal);
    vggt::run_bench_command(*bench, console.events());
  } else if (const auto* merge = std::get_if<vggt::MergeBenchCommand>(&command)) {
    std::cerr.rdbuf(nullptr);  // as above
    Console console(Verbosity::normal);
    vggt::run_bench_merge(*merge, console);
  } else if (const auto* plan = std::get_if<vggt::PlanCommand>(&command)) {
    if (!plan->options.verbose) std::cerr.rdbuf(nullptr);  // as above
    Console console(verbosity_of(plan->options));
    vggt::run_plan_command(*plan, console);
  } else if (const auto* batch = std::get_if<vggt::BatchCommand>(&command)) {
    if (!batch->options.verbose) std::cerr.rdbuf(nullptr);  // as above
    Console console(verbosity_of(batch->options));
    vggt::run_batch_command(*batch, console);
    console.check_written();
  } else {
    Console console(Verbosity::normal);
    vggt::run_eval_command(std::get<vggt::EvalCommand>(command), console.events());
  }
  return vggt::ExitCode::done;
}

}  // namespace

int vggt_recon_main(int argc, char** argv) {
  // A file size limit shall be an error of the write, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  vggt::catch_stop_signals();
  vggt::quiet_decoders();
  try {
    const vggt::ExitCode code = execute(vggt::parse_command_line(argc, argv));
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                              "cannot write standard output");
    }
    return static_cast<int>(code);
  } catch (...) {
    const vggt::Failure failure = vggt::explain(std::current_exception());
    Console(Verbosity::quiet).error(failure.message);
    return static_cast<int>(failure.code);
  }
}
