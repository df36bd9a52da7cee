#pragma once
#include <cstdint>
#include <string>
#include <variant>

#include "app/options.h"

namespace vggt {

/// A text for standard output: help, version, --print-config.
struct ShowText {
  std::string text;
};

/// `weights inspect|convert|verify|random`.
struct WeightsCommand {
  std::string action;
  std::string input, output;  // random: `input` is config.json
  std::string type;           // of the tensors written; empty: as they are (random: fp32)
  int64_t seed = 0;
};

/// `eval`: how far camera poses are from true ones.
struct EvalCommand {
  std::string poses, truth;  // TUM trajectories
  std::string json;          // where to write the numbers; empty: nowhere
};

using Command = std::variant<ShowText, Options, WeightsCommand, EvalCommand>;

/// What a command line asks for. Throws std::invalid_argument naming what is unknown, missing or out of
/// range.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace vggt
