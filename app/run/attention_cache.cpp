#include "app/run/attention_cache.h"

#include <utility>

#include "app/run/device.h"
#include "app/run/user_cache.h"

namespace vggt {

namespace fs = std::filesystem;

std::optional<fs::path> attention_cache_path() {
  return user_cache_path("attention.json");
}

TunedPlans load_tuned_plans(const fs::path& path, const TunedGpu& gpu) {
  return plans_in_cache(read_cache(path), gpu);
}

void save_tuned_plans(const fs::path& path, const TunedGpu& gpu, const TunedPlans& plans) {
  write_cache(path, cache_with_plans(read_cache(path), gpu, plans));
}

TunedAttention::TunedAttention(at::Device device, bool wanted) {
  if (!device.is_cuda()) return;
  gpu_ = tuned_gpu(device);
  if (wanted) path_ = attention_cache_path();
  tuner_.emplace(device.index(), path_ ? load_tuned_plans(*path_, gpu_) : TunedPlans(), wanted);
}

std::vector<std::string> TunedAttention::kernels() const {
  if (!tuner_) return {};
  std::vector<std::string> lines = tuner_->runs();
  for (std::string& line : tuner_->missing()) lines.push_back(std::move(line));
  return lines;
}

void TunedAttention::save() const {
  if (tuner_ && path_ && tuner_->changed()) save_tuned_plans(*path_, gpu_, tuner_->plans());
}

}  // namespace vggt
