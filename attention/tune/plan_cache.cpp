#include "attention/tune/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "attention/cuda/fused_kernel.h"

namespace vggt {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 3;  // 1: plans did not name their kernel; 2: without LibTorch's

/// The index of a name among names. Throws std::out_of_range for an unknown one.
template <class Names>
int index_of(const Names& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == std::end(names)) throw std::out_of_range(name);
  return static_cast<int>(found - std::begin(names));
}

/// Throws std::out_of_range for anything but a whole number that an int can hold.
int whole(const Json& json) {
  const int64_t number = json.is_number_integer() ? json.get<int64_t>() : -1;
  if (number < 0 || number > std::numeric_limits<int>::max()) throw std::out_of_range(json.dump());
  return static_cast<int>(number);
}

Json json_of(const TunedGpu& gpu) {
  return {{"name", gpu.name},       {"multiprocessors", gpu.multiprocessors},
          {"driver", gpu.driver},   {"runtime", gpu.runtime},
          {"program", gpu.program}, {"libtorch", gpu.libtorch}};
}

TunedGpu gpu_of(const Json& json) {
  return {json.at("name"),          whole(json.at("multiprocessors")),
          whole(json.at("driver")), whole(json.at("runtime")),
          json.at("program"),       json.at("libtorch")};
}

Json json_of(const TunedPlans& plans) {
  Json list = Json::array();
  for (const auto& [key, plan] : plans) {
    list.push_back({{"variant", variant_name(key.variant)},
                    {"type", kElementNames[static_cast<int>(key.type)]},
                    {"dim", key.dim},
                    {"rows", key.rows},
                    {"queries", key.queries},
                    {"keys", key.keys},
                    {"libtorch", key.libtorch},
                    {"kernel", kernel_name(plan.kernel)},
                    {"tile", {plan.tile.queries, plan.tile.keys}},
                    {"partitions", plan.partitions}});
  }
  return list;
}

/// Whether a plan with this kernel may have been measured for the key.
bool may_compute(CudaKernel kernel, const TuneKey& key) {
  if (variant_of(kernel) == key.variant) return true;
  return key.libtorch && is_libtorch(kernel) && is_as_exact(kernel, key.variant, key.type, key.keys);
}

TunedPlans plans_of(const Json& list) {
  TunedPlans plans;
  for (const Json& json : list) {
    TuneKey key;
    key.variant = static_cast<AttentionVariant>(index_of(kVariantNames, json.at("variant")));
    key.type = static_cast<CudaElement>(index_of(kElementNames, json.at("type")));
    key.dim = whole(json.at("dim"));
    key.rows = whole(json.at("rows"));
    key.queries = whole(json.at("queries"));
    key.keys = whole(json.at("keys"));
    key.libtorch = json.at("libtorch");
    CudaPlan& plan = plans[key];
    plan.kernel = static_cast<CudaKernel>(index_of(kKernelNames, json.at("kernel")));
    if (!may_compute(plan.kernel, key)) throw std::out_of_range(kernel_name(plan.kernel));
    plan.tile = {whole(json.at("tile").at(0)), whole(json.at("tile").at(1))};
    plan.partitions = whole(json.at("partitions"));
  }
  return plans;
}

struct Entry {
  TunedGpu gpu;
  TunedPlans plans;
};

/// Empty where the text is not a cache as this program writes it.
std::vector<Entry> entries_of(const std::string& cache) {
  try {
    const Json json = Json::parse(cache);
    std::vector<Entry> entries;
    if (json.at("format") != kFormat) return {};
    for (const Json& one : json.at("gpus"))
      entries.push_back({gpu_of(one.at("gpu")), plans_of(one.at("plans"))});
    return entries;
  } catch (const Json::exception&) {
    return {};
  } catch (const std::out_of_range&) {
    return {};
  }
}

}  // namespace

TunedPlans plans_in_cache(const std::string& cache, const TunedGpu& gpu) {
  for (const Entry& entry : entries_of(cache)) {
    if (entry.gpu == gpu) return entry.plans;
  }
  return {};
}

std::string cache_with_plans(const std::string& cache, const TunedGpu& gpu, const TunedPlans& plans) {
  TunedPlans all = plans;  // these win over those of the cache
  all.merge(plans_in_cache(cache, gpu));
  Json gpus = Json::array();
  for (const Entry& entry : entries_of(cache)) {
    const bool same = entry.gpu.name == gpu.name && entry.gpu.multiprocessors == gpu.multiprocessors;
    if (!same) gpus.push_back({{"gpu", json_of(entry.gpu)}, {"plans", json_of(entry.plans)}});
  }
  gpus.push_back({{"gpu", json_of(gpu)}, {"plans", json_of(all)}});
  const Json json = {{"format", kFormat}, {"gpus", gpus}};
  // The GPU's name comes from the driver and may hold any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vggt
