#pragma once
#include <functional>
#include <optional>
#include <set>

#include "attention/stream/stream_rows.h"
#include "model/frame_provider.h"
#include "model/merge_options.h"
#include "model/observer.h"
#include "model/overlap.h"
#include "model/schedule.h"
#include "model/trunk/aggregator.h"
#include "model/trunk/frame_tensor.h"
#include "model/trunk/token_merge.h"

namespace vggt {

/// Takes what a kept layer puts out of frames [first, first + tokens.size(0)): tokens [F,P,2C], the frame
/// block's half first. Layers come in their order; after running out of memory, frames may come twice.
using KeepTokens = std::function<void(int64_t layer, int64_t first, const at::Tensor& tokens)>;

/// One pass of all frames through the trunk. Everything but global attention works on pieces of frames, so
/// that the tokens may lie elsewhere; what a piece changes is stored only when it is complete.
class TrunkRun {
 public:
  /// What is given must outlive the run; kept, of layers, is not empty. merge: global blocks from its start
  /// on attend to merged tokens.
  TrunkRun(const Aggregator& net, const FrameProvider& frames, const std::set<int64_t>& kept,
           const std::optional<MergeOptions>& merge, const KeepTokens& keep, const Schedule& schedule,
           const Observer& observer);

  /// Runs all layers up to the last that is kept. After an exception, such as running out of memory, it may
  /// be called again and goes on after the last piece that was stored. after_layer: is told after each layer
  /// but the last, and but those whose merging serves the next one too, how many are finished; residual() is
  /// what the next one takes.
  void run(const std::function<void(int64_t layers)>& after_layer = {});
  /// Before run(): it goes on after so many layers, from a residual that is to be filled.
  FrameTensor& go_on_after(int64_t layers);
  FrameTensor& residual() { return residual_; }  // [S,P,C]
  /// How often a piece was stored: it grows while the run gets on.
  int64_t stored() const { return stored_; }
  /// Copies of weights, and of q, k and v, beside the computation.
  Overlap weights_overlap() const;
  const Overlap& attention_overlap() const { return attention_overlap_; }
  /// Works so from now on. Where memory runs out on the way it goes on as before, and may be asked again.
  void change(const Schedule& schedule);

 private:
  enum class Phase { frame, attention, finish };

  template <class Work>
  void pass(const Work& work);
  template <class Work>
  void storing_pass(const Work& work);
  void make_residual();
  void embed();
  void layer();
  void stream_attention(const StreamInput& input, const StreamOutput& output);
  void frame_pass();
  void attend(const Block& block);
  void finish_pass(const Block& block);
  void exact_attention(const Block& block);
  void streamed_attention(const Block& block);
  void merged_attention(const Block& block);
  at::Tensor merged_values(const Block& block, const at::Tensor& normed) const;
  void plan_merging(const Block& block);
  void keep_piece(int64_t first, const at::Tensor& x);
  void report(const std::string& name, at::IntArrayRef shape) const;

  at::Tensor rows_of(const at::Tensor& x) const { return x.view({-1, C_}); }
  bool keeps() const { return kept_.contains(layer_); }
  bool merges() const { return layout_ && layer_ >= first_merged_; }
  FrameTensor make(std::vector<int64_t> shape, at::ScalarType type, Place place, const char* name) const;

  const Aggregator& net_;
  const FrameProvider& frames_;
  const std::set<int64_t>& kept_;
  const KeepTokens& keep_;
  Schedule schedule_;
  const Observer& observer_;
  int64_t rows_, columns_, S_, P_, C_, A_;
  at::TensorOptions options_;
  Rope rope_;
  BlockCursor frame_blocks_, global_blocks_;
  std::optional<MergeLayout> layout_;
  int64_t first_merged_ = 0, refresh_ = 1;
  at::Tensor signs_;  // [C,width] of a metric narrower than the tokens, else undefined

  Overlap vit_overlap_, attention_overlap_;

  // Where the run stands: frames embedded; the layer, its phase, and the frames of the phase that are done.
  int64_t embedded_ = 0, layer_ = 0, done_ = 0, stored_ = 0;
  Phase phase_ = Phase::frame;
  FrameTensor residual_;           // [S,P,C]
  FrameTensor half_;               // [S,P,C] after the frame block of a layer that is kept
  std::optional<MergePlan> plan_;  // of layers that merge
  at::Tensor mixed_;               // [N,C] attention's output, or [M,C], projected, of merged rows
  FrameTensor mixed_elsewhere_;    // [S,P,C] the former
};

}  // namespace vggt
