#pragma once
#include <ATen/ATen.h>

#include <string>

namespace vggt {

/// The errors that a kernel may have on unit-normal inputs; attention/README.md has the same numbers.
struct ExactnessLimits {
  double output = 0;       // ||dY|| / ||Y|| over everything; twice that for the 99th percentile of rows
  double probability = 0;  // ||dP|| / ||P||, 99th percentile of rows
  double slope = 0.1;      // of log error against log N, from N = 1000 on
};

/// name: as in our_kernels().
ExactnessLimits limits_of(const std::string& name, at::ScalarType type);

}  // namespace vggt
