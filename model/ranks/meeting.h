#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/ranks/group.h"
#include "model/ranks/rank_place.h"

namespace c10d {
class Store;
}

namespace vggt {

/// How long ranks wait for each other.
struct MeetingTimes {
  std::chrono::milliseconds meeting{24'000};  // in which all ranks have to come
  std::chrono::milliseconds silence{12'000};  // after which a rank counts as gone
  std::chrono::milliseconds stuck{8'000};     // that a rank has to end by itself once another one is lost
};

/// Where ranks that are processes meet, of one machine or several: a store of c10d that rank 0 serves, or a
/// launcher. There they exchange short texts, and a thread of each watches whether the others still live. The
/// store may freeze, and then answers nobody: another thread, which asks it nothing, sees that.
class Meeting {
 public:
  /// Meets the others; every rank calls it. Calls each_time(), which may throw, while it waits. Throws
  /// RankLost where they do not come, or the place cannot be reached.
  explicit Meeting(const RankPlace& place, const MeetingTimes& times = {},
                   const std::function<void()>& each_time = {});
  /// Leaves; rank 0 waits a little for the others to have left.
  ~Meeting();

  /// As Group::texts().
  std::vector<std::string> texts(const std::string& own);
  /// Tells the others that this rank has failed, and why.
  void fail(const std::string& why);
  bool has_failed() const;  // this rank
  /// Throws RankLost where another rank has failed or is gone.
  void check() const;
  /// Why; empty: none is.
  std::string lost() const;

  /// Calls `end` on another thread as soon as a rank is lost.
  void on_lost(std::function<void()> end);
  /// Calls `end` on another thread if this rank still runs MeetingTimes::stuck after the loss: it probably
  /// waits for something that will never come.
  void on_stuck(std::function<void(const std::string& why)> end);

  const RankPlace& place() const;
  c10d::Store& store();
  /// What this run's keys in the store begin with: a launcher's store outlives a run.
  const std::string& prefix() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vggt
