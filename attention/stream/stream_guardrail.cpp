#include "attention/stream/stream_guardrail.h"

#include <algorithm>
#include <cmath>

#include "attention/cpu/cpu_kernel.h"
#include "attention/stream/quorum.h"

namespace vggt {

StreamGuardrail::StreamGuardrail(const StreamShape& shape, const StreamPlan& plan, int64_t max_bytes)
    : shape_(shape), plan_(settle_stream(shape, plan)), bytes_(max_bytes), most_loaded_(plan.loaded) {}

bool StreamGuardrail::out_of_memory() {
  bytes_ = std::min(bytes_, plan_.device_bytes - 1);
  if (plan_.loaded > 1) {
    --plan_.loaded;
    plan_ = settle_stream(shape_, plan_);
    return true;
  }
  StreamPlan finer = plan_;
  finer.step = (plan_.step + 1) / 2;
  if (plan_.schedule == StreamSchedule::blocked) {
    finer.query_block = (plan_.query_block + 1) / 2;
    const int64_t tile = shape_.keys_in_order ? kKeyTile : 1;  // stays whole
    finer.key_chunk = std::min(plan_.key_chunk, ((plan_.key_chunk + 1) / 2 + tile - 1) / tile * tile);
    if (plan_.query_block <= kStreamTile && plan_.key_chunk <= std::max(kStreamTile, tile)) return false;
  } else {
    const Quorum& quorum = quorum_table()[static_cast<std::size_t>(plan_.quorum)];
    ++finer.depth;
    if (plan_.part_tokens <= kStreamTile || std::pow(quorum.chunks, finer.depth) > kMostParts) return false;
  }
  plan_ = settle_stream(shape_, finer);
  calibrating_ = true;
  return true;
}

void StreamGuardrail::succeeded() {
  if (!calibrating_) return;
  calibrating_ = false;
  for (StreamPlan more = plan_; more.loaded < most_loaded_;) {
    ++more.loaded;
    more = settle_stream(shape_, more);
    if (more.device_bytes > bytes_) break;
    plan_ = more;
  }
}

}  // namespace vggt
