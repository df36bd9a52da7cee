#include "model/heads/camera_head.h"

namespace vggt {
namespace {

constexpr int kIterations = 4;
constexpr double kAdaptiveNormEps = 1e-6;

std::vector<Block> make_trunk(Binder& bind, const Config& config, const AttentionOptions& attention) {
  std::vector<Block> trunk;
  for (int64_t i = 0; i < config.camera_trunk_depth; ++i) {
    trunk.emplace_back(bind, "camera_head.trunk." + std::to_string(i),
                       BlockSpec{2 * config.embed_dim, config.camera_num_heads, 1e-5, false, attention});
  }
  return trunk;
}

}  // namespace

CameraHead::CameraHead(Binder& bind, const Config& config, const AttentionOptions& attention)
    : dim_(2 * config.embed_dim),
      token_norm_(bind, "camera_head.token_norm", dim_),
      trunk_norm_(bind, "camera_head.trunk_norm", dim_),
      empty_pose_tokens_(bind.state("camera_head.empty_pose_tokens", {1, 1, 9})),
      embed_pose_(bind, "camera_head.embed_pose", 9, dim_),
      modulation_(bind, "camera_head.poseLN_modulation.1", dim_, 3 * dim_),
      trunk_(make_trunk(bind, config, attention)),
      pose_branch_(bind, "camera_head.pose_branch", dim_, dim_ / 2, 9) {}

at::Tensor CameraHead::forward(const at::Tensor& tokens, const Observer& observer) const {
  const int64_t S = tokens.size(0);
  const at::Tensor x = token_norm_(tokens).unsqueeze(0);                          // [1,S,2C]
  const at::Tensor normed = at::layer_norm(x, {dim_}, {}, {}, kAdaptiveNormEps);  // [1,S,2C]
  at::Tensor pose, output;                                                        // [1,S,9]
  for (int i = 0; i < kIterations; ++i) {
    report_progress(observer, "camera_head", i, kIterations);
    const at::Tensor input = pose.defined() ? pose : empty_pose_tokens_.expand({1, S, 9});
    const auto parts = modulation_(at::silu(embed_pose_(input))).chunk(3, -1);  // shift, scale, gate [1,S,2C]
    at::Tensor y = x + parts[2] * (normed * (1 + parts[1]) + parts[0]);
    for (const Block& block : trunk_) block.forward_(y);
    const at::Tensor delta = pose_branch_(trunk_norm_(y));
    pose = pose.defined() ? pose + delta : delta;
    // The next iteration gets the raw pose; only the output's field of view is cut at 0.
    output = at::cat({pose.narrow(2, 0, 7), at::relu(pose.narrow(2, 7, 2))}, 2).squeeze(0);
    report_tensor(observer, "camera_head", "pose_enc." + std::to_string(i), output);
  }
  report_progress(observer, "camera_head", kIterations, kIterations);
  return output;
}

CameraMatrices camera_matrices(const at::Tensor& pose_enc, int64_t height, int64_t width) {
  const int64_t S = pose_enc.size(0);
  const at::Tensor q = pose_enc.narrow(1, 3, 4);  // [S,4] xyzw, not normalised
  const at::Tensor two_s = 2 / (q * q).sum(1);    // [S]
  const at::Tensor x = q.select(1, 0), y = q.select(1, 1), z = q.select(1, 2), w = q.select(1, 3);
  const at::Tensor rotation =
      at::stack({1 - two_s * (y * y + z * z), two_s * (x * y - z * w), two_s * (x * z + y * w),
                 two_s * (x * y + z * w), 1 - two_s * (x * x + z * z), two_s * (y * z - x * w),
                 two_s * (x * z - y * w), two_s * (y * z + x * w), 1 - two_s * (x * x + y * y)},
                1)
          .view({S, 3, 3});
  const at::Tensor extrinsic = at::cat({rotation, pose_enc.narrow(1, 0, 3).unsqueeze(2)}, 2);
  at::Tensor intrinsic = at::zeros({S, 3, 3}, pose_enc.options());
  intrinsic.select(1, 0).select(1, 0).copy_(width / 2.0 / at::tan(pose_enc.select(1, 8) / 2));
  intrinsic.select(1, 1).select(1, 1).copy_(height / 2.0 / at::tan(pose_enc.select(1, 7) / 2));
  intrinsic.select(1, 0).select(1, 2).fill_(width / 2.0);
  intrinsic.select(1, 1).select(1, 2).fill_(height / 2.0);
  intrinsic.select(1, 2).select(1, 2).fill_(1);
  return {extrinsic, intrinsic};
}

}  // namespace vggt
