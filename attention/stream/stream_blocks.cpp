#include "attention/stream/stream_blocks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "attention/result.h"

namespace vggt {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The chunks of keys that lie on the device. Unless their order matters, blocks meet them up and down in
/// turn, so that the last ones of a block are the first of the next.
class KeyBuffers {
 public:
  explicit KeyBuffers(const StreamTask& task)
      : copies_(task.copies),
        plan_(task.guard.plan()),
        tokens_(task.input.tokens),
        in_order_(task.in_order()),
        chunks_(divide_up(tokens_, plan_.key_chunk)) {
    const StreamInput& in = task.input;
    for (int64_t i = 0; i < std::min<int64_t>(plan_.loaded, chunks_); ++i)
      buffers_.push_back({at::empty({plan_.key_chunk, 2, in.heads, in.dim}, task.on_device()), -1, {}, {}});
  }

  int64_t chunks() const { return chunks_; }

  /// Starts the copies of the chunks for use number `use` and, as far as there is memory, of those after it,
  /// up to but without use number `end`.
  void prepare(int64_t use, int64_t end) {
    end = std::min(end, use + plan_.loaded);
    for (int64_t i = use; i < end; ++i) {
      if (find(chunk_of(i)) != buffers_.end()) continue;
      const auto needed = [&](const Buffer& buffer) {
        for (int64_t j = use; j < end; ++j) {
          if (buffer.chunk == chunk_of(j)) return true;
        }
        return false;
      };
      load(*std::ranges::find_if_not(buffers_, needed), chunk_of(i));
    }
  }

  /// Keys and values [m,2,A,D] of a use that has been prepared, for the computation that is given next; end()
  /// follows that.
  at::Tensor begin(int64_t use) {
    Buffer& buffer = *find(chunk_of(use));
    if (buffer.arrival) copies_.wait(std::exchange(buffer.arrival, nullptr));
    return rows_of(buffer);
  }
  void end(int64_t use) { find(chunk_of(use))->free = copies_.mark(); }

 private:
  struct Buffer {
    at::Tensor memory;  // [key_chunk,2,A,D]
    int64_t chunk = -1;
    Mark arrival, free;
  };

  int64_t chunk_of(int64_t use) const {
    const int64_t i = use % chunks_;
    return in_order_ || use / chunks_ % 2 == 0 ? i : chunks_ - 1 - i;
  }
  std::vector<Buffer>::iterator find(int64_t chunk) {
    return std::ranges::find(buffers_, chunk, &Buffer::chunk);
  }
  at::Tensor rows_of(const Buffer& buffer) const {
    const int64_t first = buffer.chunk * plan_.key_chunk;
    return buffer.memory.narrow(0, 0, std::min(plan_.key_chunk, tokens_ - first));
  }
  void load(Buffer& buffer, int64_t chunk) {
    buffer.chunk = chunk;
    buffer.arrival =
        copies_.load({{rows_of(buffer), StreamPart::keys_values, chunk * plan_.key_chunk, {}}}, buffer.free);
  }

  StreamCopies& copies_;
  StreamPlan plan_;
  int64_t tokens_;
  bool in_order_;
  int64_t chunks_;
  std::vector<Buffer> buffers_;
};

/// The blocks from a row on, by one plan.
class Blocks {
 public:
  Blocks(StreamTask& task, int64_t first)
      : task_(task), plan_(task.guard.plan()), first_(first), keys_(task), settle_(task.copies) {
    const StreamInput& in = task.input;
    const bool in_place = task.queries_on_device() && task.output_on_device();
    if (!in_place) rows_ = at::empty({plan_.query_block, in.heads, in.dim}, task.on_device());
  }

  /// Computes block after block, until all are done or the guardrail has another plan. `done`: the first row
  /// whose output is not under way.
  void run(int64_t& done) {
    const int64_t tokens = task_.input.tokens;
    const int64_t blocks = divide_up(tokens - first_, plan_.query_block);
    load_queries(0, 0);
    keys_.prepare(0, blocks * keys_.chunks());
    for (int64_t step = 1; step < steps(0); ++step) load_queries(0, step);
    for (int64_t block = 0; block < blocks; ++block) {
      attend_block(block, blocks, done);
      ++task_.report.subproblems;
      task_.guard.succeeded();
      if (task_.guard.plan().loaded != plan_.loaded) return;
    }
  }

 private:
  struct Step {
    int64_t first = 0, count = 0;  // rows
    at::Tensor queries;            // [count,A,D]
    Mark arrival;
    AttentionResult state;  // of keys in any order;
    CpuState kept;          // of those in order the kernel's own,
    at::Tensor out;         // and what comes of it: [1,A,count,D]
  };

  int64_t rows_in(int64_t block) const {
    return std::min(plan_.query_block, task_.input.tokens - first_ - block * plan_.query_block);
  }
  int64_t steps(int64_t block) const { return divide_up(rows_in(block), plan_.step); }

  /// Makes `step` that of a block, and starts the copy of its queries after `free`.
  void load_queries(int64_t block, int64_t number, const Mark& free = nullptr) {
    if (std::ssize(steps_) <= number) steps_.resize(static_cast<std::size_t>(number) + 1);
    Step& step = steps_[static_cast<std::size_t>(number)];
    const int64_t offset = number * plan_.step;
    step.first = first_ + block * plan_.query_block + offset;
    step.count = std::min(plan_.step, rows_in(block) - offset);
    at::Tensor here;  // [count,A,D]
    if (task_.queries_on_device()) here = task_.input.q.narrow(0, step.first, step.count);
    if (!rows_.defined()) {
      step.queries = here;
      return;
    }
    step.queries = rows_.narrow(0, offset, step.count);
    step.arrival = task_.copies.load({{step.queries, StreamPart::queries, step.first, here}}, free);
  }

  void attend_block(int64_t block, int64_t blocks, int64_t& done) {
    const int64_t chunks = keys_.chunks(), count = steps(block);
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t use = block * chunks + i;
      keys_.prepare(use, blocks * chunks);
      const at::Tensor keys = keys_.begin(use);  // [m,2,A,D]
      for (int64_t number = 0; number < count; ++number) {
        Step& step = steps_[static_cast<std::size_t>(number)];
        take_keys(step, keys, i == 0, i + 1 == chunks);
        if (i + 1 < chunks) continue;
        const Mark stored = finish(step);
        done = step.first + step.count;
        if (block + 1 < blocks && number < steps(block + 1)) load_queries(block + 1, number, stored);
      }
      keys_.end(use);
    }
  }

  void take_keys(Step& step, const at::Tensor& keys, bool first, bool last) {
    if (step.arrival) task_.copies.wait(std::exchange(step.arrival, nullptr));
    if (task_.in_order()) {
      step.out = attend_next(task_, step.queries, keys, step.kept, last);
      return;
    }
    AttentionResult part = attend(task_, step.queries, keys);
    if (first) {
      step.state = std::move(part);
    } else {
      merge_into(step.state, part);
    }
  }

  /// The step's output is written. The mark: its memory is free.
  Mark finish(Step& step) {
    const StreamInput& in = task_.input;
    const at::Tensor whole = task_.in_order() ? std::exchange(step.out, {})
                                              : finalise_own(std::exchange(step.state, {}), in.type).out;
    const at::Tensor out = whole.transpose(1, 2).squeeze(0);  // [count,A,D]
    step.kept = {};
    if (task_.output_on_device()) {
      task_.output.out.narrow(0, step.first, step.count).copy_(out.reshape({step.count, in.heads * in.dim}));
      return task_.copies.mark();
    }
    step.queries.copy_(out);  // [count,A,D]
    return task_.copies.store(step.queries, step.first);
  }

  StreamTask& task_;
  StreamPlan plan_;
  int64_t first_;
  at::Tensor
      rows_;  // [query_block,A,D], of queries, and then of outputs; undefined where both are on the device
  std::vector<Step> steps_;
  KeyBuffers keys_;
  SettleAtEnd settle_;  // last: it goes before the memory
};

}  // namespace

void attend_blocks(StreamTask& task) {
  for (int64_t done = 0; done < task.input.tokens;) {
    try {
      task.report.peak_bytes = std::max(task.report.peak_bytes, task.guard.plan().device_bytes);
      Blocks(task, done).run(done);
    } catch (const std::exception& error) {
      shrink(task, error);
    }
  }
}

}  // namespace vggt
