#pragma once
#include <cstdlib>
#include <string>

#include "app/options/options_yaml.h"

namespace vggt {

/// Reads options from YAML. Aborts if accepted options differ when they are read back from their own text.
/// Throws std::invalid_argument for refused ones.
inline void check_yaml(const std::string& text) {
  Options options, again;
  parse_options_yaml(text, "options.yaml", options);
  const std::string written = options_to_yaml(options);
  parse_options_yaml(written, "options.yaml", again);
  if (options_to_yaml(again) != written) std::abort();
}

}  // namespace vggt
