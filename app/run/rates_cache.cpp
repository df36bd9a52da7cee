#include "app/run/rates_cache.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "app/run/attention_cache.h"
#include "app/run/device.h"
#include "app/run/head_choice.h"
#include "app/run/stage_history.h"
#include "app/run/user_cache.h"
#include "attention/out_of_memory.h"
#include "model/measure_copies.h"
#include "model/measure_rates.h"
#include "model/memory_plan.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr double kMostSeconds = 3600;  // of any unit
const std::string kProgram = "vggt-recon " VGGT_VERSION ";";
// Counted up where kernels have become faster: their rates are measured anew.
const std::string kKernels = "kernels 3;";

/// Throws Json::exception for anything but all rates as numbers that are possible.
Rates rates_of(const Json& json) {
  Rates rates;
  visit_rates(rates, [&](const char* name, double& rate) {
    rate = json.at(name).get<double>();
    if (!(rate >= 0 && rate <= kMostSeconds))
      throw Json::out_of_range::create(401, std::string("no rate: ") + name, &json);
  });
  return rates;
}

Json json_of(const Rates& rates) {
  Json json;
  visit_rates(rates, [&](const char* name, double rate) { json[name] = rate; });
  return json;
}

/// Empty where the text is not a cache as this program writes it.
std::map<std::string, Rates> entries_of(const std::string& cache) try {
  const Json json = Json::parse(cache);
  if (json.at("format") != kFormat) return {};
  std::map<std::string, Rates> entries;
  for (const auto& [key, rates] : json.at("rates").items()) entries[key] = rates_of(rates);
  return entries;
} catch (const Json::exception&) {
  return {};
}

}  // namespace

std::optional<fs::path> rates_cache_path() {
  return user_cache_path("rates.json");
}

std::string rates_key(const Config& config, const ModelOptions& options) {
  Config widths = config;
  widths.depth = widths.vit_depth = 1;
  widths.intermediate_layers = {0, 0, 0, 0};
  widths.rope_freq = 100;
  widths.input_width = 518;
  widths.bundle_adjust = false;
  const std::string architecture = Json::parse(config_to_json(widths, options.heads)).dump();
  return kProgram + " " + kKernels + " " + processor_name(options.device) + "; " +
         precision_name(options.precision) + (options.heads_in_bf16 ? ", heads bf16" : "") + "; " +
         variant_name(options.attention) + "; " + heads_text(options.heads) + "; " + architecture;
}

std::optional<Rates> rates_in_cache(const std::string& cache, const std::string& key) {
  const auto entries = entries_of(cache);
  const auto found = entries.find(key);
  return found == entries.end() ? std::nullopt : std::optional(found->second);
}

std::string cache_with_rates(const std::string& cache, const std::string& key, const Rates& rates) {
  Json all = Json::object();
  for (const auto& [other, known] : entries_of(cache)) {
    if (other.starts_with(kProgram)) all[other] = json_of(known);
  }
  all[key] = json_of(rates);
  // A GPU's name comes from the driver and may hold any bytes.
  return Json{{"format", kFormat}, {"rates", all}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

/// Of the user's cache.
std::optional<Rates> kept_rates(const std::string& key) {
  const std::optional<fs::path> path = rates_cache_path();
  return path ? rates_in_cache(read_cache(*path), key) : std::nullopt;
}

void keep_rates(const std::string& key, const Rates& rates) {
  if (const std::optional<fs::path> path = rates_cache_path())
    write_cache(*path, cache_with_rates(read_cache(*path), key, rates));
}

}  // namespace

std::optional<Rates> rates_for(const ModelPlan& plan, bool measure, const Events& events) {
  const std::string key = rates_key(plan.config, plan.options);
  if (const std::optional<Rates> known = kept_rates(key)) return known;
  if (!measure) return std::nullopt;
  events.detail("measuring how long the network's parts take here");
  TunedAttention tuned(plan.options.device, true);
  ModelOptions options = plan.options;
  options.tuner = tuned.tuner();
  try {
    const Rates rates = measure_rates(plan.config, options, kMeasureBytes, [&] { events.check_stop(); });
    tuned.save();
    keep_rates(key, rates);
    forget_more_than_rates(key);
    return rates;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return std::nullopt;  // others fill the GPU; the run itself may still fit
  }
}

namespace {

/// Of the file system that a folder is in, on this machine; nothing where that cannot be told.
std::optional<std::string> scratch_key(const fs::path& folder) {
  struct statfs system {};
  std::array<char, 256> machine{};
  if (::statfs(folder.c_str(), &system) != 0 || ::gethostname(machine.data(), machine.size() - 1) != 0)
    return std::nullopt;
  std::array<unsigned, 2> id{};
  static_assert(sizeof id == sizeof system.f_fsid);
  std::memcpy(id.data(), &system.f_fsid, sizeof id);
  return kProgram + " scratch of " + machine.data() + ", " + std::to_string(system.f_type) + ":" +
         std::to_string(id[0]) + ":" + std::to_string(id[1]);
}

/// Measures where the disk has room for four times what that writes, and keeps what it finds.
std::optional<Rates> scratch_rates(const fs::path& folder, bool measure) {
  constexpr uintmax_t kLeastRoom = 4 * kScratchMeasured;
  const std::optional<std::string> key = scratch_key(folder);
  if (const std::optional<Rates> known = key ? kept_rates(*key) : std::nullopt) return known;
  if (!measure || fs::space(folder).available < kLeastRoom) return std::nullopt;
  Rates rates;
  measure_scratch(folder, rates);
  if (key) keep_rates(*key, rates);
  return rates;
}

}  // namespace

void add_scratch_rates(const MemoryRequest& request, bool measure, std::optional<Rates>& rates) {
  if (!rates || !request.budget.scratch) return;
  MemoryRequest exact = request;
  exact.merge.reset();
  if (plan_memory(request).scratch_bytes + plan_memory(exact).scratch_bytes == 0) return;
  try {
    if (const std::optional<Rates> scratch = scratch_rates(*request.budget.scratch, measure)) {
      rates->to_scratch = scratch->to_scratch;
      rates->from_scratch = scratch->from_scratch;
    } else if (!measure) {
      rates.reset();  // without them nothing can be predicted
    }
  } catch (const std::system_error&) {
    // A full disk: the run may need less than the measurement.
  } catch (const std::bad_alloc&) {
    // Likewise of memory.
  }
}

}  // namespace vggt
