#include "app/cli/bench_page.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/bench_program.h"
#include "app/cli/bench_sheet.h"
#include "app/cli/process.h"
#include "app/report/report.h"
#include "app/run/attention_cache.h"
#include "app/run/device.h"
#include "app/run/memory_limits.h"
#include "app/run/model_loader.h"
#include "app/run/weights_path.h"
#include "attention/bench/kinds.h"
#include "attention/bench/machine.h"
#include "attention/bench/print.h"
#include "io/files/atomic_file.h"
#include "io/files/scratch_folder.h"
#include "io/files/staged_files.h"
#include "model/bench/block_rows.h"
#include "model/bench/linear_rows.h"
#include "model/bench/network_rows.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;  // of the JSON: it rises where a name changes its meaning
constexpr double kSeconds = 60;

/// Of operations in a second: on a CPU in GFLOP/s.
BenchColumn rate_column(bool gpu) {
  return {"teraflops_per_second", gpu ? "TFLOP/s" : "GFLOP/s", 7, 3, gpu ? 1.0 : 1e3};
}

std::vector<BenchColumn> attention_columns(bool gpu) {
  return {{"tokens", "tokens", 6},
          {"type", "type", -4},
          {"kernel", "ours", gpu ? -8 : -11},
          {"milliseconds", "ms", 6, 3},
          rate_column(gpu),
          {"libtorch_kernel", "LibTorch's", gpu ? -13 : -10},
          {"libtorch_milliseconds", "ms", 6, 3},
          {"speedup", "ratio", 5, 3}};
}

/// Of layers and blocks: what they are, and both sides' times.
std::vector<BenchColumn> side_columns(std::vector<BenchColumn> what, bool gpu) {
  for (const BenchColumn& column : {BenchColumn{"milliseconds", "ms", 6, 3},
                                    rate_column(gpu),
                                    {"libtorch_milliseconds", "LibTorch's ms", 13, 3},
                                    {"speedup", "ratio", 5, 3}})
    what.push_back(column);
  return what;
}

std::vector<BenchColumn> linear_columns(bool gpu) {
  return side_columns({{"rows", "rows", 6}, {"type", "type", -4}, {"layer", "layer", -5}}, gpu);
}

std::vector<BenchColumn> block_columns(bool gpu) {
  return side_columns({{"frames", "frames", 6}, {"tokens", "tokens", 6}, {"block", "block", -6}}, gpu);
}

const std::vector<BenchColumn> kNetworkColumns = {{"frames", "frames", 6},
                                                  {"tokens", "tokens", 6},
                                                  {"attention", "ours", -6},
                                                  {"seconds", "seconds", 7, 3},
                                                  {"frames_per_second", "frames/s", 8, 3},
                                                  {"peak_bytes", "peak GB", 7, 3, 1e-9},
                                                  {"libtorch_seconds", "LibTorch", 8, 3},
                                                  {"speedup", "ratio", 5, 3}};
const std::vector<BenchColumn> kProgramColumns = {{"stage", "stage", -14},
                                                  {"seconds", "seconds", 7, 3},
                                                  {"share", "%", 5, 3, 100},
                                                  {"libtorch_seconds", "LibTorch", 8, 3},
                                                  {"speedup", "ratio", 5, 3}};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What is measured, settled before anything is.
struct Bench {
  at::Device device;
  double seconds;  // for all of it
  Precision precision;
  std::string weights, architecture;
  NetworkBench network;
};

/// Frames of three to four, of the width that the network is made for.
void set_frames(NetworkBench& network) {
  const int64_t patch = network.config.patch_size;
  network.width = network.config.input_width / patch * patch;
  network.height = (network.width * 3 / 4 + patch / 2) / patch * patch;
}

Bench settle(const BenchPageCommand& command) {
  check_device(command.device);
  const at::Device device = choose_device(command.device);
  const bool gpu = device.is_cuda();
  Bench bench{device,
              command.seconds.value_or(kSeconds),
              choose_precision("auto", "auto", device),
              command.weights.empty() ? default_weights().string() : command.weights,
              "VGGT-1B",
              {}};
  const WeightFile weights = WeightFile::open(bench.weights);
  if (!command.json.empty()) {
    check_apart({command.json}, {weights.path()});
    check_writable_file(command.json);
  }
  // There the whole program is measured, last of all.
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (temporary.empty())
    throw std::invalid_argument("TMPDIR: no folder for files that go again: " + error.message());
  try {
    const ScratchFolder tried(temporary);
  } catch (const std::exception&) {
    throw std::invalid_argument("TMPDIR: no folder can be made in " + temporary.string());
  }
  const Config of_weights = config_of(weights);
  NetworkBench& network = bench.network;
  if (!gpu) {
    network.config = of_weights;
    bench.architecture = weights.path().filename().string();
  }
  network.lengths = gpu ? std::vector<int64_t>{1, 10, 50, 100, 200} : std::vector<int64_t>{1, 4, 16, 64};
  network.options.device = device;
  network.options.precision = bench.precision;
  network.options.heads = {.camera = true, .depth = true};
  set_frames(network);
  return bench;
}

/// What a reader has to know to compare.
ordered_json machine_of(const Bench& bench) {
  ordered_json json = {{"schema", kSchema}, {"versions", library_versions()}};
  for (const auto& [name, version] : torch_versions()) json["versions"][name] = version;
  json["device"] = bench.device.is_cuda() ? device_name(bench.device) : "CPU";
  if (bench.device.is_cuda()) json["device_memory_bytes"] = memory_bytes(bench.device);
  json["processor"] = processor();
  json["threads"] = at::get_num_threads();
  json["host_memory_bytes"] = memory_bytes(at::kCPU);
  double load = 0;
  if (::getloadavg(&load, 1) == 1) json["load_average"] = load;  // of what runs beside
  json["precision"] = precision_name(bench.precision);
  json["architecture"] = bench.architecture;
  json["seconds_wanted"] = bench.seconds;
  return json;
}

std::string memory_text(const ordered_json& bytes) {
  return formatted("%.1f GB", 1e-9 * bytes.get<double>());
}

/// The head of the page.
void print_machine(BenchSheet& sheet) {
  const ordered_json &json = sheet.json, &versions = json["versions"];
  const auto text = [&](const char* name) { return json[name].get<std::string>(); };
  sheet.line("# vggt-recon bench");
  sheet.line("");
  sheet.line("vggt-recon " + versions["vggt-recon"].get<std::string>() + ", LibTorch " +
             versions["torch"].get<std::string>() +
             (versions.contains("cuda") ? ", CUDA " + versions["cuda"].get<std::string>() : "") + ", " +
             text("precision") + "  ");
  if (json.contains("device_memory_bytes"))
    sheet.line(text("device") + ", " + memory_text(json["device_memory_bytes"]) + "  ");
  sheet.line(
      text("processor") + ", " + json["threads"].dump() + " threads, " +
      memory_text(json["host_memory_bytes"]) +
      (json.contains("load_average") ? formatted(", load %.1f", json["load_average"].get<double>()) : ""));
  sheet.line("");
  sheet.line("Load: of the minute before. ms: medians of turns in one run. ratio: LibTorch's");
  sheet.line("time over ours.");
}

std::string size_text(int64_t width, int64_t height) {
  return std::to_string(width) + "x" + std::to_string(height);
}

/// What the network may take; on a CPU no more than is free, as LibTorch's would be ended for taking more.
MemoryBudget network_budget(at::Device device) {
  MemoryBudget budget = choose_limits({}, device).network;
  if (device.is_cpu()) budget.host = std::min(budget.host, free_host_bytes().value_or(budget.host));
  return budget;
}

/// Sections take what others leave; `share`s are of the time that is left then.
void measure(Bench& bench, BenchSheet& sheet, const Events& events) {
  const c10::OptionalDeviceGuard guard(bench.device.is_cuda() ? std::optional(bench.device) : std::nullopt);
  const Pace pace(bench.seconds, [&] { events.check_stop(); });
  const bool gpu = bench.device.is_cuda(),
             has_bf16 = gpu ? bench.precision == Precision::bf16 : cpu_has_bf16();
  sheet.begin("attention", "Attention: 16 heads of 64", {}, attention_columns(gpu));
  attention_kinds(bench.device, has_bf16, pace.part(0.15), sheet.rows());
  sheet.end();
  sheet.begin("linear", "Linear layers of VGGT-1B", {}, linear_columns(gpu));
  linear_rows(bench.device, has_bf16, pace.part(0.15), sheet.rows());
  sheet.end();

  NetworkBench& network = bench.network;
  TunedAttention tuned(bench.device, true);  // what it measures is not kept
  network.options.tuner = tuned.tuner();
  network.options.budget = network_budget(bench.device);
  const std::string what = bench.architecture + ", " + sheet.json["precision"].get<std::string>() +
                           ", frames of " + size_text(network.width, network.height);
  sheet.begin("blocks", "Blocks of " + what, {}, block_columns(gpu));
  block_rows(network, pace.part(0.15), sheet.rows());
  sheet.end();
  sheet.begin("network", "Network of " + what,
              {"LibTorch: seconds of the same network, weights and frames with exact attention,",
               "of LibTorch's operations alone."},
              kNetworkColumns);
  network_rows(network, pace.part(0.7), sheet.rows());
  sheet.end();
}

void measure_program(const Bench& bench, const BenchPageCommand& command, BenchSheet& sheet,
                     const Events& events, double seconds) {
  sheet.begin("program", "Program: generated frames to scene.ply",
              {"LibTorch: seconds of the same program with a network of LibTorch's operations",
               "alone in place of ours."},
              kProgramColumns);
  const ordered_json run = bench_program(command.device, bench.weights, Pace(seconds, {}),
                                         bench.network.options.budget, events, sheet.rows());
  sheet.end();
  ordered_json program = run;
  program["stages"] = std::move(sheet.json["program"]);
  sheet.json["program"] = std::move(program);
  sheet.line("");
  if (run.contains("libtorch_failure"))
    sheet.line("LibTorch's: " + run["libtorch_failure"].get<std::string>().substr(0, 60) + "  ");
  sheet.line(run["frames"].dump() + " frames of " + size_text(run["frame_width"], run["frame_height"]) +
             ", as the network sees them " + size_text(run["network_width"], run["network_height"]) + ", " +
             run["weights"].get<std::string>() + ", " + run["precision"].get<std::string>());
}

/// The same events; they also stop where nobody takes what is printed.
Events watching_output(Events events, const Console& console) {
  events.stop = [stop = events.stop, &console] { return stop() || console.output_is_lost(); };
  return events;
}

}  // namespace

void run_bench_page(const BenchPageCommand& command, Console& console) try {
  const double begin = now();
  const Events events = watching_output(console.events(), console);
  Bench bench = settle(command);
  set_process_precision(bench.precision);
  BenchSheet sheet(machine_of(bench), console, events);
  print_machine(sheet);
  measure(bench, sheet, events);
  measure_program(bench, command, sheet, events, begin + bench.seconds - now());
  const double seconds = now() - begin;
  sheet.json["seconds"] = seconds;
  const bool in_file = !command.json.empty();
  const std::string text =
      sheet.json.dump(in_file ? 2 : -1, ' ', false, ordered_json::error_handler_t::replace);
  if (in_file) write_atomically(command.json, [&](std::ostream& out) { out << text << "\n"; });
  sheet.line(formatted("Measured in %.0f s.", seconds));
  if (in_file) return;
  sheet.line("");
  for (const std::string& line : {std::string("```json"), text, std::string("```")}) sheet.line(line);
} catch (const Stopped&) {
  console.check_output();  // which may be why
  throw;
}

}  // namespace vggt
