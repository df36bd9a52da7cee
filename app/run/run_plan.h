#pragma once
#include <ATen/ATen.h>

#include "app/run/head_choice.h"
#include "app/options/options.h"
#include "app/run/outputs.h"
#include "app/run/query_points.h"
#include "io/weights/weight_file.h"
#include "model/vggt.h"

namespace vggt {

/// What is settled before any work: everything that a wrong option or weight file can spoil.
struct Setup {
  OutputPaths outputs;
  at::Device device = at::kCPU;
  AttentionVariant attention = AttentionVariant::automatic;
  Precision precision = Precision::fp32;
  WeightFile weights;
  Config config;
  HeadChoice heads;
  bool bundle_adjust = false;
  QueryPoints queries;
};

/// Throws std::invalid_argument and std::system_error for options, weights and query points that cannot be
/// used.
Setup set_up(const Options& options);

}  // namespace vggt
