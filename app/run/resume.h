#pragma once
#include <filesystem>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "io/files/scratch_file.h"

namespace vggt {

/// Throws what Resume would throw of finished stages that are of another run, and changes nothing.
void check_resume(const RunPlan& plan, const Events& events);

/// The folder of a run with --resume: DIR/vggt-recon-NAME, where NAME comes from the paths of its frames and
/// of --out, or without it --save-predictions, so that the same command finds it again. It is one process's
/// at a time, holds what lies in a scratch folder besides, and outlives a run that ended early with finished
/// stages.
class Resume {
 public:
  /// Takes the folder. Throws std::invalid_argument: another process has the folder; its finished stages are
  /// of another program, of other weights, frames or options of the network (it says which); what bears the
  /// folder's name is no folder of this user, or holds something else. std::system_error: the folder cannot
  /// be made. Stopped.
  Resume(const RunPlan& plan, const Events& events);
  Resume(const Resume&) = delete;
  Resume& operator=(const Resume&) = delete;

  const std::filesystem::path& folder() const { return folder_.path; }
  /// Whether the folder has finished stages.
  bool has_stages() const;
  /// Of the network's layers, how many are finished.
  int64_t finished_layers() const;
  /// Whether the run merges tokens: as the run whose stages it goes on from, else as `chosen`.
  bool merges(bool chosen);
  /// The network has run: what it leaves in the folder counts as the process's scratch files from here on.
  void count_finished();
  /// The outputs are written: nothing is kept.
  void finish() { folder_.keep = false; }

 private:
  /// The folder, locked. The destructor removes it, unless a later run can go on from it.
  struct LockedFolder {
    explicit LockedFolder(std::filesystem::path folder);
    ~LockedFolder();
    std::filesystem::path path;
    int lock = -1;
    bool keep = true;  // if there are finished stages
  };

  LockedFolder folder_;
  ScratchBytes finished_;
};

}  // namespace vggt
