#pragma once
// How exact attention over a sequence is divided so that it passes through little memory of a device. Without
// torch.

#include <cstdint>
#include <string>

namespace vggt {

/// blocked: blocks of queries stay with their states, all keys pass by each. quorums: Stream-CQSA, parts of
/// the sequence after one another (attention/stream/quorum.h), whose states are merged on the host.
enum class StreamSchedule { blocked, quorums };

constexpr const char* schedule_name(StreamSchedule schedule) {
  return schedule == StreamSchedule::blocked ? "blocked" : "quorums";
}

/// One sequence with q, k and v [tokens,heads,dim] and an output of q's type.
struct StreamShape {
  int64_t tokens = 0, heads = 0, dim = 0;
  int64_t element_bytes = 2;       // 8, 4 or 2
  bool queries_on_device = false;  // q and the output lie on the device, beyond the bytes of the plan
  /// Blocks take the keys from the first to the last, as attention() does in one call, and to the bit with
  /// the same result where chunks are whole tiles. So it is on a CPU; elsewhere blocks share chunks in turn.
  bool keys_in_order = false;
};

/// What is chosen, and below it what follows: see settle_stream().
struct StreamPlan {
  StreamSchedule schedule = StreamSchedule::blocked;
  int64_t step = 0;  // queries of one attention call, at most
  int loaded = 2;    // chunks of keys (blocked) or parts (n_cap) on the device at a time
  int64_t query_block = 0, key_chunk = 0;  // tokens; blocked
  int quorum = 0, depth = 0;               // place in quorum_table(), number of divisions; quorums

  int64_t subproblems = 0;                   // blocks of queries, or parts
  int64_t part_tokens = 0;                   // the most of a part; quorums
  int64_t device_bytes = 0, host_bytes = 0;  // beside the host's q, k, v and output
  int64_t bytes_to_device = 0, bytes_to_host = 0;
};

/// The plan with the figures that follow from its choices. Block sizes beyond the sequence are cut. Throws
/// std::invalid_argument for choices below 1, or for more parts than are practical (kMostParts).
StreamPlan settle_stream(const StreamShape& shape, StreamPlan plan);
inline constexpr int64_t kMostParts = 6000;
/// Tokens: the smallest block of a plan, but for chunks of keys in order, which are tiles of the CPU kernel.
inline constexpr int64_t kStreamTile = 64;

/// The plan of a schedule that takes the least time by rule, within max_bytes of the device: blocks and
/// chunks as large as fit, against copies that outlast the computation and small calls that waste it. Throws
/// std::invalid_argument where not even a tile fits.
StreamPlan plan_blocked(const StreamShape& shape, int64_t max_bytes);
StreamPlan plan_quorums(const StreamShape& shape, int64_t max_bytes);

struct StreamChoice {
  StreamPlan plan;
  std::string reason;  // one line
};

/// The schedule that moves fewer bytes; quorums, whose states the host merges, by a tenth at least, and not
/// where blocks keep the keys in order. Throws std::invalid_argument where neither fits.
StreamChoice choose_stream(const StreamShape& shape, int64_t max_bytes);

/// The seconds that the plan takes by rule, with an H200's rates: to compare plans, not to predict.
double stream_seconds(const StreamShape& shape, const StreamPlan& plan);

}  // namespace vggt
