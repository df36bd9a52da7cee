// attention_streamed(): whatever the schedule, the plan, and where the rows lie, it is attention(); a failure
// of memory costs time alone.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "attention/cpu/cpu.h"
#include "attention/stream/attention_streamed.h"
#include "attention/stream/quorum.h"
#include "attention/stream/stream_guardrail.h"
#include "tests/support/attention_cases.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace {

using vggt::attention_streamed;
using vggt::stream_input;
using vggt::StreamInput;
using vggt::StreamOptions;
using vggt::StreamOutput;
using vggt::StreamPlan;
using vggt::StreamReport;
using vggt::StreamSchedule;

StreamPlan blocks(int64_t query_block, int64_t key_chunk, int loaded, int64_t step) {
  StreamPlan plan;
  plan.step = step;
  plan.query_block = query_block;
  plan.key_chunk = key_chunk;
  plan.loaded = loaded;
  return plan;
}

StreamPlan parts(int quorum, int depth, int loaded, int64_t step) {
  StreamPlan plan;
  plan.schedule = StreamSchedule::quorums;
  plan.step = step;
  plan.quorum = quorum;
  plan.depth = depth;
  plan.loaded = loaded;
  return plan;
}

std::string name_of(const StreamPlan& plan) {
  const bool blocked = plan.schedule == StreamSchedule::blocked;
  return std::string(schedule_name(plan.schedule)) + " " +
         std::to_string(blocked ? plan.query_block : plan.quorum) + " " +
         std::to_string(blocked ? plan.key_chunk : plan.depth) + ", loaded " + std::to_string(plan.loaded) +
         ", step " + std::to_string(plan.step);
}

const std::vector<StreamPlan> kPlans = {
    blocks(7, 5, 2, 3),  blocks(64, 203, 2, 64), blocks(1000, 1000, 2, 1000), blocks(50, 13, 3, 50),
    blocks(9, 40, 1, 2), blocks(101, 50, 1, 40), parts(0, 1, 1, 1000),        parts(0, 2, 2, 5),
    parts(1, 1, 3, 7),   parts(0, 3, 2, 1000),   parts(7, 1, 1, 64)};

StreamOptions with(const StreamPlan& plan, const char* device = "cpu") {
  StreamOptions options;
  options.device = at::Device(device);
  options.plan = plan;
  options.max_bytes = int64_t{1} << 40;
  return options;
}

/// [N,3,A,D] on the host, as the model has it.
at::Tensor random_rows(int64_t n, int64_t heads, int64_t dim, at::ScalarType type) {
  at::manual_seed(0);
  return at::randn({n, 3, heads, dim}, on(at::kFloat)).to(type);
}

Qkv batch_of(const at::Tensor& qkv) {
  const auto part = [&](int64_t i) { return qkv.select(1, i).transpose(0, 1).unsqueeze(0); };  // [1,A,N,D]
  return {part(0), part(1), part(2)};
}

/// [N,A·D]
at::Tensor exact_rows(const at::Tensor& qkv) {
  return exact(batch_of(qkv)).out.transpose(1, 2).reshape({qkv.size(0), -1});
}

/// Merging rounds the sums of each chunk once more.
double tolerance(at::ScalarType type, int64_t merges) {
  if (type == at::kDouble) return 1e-13;
  return rounding_floor(type) * (2 + static_cast<double>(merges) / 32);
}

int64_t merges_of(int64_t n, const StreamPlan& plan) {
  if (plan.schedule == StreamSchedule::blocked) return n / plan.key_chunk + 1;
  int64_t merges = 1;
  for (int i = 0; i < plan.depth; ++i)
    merges *= 2 * std::ssize(vggt::quorum_table()[static_cast<std::size_t>(plan.quorum)].interest);
  return merges;
}

at::Tensor empty_output(const at::Tensor& qkv) {
  return at::full({qkv.size(0), qkv.size(2) * qkv.size(3)}, kNan, qkv.options());
}

void expect_rows(const at::Tensor& got, const at::Tensor& qkv, const StreamPlan& plan,
                 const std::string& what) {
  EXPECT_LE(norm_error_of(got, exact_rows(qkv)), tolerance(qkv.scalar_type(), merges_of(qkv.size(0), plan)))
      << what << ", N " << qkv.size(0) << ", " << name_of(plan);
}

/// The rows of qkv as a file would give them, and the output as a file would take it.
struct Callbacks {
  explicit Callbacks(const at::Tensor& qkv)
      : qkv(qkv), out(empty_output(qkv)), written(at::zeros({qkv.size(0)}, at::kInt)) {
    q = qkv.select(1, 0).contiguous();
    kv = qkv.narrow(1, 1, 2).contiguous();
    input.tokens = qkv.size(0);
    input.heads = qkv.size(2);
    input.dim = qkv.size(3);
    input.type = qkv.scalar_type();
    input.read_queries = [this](int64_t first, int64_t rows, void* to) { read(q, first, rows, to); };
    input.read_keys_values = [this](int64_t first, int64_t rows, void* to) { read(kv, first, rows, to); };
    output.write = [this](int64_t first, int64_t rows, const void* from) {
      written.narrow(0, first, rows).add_(1);
      const auto row = static_cast<std::size_t>(out.size(1)) * out.element_size();
      std::memcpy(static_cast<char*>(out.mutable_data_ptr()) + static_cast<std::size_t>(first) * row, from,
                  static_cast<std::size_t>(rows) * row);
    };
  }
  static void read(const at::Tensor& x, int64_t first, int64_t rows, void* to) {
    const at::Tensor some = x.narrow(0, first, rows);
    std::memcpy(to, some.const_data_ptr(), static_cast<std::size_t>(some.numel()) * some.element_size());
  }

  at::Tensor qkv, q, kv, out, written;
  StreamInput input;
  StreamOutput output;
};

// ---- on the CPU

class StreamTypes : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(StreamTypes, EqualsAttentionByAnyPlan) {
  for (const auto& [heads, dim] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {2, 64}}) {
    for (int64_t n : {1, 2, 7, 64, 203}) {
      const at::Tensor qkv = random_rows(n, heads, dim, GetParam());
      for (const StreamPlan& plan : kPlans) {
        const at::Tensor out = empty_output(qkv);
        attention_streamed(stream_input(qkv), {out, {}}, with(plan));
        expect_rows(out, qkv, plan, "D " + std::to_string(dim));
      }
    }
  }
}

TEST_P(StreamTypes, RowsComeFromFunctionsAndGoToThem) {
  const at::Tensor qkv = random_rows(203, 3, 16, GetParam());
  for (const StreamPlan& plan : kPlans) {
    Callbacks files(qkv);
    attention_streamed(files.input, files.output, with(plan));
    expect_rows(files.out, qkv, plan, "functions");
    EXPECT_TRUE((files.written == 1).all().item<bool>()) << name_of(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, StreamTypes,
                         ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST(Stream, TensorsMayBeOnTheirOwn) {
  const at::Tensor qkv = random_rows(90, 2, 16, at::kFloat);
  const at::Tensor q = qkv.select(1, 0).clone(), k = qkv.select(1, 1).clone(), v = qkv.select(1, 2).clone();
  for (const StreamPlan& plan : {blocks(40, 20, 2, 40), parts(0, 1, 2, 100)}) {
    const at::Tensor out = empty_output(qkv);
    attention_streamed(stream_input(q, k, v), {out, {}}, with(plan));
    expect_rows(out, qkv, plan, "own tensors");
  }
}

/// attention() of all rows at once: [N,A·D].
at::Tensor resident(const at::Tensor& qkv) {
  const Qkv x = batch_of(qkv);
  return vggt::attention(x.q, x.k, x.v).out.transpose(1, 2).reshape({qkv.size(0), -1});
}

// Blocks and steps of 1 to 3 queries too, of which the kernel packs no keys where they are all there are.
TEST(Stream, BlocksAreAttentionToTheBit) {
  constexpr int64_t kTile = vggt::kKeyTile;
  for (const auto& [type, dim, scale] :
       std::vector<std::tuple<at::ScalarType, int64_t, double>>{{at::kFloat, 64, 0.125},
                                                                {at::kBFloat16, 64, 0.125},
                                                                {at::kHalf, 64, 0.125},
                                                                {at::kFloat, 12, -0.3},
                                                                {at::kBFloat16, 12, -0.3}}) {
    for (const int64_t n : {kTile + 1, 5 * kTile - 3}) {
      const at::Tensor qkv = random_rows(n, 3, dim, type);
      const Qkv x = batch_of(qkv);
      vggt::AttentionOptions options;
      options.scale = scale;
      const at::Tensor want = attention_cpu(x.q, x.k, x.v, options, vggt::best_cpu_isa()).out.transpose(1, 2);
      for (const StreamPlan& plan :
           {blocks(n, n, 2, n), blocks(100, n, 1, 47), blocks(n, kTile, 2, 3), blocks(50, 2 * kTile, 1, 50),
            blocks(2, 3 * kTile, 3, 1), blocks(n - 1, kTile, 1, 64)}) {
        const at::Tensor out = empty_output(qkv);
        StreamOptions streamed = with(plan);
        streamed.scale = scale;
        attention_streamed(stream_input(qkv), {out, {}}, streamed);
        EXPECT_TRUE(at::equal(out, want.reshape(out.sizes())))
            << type << ", D " << dim << ", " << name_of(plan);
      }
    }
  }
}

// So that what a budget changes does not show in the result.
TEST(Stream, OnACpuAPlanHasWholeTilesAndItsGuardrailToo) {
  const vggt::StreamShape shape{100'000, 4, 64, 4, false, true};
  StreamPlan plan = vggt::choose_stream(shape, 20'000'000).plan;
  EXPECT_EQ(plan.schedule, StreamSchedule::blocked);
  vggt::StreamGuardrail guard(shape, plan, 20'000'000);
  int finer = 0;
  do {
    plan = guard.plan();
    EXPECT_EQ(plan.key_chunk % vggt::kKeyTile, 0);
  } while (guard.out_of_memory() && ++finer);
  EXPECT_GE(finer, 4);
  EXPECT_LE(plan.query_block, vggt::kStreamTile);
}

TEST(Stream, TheReportCountsWhatThePlanForetold) {
  const at::Tensor qkv = random_rows(203, 2, 16, at::kBFloat16);
  for (const StreamPlan& plan : kPlans) {
    const at::Tensor out = empty_output(qkv);
    const StreamReport report = attention_streamed(stream_input(qkv), {out, {}}, with(plan));
    const StreamPlan settled = settle_stream({203, 2, 16, 2, false, true}, plan);
    EXPECT_EQ(report.bytes_to_device, settled.bytes_to_device) << name_of(plan);
    EXPECT_EQ(report.subproblems, settled.subproblems) << name_of(plan);
    EXPECT_EQ(report.peak_bytes, settled.device_bytes);
    EXPECT_EQ(report.retries, 0);
    EXPECT_GT(report.total_ms, 0);
    EXPECT_NEAR(report.compute_ms + report.wait_ms, report.total_ms, 1e-9 * report.total_ms);
    EXPECT_GT(report.overlap(), 0);
    if (plan.schedule == StreamSchedule::blocked) {
      EXPECT_EQ(report.bytes_to_host, settled.bytes_to_host);
    }
  }
}

TEST(Stream, ChoosesASchedule) {
  const at::Tensor qkv = random_rows(1000, 2, 16, at::kFloat);
  for (auto schedule : {StreamSchedule::blocked, StreamSchedule::quorums}) {
    const at::Tensor out = empty_output(qkv);
    StreamOptions options;
    options.max_bytes = 300'000;  // of 512,000 for q, k, v and the output
    options.schedule = schedule;
    const StreamReport report = attention_streamed(stream_input(qkv), {out, {}}, options);
    EXPECT_EQ(report.plan.schedule, schedule);
    EXPECT_LE(report.peak_bytes, options.max_bytes);
    expect_rows(out, qkv, report.plan, "chosen");
    options.schedule.reset();
    attention_streamed(stream_input(qkv), {out.fill_(kNan), {}}, options);
    expect_rows(out, qkv, report.plan, "by bytes");
    options.max_bytes = 1000;
    EXPECT_THROW(attention_streamed(stream_input(qkv), {out, {}}, options), std::invalid_argument);
  }
}

TEST(Stream, CallersMistakesAreNamed) {
  const at::Tensor qkv = random_rows(10, 2, 8, at::kFloat), out = empty_output(qkv);
  const StreamOptions options = with(blocks(4, 4, 2, 4));
  const auto call = [&](const StreamInput& input, const at::Tensor& to) {
    attention_streamed(input, {to, {}}, options);
  };
  fails_with("qkv [N,3,A,D]", [&] { stream_input(qkv.narrow(1, 0, 2)); });
  fails_with("output [10,16]", [&] { call(stream_input(qkv), out.narrow(0, 0, 9)); });
  fails_with("output [10,16]", [&] { call(stream_input(qkv), out.to(at::kDouble)); });
  fails_with("output tensor or a function", [&] { attention_streamed(stream_input(qkv), {}, options); });
  StreamInput mixed = stream_input(qkv);
  mixed.k = mixed.k.narrow(0, 0, 9);
  fails_with("k [10,2,8]", [&] { call(mixed, out); });
  mixed.k = mixed.q.transpose(1, 2).contiguous().transpose(1, 2);
  fails_with("dense heads", [&] { call(mixed, out); });
  mixed.k.reset();
  fails_with("both k and v", [&] { call(mixed, out); });
  mixed.v.reset();
  fails_with("function to read them", [&] { call(mixed, out); });
}

// ---- failures

TEST(StreamFailure, OfAFileEndsTheCall) {
  const at::Tensor qkv = random_rows(203, 2, 16, at::kFloat);
  for (const StreamPlan& plan : {blocks(50, 20, 2, 30), parts(0, 2, 2, 100)}) {
    for (int64_t fatal : {0, 3, 9}) {
      for (int which : {0, 1, 2}) {
        Callbacks files(qkv);
        int64_t calls = 0;
        const auto failing = [&](const auto& inner) {
          return [&, inner](auto... arguments) {
            if (calls++ == fatal) throw std::runtime_error("disk is gone");
            inner(arguments...);
          };
        };
        if (which == 0) files.input.read_queries = failing(files.input.read_queries);
        if (which == 1) files.input.read_keys_values = failing(files.input.read_keys_values);
        if (which == 2) files.output.write = failing(files.output.write);
        try {
          attention_streamed(files.input, files.output, with(plan));
          EXPECT_LE(calls, fatal) << name_of(plan) << " " << which;
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "disk is gone");
        }
      }
    }
  }
}

/// The CPU's memory, of which allocations fail when a test says so.
class FailingMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (armed) {
      if (bytes > most && failures-- > 0) throw std::bad_alloc();
      if (count++ == fatal) throw std::bad_alloc();
    }
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }

  std::atomic<bool> armed = false;
  std::atomic<std::size_t> most = SIZE_MAX;   // bytes of one allocation
  std::atomic<int64_t> failures = INT64_MAX;  // that `most` has left
  std::atomic<int64_t> count = 0, fatal = -1;

 private:
  c10::Allocator* inner_ = c10::GetDefaultCPUAllocator();
};

class StreamMemory : public ::testing::TestWithParam<StreamPlan> {
 protected:
  StreamMemory() {
    c10::SetCPUAllocator(&memory_, 1);
    // Armed from the first row that is read to the last: what a schedule allocates before and after is not
    // retried.
    const auto arming = [this](const vggt::StreamRead& inner) {
      return [this, inner](int64_t first, int64_t rows, void* to) {
        inner(first, rows, to);
        memory_.armed = true;
      };
    };
    files_.input.read_queries = arming(files_.input.read_queries);
    files_.input.read_keys_values = arming(files_.input.read_keys_values);
  }
  ~StreamMemory() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1); }

  StreamReport run() {
    memory_.count = 0;
    files_.out.fill_(kNan);
    files_.written.zero_();
    try {
      const StreamReport report = attention_streamed(files_.input, files_.output, with(GetParam()));
      memory_.armed = false;
      return report;
    } catch (...) {
      memory_.armed = false;
      throw;
    }
  }

  /// What has been written, by whatever plans.
  void expect_output(const StreamPlan& plan, const std::string& what) {
    expect_rows(files_.out, qkv_, plan, what);
    EXPECT_TRUE((files_.written == 1).all().item<bool>()) << what;
    if (GetParam().schedule == StreamSchedule::blocked && GetParam().key_chunk % vggt::kKeyTile == 0) {
      EXPECT_TRUE(at::equal(files_.out, resident_)) << what;
    }
  }

  at::Tensor qkv_ = random_rows(400, 2, 16, at::kFloat);
  at::Tensor resident_ = resident(qkv_);
  Callbacks files_{qkv_};
  FailingMemory memory_;
};

TEST_P(StreamMemory, OneFailureAnywhereCostsARetry) {
  run();
  const int64_t all = memory_.count;
  ASSERT_GT(all, 20);
  int64_t retried = 0;
  for (int64_t fatal = 0; fatal < all; fatal += 1 + all / 150) {
    memory_.fatal = fatal;
    StreamReport report;
    try {
      report = run();
    } catch (const std::bad_alloc&) {
      EXPECT_GT(fatal, all - 10) << "of " << all;  // the outputs of quorums, after the last part
      continue;
    }
    retried += report.retries;
    expect_output(report.plan, "failure " + std::to_string(fatal));
  }
  EXPECT_GT(retried, 10);
  memory_.fatal = -1;
}

TEST_P(StreamMemory, TheGuardrailEvictsThenDivides) {
  memory_.most = 2000;
  memory_.failures = GetParam().loaded;
  const StreamReport report = run();
  EXPECT_EQ(report.retries, GetParam().loaded);
  EXPECT_GT(report.plan.subproblems, settle_stream({400, 2, 16, 4}, GetParam()).subproblems);
  EXPECT_LT(report.plan.device_bytes, report.peak_bytes);
  expect_output(report.plan, "limit");
}

TEST_P(StreamMemory, NoMemoryAtAllIsSaid) {
  memory_.most = 0;
  EXPECT_THROW(run(), std::bad_alloc);
}

INSTANTIATE_TEST_SUITE_P(Schedules, StreamMemory,
                         ::testing::Values(blocks(200, 100, 2, 100), blocks(200, vggt::kKeyTile, 2, 100),
                                           parts(0, 1, 2, 400), parts(1, 1, 3, 50)),
                         [](const auto& info) { return "Plan" + std::to_string(info.index); });

// ---- on a GPU

#ifdef VGGT_CUDA
class StreamCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  }
};

/// As accurate as twice attention() on the GPU.
void expect_as_resident(const at::Tensor& got, const at::Tensor& qkv, int64_t merges,
                        const std::string& what) {
  const at::Tensor whole = resident(qkv.to(at::kCUDA));
  const at::Tensor want = exact_rows(qkv.to(at::kCUDA));
  EXPECT_LE(norm_error_of(got, want), 2 * norm_error_of(whole, want) + tolerance(qkv.scalar_type(), merges))
      << what;
}

const std::vector<StreamPlan> kCudaPlans = {blocks(1000, 700, 2, 300), blocks(5000, 5000, 2, 5000),
                                            blocks(900, 64, 3, 900),   blocks(2000, 1000, 1, 400),
                                            parts(0, 1, 1, 500),       parts(0, 2, 2, 5000),
                                            parts(1, 1, 3, 100)};

TEST_F(StreamCuda, EqualsAttentionByAnyPlanAndType) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble}) {
    for (int64_t dim : {64, 40}) {
      for (int64_t n : {1, 100, 3001}) {
        const at::Tensor qkv = random_rows(n, 3, dim, type), pinned = qkv.pin_memory();
        for (const StreamPlan& plan : kCudaPlans) {
          const at::Tensor out = empty_output(qkv).pin_memory();
          attention_streamed(stream_input(pinned), {out, {}}, with(plan, "cuda"));
          expect_as_resident(out, qkv, merges_of(n, plan),
                             name_of(plan) + at::toString(type) + std::to_string(n));
        }
      }
    }
  }
}

TEST_F(StreamCuda, RowsMayLieAnywhere) {
  const at::Tensor qkv = random_rows(3001, 4, 64, at::kBFloat16), pinned = qkv.pin_memory();
  for (const StreamPlan& plan : kCudaPlans) {
    Callbacks files(qkv);
    attention_streamed(files.input, files.output, with(plan, "cuda"));
    expect_as_resident(files.out, qkv, merges_of(3001, plan), "functions, " + name_of(plan));
    EXPECT_TRUE((files.written == 1).all().item<bool>()) << name_of(plan);
    const StreamInput q_there =
        stream_input(qkv.select(1, 0).to(at::kCUDA), pinned.select(1, 1), pinned.select(1, 2));
    const StreamInput own =
        stream_input(qkv.select(1, 0).clone(), qkv.select(1, 1).clone(), qkv.select(1, 2).clone());
    for (const StreamInput& input : {stream_input(qkv), stream_input(pinned), q_there, own}) {
      for (const char* place : {"cpu", "pinned", "cuda"}) {
        at::Tensor out = empty_output(qkv);
        if (place == std::string("pinned")) out = out.pin_memory();
        if (place == std::string("cuda")) out = out.to(at::kCUDA);
        attention_streamed(input, {out, {}}, with(plan, "cuda"));
        expect_as_resident(out, qkv, merges_of(3001, plan), std::string(place) + ", " + name_of(plan));
      }
    }
  }
}

TEST_F(StreamCuda, TheBudgetHolds) {
  for (at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (int64_t dim : {64, 72}) {
      const at::Tensor qkv = random_rows(60'000, 4, dim, type).pin_memory();
      const at::Tensor out = empty_output(qkv).pin_memory();
      for (auto schedule : {StreamSchedule::blocked, StreamSchedule::quorums}) {
        StreamOptions options;
        options.device = at::Device("cuda");
        options.max_bytes = out.numel() * out.element_size() * 4 / 3;
        options.schedule = schedule;
        c10::cuda::CUDACachingAllocator::resetPeakStats(0);
        const auto bytes = [] {
          return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0];
        };
        const int64_t before = bytes().current;
        const StreamReport report = attention_streamed(stream_input(qkv), {out, {}}, options);
        EXPECT_LE(bytes().peak - before, options.max_bytes)
            << schedule_name(schedule) << " " << type << " " << dim;
        EXPECT_LE(report.peak_bytes, options.max_bytes);
        EXPECT_LE(report.overlap(), 1);
        EXPECT_GT(report.copy_ms, 0);
      }
    }
  }
}

TEST_F(StreamCuda, AFullDeviceLeadsToAFinerPlan) {
  const at::Tensor qkv = random_rows(60'000, 4, 64, at::kBFloat16);
  const at::Tensor out = empty_output(qkv).pin_memory(), pinned = qkv.pin_memory();
  for (const StreamPlan& plan : {blocks(60'000, 30'000, 2, 30'000), parts(0, 1, 2, 60'000)}) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    std::size_t free = 0, total = 0;
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(100e6 / static_cast<double>(total), 0);
    StreamReport report;
    EXPECT_NO_THROW(report =
                        attention_streamed(stream_input(pinned), {out.fill_(kNan), {}}, with(plan, "cuda")));
    c10::cuda::CUDACachingAllocator::setMemoryFraction(1, 0);
    EXPECT_GT(report.retries, 0);
    expect_as_resident(out, qkv, 100, name_of(plan));
  }
}
#endif

}  // namespace
