#include "app/cli/weights_commands.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "app/run/head_choice.h"
#include "app/run/model_loader.h"
#include "io/files/text_file.h"
#include "io/weights/weight_tools.h"
#include "io/weights/weight_writer.h"
#include "model/random_weights.h"

namespace vggt {
namespace {

struct Checkpoint {
  WeightFile file;
  Config config;
  Heads heads;
};

/// Opens a weight file and checks that it is a VGGT with exactly the tensors it needs.
Checkpoint open_checkpoint(const std::string& path) {
  WeightFile file = WeightFile::open(path);
  const Heads heads = heads_in(shapes_of(file));
  Config config = config_of(file);
  return {std::move(file), std::move(config), heads};
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

WeightProgress progress_on(Console& console, const std::string& stage) {
  return [events = console.events(), stage](int64_t done, int64_t total) {
    events.check_stop();
    events.progress(stage, "tensors", done, total);
  };
}

std::string types_text(const WeightSummary& summary) {
  std::string text;
  for (const auto& [type, count] : summary.tensors_by_type) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + type;
  }
  return text;
}

void inspect_weights(const std::string& path) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const WeightSummary summary = inspect(checkpoint.file);
  print("format:     " + summary.format + ", " + std::to_string(summary.file_bytes) + " bytes\n");
  print("tensors:    " + std::to_string(summary.tensors) + " (" + types_text(summary) + ")\n");
  print("parameters: " + std::to_string(summary.elements) + "\n");
  print("heads:      " + heads_text(checkpoint.heads) + "\n");
  if (!refiner_shapes_of(checkpoint.file).empty()) print("refiner:    of depth\n");
  print(std::string("config:     ") + (summary.has_config ? "config.json" : "read off the tensors") + "\n");
  print(config_to_json(checkpoint.config, checkpoint.heads));
}

void verify_weights(const std::string& path, Console& console) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const WeightSummary summary = verify(checkpoint.file, progress_on(console, "verify"));
  console.result(path + ": good, " + std::to_string(summary.tensors) + " tensors, " +
                 std::to_string(summary.elements) +
                 " finite parameters, heads: " + heads_text(checkpoint.heads));
}

void convert_weights(const WeightsCommand& command, Console& console) {
  const Checkpoint checkpoint = open_checkpoint(command.input);
  std::error_code ignored;  // of an output that is not there
  if (std::filesystem::equivalent(command.input, command.output, ignored))
    throw std::invalid_argument(command.output + ": would replace the weights that are converted");
  const auto type = command.type.empty() ? std::nullopt : std::optional(weight_type(command.type));
  // The architecture goes with the tensors, also where it was read off them.
  convert(checkpoint.file, command.output, type, config_to_json(checkpoint.config, checkpoint.heads),
          progress_on(console, "convert"));
  console.result(command.output);
}

struct Architecture {
  Config config;
  Heads heads = {true, true, true, true};
};

/// The architecture of a config.json alone, with the heads whose sizes it gives (the camera's always).
Architecture read_architecture(const std::string& path) {
  const std::string text = read_text_file(path, 1 << 20, "a config.json");
  try {
    const Config config = read_config(text, {});
    const auto json = nlohmann::json::parse(text);
    const bool dense = json.contains("dpt_features");
    const Heads heads = {true, dense, dense, json.contains("track_features")};
    return {read_config(text, expected_tensors(config, heads)), heads};  // now with what the heads ask for
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

void write_random_weights(const WeightsCommand& command, Console& console) {
  const auto [config, heads] = command.input.empty() ? Architecture() : read_architecture(command.input);
  const TensorSource source = random_weights(config, heads, static_cast<uint64_t>(command.seed));
  const at::ScalarType type = weight_type(command.type.empty() ? "fp32" : command.type);
  std::vector<TensorSpec> specs;
  for (const auto& [name, shape] : source.shapes) specs.push_back({name, type, shape});
  int64_t done = 0;
  const auto progress = progress_on(console, "random");
  const auto produce = [&](const TensorSpec& spec) {
    progress(done++, static_cast<int64_t>(specs.size()));
    return source.load(spec.name, spec.type, at::kCPU);
  };
  write_weights(command.output, specs, produce, config_to_json(config, heads));
  console.result(command.output + ": " + std::to_string(specs.size()) +
                 " tensors, heads: " + heads_text(heads));
}

}  // namespace

void run_weights_command(const WeightsCommand& command, Console& console) {
  if (command.action == "inspect") return inspect_weights(command.input);
  if (command.action == "verify") return verify_weights(command.input, console);
  if (command.action == "convert") return convert_weights(command, console);
  write_random_weights(command, console);
}

}  // namespace vggt
