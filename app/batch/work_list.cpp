#include "app/batch/work_list.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace vggt {

namespace fs = std::filesystem;

std::optional<std::string> reason_to_run(const std::optional<SceneRecord>& last, const Fingerprint& now,
                                         const fs::path& folder, bool retry_failed) {
  if (!last) return "new";
  if (last->state == SceneState::running || last->state == SceneState::stopped) return "interrupted";
  if (last->fingerprint != now) return "changed: " + changes(last->fingerprint, now);
  if (last->state == SceneState::failed)
    return retry_failed ? std::optional<std::string>("failed before") : std::nullopt;
  return missing_of(last->files, folder) == 0 ? std::nullopt
                                              : std::optional<std::string>("files are missing");
}

WorkList::WorkList(const std::vector<BatchScene>& scenes, const std::vector<std::size_t>& share,
                   fs::path results, bool retry_failed, Fingerprints fingerprints, Manifest& manifest,
                   Claims& claims)
    : scenes_(scenes),
      results_(std::move(results)),
      retry_failed_(retry_failed),
      fingerprints_(std::move(fingerprints)),
      manifest_(manifest),
      claims_(claims) {
  for (const std::size_t number : share) items_.push_back({number, std::nullopt});
  // A scene that ends the process, as by taking all memory, must not keep the others from being done.
  const SceneRecords records = manifest_.all();
  std::ranges::stable_partition(items_, [&](const Item& item) {
    const auto found = records.find(scenes_[item.number].name);
    return found == records.end() || found->second.state != SceneState::running;
  });
}

/// Why the scene is to be done. What another process finished since this one began is not done again.
std::optional<std::string> WorkList::reason(Item& item, const BatchScene& scene,
                                            std::optional<SceneRecord>& last) {
  last = manifest_.last(scene.name);
  const bool is_over = last && (last->state == SceneState::done || last->state == SceneState::failed);
  if (is_over && !manifest_.is_old(*last)) return std::nullopt;
  if (!item.fingerprint) item.fingerprint = fingerprints_(scene);
  return reason_to_run(last, *item.fingerprint, results_ / scene.name, retry_failed_);
}

std::optional<ClaimedScene> WorkList::try_item(Item& item) {
  const BatchScene& scene = scenes_[item.number];
  std::optional<SceneRecord> last;
  if (!reason(item, scene, last)) {
    item.settled = true;
    return std::nullopt;
  }
  std::optional<Claim> claim = claims_.take(scene.name);
  if (!claim) return std::nullopt;
  item.settled = true;
  // Its last owner may have finished it before it gave it back.
  const std::optional<std::string> why = reason(item, scene, last);
  if (!why) return std::nullopt;
  return ClaimedScene{scene,
                      item.number,
                      *item.fingerprint,
                      *why,
                      last ? last->files : std::vector<OutputFile>(),
                      std::move(*claim)};
}

std::optional<ClaimedScene> WorkList::next(const Events& events) {
  constexpr std::chrono::milliseconds kPoll(500);
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      bool waits = false;
      for (Item& item : items_) {
        if (ended_) return std::nullopt;
        if (item.settled) continue;
        events.check_stop();
        if (auto scene = try_item(item)) return scene;
        waits |= !item.settled;
      }
      if (!waits) return std::nullopt;
      if (!std::exchange(told_, true)) events.info("waiting for scenes of other processes: " + others());
    }
    events.check_stop();
    std::this_thread::sleep_for(kPoll);
  }
}

void WorkList::end() {
  const std::lock_guard guard(mutex_);
  ended_ = true;
}

int64_t WorkList::left() const {
  const std::lock_guard guard(mutex_);
  return std::ranges::count(items_, false, &Item::settled);
}

std::vector<std::string> WorkList::done_otherwise() {
  const SceneRecords records = manifest_.all();
  std::vector<std::string> names;
  const std::lock_guard guard(mutex_);
  for (Item& item : items_) {
    const BatchScene& scene = scenes_[item.number];
    const auto found = records.find(scene.name);
    if (found == records.end() || found->second.state == SceneState::failed) continue;
    if (!item.fingerprint) item.fingerprint = fingerprints_(scene);
    const Fingerprint& theirs = found->second.fingerprint;
    if (theirs.options != item.fingerprint->options || theirs.weights != item.fingerprint->weights)
      names.push_back(scene.name);
  }
  return names;
}

/// Some of the scenes that are waited for, with their owners.
std::string WorkList::others() const {
  constexpr int kNamed = 5;
  std::string text;
  int named = 0;
  for (const Item& item : items_) {
    if (item.settled) continue;
    if (++named > kNamed) return text + ", ...";
    const std::string& name = scenes_[item.number].name;
    text += (text.empty() ? "" : ", ") + name;
    if (const auto owner = claims_.holder(name))
      text += " (" + owner->host + ", process " + std::to_string(owner->pid) + ")";
  }
  return text;
}

}  // namespace vggt
