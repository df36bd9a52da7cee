#include "attention/stream/stream_parts.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "attention/result.h"
#include "attention/stream/host_states.h"
#include "attention/stream/worker.h"

namespace vggt {
namespace {

/// Where a part lies while it is computed.
struct Slot {
  at::Tensor queries, keys;  // [R,A,D], [R,2,A,D], on the device
  at::Tensor states;         // of R queries, on the host
  int64_t part = -1;         // its place in the list
  Mark arrival, free;
  std::shared_future<void> merged;  // when `states` may be written again
};

/// The pieces of a copy of a part: what lies in the slot of the part before is taken from there.
class PieceList {
 public:
  PieceList(Slot& slot, const QuorumPart& part, const StreamTask& task)
      : slot_(slot), part_(part), task_(task) {}

  std::vector<LoadPiece> all(const Slot* other, const QuorumPart* shared) {
    int64_t row = 0;
    for (const QuorumRun& run : part_.runs) {
      int64_t token = run.first;
      const int64_t end = run.first + run.count;
      while (token < end) {
        int64_t count = end - token, from = -1;
        if (shared) find(*shared, token, count, from);
        add(row, token, count, from < 0 ? nullptr : other, from);
        token += count;
        row += count;
      }
    }
    return std::move(pieces_);
  }

 private:
  /// from: the row of `token` in the part; -1 where it has none. count: tokens for which that goes on.
  static void find(const QuorumPart& part, int64_t token, int64_t& count, int64_t& from) {
    int64_t row = 0;
    for (const QuorumRun& run : part.runs) {
      if (token >= run.first && token < run.first + run.count) {
        from = row + token - run.first;
        count = std::min(count, run.first + run.count - token);
        return;
      }
      row += run.count;
    }
    for (const QuorumRun& run : part.runs) {
      if (run.first > token) count = std::min(count, run.first - token);
    }
  }

  void add(int64_t row, int64_t token, int64_t count, const Slot* other, int64_t from) {
    at::Tensor queries, keys;  // that are on the device already
    if (other) {
      queries = other->queries.narrow(0, from, count);
      keys = other->keys.narrow(0, from, count);
    } else if (task_.queries_on_device()) {
      queries = task_.input.q.narrow(0, token, count);
    }
    pieces_.push_back({slot_.queries.narrow(0, row, count), StreamPart::queries, token, queries});
    pieces_.push_back({slot_.keys.narrow(0, row, count), StreamPart::keys_values, token, keys});
  }

  Slot& slot_;
  const QuorumPart& part_;
  const StreamTask& task_;
  std::vector<LoadPiece> pieces_;
};

/// Parts by one plan.
class Parts {
 public:
  Parts(StreamTask& task, HostStates& states, const std::vector<QuorumPart>& parts)
      : task_(task), states_(states), parts_(parts), plan_(task.guard.plan()), settle_(task.copies) {
    const StreamInput& in = task.input;
    const int64_t rows = plan_.part_tokens;
    const auto on_host =
        at::TensorOptions().dtype(states.type()).pinned_memory(task.options.device.is_cuda());
    for (int i = 0; i < plan_.loaded; ++i) {
      Slot slot;
      slot.queries = at::empty({rows, in.heads, in.dim}, task.on_device());
      slot.keys = at::empty({rows, 2, in.heads, in.dim}, task.on_device());
      slot.states = at::empty({states.size_of(rows)}, on_host);
      slots_.push_back(std::move(slot));
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    merger_.post([] {}).wait();
  }

  /// Computes part after part, until all are done or the guardrail has another plan. done: how many are.
  void run(int64_t& done) {
    const int64_t count = std::ssize(parts_);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = i; j < std::min(count, i + plan_.loaded); ++j) load(j);
      attend_part(i);
      done = i + 1;
      ++task_.report.subproblems;
      task_.guard.succeeded();
      if (task_.guard.plan().loaded != plan_.loaded) break;
    }
    for (Slot& slot : slots_) {
      if (slot.merged.valid()) slot.merged.get();
    }
  }

 private:
  struct Fetched {
    AttentionResult state;  // stays until it has been copied
    Mark mark;
  };
  /// States of some rows of a part, and where they begin on the host.
  struct Piece {
    RowRange rows;
    int64_t at = 0;
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<std::size_t>(number % plan_.loaded)]; }
  const QuorumPart& part_of(int64_t number) const { return parts_[static_cast<std::size_t>(number)]; }

  void load(int64_t number) {
    Slot& slot = slot_of(number);
    if (slot.part == number) return;
    slot.part = number;
    const bool neighbour = plan_.loaded > 1 && number > 0 && slot_of(number - 1).part == number - 1;
    slot.arrival = task_.copies.load(
        PieceList(slot, part_of(number), task_)
            .all(neighbour ? &slot_of(number - 1) : nullptr, neighbour ? &part_of(number - 1) : nullptr),
        slot.free);
  }

  void attend_part(int64_t number) {
    Slot& slot = slot_of(number);
    if (slot.arrival) task_.copies.wait(slot.arrival);
    if (slot.merged.valid()) slot.merged.get();
    std::vector<Piece> pieces;
    Mark last;
    for (const QuorumTile& tile : owned_tiles(part_of(number))) {
      const int64_t end = tile.queries.first + tile.queries.count;
      for (int64_t first = tile.queries.first; first < end; first += plan_.step) {
        const RowRange rows{first, std::min(plan_.step, end - first)};
        const int64_t at = states_.size_of(first);
        last = fetch(state_of(slot, rows, tile.keys), slot.states.narrow(0, at, states_.size_of(rows.count)));
        pieces.push_back({rows, at});
      }
    }
    slot.free = task_.copies.mark();
    // From here on the part counts: nothing of it is computed again.
    slot.merged = merger_.post([this, number, last, pieces = std::move(pieces), states = slot.states] {
      if (last) task_.copies.join(last);
      const auto* from = static_cast<const char*>(states.const_data_ptr());
      for (const Piece& piece : pieces)
        states_.merge(part_of(number), piece.rows, from + piece.at * states.element_size());
    });
  }

  AttentionResult state_of(const Slot& slot, RowRange rows, const std::vector<RowRange>& keys) {
    if (fetched_.size() > 1) {
      if (fetched_.front().mark) task_.copies.wait(fetched_.front().mark);
      fetched_.pop_front();
    }
    const at::Tensor queries = slot.queries.narrow(0, rows.first, rows.count);  // [n,A,D]
    AttentionResult state;
    for (const RowRange& range : keys) {
      AttentionResult part = attend(task_, queries, slot.keys.narrow(0, range.first, range.count));
      if (state.m.defined()) {
        merge_into(state, part);
      } else {
        state = std::move(part);
      }
    }
    return state;
  }

  /// Copies a state to the host: m [A,n], s [A,n], w [n,A,D].
  Mark fetch(AttentionResult state, const at::Tensor& to) {
    const int64_t numbers = state.m.numel(), wide = state.w.numel();
    task_.copies.fetch(state.m.contiguous().flatten(), to.narrow(0, 0, numbers));
    task_.copies.fetch(state.s.contiguous().flatten(), to.narrow(0, numbers, numbers));
    const at::Tensor w = state.w.transpose(1, 2);  // [1,n,A,D]
    Mark mark = task_.copies.fetch(w.contiguous().flatten(), to.narrow(0, 2 * numbers, wide));
    fetched_.push_back({std::move(state), mark});
    return mark;
  }

  StreamTask& task_;
  HostStates& states_;
  const std::vector<QuorumPart>& parts_;
  StreamPlan plan_;
  std::vector<Slot> slots_;
  std::deque<Fetched> fetched_;
  Worker merger_;
  SettleAtEnd settle_;  // last: it goes before the memory
};

/// The same pairs in parts of this many divisions at least.
std::vector<QuorumPart> divided_to(int depth, std::vector<QuorumPart> parts, const Quorum& quorum) {
  std::vector<QuorumPart> done;
  for (QuorumPart& part : parts) {
    if (static_cast<int>(part.path.size()) >= depth) {
      done.push_back(std::move(part));
      continue;
    }
    std::vector<QuorumPart> finer = divided_to(depth, divided(part, quorum), quorum);
    std::ranges::move(finer, std::back_inserter(done));
  }
  return done;
}

}  // namespace

void attend_parts(StreamTask& task) {
  HostStates states(task.input);
  std::vector<QuorumPart> left{whole_sequence(task.input.tokens)};
  while (!left.empty()) {
    const StreamPlan plan = task.guard.plan();
    left = divided_to(plan.depth, std::move(left), quorum_table()[static_cast<std::size_t>(plan.quorum)]);
    int64_t done = 0;
    try {
      task.report.peak_bytes = std::max(task.report.peak_bytes, plan.device_bytes);
      Parts(task, states, left).run(done);
    } catch (const std::exception& error) {
      shrink(task, error);
    }
    left.erase(left.begin(), left.begin() + done);
  }
  states.finish(task.input, task.output);
}

}  // namespace vggt
