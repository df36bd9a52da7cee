#include "attention/stream/stream_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

#include "attention/cpu/cpu_kernel.h"
#include "attention/cuda/cuda_plan.h"
#include "attention/stream/quorum.h"

namespace vggt {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Bytes of the parts of a call.
struct Bytes {
  explicit Bytes(const StreamShape& shape) : shape(shape) {
    const int64_t state_element = shape.element_bytes == 8 ? 8 : 4;
    const int64_t width = shape.dim <= 64 ? 64 : std::max<int64_t>(128, shape.dim);  // of the kernels
    padded = width != shape.dim || shape.dim * shape.element_bytes % 16 != 0;
    row = shape.heads * shape.dim * shape.element_bytes;
    wide_row = shape.heads * width * shape.element_bytes;
    number = shape.heads * state_element;
    state = number * (shape.dim + 2);
    wide_state = number * (width + 2);
  }

  /// Of what attention() allocates for these sizes, the state it returns included.
  int64_t call(int64_t queries, int64_t keys) const {
    const int64_t rows = queries + 2 * keys;
    if (shape.element_bytes == 8) {  // by definition: k and v contiguous, 16 MB of logits or one query's
      const int64_t logits = std::max<int64_t>(int64_t{1} << 24, shape.heads * keys * 8);
      return queries * state + 2 * keys * row + 3 * logits;
    }
    int64_t bytes = queries * (wide_state + (padded ? state : 0)) + (padded ? rows * wide_row : 0);
    if (shape.element_bytes == 4)  // the parts of attention/cuda/split_parts.h
      bytes +=
          part_group(1, shape.heads, rows * wide_row / shape.heads).heads * (rows * wide_row / shape.heads);
    return bytes;
  }
  /// Of what merging or finishing the states of a call allocates.
  int64_t merging(int64_t queries) const { return 8 * queries * number; }
  int64_t finishing(int64_t queries) const { return queries * (row + 8 * number); }

  StreamShape shape;
  bool padded = false;
  int64_t row = 0, wide_row = 0;      // of q, k, v or the output: a token
  int64_t number = 0;                 // of m or s: a token
  int64_t state = 0, wide_state = 0;  // of m, s and w: a token
};

int64_t blocked_device_bytes(const Bytes& bytes, const StreamPlan& plan) {
  const int64_t query = bytes.state + (bytes.shape.queries_on_device ? 0 : bytes.row);
  if (bytes.shape.keys_in_order) {
    // The kernel goes on in the states' memory, and gives a step's output; of half types from and in fp32.
    const int64_t rows = bytes.shape.element_bytes == 2 ? 4 * (plan.step + plan.key_chunk) : plan.step;
    return plan.query_block * (query + bytes.number) + (plan.loaded * plan.key_chunk * 2 + rows) * bytes.row;
  }
  const int64_t call = bytes.call(plan.step, plan.key_chunk) + bytes.merging(plan.step);
  return plan.query_block * query + plan.loaded * plan.key_chunk * 2 * bytes.row +
         std::max(call, bytes.finishing(plan.step));
}

int64_t quorums_device_bytes(const Bytes& bytes, const StreamPlan& plan) {
  return plan.loaded * plan.part_tokens * 3 * bytes.row + 2 * plan.step * bytes.state +
         bytes.call(plan.step, plan.part_tokens) + bytes.merging(plan.step);
}

/// Where neighbouring blocks meet the chunks in opposite orders, the last ones are still there.
StreamPlan settle_blocked(const Bytes& bytes, StreamPlan plan) {
  const int64_t tokens = bytes.shape.tokens;
  plan.query_block = std::min(plan.query_block, tokens);
  plan.key_chunk = std::min(plan.key_chunk, tokens);
  plan.step = std::min(plan.step, plan.query_block);
  plan.part_tokens = 0;
  plan.subproblems = divide_up(tokens, plan.query_block);
  const int64_t chunks = divide_up(tokens, plan.key_chunk), turns = plan.subproblems - 1;
  const int64_t tail = tokens - (chunks - 1) * plan.key_chunk;
  const bool none_left = bytes.shape.keys_in_order && chunks > plan.loaded;
  const int64_t saved_last = none_left ? 0 : std::min(tokens, tail + (plan.loaded - 1) * plan.key_chunk),
                saved_first = none_left ? 0 : std::min(tokens, plan.loaded * plan.key_chunk);
  const int64_t keys = plan.subproblems * tokens - (turns + 1) / 2 * saved_last - turns / 2 * saved_first;
  const int64_t own = bytes.shape.queries_on_device ? 0 : tokens * bytes.row;
  plan.bytes_to_device = own + keys * 2 * bytes.row;
  plan.bytes_to_host = own;
  plan.device_bytes = blocked_device_bytes(bytes, plan);
  plan.host_bytes = 0;
  return plan;
}

/// Tokens of b that a has too.
int64_t shared_tokens(const QuorumPart& a, const QuorumPart& b) {
  int64_t shared = 0;
  for (const QuorumRun& x : a.runs) {
    for (const QuorumRun& y : b.runs)
      shared +=
          std::max<int64_t>(0, std::min(x.first + x.count, y.first + y.count) - std::max(x.first, y.first));
  }
  return shared;
}

StreamPlan settle_quorums(const Bytes& bytes, StreamPlan plan) {
  const Quorum& quorum = quorum_table()[static_cast<std::size_t>(plan.quorum)];
  if (std::pow(quorum.chunks, plan.depth) > kMostParts)
    throw std::invalid_argument("attention_streamed: " + std::to_string(quorum.chunks) + " chunks divided " +
                                std::to_string(plan.depth) + " times are too many parts");
  const int64_t tokens = bytes.shape.tokens;
  plan.query_block = plan.key_chunk = 0;
  plan.part_tokens = most_part_tokens(tokens, quorum, plan.depth);
  plan.step = std::min(plan.step, plan.part_tokens);
  const auto parts = quorum_parts(tokens, quorum, [&](const QuorumPart& part) {
    return static_cast<int>(part.path.size()) < plan.depth;
  });
  plan.subproblems = std::ssize(parts);
  plan.bytes_to_device = plan.bytes_to_host = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int64_t all = tokens_of(parts[i]);
    const int64_t shared = plan.loaded > 1 && i > 0 ? shared_tokens(parts[i - 1], parts[i]) : 0;
    plan.bytes_to_device += (all - shared) * 3 * bytes.row;
    plan.bytes_to_host += all * bytes.state;
  }
  plan.device_bytes = quorums_device_bytes(bytes, plan);
  plan.host_bytes = (tokens + plan.loaded * plan.part_tokens) * bytes.state;
  return plan;
}

/// settle_quorums() without going through the parts.
StreamPlan estimated(const Bytes& bytes, StreamPlan plan) {
  const Quorum& quorum = quorum_table()[static_cast<std::size_t>(plan.quorum)];
  plan.subproblems = std::llround(std::pow(quorum.chunks, plan.depth));
  plan.bytes_to_device = plan.subproblems * plan.part_tokens * 3 * bytes.row;
  plan.bytes_to_host = plan.subproblems * plan.part_tokens * bytes.state;
  return plan;
}

/// Queries of a call, largest first: 2^18 rows, a row for each head, fill any GPU.
std::vector<int64_t> steps_for(const StreamShape& shape, int64_t most) {
  std::vector<int64_t> steps;
  for (int64_t step = std::max(kStreamTile, (int64_t{1} << 18) / shape.heads / kStreamTile * kStreamTile);
       step >= kStreamTile; step = step / 2 / kStreamTile * kStreamTile) {
    if (step <= most || steps.empty()) steps.push_back(std::min(step, most));
  }
  return steps;
}

void keep_faster(std::optional<StreamPlan>& best, const StreamShape& shape, const StreamPlan& plan) {
  if (!best || stream_seconds(shape, plan) < stream_seconds(shape, *best)) best = plan;
}

/// The plans with so many blocks of queries whose chunks of keys fill max_bytes, or half of it, and so on.
void try_blocks(std::optional<StreamPlan>& best, const Bytes& bytes, StreamPlan plan, int64_t max_bytes) {
  const int64_t tokens = bytes.shape.tokens;
  for (int64_t step : steps_for(bytes.shape, plan.query_block)) {
    plan.step = step;
    plan.key_chunk = 0;
    const int64_t fixed = blocked_device_bytes(bytes, plan);
    plan.key_chunk = 1;
    const int64_t per_key = bytes.shape.element_bytes == 8
                                ? (plan.loaded + 1) * 2 * bytes.row + 24 * bytes.shape.heads
                                : blocked_device_bytes(bytes, plan) - fixed;
    for (int64_t keys = std::min(tokens, (max_bytes - fixed) / per_key);
         keys >= std::min(tokens, kStreamTile); keys /= 2) {
      plan.key_chunk = divide_up(tokens, divide_up(tokens, keys));
      if (bytes.shape.keys_in_order)  // the CPU kernel sums them tile by tile
        plan.key_chunk = keys < tokens ? std::max(kKeyTile, keys / kKeyTile * kKeyTile) : tokens;
      const StreamPlan settled = settle_blocked(bytes, plan);
      if (settled.device_bytes <= max_bytes) keep_faster(best, bytes.shape, settled);
    }
  }
}

[[noreturn]] void refuse(const StreamShape& shape, int64_t max_bytes, const std::string& what) {
  throw std::invalid_argument("attention_streamed: " + std::to_string(max_bytes) +
                              " bytes of the device hold no " + what + " of " + std::to_string(shape.heads) +
                              " heads of " + std::to_string(shape.dim));
}

void check(const StreamShape& shape) {
  const int64_t e = shape.element_bytes;
  if (shape.tokens < 1 || shape.heads < 1 || shape.dim < 1 || (e != 2 && e != 4 && e != 8))
    throw std::invalid_argument(
        "attention_streamed: expected tokens, heads and dim of at least 1 and elements of 2, 4 or 8 bytes");
}

std::string gigabytes(int64_t bytes) {
  std::string tenths = std::to_string((bytes + 50'000'000) / 100'000'000);
  if (tenths.size() < 2) tenths.insert(0, "0");
  return tenths.insert(tenths.size() - 1, ".") + " GB";
}

std::string described(const StreamPlan& plan) {
  if (plan.schedule == StreamSchedule::blocked)
    return std::to_string(plan.subproblems) + " blocks of queries, each with all keys, move ";
  const Quorum& quorum = quorum_table()[static_cast<std::size_t>(plan.quorum)];
  return std::to_string(plan.subproblems) + " parts of quorums of " + std::to_string(quorum.interest.size()) +
         " of " + std::to_string(quorum.chunks) + " chunks move ";
}

int64_t moved(const StreamPlan& plan) {
  return plan.bytes_to_device + plan.bytes_to_host;
}

}  // namespace

StreamPlan settle_stream(const StreamShape& shape, StreamPlan plan) {
  check(shape);
  const bool blocked = plan.schedule == StreamSchedule::blocked;
  if (plan.step < 1 || plan.loaded < 1 || (blocked && (plan.query_block < 1 || plan.key_chunk < 1)) ||
      (!blocked && (plan.depth < 1 || plan.quorum < 0 || plan.quorum >= std::ssize(quorum_table()))))
    throw std::invalid_argument("attention_streamed: expected sizes of at least 1 in the plan");
  return blocked ? settle_blocked(Bytes(shape), plan) : settle_quorums(Bytes(shape), plan);
}

double stream_seconds(const StreamShape& shape, const StreamPlan& plan) {
  constexpr double kCopy = 50e9, kMemory = 3.5e12, kCall = 80e-6;  // bytes and bytes a second, seconds
  const double kFlops = shape.element_bytes == 2 ? 5e14 : shape.element_bytes == 4 ? 2e14 : 3e13;
  const Bytes bytes(shape);
  const auto n = static_cast<double>(shape.tokens), state = static_cast<double>(bytes.state);
  const double compute = 4 * n * n * static_cast<double>(shape.heads * shape.dim) / kFlops;
  const double copies = static_cast<double>(std::max(plan.bytes_to_device, plan.bytes_to_host)) / kCopy;
  double rows, calls, first;  // of queries times the calls that they take part in; of calls; not overlapped
  if (plan.schedule == StreamSchedule::blocked) {
    const auto chunks = static_cast<double>(divide_up(shape.tokens, plan.key_chunk));
    rows = n * chunks;
    calls = chunks * static_cast<double>(plan.subproblems * divide_up(plan.query_block, plan.step));
    first = static_cast<double>(plan.key_chunk * 2 * bytes.row) / kCopy;
  } else {
    const auto parts = static_cast<double>(plan.subproblems), tokens = static_cast<double>(plan.part_tokens);
    rows = 2 * parts * tokens;
    calls = 2 * parts * static_cast<double>(divide_up(plan.part_tokens, plan.step) + 3);
    first = tokens * 3 * static_cast<double>(bytes.row) / kCopy;
  }
  const double small = calls * kCall + 6 * rows * state / kMemory;  // merging reads and writes states
  // Even an overlapped copy costs something: a file is slower, and it takes bandwidth from the computation.
  return first + small + 0.2 * copies + (plan.loaded > 1 ? std::max(compute, copies) : compute + copies);
}

StreamPlan plan_blocked(const StreamShape& shape, int64_t max_bytes) {
  check(shape);
  const Bytes bytes(shape);
  std::optional<StreamPlan> best;
  for (int loaded : {2, 1}) {
    const int64_t most = divide_up(shape.tokens, kStreamTile);
    for (int64_t blocks = 1; blocks <= most && !(best && blocks > 8 * best->subproblems);
         blocks = std::max(blocks + 1, blocks * 9 / 8)) {
      StreamPlan plan;
      plan.loaded = loaded;
      plan.query_block = divide_up(shape.tokens, blocks);
      try_blocks(best, bytes, plan, max_bytes);
    }
  }
  if (!best) refuse(shape, max_bytes, "tile of queries and keys");
  return *best;
}

StreamPlan plan_quorums(const StreamShape& shape, int64_t max_bytes) {
  check(shape);
  const Bytes bytes(shape);
  std::optional<StreamPlan> best;
  for (int i = 0; i < std::ssize(quorum_table()); ++i) {
    const Quorum& quorum = quorum_table()[static_cast<std::size_t>(i)];
    for (int depth = 1; std::pow(quorum.chunks, depth) <= kMostParts; ++depth) {
      for (int loaded : {2, 1}) {
        StreamPlan plan;
        plan.schedule = StreamSchedule::quorums;
        plan.quorum = i;
        plan.depth = depth;
        plan.loaded = loaded;
        plan.part_tokens = most_part_tokens(shape.tokens, quorum, depth);
        for (int64_t step : steps_for(shape, plan.part_tokens)) {
          plan.step = step;
          if (quorums_device_bytes(bytes, plan) > max_bytes) continue;
          keep_faster(best, shape, estimated(bytes, plan));
          break;
        }
      }
    }
  }
  if (!best) refuse(shape, max_bytes, "part of a practical division");
  return settle_quorums(bytes, *best);
}

StreamChoice choose_stream(const StreamShape& shape, int64_t max_bytes) {
  StreamPlan blocked;
  try {
    blocked = plan_blocked(shape, max_bytes);
  } catch (const std::invalid_argument&) {
    StreamChoice choice{plan_quorums(shape, max_bytes), ""};
    choice.reason = described(choice.plan) + gigabytes(moved(choice.plan)) + "; blocks of queries do not fit";
    return choice;
  }
  StreamPlan quorums;
  try {
    quorums = plan_quorums(shape, max_bytes);
  } catch (const std::invalid_argument&) {
    return {blocked, described(blocked) + gigabytes(moved(blocked)) + "; no practical quorums fit"};
  }
  // A tenth at least: the states of quorums are merged on the host as well.
  const bool fewer = 10 * moved(quorums) < 9 * moved(blocked), keeps_bits = shape.keys_in_order;
  const StreamPlan &taken = fewer && !keeps_bits ? quorums : blocked,
                   &other = &taken == &blocked ? quorums : blocked;
  const std::string why = fewer && keeps_bits ? ", but round otherwise than in memory" : "";
  return {taken, described(taken) + gigabytes(moved(taken)) + "; " + described(other) +
                     gigabytes(moved(other)) + why};
}

}  // namespace vggt
