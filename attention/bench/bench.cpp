#include "attention/bench/bench.h"

#include <torch/version.h>

#include "attention/bench/lean_table.h"
#include "attention/bench/machine.h"
#include "attention/bench/scan_table.h"
#include "attention/bench/stream_table.h"
#include "attention/bench/table.h"
#include "attention/bench/verify.h"

namespace vggt {
namespace {

/// Prints what the machine is, which begins all results.
nlohmann::ordered_json begin_results(at::Device device, const Print& print) {
  const std::string name = machine_name(device);
  print(name + ", LibTorch " TORCH_VERSION "\n");
  return {{"machine", name}, {"libtorch", TORCH_VERSION}};
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

AttentionBenchResult bench_attention(const AttentionBenchOptions& options, at::Device device,
                                     const Print& print) {
  nlohmann::ordered_json json = begin_results(device, print);
  AttentionBenchResult result;
  if (options.verify) {
    VerifyResult verified = verify_attention(options, device, print);
    json["verify"] = std::move(verified.json);
    result.exceeded = std::move(verified.exceeded);
  } else {
    json["rows"] = attention_table(options, device, print);
    json["lean"] = lean_table(options, device, print);
    json["scan"] = scan_table(options, device, print);
  }
  result.json = text_of(json);
  return result;
}

std::string bench_stream(const StreamBenchOptions& options, at::Device device, const Print& print) {
  nlohmann::ordered_json json = begin_results(device, print);
  json["rows"] = stream_table(options, device, print);
  return text_of(json);
}

}  // namespace vggt
