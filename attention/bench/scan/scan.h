#pragma once
#include "attention/attention_types.h"
#include "attention/bench/scan/scan_form.h"

namespace vggt {

/// All prefixes of states: entry i of the result is the state over the keys of entries 0 .. i.
/// states: m and s [B,A,N], w [B,A,N,D], fp32; D a multiple of 8, on CUDA 64. The result's w is contiguous.
/// block: states of a block or chunk; 0: chosen by form and N. On CUDA 64, 128 or 256 for the block-wise
/// forms, and no recurrence. Throws c10::Error for what does not fit.
AttentionResult scan_states(const AttentionResult& states, ScanForm form, int block = 0);

/// The name of a form in the benchmark and in messages.
const char* name_of(ScanForm form);

}  // namespace vggt
