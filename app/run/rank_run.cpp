#include "app/run/rank_run.h"

#include <c10/core/DeviceGuard.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "app/options/option_texts.h"
#include "app/run/device.h"
#include "app/run/loaded_model.h"
#include "app/run/run_network.h"
#include "io/files/content_sum.h"
#include "model/ranks/nccl_group.h"
#include "model/vggt.h"

namespace vggt {
namespace {

using nlohmann::json;

/// Options that may differ from rank to rank; of the weights the file is compared, not where it lies.
bool is_own(const std::string& name) {
  return name == "weights" || name == "device" || name == "threads" || name == "quiet" || name == "verbose" ||
         name == "scratch";
}

std::map<std::string, std::string> shared_options(const Options& options) {
  std::map<std::string, std::string> texts = option_texts(options);
  std::erase_if(texts, [](const auto& option) { return is_own(option.first); });
  return texts;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Of two ranks' texts the first thing that differs.
std::string difference(const json& first, const json& other) {
  if (first["version"] != other["version"]) return "another version of the program or of LibTorch";
  if (first["weights"] != other["weights"]) return "other weights";
  if (first["config"] != other["config"]) return "another config.json beside the weights";
  for (const auto& [name, value] : first["options"].items()) {
    const json& theirs = other["options"].at(name);  // programs of one version have the same options
    if (theirs != value) return "--" + name + " " + theirs.get<std::string>() + " instead of " + value.dump();
  }
  if (first["scratch"] != other["scratch"])
    return other["scratch"] ? "--scratch, and rank 0 has none" : "no --scratch, and rank 0 has one";
  if (first["gpu"] != other["gpu"]) return "another GPU, " + other["gpu"].dump();
  return "";
}

}  // namespace

void share_among(RunPlan& plan, int64_t ranks) {
  if (!plan.model.options.device.is_cuda())
    throw std::invalid_argument("device: several ranks need a GPU each");
  if (plan.checkpoint_seconds) throw std::invalid_argument("resume: not for a run on several GPUs");
  plan.memory.ranks = ranks;
  plan.memory.weights_on_host = plan.model.options.weights_on_host = true;
  MemoryLimits limits = choose_limits(plan.given, plan.model.options.device, 0, ranks);
  keep_weights(limits, weight_bytes(plan.memory));
  plan.keep_limits(limits);
}

int64_t nccl_bytes(const RunPlan& plan) {
  const int64_t ranks = plan.memory.ranks;
  return ranks > 1 ? nccl_device_bytes(ranks, nccl_buffers(plan.given)) : 0;
}

int64_t agree(const RunPlan& plan, Group& group) {
  json own;
  own["version"] = std::string(VGGT_VERSION) + ", " + torch_versions().at("torch");
  own["options"] = shared_options(plan.given);
  own["weights"] = sampled_sum(plan.model.weights.path());
  plan.model.weights.sum_loads();
  own["config"] = config_to_json(plan.model.config, plan.model.options.heads);  // also of a file beside them
  const at::Device device = plan.model.options.device;
  own["scratch"] = !plan.given.scratch.empty();  // plans depend on whether there is one
  own["gpu"] = device.is_cuda() ? tuned_gpu(device).name : device_name(device);
  own["identity"] = gpu_identity(device);
  own["machine"] = host_name();
  const std::vector<std::string> all = group.texts(own.dump(-1, ' ', false, json::error_handler_t::replace));
  std::vector<json> ranks;
  for (const std::string& text : all) ranks.push_back(json::parse(text));
  std::map<std::string, std::size_t> rank_of;  // GPUs
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string what = difference(ranks.front(), ranks[rank]);
    if (!what.empty())
      throw std::invalid_argument("rank " + std::to_string(rank) + " does not fit rank 0: it has " + what);
    const auto [gpu, is_new] = rank_of.emplace(ranks[rank]["identity"], rank);
    if (device.is_cuda() && !is_new)
      throw std::invalid_argument("ranks " + std::to_string(gpu->second) + " and " + std::to_string(rank) +
                                  " have the same GPU; each needs its own");
  }
  return std::ranges::count(ranks, own["machine"], [](const json& rank) { return rank["machine"]; });
}

void compare_weights(Group& group, const WeightFile& weights) {
  const std::vector<std::string> sums = group.texts(std::to_string(weights.loaded_sum()));
  const auto other = std::ranges::find_if(sums, [&](const std::string& sum) { return sum != sums.front(); });
  if (other != sums.end())
    throw std::invalid_argument("rank " + std::to_string(other - sums.begin()) +
                                " does not fit rank 0: it has other weights");
}

MemoryBudget smallest_budget(Group& group, MemoryBudget own) {
  for (const std::string& text : group.texts(json({own.device, own.host}).dump())) {
    const json of_rank = json::parse(text);
    own.device = std::min(own.device, of_rank[0].get<int64_t>());
    own.host = std::min(own.host, of_rank[1].get<int64_t>());
  }
  return own;
}

RankTask share_task(Group& group, const RankTask& task) {
  const json own = {task.frames, task.height, task.width, task.merges, task.budget.device, task.budget.host};
  const json settled = json::parse(group.texts(own.dump()).front());
  RankTask all = task;
  all.frames = settled[0];
  all.height = settled[1];
  all.width = settled[2];
  all.merges = settled[3];
  all.budget.device = settled[4];
  all.budget.host = settled[5];
  return all;
}

std::vector<int64_t> device_peaks(Group& group, at::Device device) {
  std::vector<int64_t> peaks;
  for (const std::string& text : group.texts(std::to_string(peak_device_memory(device).tensors)))
    peaks.push_back(std::stoll(text));
  return peaks;
}

void serve_rank(const RunPlan& plan, Group& group, const Events& events) {
  agree(plan, group);
  LoadedModel model(plan.model);
  model.wait(events);
  compare_weights(group, plan.model.weights);
  RankTask task;
  task.budget = smallest_budget(group, plan.limits.network);
  HostSpace space(plan.limits.storage);
  if (task.budget.scratch) task.budget.scratch = space.folder().path();
  task = share_task(group, task);
  const at::Device device = plan.model.options.device;
  const c10::DeviceGuard guard(device);
  RunOptions options;
  options.budget = task.budget;
  options.group = &group;
  if (task.merges) options.merge = plan.memory.merge;
  const FrameProvider frames{task.frames, task.height, task.width, {}};
  model.model().run(
      frames, query_tensor(plan.model), {}, [&](const StageReport&) { events.check_stop(); }, options);
  model.save_tuning();
  device_peaks(group, device);
}

}  // namespace vggt
