#pragma once
#include <string>
#include <vector>

#include "app/api/vggt_recon.h"
#include "app/options/options.h"

namespace vggt {

/// Sets an option by name, or back to its default where `value` is null. Throws std::invalid_argument naming
/// the option; for an unknown one also the nearest name.
void set_by_name(Options& options, const char* name, const char* value);

/// What vggt_recon_options() tells: the options of a run but those of the program alone.
const std::vector<vggt_recon_option_info>& option_table();

}  // namespace vggt
