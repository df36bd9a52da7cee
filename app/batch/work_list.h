#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/batch/claims.h"
#include "app/batch/fingerprint.h"
#include "app/batch/manifest.h"
#include "app/batch/scene_list.h"
#include "app/events/events.h"

namespace vggt {

/// A scene's last record and its folder say whether it is to be done. Returns why, such as "new",
/// "interrupted" or "changed: frames"; nothing: it stays as it is.
std::optional<std::string> reason_to_run(const std::optional<SceneRecord>& last, const Fingerprint& now,
                                         const std::filesystem::path& folder, bool retry_failed);

/// A scene that this process has to do.
struct ClaimedScene {
  BatchScene scene;
  std::size_t number = 0;  // in the list
  Fingerprint fingerprint;
  std::string reason;
  std::vector<OutputFile> before;  // what its last run that ended well wrote
  Claim claim;
};

/// The scenes of one process's share, each handed out once where it is to be done. Threads may use it at
/// once.
class WorkList {
 public:
  using Fingerprints = std::function<Fingerprint(const BatchScene&)>;

  /// shares: the scenes' numbers in `scenes`. What is given must outlive the list.
  WorkList(const std::vector<BatchScene>& scenes, const std::vector<std::size_t>& share,
           std::filesystem::path results, bool retry_failed, Fingerprints fingerprints, Manifest& manifest,
           Claims& claims);

  /// The next scene, claimed; waits for those that other processes do, for these may die. Nothing: there is
  /// none left, or end() was called. Throws Stopped, std::system_error.
  std::optional<ClaimedScene> next(const Events& events);
  /// From here on next() returns nothing.
  void end();
  /// Scenes of the share whose last run had other options or weights: another process's, meanwhile.
  std::vector<std::string> done_otherwise();
  int64_t left() const;  // not handed out and not known to be done

 private:
  struct Item {
    std::size_t number;
    std::optional<Fingerprint> fingerprint;
    bool settled = false;
  };
  std::optional<ClaimedScene> try_item(Item& item);
  std::optional<std::string> reason(Item& item, const BatchScene& scene, std::optional<SceneRecord>& last);
  std::string others() const;

  const std::vector<BatchScene>& scenes_;
  const std::filesystem::path results_;
  const bool retry_failed_;
  const Fingerprints fingerprints_;
  Manifest& manifest_;
  Claims& claims_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Item> items_;
  bool ended_ = false, told_ = false;
};

}  // namespace vggt
