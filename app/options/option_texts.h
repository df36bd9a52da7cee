#pragma once
#include <map>
#include <string>

#include "app/options/options.h"

namespace vggt {

/// Every option's value by its name, as set_option() takes it: lists with commas; empty where nothing is
/// given.
std::map<std::string, std::string> option_texts(const Options& options);

}  // namespace vggt
