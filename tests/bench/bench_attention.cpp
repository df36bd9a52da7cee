// `vggt-recon bench attention` without the program around it, for builds with -DVGGT_APP=OFF; the same
// options.
#include <cstdio>
#include <exception>
#include <ostream>
#include <stdexcept>

#include "attention/bench/bench.h"
#include "io/files/atomic_file.h"

namespace {

std::map<std::string, std::vector<std::string>> options_in(int argc, char** argv) {
  std::map<std::string, std::vector<std::string>> given;
  std::vector<std::string>* values = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (!text.starts_with("--") && values) {
      values->push_back(text);
      continue;
    }
    for (const auto& option : vggt::kAttentionBenchOptions) {
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

}  // namespace

int main(int argc, char** argv) try {
  const vggt::AttentionBenchOptions options = vggt::read_bench_options(options_in(argc, argv));
  const auto result = vggt::bench_attention(options, device_of(options.device), [](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  });
  if (!options.json.empty())
    vggt::write_atomically(options.json, [&](std::ostream& out) { out << result.json; });
  return result.exceeded.empty() ? 0 : 1;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "bench_attention: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_attention: %s\n", error.what());
  return 1;
}
