#include "model/trunk/trunk_run.h"

#include <algorithm>

#include "attention/stream/attention_streamed.h"
#include "model/state/host_memory.h"
#include "model/trunk/narrow_metric.h"

namespace vggt {
namespace {

/// Frames in [0,1] and the type of the tokens.
at::Tensor as_values(const at::Tensor& images, const at::TensorOptions& options) {
  const at::Tensor values = images.to(options.device(), /*non_blocking=*/true).to(options.dtype());
  return images.scalar_type() == at::kByte ? values / 255 : values;
}

}  // namespace

TrunkRun::TrunkRun(const Aggregator& net, const FrameProvider& frames, const std::set<int64_t>& kept,
                   const std::optional<MergeOptions>& merge, const KeepTokens& keep, const Schedule& schedule,
                   const Observer& observer, Group* group)
    : net_(net),
      frames_(frames),
      kept_(kept),
      keep_(keep),
      schedule_(schedule),
      observer_(observer),
      group_(group),
      shares_{frames.frames, group ? group->ranks() : 1},
      heads_{net.config().num_heads, shares_.parts},
      rank_(group ? group->rank() : 0),
      first_(shares_.begin(rank_)),
      rows_(frames.height / net.config().patch_size),
      columns_(frames.width / net.config().patch_size),
      S_(shares_.count(rank_)),
      P_(net.config().special_tokens() + rows_ * columns_),
      C_(net.config().embed_dim),
      A_(net.config().num_heads),
      options_(net.options()),
      fetch_(frames, options_.device()),
      rope_(rows_, columns_, net.config().special_tokens(), C_ / A_, net.config().rope_freq, options_),
      frame_blocks_(net.frame_blocks(), options_.device(), !schedule.stream_weights),
      global_blocks_(net.global_blocks(), options_.device(), !schedule.stream_weights) {
  TORCH_CHECK(!kept.empty(), "TrunkRun: no layer is kept");
  if (!merge || merge->start > *kept.rbegin()) return;
  MergeLayout layout =
      merge_layout(shares_.total, rows_, columns_, net.config().special_tokens(), *merge, options_.device());
  if (layout.most_merged == 0) return;  // exact then, as in the reference
  layout_ = std::move(layout);
  first_merged_ = merge->start;
  refresh_ = merge->refresh;
  if (const int64_t width = metric_width(*merge, C_); width < C_)
    signs_ = draw_signs(C_, width, merge->seed).to(options_.device());
}

FrameTensor TrunkRun::make(std::vector<int64_t> shape, at::ScalarType type, Place place,
                           const char* name) const {
  return {std::move(shape), options_.dtype(type), place,
          std::max(schedule_.embed_frames, schedule_.pass_frames), schedule_.scratch / name};
}

void TrunkRun::change(const Schedule& schedule) {
  const int64_t piece = std::max(schedule.embed_frames, schedule.pass_frames);
  residual_.move_to(schedule.residual, piece, schedule.scratch / "residual");
  half_.move_to(schedule.residual, piece, schedule.scratch / "half");
  mixed_elsewhere_.move_to(schedule.qkv, piece, schedule.scratch / "mixed");
  schedule_ = schedule;  // unless memory has run out
  frame_blocks_.keep(!schedule.stream_weights);
  global_blocks_.keep(!schedule.stream_weights);
}

/// What each rank embeds next, frame `begin` of its share and those behind it.
std::vector<FrameRange> TrunkRun::ranges(int64_t begin) const {
  std::vector<FrameRange> all;
  for (int64_t rank = 0; rank < shares_.parts; ++rank)
    all.push_back({shares_.begin(rank) + begin, shares_.count_from(rank, begin, schedule_.embed_frames)});
  return all;
}

/// That storing_pass() takes at once.
int64_t TrunkRun::stored_frames() const {
  const int64_t pass = schedule_.pass_frames;
  return residual_.is_resident() ? std::min(pass, block_frames(C_, P_, options_.device().is_cuda())) : pass;
}

/// Like pass(), but from frame done_ on, and what work() makes of x is stored. If work() throws, the piece it
/// was given stays as it was: of a resident residual a block leaves the rows that it has not finished, and
/// where more than one part of a block, or what follows it, may fail, the piece is copied first and put back.
template <class Work>
void TrunkRun::storing_pass(const Work& work) {
  const int64_t most = stored_frames();
  const bool copies = keeps() || P_ > block_rows(C_, options_.device().is_cuda());
  while (done_ < S_) {
    const bool resident = residual_.is_resident();
    at::Tensor x = residual_.take(done_, std::min(most, S_ - done_)), before;
    if (resident && copies) before = x.clone();
    try {
      work(done_, x);
    } catch (...) {
      if (before.defined()) x.copy_(before);
      throw;
    }
    residual_.give(done_, x);
    done_ += x.size(0);
    ++stored_;
  }
  done_ = 0;
}

void TrunkRun::report(const std::string& name, at::IntArrayRef shape) const {
  if (residual_.is_resident()) report_tensor(observer_, "aggregator", name, residual_.whole().view(shape));
}

Overlap TrunkRun::weights_overlap() const {
  Overlap sum = frame_blocks_.overlap();
  const Overlap global = global_blocks_.overlap();
  const double total = std::max(sum.total_ms, global.total_ms);  // they take turns
  sum += global;
  sum.total_ms = total;
  return sum += vit_overlap_;
}

FrameTensor& TrunkRun::go_on_after(int64_t layers) {
  make_residual();
  embedded_ = shares_.most();
  layer_ = layers;
  return residual_;
}

void TrunkRun::run(const std::function<void(int64_t layers)>& after_layer) {
  if (embedded_ < shares_.most()) embed();
  const int64_t last = *kept_.rbegin();
  while (layer_ <= last) {
    report_progress(observer_, "aggregator", layer_, last + 1);
    layer();
    if (after_layer && layer_ <= last && !plan_) after_layer(layer_);
  }
  report_progress(observer_, "aggregator", last + 1, last + 1);
}

void TrunkRun::make_residual() {
  if (residual_.defined()) return;
  residual_ = make({S_, P_, C_}, c10::typeMetaToScalarType(options_.dtype()), schedule_.residual, "residual");
}

void TrunkRun::embed() {
  const int64_t special = net_.config().special_tokens();
  make_residual();
  BlockCursor blocks(net_.patch_embed().blocks(), options_.device(), !schedule_.stream_weights);
  while (embedded_ < shares_.most()) {
    report_progress(observer_, "patch_embed", std::min(embedded_, S_), S_);
    const std::vector<FrameRange> now = ranges(embedded_);
    const int64_t step = std::min(schedule_.embed_frames, shares_.most() - embedded_),
                  count = now[static_cast<size_t>(rank_)].count;  // 0 where other ranks have one more
    std::vector<at::Tensor> fetched;  // of each rank, by the one that reads frames
    if (rank_ == 0) {
      fetched = fetch_.take(now);
      if (embedded_ + step < shares_.most()) fetch_.begin(ranges(embedded_ + step));
    }
    const at::Tensor images = group_ ? send_frames(fetched, now) : fetched.front();  // [count,3,H,W]
    if (count > 0) {
      at::Tensor tokens = residual_.blank(embedded_, count);  // [count,P,C]
      net_.embed(first_ + embedded_, as_values(images, options_), blocks, tokens);
      residual_.give(embedded_, tokens);
    }
    embedded_ += step;
    ++stored_;
  }
  residual_.finish();
  vit_overlap_ += blocks.overlap();
  report_progress(observer_, "patch_embed", S_, S_);
  if (residual_.is_resident())
    report_tensor(observer_, "patch_embed", "patch_tokens",
                  residual_.whole().narrow(1, special, P_ - special));
}

void TrunkRun::layer() {
  const Block& block = global_blocks_.at(layer_);
  if (phase_ == Phase::frame) {
    frame_pass();
    phase_ = Phase::attention;  // first: a report may throw, and no pass may be made twice
    report("frame_block." + std::to_string(layer_), {S_, P_, C_});
  }
  if (phase_ == Phase::attention) {
    attend(block);
    phase_ = Phase::finish;
  }
  finish_pass(block);
  if (layout_ && (layer_ + 1 - first_merged_) % refresh_ == 0) plan_.reset();
  mixed_ = at::Tensor();
  // A resident one gives its memory back; elsewhere the next one takes it over.
  if (half_.is_resident()) half_ = FrameTensor();
  phase_ = Phase::frame;
  const std::string name = "global_block." + std::to_string(layer_++);
  report(name, {1, S_ * P_, C_});
}

void TrunkRun::frame_pass() {
  if (keeps() && !half_.defined())
    half_ = make({S_, P_, C_}, c10::typeMetaToScalarType(options_.dtype()), schedule_.residual, "half");
  const Block& block = frame_blocks_.at(layer_);
  storing_pass([&](int64_t first, at::Tensor& x) {
    block.forward_(x, &rope_);
    if (keeps()) half_.give(first, half_.is_resident() ? x : x.clone());
  });
}

void TrunkRun::attend(const Block& block) {
  if (group_) {
    attend_ranked(block);
  } else if (merges()) {
    merged_attention(block);
  } else if (schedule_.qkv == Place::device) {
    exact_attention(block);
  } else {
    streamed_attention(block);
  }
}

void TrunkRun::exact_attention(const Block& block) {
  at::Tensor qkv = at::empty({S_ * P_, 3, A_, C_ / A_}, options_.dtype(block.operand_type()));
  const std::optional<QkParts> room = block.room_for_parts(1, S_ * P_, &rope_);
  const QkParts* parts = room ? &*room : nullptr;
  pass([&](int64_t first, const at::Tensor& x) {
    at::Tensor place = qkv.narrow(0, first * P_, x.size(0) * P_);
    block.project_into(place, rows_of(x), &rope_, parts, first * P_);
  });
  mixed_ = block.attend(qkv, 1, parts);  // [N,C]
}

/// The same with q, k, v and the output outside the device.
void TrunkRun::streamed_attention(const Block& block) {
  const int64_t D = C_ / A_;
  const at::ScalarType type = block.operand_type();
  FrameTensor queries = make({S_, P_, A_, D}, type, schedule_.qkv, "queries"),
              keys_values = make({S_, P_, 2, A_, D}, type, schedule_.qkv, "keys");
  pass([&](int64_t first, const at::Tensor& x) {
    const at::Tensor qkv = block.project(rows_of(x), &rope_);  // [F·P,3,A,D]
    queries.give(first, qkv.select(1, 0).reshape({x.size(0), P_, A_, D}));
    keys_values.give(first, qkv.narrow(1, 1, 2).reshape({x.size(0), P_, 2, A_, D}));
  });
  queries.finish();
  keys_values.finish();
  if (!mixed_elsewhere_.defined()) mixed_elsewhere_ = make({S_, P_, C_}, type, schedule_.qkv, "mixed");
  stream_exact(queries, keys_values, mixed_elsewhere_);
}

/// queries [S,P,A,D] and keys_values [S,P,2,A,D] -> mixed [S,P,A·D], none of them on the device.
void TrunkRun::stream_exact(FrameTensor& queries, FrameTensor& keys_values, FrameTensor& mixed) {
  const std::vector<int64_t> shape = queries.shape();
  const int64_t N = shape[0] * shape[1], A = shape[2], D = shape[3];
  const auto bytes = A * D * static_cast<int64_t>(c10::elementSize(queries.scalar_type()));  // of a row
  StreamInput input;
  StreamOutput output;
  if (queries.host().defined()) {
    const at::Tensor kv = keys_values.host().view({N, 2, A, D});
    input = stream_input(queries.host().view({N, A, D}), kv.select(1, 0), kv.select(1, 1));
  } else {
    input.read_queries = [&queries, bytes](int64_t first, int64_t rows, void* to) {
      queries.read(first * bytes, to, rows * bytes);
    };
    input.read_keys_values = [&keys_values, bytes](int64_t first, int64_t rows, void* to) {
      keys_values.read(first * 2 * bytes, to, rows * 2 * bytes);
    };
    input.tokens = N;
    input.heads = A;
    input.dim = D;
    input.type = queries.scalar_type();
  }
  // It may lie elsewhere than the others: memory can run out between two moves.
  if (mixed.host().defined()) {
    output.out = mixed.host().view({N, A * D});
  } else {
    output.write = [&mixed, bytes](int64_t first, int64_t rows, const void* from) {
      mixed.write(first * bytes, from, rows * bytes);
    };
  }
  stream_attention(input, output);
}

void TrunkRun::stream_attention(const StreamInput& input, const StreamOutput& output) {
  StreamOptions options;
  options.device = options_.device();
  options.max_bytes = schedule_.attention_bytes;
  options.variant = net_.attention().variant;
  const StreamReport report = attention_streamed(input, output, options);
  attention_overlap_ +=
      {report.copy_ms, report.wait_ms, report.total_ms, report.bytes_to_device + report.bytes_to_host};
}

void TrunkRun::plan_merging(const Block& block) {
  const MergeLayout& layout = *layout_;
  const auto type = options_.dtype(block.metric_type());
  const at::Tensor signs = signs_.defined() ? signs_.to(type) : signs_;  // [C,width]
  const int64_t width = signs.defined() ? signs.size(1) : C_;
  // The metric of those of a piece's tokens that `all` names, written to `to` from row `begin` on.
  const auto metric_of = [&](int64_t first, const at::Tensor& x, const at::Tensor& all, int64_t begin,
                             at::Tensor to) {
    const at::Tensor tokens = all.narrow(0, begin, to.size(0)) - (first_ + first) * P_;  // rows of the piece
    at::Tensor metric = signs.defined() ? at::empty({to.size(0), C_}, type) : to;
    block.metric_into(metric, rows_of(x), &tokens);
    if (signs.defined()) to.copy_(narrow_metric(metric, signs));
    return to;
  };
  const at::Tensor targets = at::empty({layout.destinations.size(0), width}, type);  // [d,width]
  pass([&](int64_t first, const at::Tensor& x) {
    const int64_t begin = layout.destinations_before[first_ + first],
                  end = layout.destinations_before[first_ + first + x.size(0)];
    metric_of(first, x, layout.destinations, begin, targets.narrow(0, begin, end - begin));
  });
  if (group_) gather_ranked(targets, layout.destinations_before);
  std::vector<at::Tensor> scores, best;
  pass([&](int64_t first, const at::Tensor& x) {
    const int64_t begin = layout.sources_before[first_ + first],
                  end = layout.sources_before[first_ + first + x.size(0)];
    const TokenMatches matches = best_destinations(
        metric_of(first, x, layout.sources, begin, at::empty({end - begin, width}, type)), targets);
    scores.push_back(matches.score);
    best.push_back(matches.best);
  });
  TokenMatches matches{at::cat(scores), at::cat(best)};
  if (group_) matches = gather_matches(matches);
  plan_ = plan_merge(layout, matches);
}

/// Leaves the rows' outputs, projected.
void TrunkRun::merged_attention(const Block& block) {
  if (!plan_) plan_merging(block);
  const bool streams = schedule_.qkv != Place::device;
  const int64_t N = S_ * P_, M = plan_->rows(), D = C_ / A_;
  const auto type = options_.dtype(block.operand_type());
  const auto room = [&] {
    return streams ? host_tensor({M, A_, D}, block.operand_type(), options_.device().is_cuda())
                   : at::empty({M, A_, D}, type);
  };
  at::Tensor q, k, v;  // [M,A,D]
  {
    // One of them at a time: all three of all tokens are the largest tensor of a run.
    at::Tensor all = at::empty({N, A_, D}, type);
    at::Tensor normed = all.view({N, C_});
    pass([&](int64_t first, const at::Tensor& x) {
      at::Tensor place = normed.narrow(0, first * P_, x.size(0) * P_);
      block.norm_into(place, rows_of(x));
    });
    v = merged_values(block, normed);
    if (streams) v = room().copy_(v);
    for (int64_t part = 0; part < 2; ++part) {
      pass([&](int64_t first, const at::Tensor& x) {
        at::Tensor place = all.narrow(0, first * P_, x.size(0) * P_);
        block.project_part_into(place, part, rows_of(x));
      });
      at::Tensor& means = part == 0 ? q : k;
      means = room();
      block.merge_into(means, part, all, &rope_, plan_->members, plan_->offsets);
    }
  }
  at::Tensor mixed;  // [M,C]
  if (streams) {
    mixed = at::empty({M, C_}, type);
    stream_attention(stream_input(q, k, v), {mixed, {}});
  } else {
    mixed = block.attend(q, k, v, 1);
  }
  q = k = v = at::Tensor();
  mixed_ = block.project_out(mixed);
}

/// v of the merged tokens [M,A,D], from all tokens' norms [N,C].
at::Tensor TrunkRun::merged_values(const Block& block, const at::Tensor& normed) const {
  at::Tensor means = at::empty({plan_->rows(), C_}, normed.options());
  plan_->apply_into(means, normed);
  return block.project_values(means);
}

void TrunkRun::keep_piece(int64_t first, const at::Tensor& x) {
  const at::Tensor half = half_.take(first, x.size(0));  // [F,P,C]
  for (int64_t i = 0; i < x.size(0); i += schedule_.keep_frames) {
    const int64_t count = std::min(schedule_.keep_frames, x.size(0) - i);
    keep_(layer_, first + i, at::cat({half.narrow(0, i, count), x.narrow(0, i, count)}, 2));
  }
}

void TrunkRun::finish_pass(const Block& block) {
  storing_pass([&](int64_t first, at::Tensor& x) {
    at::Tensor rows = rows_of(x);  // [F·P,C]
    const int64_t begin = first * P_, count = rows.size(0);
    if (merges()) {
      block.finish_projected_(rows, mixed_, plan_->row_of.narrow(0, first_ * P_ + begin, count));
    } else if (!returning_.empty()) {
      const std::vector<at::Tensor> mixed = returned(std::move(returning_.front()));
      returning_.pop_front();
      block.finish_(rows, mixed);
    } else if (mixed_.defined()) {
      block.finish_(rows, mixed_.narrow(0, begin, count));
    } else {
      block.finish_(rows, rows_of(mixed_elsewhere_.take(first, x.size(0))));
    }
    if (keeps()) keep_piece(first, x);
  });
  for (Returning& piece : returning_) piece.transfer->wait();  // of ranks with one more frame
  returning_.clear();
}

}  // namespace vggt
