// Global attention of a group of ranks, each of which has the tokens of its share of the frames.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "attention/attention.h"
#include "attention/result.h"
#include "model/state/host_memory.h"
#include "model/trunk/trunk_run.h"

namespace vggt {
namespace {

size_t index(int64_t rank) {
  return static_cast<size_t>(rank);
}

}  // namespace

/// Images of each rank's range, which rank 0 alone has, from there to their ranks. Returns the own ones, on
/// the device; undefined where there are none.
at::Tensor TrunkRun::send_frames(const std::vector<at::Tensor>& images,
                                 const std::vector<FrameRange>& ranges) {
  const size_t ranks = index(shares_.parts);
  std::vector<at::Tensor> outs(ranks), ins(ranks);
  at::Tensor own;
  if (rank_ == 0) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (images[rank].defined())
        ins[rank] = images[rank].to(options_.device(), /*non_blocking=*/true).contiguous();
    }
    own = std::exchange(ins[0], at::Tensor());
  }
  if (!pixel_type_) {
    const std::string type = rank_ == 0 ? std::to_string(static_cast<int>(own.scalar_type())) : "";
    pixel_type_ = static_cast<at::ScalarType>(std::stoi(group_->texts(type).front()));
  }
  const int64_t count = ranges[index(rank_)].count;
  if (rank_ > 0 && count > 0)
    own = outs[0] = at::empty({count, 3, frames_.height, frames_.width}, options_.dtype(*pixel_type_));
  group_->exchange(std::move(outs), std::move(ins))->wait();
  return own;
}

/// Rows before[first frame], ... of each rank's frames, which values [R,...] has of the own ones, come from
/// the others.
void TrunkRun::gather_ranked(const at::Tensor& values, const std::vector<int64_t>& before) const {
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < shares_.parts; ++rank) {
    const int64_t begin = before[index(shares_.begin(rank))], end = before[index(shares_.begin(rank + 1))];
    parts.push_back(values.narrow(0, begin, end - begin));
  }
  gather_parts(*group_, parts);
}

/// Matches of all sources, in their order, from those of each rank's.
TokenMatches TrunkRun::gather_matches(const TokenMatches& own) const {
  const std::vector<int64_t>& before = layout_->sources_before;
  TokenMatches all{at::empty({before.back()}, own.score.options()),
                   at::empty({before.back()}, own.best.options())};
  const int64_t begin = before[index(first_)];
  all.score.narrow(0, begin, own.score.size(0)).copy_(own.score);
  all.best.narrow(0, begin, own.best.size(0)).copy_(own.best);
  gather_ranked(all.score, before);
  gather_ranked(all.best, before);
  return all;
}

/// Projects pieces of the own frames and gives each rank its heads of them. room(rank, first, rows, i): where
/// what comes of parts[i] for the own heads goes, [rows,A',D], of the rank's frames from `first` of its share
/// on; landed(rank, first, rooms): it is there. The exchange of a piece runs beside the products of the next
/// one.
template <class Room, class Landed>
void TrunkRun::give_heads(const Block& block, const std::vector<int64_t>& parts, const Rope* rope,
                          const Room& room, const Landed& landed) {
  using Rooms = std::vector<at::Tensor>;
  struct Piece {
    int64_t first = 0;
    std::vector<Rooms> rooms;  // by rank, of each part
    std::vector<std::unique_ptr<Transfer>> transfers;
  };
  const int64_t D = C_ / A_, ranks = shares_.parts;
  const auto land = [&](Piece& piece) {
    for (const auto& transfer : piece.transfers) transfer->wait();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (!piece.rooms[index(rank)].empty()) landed(rank, piece.first, piece.rooms[index(rank)]);
    }
  };
  std::optional<Piece> before;
  for (int64_t first = 0; first < shares_.most(); first += schedule_.pass_frames) {
    const auto rows = [&](int64_t rank) {
      return shares_.count_from(rank, first, schedule_.pass_frames) * P_;
    };
    Piece piece{first, std::vector<Rooms>(index(ranks)), {}};
    std::vector<Rooms> outs(parts.size(), Rooms(index(ranks))), ins = outs;  // by part and rank
    std::vector<Block::HeadsPlace> places;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const bool receives = heads_.count(rank_) > 0 && rows(rank) > 0,
                   sends = heads_.count(rank) > 0 && rows(rank_) > 0;
        if (receives) piece.rooms[index(rank)].push_back(room(rank, first, rows(rank), i));
        if (receives && rank != rank_) outs[i][index(rank)] = piece.rooms[index(rank)][i];
        if (sends && rank != rank_)
          ins[i][index(rank)] =
              at::empty({rows(rank_), heads_.count(rank), D}, options_.dtype(block.operand_type()));
        if (sends)
          places.push_back({rank == rank_ ? piece.rooms[index(rank)][i] : ins[i][index(rank)], parts[i],
                            heads_.begin(rank)});
      }
    }
    if (!places.empty())
      block.project_heads_into(places, rows_of(residual_.take(first, rows(rank_) / P_)), rope);
    for (size_t i = 0; i < parts.size(); ++i) piece.transfers.push_back(group_->exchange(outs[i], ins[i]));
    if (before) land(*before);
    before = std::move(piece);
  }
  land(*before);
}

/// Sends rows of the own heads, mixed [R,A'·D], to their ranks and receives the own rows of all heads. Rank
/// i's rows are counts[i] from begins[i] on.
TrunkRun::Returning TrunkRun::return_heads(const at::Tensor& mixed, const std::vector<int64_t>& begins,
                                           const std::vector<int64_t>& counts) const {
  Returning returning;
  std::vector<at::Tensor> outs, ins;
  for (int64_t rank = 0; rank < shares_.parts; ++rank) {
    const at::Tensor theirs = mixed.narrow(0, begins[index(rank)], counts[index(rank)]);
    const bool own = rank == rank_;
    returning.parts.push_back(
        own ? theirs : at::empty({counts[index(rank_)], heads_.count(rank) * C_ / A_}, mixed.options()));
    outs.push_back(own ? at::Tensor() : returning.parts.back());
    ins.push_back(own ? at::Tensor() : theirs);
  }
  returning.transfer = group_->exchange(std::move(outs), std::move(ins));
  return returning;
}

/// [r,C] of the own rows, in the parts that came from each rank.
std::vector<at::Tensor> TrunkRun::returned(Returning returning) {
  returning.transfer->wait();
  return std::move(returning.parts);
}

void TrunkRun::attend_ranked(const Block& block) {
  if (merges()) {
    merged_by_heads(block);
  } else if (schedule_.qkv != Place::device) {
    streamed_by_heads(block);
  } else if (A_ % shares_.parts == 0) {
    exact_by_heads(block);
  } else {
    exact_by_ring(block);
  }
}

std::vector<int64_t> TrunkRun::tokens_before() const {
  std::vector<int64_t> tokens;
  for (int64_t rank = 0; rank <= shares_.parts; ++rank) tokens.push_back(shares_.begin(rank) * P_);
  return tokens;
}

void TrunkRun::exact_by_heads(const Block& block) {
  const std::vector<int64_t> before = tokens_before();
  const auto make_qkv = [&] {
    return at::empty({before.back(), heads_.count(rank_), C_ / A_}, options_.dtype(block.operand_type()));
  };
  std::array<at::Tensor, 3> qkv = {make_qkv(), make_qkv(), make_qkv()};  // [N,A',D]
  give_heads(
      block, {0, 1, 2}, &rope_,
      [&](int64_t rank, int64_t first, int64_t rows, size_t part) {
        return qkv[part].narrow(0, before[index(rank)] + first * P_, rows);
      },
      [](int64_t, int64_t, const auto&) {});
  const at::Tensor mixed = block.attend(qkv[0], qkv[1], qkv[2], 1);  // [N,A'·D]
  qkv = {};
  // One piece of frames is on its way while the block finishes the one before.
  for (int64_t first = 0; first < shares_.most(); first += stored_frames()) {
    std::vector<int64_t> begins, counts;
    for (int64_t rank = 0; rank < shares_.parts; ++rank) {
      const int64_t count = shares_.count_from(rank, first, stored_frames());
      begins.push_back(std::min(before[index(rank)] + first * P_, before[index(rank + 1)]));
      counts.push_back(count * P_);
    }
    returning_.push_back(return_heads(mixed, begins, counts));
  }
}

/// The same with q, k, v and the output outside the device, also of ranks that do not divide the heads.
void TrunkRun::streamed_by_heads(const Block& block) {
  const int64_t D = C_ / A_, S = shares_.total, heads = heads_.count(rank_);
  const at::ScalarType type = block.operand_type();
  FrameTensor mixed = make({S, P_, heads * D}, type, schedule_.qkv, "mixed of own heads");
  if (heads > 0) {
    FrameTensor queries = make({S, P_, heads, D}, type, schedule_.qkv, "queries"),
                keys_values = make({S, P_, 2, heads, D}, type, schedule_.qkv, "keys");
    fill_by_heads(block, &queries, &keys_values);
    stream_exact(queries, keys_values, mixed);
  } else {
    fill_by_heads(block, nullptr, nullptr);
  }
  if (!mixed_elsewhere_.defined()) mixed_elsewhere_ = make({S_, P_, C_}, type, schedule_.qkv, "mixed");
  for (int64_t first = 0; first < shares_.most(); first += schedule_.pass_frames) {
    std::vector<int64_t> begins, counts;
    std::vector<at::Tensor> rows;  // of each rank's piece
    for (int64_t rank = 0; rank < shares_.parts; ++rank) {
      const int64_t count = shares_.count_from(rank, first, schedule_.pass_frames);
      begins.push_back(begins.empty() ? 0 : begins.back() + counts.back());
      counts.push_back(count * P_);
      if (count == 0) continue;
      rows.push_back(heads == 0
                         ? at::empty({count * P_, 0}, options_.dtype(type))
                         : mixed.take(shares_.begin(rank) + first, count).view({-1, heads * D}).clone());
    }
    const at::Tensor own = at::cat(returned(return_heads(at::cat(rows), begins, counts)), 1);  // [F·P,C]
    if (own.size(0) > 0) mixed_elsewhere_.give(first, own.view({-1, P_, C_}));
  }
  mixed_elsewhere_.finish();
}

/// queries [S,P,A',D] and keys_values [S,P,2,A',D] of all frames; null: there are no own heads.
void TrunkRun::fill_by_heads(const Block& block, FrameTensor* queries, FrameTensor* keys_values) {
  const int64_t D = C_ / A_, heads = heads_.count(rank_);
  give_heads(
      block, {0, 1, 2}, &rope_,
      [&](int64_t, int64_t, int64_t rows, size_t) {
        return at::empty({rows, heads, D}, options_.dtype(block.operand_type()));
      },
      [&](int64_t rank, int64_t first, const std::vector<at::Tensor>& qkv) {
        const int64_t frame = shares_.begin(rank) + first;
        queries->give(frame, qkv[0].view({-1, P_, heads, D}));
        keys_values->give(frame, at::stack({qkv[1], qkv[2]}, 1).view({-1, P_, 2, heads, D}));
      });
  if (!queries) return;
  queries->finish();
  keys_values->finish();
}

/// Keys and values go from rank to rank; the states of the own queries over each are merged.
void TrunkRun::exact_by_ring(const Block& block) {
  const int64_t D = C_ / A_, ranks = shares_.parts, next = (rank_ + 1) % ranks,
                last = (rank_ + ranks - 1) % ranks;
  const auto type = options_.dtype(block.operand_type());
  const auto room = [&](int64_t rank) { return at::empty({2, shares_.count(rank) * P_, A_, D}, type); };
  const auto heads = [&](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };  // [1,A,n,D]
  const at::Tensor queries = at::empty({S_ * P_, A_, D}, type);
  at::Tensor keys_values = room(rank_);  // [2,n,A,D]
  pass([&](int64_t first, const at::Tensor& x) {
    const auto rows = [&](const at::Tensor& all) { return all.narrow(0, first * P_, x.size(0) * P_); };
    block.project_heads_into(
        {{rows(queries), 0, 0}, {rows(keys_values[0]), 1, 0}, {rows(keys_values[1]), 2, 0}}, rows_of(x),
        &rope_);
  });
  AttentionOptions options = net_.attention();
  options.want = AttentionWant::state;
  options.any_m = true;
  AttentionResult state;
  for (int64_t step = 0; step < ranks; ++step) {
    at::Tensor coming;
    std::unique_ptr<Transfer> transfer;
    if (step + 1 < ranks) {
      std::vector<at::Tensor> outs(index(ranks)), ins(index(ranks));
      outs[index(last)] = coming = room((rank_ - step - 1 + ranks) % ranks);
      ins[index(next)] = keys_values;
      transfer = group_->exchange(std::move(outs), std::move(ins));
    }
    AttentionResult part = attention(heads(queries), heads(keys_values[0]), heads(keys_values[1]), options);
    if (step == 0) {
      state = std::move(part);
    } else {
      merge_into(state, part);
    }
    if (transfer) transfer->wait();
    keys_values = coming;
  }
  const at::Tensor out = finalise_own(std::move(state), block.operand_type()).out;  // [1,A,n,D]
  mixed_ = out.transpose(1, 2).reshape({S_ * P_, C_});
}

/// q, k or v (part 0, 1 or 2) of the merged tokens, own heads [M,A',D], into means.
void TrunkRun::merge_by_heads(const Block& block, int64_t part, at::Tensor& all, at::Tensor& means) {
  const std::vector<int64_t> before = tokens_before();
  give_heads(
      block, {part}, nullptr,
      [&](int64_t rank, int64_t first, int64_t rows, size_t) {
        return all.narrow(0, before[index(rank)] + first * P_, rows);
      },
      [](int64_t, int64_t, const auto&) {});
  if (all.numel() == 0) return;
  if (part == 2) {
    plan_->apply_into(means, all);
  } else {
    block.merge_into(means, part, all, &rope_, plan_->members, plan_->offsets);
  }
}

/// Leaves all rows' outputs, projected.
void TrunkRun::merged_by_heads(const Block& block) {
  if (!plan_) plan_merging(block);
  const bool streams = schedule_.qkv != Place::device;
  const int64_t M = plan_->rows(), D = C_ / A_, heads = heads_.count(rank_);
  const auto type = options_.dtype(block.operand_type());
  std::array<at::Tensor, 3> qkv;  // [M,A',D]
  {
    at::Tensor all = at::empty({shares_.total * P_, heads, D}, type);
    for (const int64_t part : {2, 0, 1}) {
      at::Tensor& means = qkv[static_cast<size_t>(part)];
      means = streams ? host_tensor({M, heads, D}, block.operand_type(), options_.device().is_cuda())
                      : at::empty({M, heads, D}, type);
      merge_by_heads(block, part, all, means);
    }
  }
  at::Tensor mixed = at::empty({M, heads * D}, type);
  if (heads > 0 && streams) {
    stream_attention(stream_input(qkv[0], qkv[1], qkv[2]), {mixed, {}});
  } else if (heads > 0) {
    mixed = block.attend(qkv[0], qkv[1], qkv[2], 1);
  }
  qkv = {};
  const Shares rows{M, shares_.parts};  // each rank projects its share of them
  std::vector<int64_t> begins, counts;
  for (int64_t rank = 0; rank < rows.parts; ++rank) {
    begins.push_back(rows.begin(rank));
    counts.push_back(rows.count(rank));
  }
  std::vector<at::Tensor> own = returned(return_heads(std::move(mixed), begins, counts));
  const at::Tensor projected = block.project_out(own);  // [m,C]
  own.clear();
  mixed_ = at::empty({M, C_}, type);
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < rows.parts; ++rank)
    parts.push_back(mixed_.narrow(0, rows.begin(rank), rows.count(rank)));
  parts[index(rank_)].copy_(projected);
  gather_parts(*group_, parts);
}

}  // namespace vggt
