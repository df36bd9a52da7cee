#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "attention/stream/stream_rows.h"
#include "model/frame_provider.h"
#include "model/merge_options.h"
#include "model/observer.h"
#include "model/overlap.h"
#include "model/ranks/group.h"
#include "model/ranks/shares.h"
#include "model/schedule.h"
#include "model/trunk/aggregator.h"
#include "model/trunk/frame_fetch.h"
#include "model/trunk/frame_tensor.h"
#include "model/trunk/token_match.h"
#include "model/trunk/token_merge.h"

namespace vggt {

/// Takes what a kept layer puts out of frames [first, first + tokens.size(0)), counted from the rank's first:
/// tokens [F,P,2C], the frame block's half first. Layers come in their order; after running out of memory,
/// frames may come twice.
using KeepTokens = std::function<void(int64_t layer, int64_t first, const at::Tensor& tokens)>;

/// One pass of all frames through the trunk. Everything but global attention works on pieces of frames, so
/// that the tokens may lie elsewhere; what a piece changes is stored only when it is complete.
///
/// Of a group each rank has its share of the frames. For global attention it gives their queries, keys and
/// values to the others by heads and gets all tokens of its own heads (as in DeepSpeed-Ulysses, arXiv
/// 2309.14509); where the ranks do not divide the heads, keys and values go round instead, and the states
/// over them are merged.
class TrunkRun {
 public:
  /// What is given must outlive the run; kept, of layers, is not empty. frames: all of them, also of a group,
  /// whose rank 0 alone reads them. merge: global blocks from its start on attend to merged tokens. group:
  /// may be null.
  TrunkRun(const Aggregator& net, const FrameProvider& frames, const std::set<int64_t>& kept,
           const std::optional<MergeOptions>& merge, const KeepTokens& keep, const Schedule& schedule,
           const Observer& observer, Group* group = nullptr);

  /// Runs all layers up to the last that is kept. After an exception, such as running out of memory, it may
  /// be called again and goes on after the last piece that was stored. after_layer: is told after each layer
  /// but the last, and but those whose merging serves the next one too, how many are finished; residual() is
  /// what the next one takes.
  void run(const std::function<void(int64_t layers)>& after_layer = {});
  /// Before run(): it goes on after so many layers, from a residual that is to be filled.
  FrameTensor& go_on_after(int64_t layers);
  FrameTensor& residual() { return residual_; }  // [S,P,C] of the rank's frames
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
  void stream_exact(FrameTensor& queries, FrameTensor& keys_values, FrameTensor& mixed);
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
  std::vector<FrameRange> ranges(int64_t begin) const;

  // Of a group, in trunk_run_ranks.cpp.
  at::Tensor send_frames(const std::vector<at::Tensor>& images, const std::vector<FrameRange>& ranges);
  void gather_ranked(const at::Tensor& values, const std::vector<int64_t>& before) const;
  TokenMatches gather_matches(const TokenMatches& own) const;
  template <class Room, class Landed>
  void give_heads(const Block& block, const std::vector<int64_t>& parts, const Rope* rope, const Room& room,
                  const Landed& landed);
  /// Outputs of attention on their way to the ranks whose tokens they are.
  struct Returning {
    std::vector<at::Tensor> parts;  // by rank, of its heads [r,A'·D], where the own tokens' come
    std::unique_ptr<Transfer> transfer;
  };
  Returning return_heads(const at::Tensor& mixed, const std::vector<int64_t>& begins,
                         const std::vector<int64_t>& counts) const;
  static std::vector<at::Tensor> returned(Returning returning);
  std::vector<int64_t> tokens_before() const;
  int64_t stored_frames() const;
  void attend_ranked(const Block& block);
  void exact_by_heads(const Block& block);
  void streamed_by_heads(const Block& block);
  void exact_by_ring(const Block& block);
  void fill_by_heads(const Block& block, FrameTensor* queries, FrameTensor* keys_values);
  void merged_by_heads(const Block& block);
  void merge_by_heads(const Block& block, int64_t part, at::Tensor& all, at::Tensor& means);

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
  Group* const group_;
  const Shares shares_, heads_;             // of all frames, and of the heads, by ranks
  const int64_t rank_, first_;              // the rank's first frame
  int64_t rows_, columns_, S_, P_, C_, A_;  // S: the rank's frames
  at::TensorOptions options_;
  FrameFetch fetch_;
  Rope rope_;
  BlockCursor frame_blocks_, global_blocks_;
  std::optional<MergeLayout> layout_;
  int64_t first_merged_ = 0, refresh_ = 1;
  at::Tensor signs_;  // [C,width] of a metric narrower than the tokens, else undefined

  Overlap vit_overlap_, attention_overlap_;

  // Where the run stands: frames embedded; the layer, its phase, and the frames of the phase that are done.
  int64_t embedded_ = 0, layer_ = 0, done_ = 0, stored_ = 0;
  Phase phase_ = Phase::frame;
  FrameTensor residual_;                      // [S,P,C]
  FrameTensor half_;                          // [S,P,C] after the frame block of a layer that is kept
  std::optional<MergePlan> plan_;             // of layers that merge
  at::Tensor mixed_;                          // [N,C] attention's output, or [M,C], projected, of merged rows
  FrameTensor mixed_elsewhere_;               // [S,P,C] the former
  std::deque<Returning> returning_;           // the former, of a group, by pieces of frames
  std::optional<at::ScalarType> pixel_type_;  // of a group's frames
};

/// work(first, x) for pieces of frames, x [F,P,C] of the residual.
template <class Work>
void TrunkRun::pass(const Work& work) {
  for (int64_t first = 0; first < S_; first += schedule_.pass_frames)
    work(first, residual_.take(first, std::min(schedule_.pass_frames, S_ - first)));
}

}  // namespace vggt
