#pragma once
#include <system_error>

namespace vggt {

/// Who is to blame for an operating system's error: the input (a path that is not there or not permitted), a
/// lack of resources (a full disk, memory, open files), or the machine (a device that fails).
enum class SystemFault { input, resources, machine };

/// Errors that are not the operating system's are the machine's.
SystemFault fault_of(const std::error_code& error);

}  // namespace vggt
