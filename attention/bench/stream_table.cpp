#include "attention/bench/stream_table.h"

#include <algorithm>
#include <stdexcept>

#include "attention/attention.h"
#include "attention/bench/attempt.h"
#include "attention/bench/inputs.h"
#include "attention/bench/timing.h"
#include "attention/stream/attention_streamed.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr double kLongSeconds = 2;  // a call that takes longer is run once
constexpr int64_t kRows = 64;       // that are compared

struct Case {
  int64_t length = 0;
  std::string type;
  StreamShape shape;
  int64_t resident_bytes = 0;  // of q, k, v and the output
};

/// The same for all schedules of a length and type.
struct Inputs {
  at::Tensor qkv, out;  // [N,3,A,D], [N,A·D] on the host
  at::Tensor rows;      // [R], of the host
  at::Tensor resident;  // [R,A·D]: these rows of attention()'s output; undefined where it failed
  double seconds = 0;   // of attention()
};

Case case_of(const StreamBenchOptions& options, int64_t length, const std::string& type) {
  Case c{length, type, {length, options.heads, options.dim, 2, false}, 0};
  c.shape.element_bytes = static_cast<int64_t>(c10::elementSize(bench_type(type)));
  c.resident_bytes = 4 * length * options.heads * options.dim * c.shape.element_bytes;
  return c;
}

std::vector<StreamSchedule> schedules_of(const StreamBenchOptions& options) {
  std::vector<StreamSchedule> schedules;
  for (auto one : {StreamSchedule::blocked, StreamSchedule::quorums}) {
    if (options.schedule == "both" || options.schedule == schedule_name(one)) schedules.push_back(one);
  }
  return schedules;
}

std::string gigabytes(double bytes) {
  return formatted("%.1f GB", 1e-9 * bytes);
}

/// Linux would not refuse the memory, but end the process that uses it.
void check_host(const StreamBenchOptions& options, const Case& c, at::Device device) {
  auto needed = static_cast<double>(c.resident_bytes);
  if (device.is_cpu()) needed *= 2;   // the device's tensors lie there too
  if (options.schedule != "blocked")  // the states of all queries, and those of parts
    needed += 2.0 * static_cast<double>(c.shape.tokens * c.shape.heads * (c.shape.dim + 2)) * sizeof(float);
  const double available = bytes_in("/proc/meminfo", "MemAvailable").value_or(1e18);
  if (needed <= 0.9 * available) return;
  throw std::invalid_argument("--lengths: " + std::to_string(c.length) + " tokens of " + c.type + " take " +
                              gigabytes(needed) + " of the host's memory, of which " + gigabytes(available) +
                              " are free");
}

Inputs make_inputs(const Case& c, at::Device device) {
  constexpr int64_t kPiece = 1 << 16;
  at::manual_seed(0);
  const auto host = at::TensorOptions().dtype(bench_type(c.type)).pinned_memory(device.is_cuda());
  Inputs x;
  x.qkv = at::empty({c.length, 3, c.shape.heads, c.shape.dim}, host);
  x.out = at::empty({c.length, c.shape.heads * c.shape.dim}, host);
  for (int64_t first = 0; first < c.length; first += kPiece) {
    const int64_t rows = std::min(kPiece, c.length - first);
    x.qkv.narrow(0, first, rows)
        .copy_(at::randn({rows, 3, c.shape.heads, c.shape.dim}, at::device(device).dtype(at::kFloat)));
  }
  x.rows = spread_rows(c.length, kRows, at::kCPU);
  return x;
}

/// attention() of tensors on the device; the output [N,A·D].
at::Tensor attend_all(const at::Tensor& qkv) {
  const auto part = [&](int64_t i) { return qkv.select(1, i).transpose(0, 1).unsqueeze(0); };  // [1,A,N,D]
  return attention(part(0), part(1), part(2)).out.transpose(1, 2).flatten(2).squeeze(0);
}

int runs_of(const StreamBenchOptions& options, double seconds) {
  return seconds > kLongSeconds ? 1 : options.repeat;
}

/// One call for the error and the memory, and as many as are timed; a long one is all of these.
ordered_json resident_row(const Case& c, Inputs& x, const StreamBenchOptions& options, at::Device device) {
  ordered_json row;
  const std::string failure = attempt([&] {
    std::vector<double> seconds(1);
    const auto bytes = peak_bytes_of(device, [&] {
      const at::Tensor qkv = x.qkv.to(device);
      attend_all(qkv.narrow(0, 0, std::min<int64_t>(c.length, 4096)));  // loads the kernels
      at::Tensor out;
      seconds[0] = seconds_per_call(device, [&] { out = attend_all(qkv); });
      x.resident = out.index_select(0, x.rows.to(device)).cpu();
      for (int i = 1; i < runs_of(options, seconds[0]); ++i)
        seconds.push_back(seconds_per_call(device, [&] { out = attend_all(qkv); }));
    });
    x.seconds = median(seconds);
    row["milliseconds"] = 1e3 * x.seconds;
    row["peak_bytes"] = bytes && device.is_cuda() ? ordered_json(*bytes) : ordered_json(c.resident_bytes);
  });
  if (!failure.empty()) row["failure"] = failure;
  return row;
}

double error_of(const Inputs& x) {
  const at::Tensor got = x.out.index_select(0, x.rows).to(at::kDouble), want = x.resident.to(at::kDouble);
  return ((got - want).norm() / want.norm()).item<double>();
}

void measure_schedule(ordered_json& row, const Inputs& x, const StreamOptions& stream, int runs) {
  const auto call = [&] { return attention_streamed(stream_input(x.qkv), {x.out, {}}, stream); };
  x.out.zero_();
  std::vector<StreamReport> reports;
  const auto bytes = peak_bytes_of(stream.device, [&] { reports.push_back(call()); });
  for (int i = 1; i < runs; ++i) reports.push_back(call());
  std::ranges::sort(reports, {}, &StreamReport::total_ms);
  const StreamReport& r = reports[(reports.size() - 1) / 2];
  row["milliseconds"] = r.total_ms;
  row["ratio"] = x.seconds > 0 ? ordered_json(1e-3 * r.total_ms / x.seconds) : ordered_json();
  row["copy_milliseconds"] = r.copy_ms;
  row["compute_milliseconds"] = r.compute_ms;
  row["wait_milliseconds"] = r.wait_ms;
  row["overlap"] = r.overlap();
  row["bytes_to_device"] = r.bytes_to_device;
  row["bytes_to_host"] = r.bytes_to_host;
  row["planned_bytes"] = r.peak_bytes;
  row["peak_bytes"] = bytes && stream.device.is_cuda() ? ordered_json(*bytes) : ordered_json(r.peak_bytes);
  row["subproblems"] = r.subproblems;
  row["retries"] = r.retries;
  row["step"] = r.plan.step;
  row["query_block"] = r.plan.query_block;
  row["key_chunk"] = r.plan.key_chunk;
  row["loaded"] = r.plan.loaded;
  row["error"] = x.resident.defined() ? ordered_json(error_of(x)) : ordered_json();
}

ordered_json schedule_row(StreamSchedule schedule, const Case& c, const Inputs& x,
                          const StreamBenchOptions& options, at::Device device) {
  StreamOptions stream;
  stream.device = device;
  stream.schedule = schedule;
  stream.max_bytes = static_cast<int64_t>(options.fraction * static_cast<double>(c.resident_bytes));
  ordered_json row{{"budget_bytes", stream.max_bytes}};
  std::string failure;
  try {
    failure = attempt([&] { measure_schedule(row, x, stream, runs_of(options, x.seconds)); });
  } catch (const std::invalid_argument& error) {  // the plan's
    failure = error.what();
  }
  if (!failure.empty()) row["failure"] = failure;
  return row;
}

std::string text_of(const ordered_json& row) {
  const std::string text =
      formatted("%-5s %4s %8s %-9s", row["type"].get<std::string>().c_str(), row["heads"].dump().c_str(),
                row["length"].dump().c_str(), row["schedule"].get<std::string>().c_str());
  if (row.contains("failure")) return text + " " + row["failure"].get<std::string>().substr(0, 200) + "\n";
  const auto number = [&](const char* name, const char* format, double unit) {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) return formatted("%9s", "-");
    const std::string digits = formatted(format, unit * found->get<double>());
    return std::string(digits.size() < 9 ? 9 - digits.size() : 1, ' ') + digits;
  };
  return text + number("milliseconds", "%.1f", 1) + number("ratio", "%.3f", 1) +
         number("bytes_to_device", "%.2f", 1e-9) + number("bytes_to_host", "%.2f", 1e-9) +
         number("overlap", "%.3f", 1) + number("peak_bytes", "%.1f", 1e-6) + number("error", "%.1e", 1) +
         "\n";
}

}  // namespace

ordered_json stream_table(const StreamBenchOptions& options, at::Device device, const Print& print) {
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty())
    lengths = device.is_cuda() ? std::vector<int64_t>{100'000, 200'000, 400'000, 1'000'000}
                               : std::vector<int64_t>{2000, 4000};
  std::vector<std::string> types = options.types;
  if (types.empty()) types = {device.is_cuda() ? "bf16" : "fp32"};
  std::vector<Case> cases;
  for (const std::string& type : types) {
    for (int64_t n : lengths) cases.push_back(case_of(options, n, type));
  }
  for (const Case& c : cases) check_host(options, c, device);
  print("resident: q, k, v and the output on the device; the others stream them from and to host memory in " +
        formatted("%g", options.fraction) +
        " of\ntheir size. ratio: time over resident's. GB to the device and the host. overlap: 1 - "
        "wait/total. peak:\n" +
        (device.is_cuda() ? "measured" : "as planned") + ". error: 2-norm against resident, sampled rows.\n");
  print(formatted("%-5s %4s %8s %-9s %8s %8s %8s %8s %8s %8s %8s\n", "type", "A", "N", "schedule", "ms",
                  "ratio", "GB up", "GB down", "overlap", "peak MB", "error"));
  ordered_json rows = ordered_json::array();
  for (const Case& c : cases) {
    const auto add = [&](const char* schedule, const ordered_json& measured) {
      ordered_json row{{"type", c.type},
                       {"heads", c.shape.heads},
                       {"length", c.length},
                       {"dim", c.shape.dim},
                       {"schedule", schedule}};
      row.update(measured);
      print(text_of(row));
      rows.push_back(std::move(row));
    };
    Inputs x = make_inputs(c, device);
    add("resident", resident_row(c, x, options, device));
    for (StreamSchedule schedule : schedules_of(options))
      add(schedule_name(schedule), schedule_row(schedule, c, x, options, device));
  }
  return rows;
}

}  // namespace vggt
