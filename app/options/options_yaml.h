#pragma once
#include <string>

#include "app/options/options.h"

namespace vggt {

/// All options as YAML that read_options_yaml() reads back.
std::string options_to_yaml(const Options& options);
/// Reads options over those given. Throws std::invalid_argument naming file, line and key: unknown or
/// repeated keys, wrong values, nesting, aliases, more than 64 KiB; std::system_error if the file cannot be
/// read.
void read_options_yaml(const std::string& path, Options& options);
/// The same from a text; `name` stands for the file in errors.
void parse_options_yaml(const std::string& text, const std::string& name, Options& options);

}  // namespace vggt
