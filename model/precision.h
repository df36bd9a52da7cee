#pragma once

namespace vggt {

/// What the network computes in. tf32: fp32 tensors whose products may be TF32. bf16 and fp16: the blocks of
/// the trunk; norms, the residual and the heads stay in fp32, convolutions in TF32 where the GPU has it; but
/// the dense heads are in bf16 where ModelOptions::heads_in_bf16 is set.
enum class Precision { fp64, fp32, tf32, bf16, fp16 };

}  // namespace vggt
