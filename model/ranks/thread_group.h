#pragma once
#include <memory>
#include <vector>

#include "model/ranks/group.h"

namespace vggt {

/// Ranks that are threads of this process, for tensors on the CPU. A rank whose group is destroyed is lost to
/// the others, which find out when they wait for it.
std::vector<std::unique_ptr<Group>> make_thread_groups(int64_t ranks);

}  // namespace vggt
