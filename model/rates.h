#pragma once

namespace vggt {

/// Seconds per unit of what a run is made of, for one device, precision, attention and architecture, as
/// measure_rates() finds them. 0: free, or not known.
struct Rates {
  // A token in one block; a query and a key of it over all heads, within a frame and over all frames, where
  // kernels are busier. A block takes at least block_least.
  double vit_token = 0, block_token = 0, frame_pair = 0, pair = 0, block_least = 0;
  // A token in a global block that merges, and a source and a destination of its matching.
  double merged_token = 0, match_pair = 0;
  double kept_token = 0;   // what the heads keep of it, over all layers
  double patch_pixel = 0;  // of a frame, before DINOv2's blocks
  double camera_fixed = 0, camera_frame = 0;
  // A frame in a dense head: what does not depend on its size, and for each pixel.
  double depth_frame = 0, depth_pixel = 0, point_frame = 0, point_pixel = 0;
  double track_frame = 0, track_pixel = 0;  // the tracker's feature maps
  // The tracker's iterations: a query point with a pixel of a frame, with a frame; and what they take at
  // least.
  double track_pair = 0, track_token = 0, track_least = 0;
  // A byte copied.
  double to_device = 0, to_host = 0, from_scratch = 0, to_scratch = 0;
  // A byte that a rank sends to others, and an exchange: of an H200 over NVLink; not measured by the program.
  double exchange = 1 / 290e9, exchange_least = 30e-6;
};

/// Calls visit(name, field) for every rate.
template <class SomeRates, class Visit>
void visit_rates(SomeRates& r, Visit&& visit) {
  visit("vit_token", r.vit_token);
  visit("block_token", r.block_token);
  visit("frame_pair", r.frame_pair);
  visit("pair", r.pair);
  visit("block_least", r.block_least);
  visit("merged_token", r.merged_token);
  visit("match_pair", r.match_pair);
  visit("kept_token", r.kept_token);
  visit("patch_pixel", r.patch_pixel);
  visit("camera_fixed", r.camera_fixed);
  visit("camera_frame", r.camera_frame);
  visit("depth_frame", r.depth_frame);
  visit("depth_pixel", r.depth_pixel);
  visit("point_frame", r.point_frame);
  visit("point_pixel", r.point_pixel);
  visit("track_frame", r.track_frame);
  visit("track_pixel", r.track_pixel);
  visit("track_pair", r.track_pair);
  visit("track_token", r.track_token);
  visit("track_least", r.track_least);
  visit("to_device", r.to_device);
  visit("to_host", r.to_host);
  visit("from_scratch", r.from_scratch);
  visit("to_scratch", r.to_scratch);
}

}  // namespace vggt
