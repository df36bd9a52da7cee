#pragma once
#include <ATen/ATen.h>

#include <string>

namespace vggt {

/// The processor's name as the system tells it.
std::string processor();
/// A GPU's name; of the CPU the processor's, and its threads.
std::string machine_name(at::Device device);
/// Memory of a GPU, or of the host for the CPU; 0 where the system does not say.
double memory_bytes(at::Device device);

}  // namespace vggt
