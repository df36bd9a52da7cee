#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/options/options.h"

namespace vggt {

/// A text for standard output: help, version, --print-config. Where it answers a mistake, such as no
/// arguments at all, it goes to the standard error, and the exit status is that of bad usage.
struct ShowText {
  std::string text;
  bool is_mistake = false;
};

/// `weights inspect|convert|verify|random`.
struct WeightsCommand {
  std::string action;
  std::string input, output;  // random: `input` is config.json
  std::string type;           // of the tensors written; empty: as they are (random: fp32)
  int64_t seed = 0;
};

/// `eval`: how far cameras, depth and clouds are from true ones.
struct EvalCommand {
  std::vector<std::string> result, truth;  // files and folders, sorted by what they hold
  std::optional<double> depth_unit;        // of 16-bit PNG; else what their maps.json says, or .001
  double max_depth = 60;                   // true depths count below it
  std::optional<double> threshold;         // of the F-score, units of the truth
  std::string json;                        // where to write the numbers; empty: nowhere
};

/// `bench` alone: the page of all that is measured.
struct BenchPageCommand {
  std::string device = "auto", weights;  // weights: empty for those that come with the program
  std::string json;                      // where to write the numbers; empty: nowhere
  std::optional<double> seconds;         // about how long; none: by the device
};

/// `bench attention`, `bench stream`: the values of its options by name, see attention/bench/options.h.
struct BenchCommand {
  std::string name;
  std::map<std::string, std::vector<std::string>> given;
};

/// `bench merge`: the options of a run, of which merging is compared with none.
struct MergeBenchCommand {
  Options options;
  int64_t repeat = 0;  // 0: as compare_merging() chooses
  std::string json;    // where to write the numbers; empty: nowhere
};

/// `plan`: the options of a run, and what may stand in place of its frames.
struct PlanCommand {
  Options options;
  int64_t frame_count = 0;  // 0: the frames are read
  std::string frame_size;   // WxH, network pixels
  std::string json;         // where to write the plan; empty: nowhere
};

/// `batch`: the options of every scene's run, of which `out` is the results' folder, and which scenes.
struct BatchCommand {
  Options options;     // `device` may be "all" or a list
  std::string scenes;  // a folder or a list
  int64_t jobs = 1;
  bool retry_failed = false, status = false;
  std::string shard;  // i/n; empty: all
};

using Command = std::variant<ShowText, Options, WeightsCommand, EvalCommand, BenchPageCommand, BenchCommand,
                             MergeBenchCommand, PlanCommand, BatchCommand>;

/// What a command line asks for. Throws std::invalid_argument naming what is unknown, missing or out of
/// range.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace vggt
