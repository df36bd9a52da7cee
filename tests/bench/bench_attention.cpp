// `vggt-recon bench attention` and, where the first argument is `stream`, `vggt-recon bench stream`, without
// the program around them, for builds with -DVGGT_APP=OFF; the same options.
#include <cstdio>
#include <exception>
#include <ostream>
#include <span>
#include <stdexcept>

#include "attention/bench/bench.h"
#include "io/files/atomic_file.h"

namespace {

std::map<std::string, std::vector<std::string>> options_in(
    int argc, char** argv, int first, std::span<const vggt::AttentionBenchOption> known) {
  std::map<std::string, std::vector<std::string>> given;
  std::vector<std::string>* values = nullptr;
  for (int i = first; i < argc; ++i) {
    const std::string text = argv[i];
    if (!text.starts_with("--") && values) {
      values->push_back(text);
      continue;
    }
    for (const auto& option : known) {
      if (text == std::string("--") + option.name) values = &given[option.name];
    }
    if (!text.starts_with("--") || !given.contains(text.substr(2)))
      throw std::invalid_argument("unknown option " + text);
  }
  return given;
}

at::Device device_of(const std::string& text) {
  return at::Device(text != "auto" ? text : at::hasCUDA() ? "cuda:0" : "cpu");
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void write_results(const std::string& path, const std::string& json) {
  if (!path.empty()) vggt::write_atomically(path, [&](std::ostream& out) { out << json; });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && argv[1] == std::string("stream")) {
    const auto options =
        vggt::read_stream_bench_options(options_in(argc, argv, 2, vggt::kStreamBenchOptions));
    write_results(options.json, vggt::bench_stream(options, device_of(options.device), print));
    return 0;
  }
  const auto options = vggt::read_bench_options(options_in(argc, argv, 1, vggt::kAttentionBenchOptions));
  const auto result = vggt::bench_attention(options, device_of(options.device), print);
  write_results(options.json, result.json);
  return result.exceeded.empty() ? 0 : 1;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "bench_attention: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_attention: %s\n", error.what());
  return 1;
}
