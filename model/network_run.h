#pragma once
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint.h"
#include "model/network.h"
#include "model/patch_maps.h"
#include "model/ranks/group.h"
#include "model/ranks/shares.h"
#include "model/trunk/trunk_run.h"

namespace vggt {

/// One run of the network. Each stage may be called again after it ran out of memory, and goes on where it
/// stood.
class Vggt::Run {
 public:
  Run(const Network& net, const FrameProvider& frames, const MemoryRequest& request,
      const RunOptions& options, const Sink& sink, const Observer& observer);

  void trunk();
  void camera();
  void depth() { dense(depth_, depth_maps_, "depth_head", true); }
  void points() { dense(points_, point_maps_, "point_head", false); }
  void tracks(const at::Tensor& query_points);

  const MemoryPlan& plan() const { return plan_; }
  RunReport report() const { return {plan_, weights_overlap_, attention_overlap_}; }
  /// Whether an exception came out of the sink, which takes every prediction once.
  bool sink_failed() const { return sink_failed_; }
  /// Grows while a stage gets on.
  int64_t stored() const { return trunk_ ? trunk_->stored() : dense_done_; }
  /// Takes the next plan that needs less memory in this stage; false where there is none.
  bool take_less(const std::string& stage);
  /// The same where it was the host's memory that ran out, beside a GPU.
  bool take_less_of_host(const std::string& stage);

 private:
  template <class Call>
  void hand_out(const Call& call) {
    sink_failed_ = true;
    call();
    sink_failed_ = false;
  }
  bool take_less_after(int passed, const std::string& stage);
  void limit_host(const MemoryBudget& before, int64_t bytes);
  std::vector<int64_t> more_than_now(const MemoryPlan& plan, const std::string& stage) const;
  bool adopt(MemoryPlan plan);
  void keep(int64_t layer, int64_t first, const at::Tensor& tokens);
  int64_t layers() const { return *kept_.rbegin() + 1; }  // that the trunk runs
  void open_heads();
  void restore();
  void save(int64_t layers);
  void dense(std::shared_ptr<const DptHead>& head, std::unique_ptr<PatchMaps>& maps, const char* stage,
             bool is_depth);
  bool hands_out() const { return !group_ || group_->rank() == 0; }
  at::Tensor all_camera_tokens() const;
  /// What a head says of frames from `first` on: tensors [F,...].
  struct Chunk {
    int64_t first = 0;
    std::vector<at::Tensor> tensors;
  };
  std::vector<Chunk> gather(int64_t begin, int64_t step, std::vector<at::Tensor> own,
                            const std::vector<at::Tensor>& of_frame) const;
  std::array<PatchMaps*, 3> all_maps() const {
    return {depth_maps_.get(), point_maps_.get(), track_maps_.get()};
  }

  const Network& net_;
  const FrameProvider& frames_;
  MemoryRequest request_;
  MemoryPlan plan_;
  int plans_passed_;
  const Sink& sink_;
  const Observer& observer_;
  Group* const group_;   // or null
  const Shares shares_;  // of the frames
  const int64_t S_;      // the rank's
  const std::set<int64_t> kept_;
  const KeepTokens keep_;
  std::shared_ptr<const DptHead> depth_, points_;
  std::shared_ptr<const TrackHead> tracks_;
  FrameTensor camera_tokens_;  // [S,2C] of the rank's frames, resident
  std::unique_ptr<PatchMaps> depth_maps_, point_maps_, track_maps_;
  std::optional<TrunkRun> trunk_;
  std::optional<Checkpoint> checkpoint_;
  double checkpoint_seconds_ = 0;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
  Overlap weights_overlap_, attention_overlap_;
  bool restored_ = false;
  bool sink_failed_ = false;
  int64_t dense_done_ = 0;  // frames of the dense head that runs
};

}  // namespace vggt
