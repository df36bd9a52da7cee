#pragma once
#include <ATen/ATen.h>

#include <functional>

namespace vggt {

/// Cameras of all frames, on the CPU in fp32 (fp64 in a float64 run).
struct CameraPrediction {
  at::Tensor pose_enc;   // [S,9]: translation, quaternion xyzw, field of view (vertical, horizontal), radians
  at::Tensor extrinsic;  // [S,3,4] camera from world, OpenCV axes
  at::Tensor intrinsic;  // [S,3,3] network pixels
};

/// Dense output of the frames [first_frame, first_frame + F), on the CPU in fp32 (fp64 in a float64 run). A
/// head fills its own fields.
struct DensePrediction {
  int64_t first_frame = 0;
  at::Tensor depth, depth_conf;                // [F,H,W]
  at::Tensor world_points, world_points_conf;  // [F,H,W,3], [F,H,W]
};

/// Tracks of Q query points through all frames, on the CPU in fp32 (fp64 in a float64 run).
struct TrackPrediction {
  at::Tensor track;                  // [S,Q,2] x, y in network pixels
  at::Tensor track_vis, track_conf;  // [S,Q] in (0,1)
};

/// Who takes the results. Each function is called as soon as its results exist: cameras and tracks once,
/// dense heads chunk after chunk of frames. A function that is empty is left out.
struct Sink {
  std::function<void(const CameraPrediction&)> cameras;
  std::function<void(const DensePrediction&)> depth;
  std::function<void(const DensePrediction&)> points;
  std::function<void(const TrackPrediction&)> tracks;
};

}  // namespace vggt
