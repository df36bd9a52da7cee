#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "app/health/small_frames.h"
#include "io/scene/camera.h"
#include "io/scene/tracks.h"

namespace vggt {

/// What speaks for a frame and against it. A number that is not known is NaN.
struct FrameHealth {
  double confidence = std::numeric_limits<double>::quiet_NaN();  // mean over the image
  double contrast = std::numeric_limits<double>::quiet_NaN();    // deviation of its brightness, of 255
  double overlap = std::numeric_limits<double>::quiet_NaN();     // share of the image that other frames see
  double agreement =
      std::numeric_limits<double>::quiet_NaN();            // share of that whose depth one of them confirms
  double link = std::numeric_limits<double>::quiet_NaN();  // of the strongest link, see frame_links.h
  double step = std::numeric_limits<double>::quiet_NaN();  // from the frame before, as a share of the usual
  int tracks = 0;                                          // that it shares with others
  double reprojection_px = std::numeric_limits<double>::quiet_NaN();  // mean error of them, original pixels
  bool few_matches = false;                                           // hold its camera in the adjustment
  int part = -1;  // of the frames that are linked with each other: 0 is the largest; -1: not known
};

/// What a person can act on: frames first to last, both -1 for the scene as a whole.
struct HealthWarning {
  // "blank", "apart", "weak", "jump", "misfit", "unsure", "one place", "disagreement", "few matches"
  std::string kind;
  int first = -1, last = -1;
  std::string text;
};

/// Confidence of some of the pixels: counts between low and high, what is outside with the outermost.
struct ConfidenceHistogram {
  double low = 0, high = 0;
  std::vector<int64_t> counts;
};

struct SceneHealth {
  std::vector<FrameHealth> frames;
  std::vector<HealthWarning> warnings;
  int parts = 0;                                                // 0: not known
  double agreement = std::numeric_limits<double>::quiet_NaN();  // median of the frames'
  ConfidenceHistogram confidence;
};

/// A scene as it is assessed. cameras: of all frames, or none. Maps are empty where there are none.
struct HealthInput {
  std::vector<std::string> files;
  std::vector<Camera> cameras;
  std::vector<Track> tracks;
  std::vector<int> weak_frames;  // whose cameras few matches hold in the adjustment
  MapReaders readers;
  FrameWork work;
};

/// Assesses a scene by a few hundred places of each frame, see frame_links.h and health_warnings.h. The same
/// input gives the same result on any number of threads. Memory: 12 KB a frame. Throws what the readers and
/// work.check_stop throw.
SceneHealth assess_scene(const HealthInput& input);

}  // namespace vggt
