#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "app/report/report.h"
#include "app/run/run_plan.h"
#include "io/files/host_storage.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"
#include "io/scene/tracks.h"

namespace vggt {

enum class Output { cloud, cameras, trajectory, report, picture, page, predictions, exported };

/// A file, or a folder, that a run wrote, and what it holds.
struct WrittenFile {
  std::filesystem::path path;
  Output what = Output::cloud;
};

/// What a run hands out in memory, as far as its plan asks for it and the heads gave it.
struct SceneArrays {
  int width = 0, height = 0;             // network pixels
  std::vector<float> depth, confidence;  // [S,H,W]; of the adjusted and placed scene
  PointCloud cloud;
};

/// What a run made.
struct Reconstruction {
  std::vector<FrameCamera> cameras;  // of all frames in order; none without the camera head
  std::vector<Track> tracks;         // of an adjusted scene: points that three or more frames see
  Report report;                     // summary, warnings and seconds of each stage
  std::vector<WrittenFile> written;
  SceneArrays arrays;
};

class Group;         // model/ranks/group.h
class LoadedModel;   // app/run/loaded_model.h
struct NetworkCall;  // app/run/run_network.h

/// A run's frames, and what their pixels lie in.
struct LoadedFrames {
  FrameSet frames;
  std::shared_ptr<HostSpace> space;
  double seconds = 0;  // that the loading took
};

/// Loads the frames of a run before it starts, beside another one. Not for runs with --resume. Throws as
/// reconstruct().
LoadedFrames load_run_frames(const RunPlan& plan, const Events& events);

/// What a run is given instead of making it.
struct RunParts {
  const LoadedModel* model = nullptr;    // which serves the plan
  LoadedFrames* frames = nullptr;        // of load_run_frames() with the same plan; used up
  const NetworkCall* network = nullptr;  // runs in the model's place, which then is not loaded
  Group* group = nullptr;      // the ranks that make the run together, of a plan after share_among()
  // Which count in the predicted peak: bytes in memory that earlier runs of the process have left there, and
  // how many runs like this one the process makes at once.
  int64_t left_in_memory = 0, at_once = 1;
  /// Whether the run makes all itself: others have a part of the process's time and memory, beside other
  /// runs.
  bool is_alone() const { return !model && !network && !frames; }
};

/// Frames in, a scene and its files out. The files appear together, at the end, or not at all. Several runs
/// may go on at once on different threads: each gives what it gives alone. Throws Stopped where events.stop
/// says so; std::invalid_argument and std::system_error for input that cannot be used; c10::Error of the
/// network, such as c10::OutOfMemoryError. LibTorch keeps one setting for the process that this call needs
/// right: TF32 for products on, with precision tf32 on CUDA, else off (its default).
Reconstruction reconstruct(const RunPlan& plan, const Events& events, const RunParts& parts = {});

/// What reconstruct() would read and write, line by line, after a look at the frames. Writes nothing. Throws
/// as reconstruct(), also for outputs that could not be written.
std::vector<std::string> describe(RunPlan plan, const Events& events);

}  // namespace vggt
