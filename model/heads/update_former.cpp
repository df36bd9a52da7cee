#include "model/heads/update_former.h"

#include "attention/attention.h"
#include "model/heads/head_constants.h"

namespace vggt {
namespace {

constexpr int64_t kHeads = 8;
const std::string kName = "track_head.tracker.updateformer";

std::vector<TrackBlock> make_blocks(Binder& bind, const std::string& name, const Config& config, bool cross) {
  std::vector<TrackBlock> blocks;
  for (int64_t i = 0; i < config.track_depth; ++i) {
    blocks.emplace_back(bind, kName + "." + name + "." + std::to_string(i), config.track_hidden, cross);
  }
  return blocks;
}

/// Rows of a weight or a bias; undefined where nothing was loaded.
at::Tensor rows_of(const at::Tensor& x, int64_t first, int64_t count) {
  return x.defined() ? x.narrow(0, first, count) : at::Tensor();
}

/// [B,N,parts·hidden] -> [parts,B,8,N,D]
at::Tensor heads_of(const at::Tensor& x, int64_t parts) {
  return x.view({x.size(0), x.size(1), parts, kHeads, x.size(2) / (parts * kHeads)}).permute({2, 0, 3, 1, 4});
}

}  // namespace

TrackAttention::TrackAttention(Binder& bind, const std::string& name, int64_t hidden)
    : TrackAttention(bind, name, hidden,
                     {bind.operand(name + ".in_proj_weight", {3 * hidden, hidden}),
                      bind.operand(name + ".in_proj_bias", {3 * hidden})}) {}

TrackAttention::TrackAttention(Binder& bind, const std::string& name, int64_t hidden, const InProj& in_proj)
    : q_proj(rows_of(in_proj.weight, 0, hidden), rows_of(in_proj.bias, 0, hidden), bind.kind()),
      kv_proj(rows_of(in_proj.weight, hidden, 2 * hidden), rows_of(in_proj.bias, hidden, 2 * hidden),
              bind.kind()),
      out_proj(bind, name + ".out_proj", hidden, hidden) {}

at::Tensor TrackAttention::operator()(const at::Tensor& x, const at::Tensor& context) const {
  const at::Tensor q = heads_of(q_proj(x), 1)[0], kv = heads_of(kv_proj(context), 2);
  AttentionOptions options;
  // There are thousands of sequences of some fifty frames, with heads narrower than our kernels' 64 channels:
  // LibTorch's attention is the faster one.
  if (q.is_cuda() && q.scalar_type() != at::kDouble) options.variant = AttentionVariant::sdpa;
  return out_proj(vggt::attention(q, kv[0], kv[1], options).out.transpose(1, 2).flatten(2));
}

TrackBlock::TrackBlock(Binder& bind, const std::string& name, int64_t hidden, bool cross)
    : norm1(bind, name + ".norm1", hidden),
      norm2(bind, name + ".norm2", hidden),
      attention(bind, name + (cross ? ".cross_attn" : ".attn"), hidden),
      mlp(bind, name + ".mlp", hidden, 4 * hidden, hidden) {
  if (cross) norm_context.emplace_back(bind, name + ".norm_context", hidden);
}

at::Tensor TrackBlock::operator()(const at::Tensor& x, const at::Tensor& context) const {
  const at::Tensor query = norm1(x);
  const at::Tensor y = query + attention(query, norm_context.empty() ? query : norm_context[0](context));
  return y + mlp(norm2(y));
}

UpdateFormer::UpdateFormer(Binder& bind, const Config& config, int64_t input_dim)
    : input_norm_(bind, kName + ".input_norm", input_dim),
      input_transform_(bind, kName + ".input_transform", input_dim, config.track_hidden),
      virtual_tracks_(bind.state(kName + ".virual_tracks", {1, kVirtualTracks, 1, config.track_hidden})),
      time_blocks_(make_blocks(bind, "time_blocks", config, false)),
      virtual_blocks_(make_blocks(bind, "space_virtual_blocks", config, false)),
      virtual_from_points_(make_blocks(bind, "space_virtual2point_blocks", config, true)),
      points_from_virtual_(make_blocks(bind, "space_point2virtual_blocks", config, true)),
      output_norm_(bind, kName + ".output_norm", config.track_hidden),
      flow_head_(bind, kName + ".flow_head", config.track_hidden, config.track_features + 2) {}

at::Tensor UpdateFormer::forward(const at::Tensor& input) const {
  const int64_t Q = input.size(0), S = input.size(1);
  const at::Tensor initial = input_transform_(input_norm_(input));  // [Q,S,hidden]
  at::Tensor tokens =
      at::cat({initial, virtual_tracks_.squeeze(0).expand({-1, S, -1})});  // [Q + 64,S,hidden]
  for (size_t i = 0; i < time_blocks_.size(); ++i) {
    tokens = time_blocks_[i](tokens);
    const at::Tensor space = tokens.transpose(0, 1);         // [S,Q + 64,hidden]
    at::Tensor points = space.narrow(1, 0, Q);               // [S,Q,hidden]
    at::Tensor tracks = space.narrow(1, Q, kVirtualTracks);  // [S,64,hidden]
    tracks = virtual_blocks_[i](virtual_from_points_[i](tracks, points));
    points = points_from_virtual_[i](points, tracks);
    tokens = at::cat({points, tracks}, 1).transpose(0, 1);
  }
  return flow_head_(output_norm_(tokens.narrow(0, 0, Q) + initial));
}

}  // namespace vggt
