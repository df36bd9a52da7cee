#include "model/ranks/meeting.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

namespace vggt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBeat{500};  // from one sign of life to the next
constexpr milliseconds kPoll{5};

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string where(const RankPlace& place) {
  return place.host + ":" + std::to_string(place.port);
}

RankLost not_met(const RankPlace& place) {
  return RankLost("the other ranks cannot be met at " + where(place) + " (MASTER_ADDR, MASTER_PORT)");
}

c10::intrusive_ptr<c10d::Store> open_store(const RankPlace& place, const MeetingTimes& times) {
  constexpr int kFatal = 3;
  FLAGS_caffe2_log_level = kFatal;  // c10d tells of each attempt; what fails is told once, by us
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.store_is_there;
  options.waitWorkers = false;
  // An attempt may take more than twice its time.
  options.timeout = times.meeting / 6;
  const Clock::time_point until = Clock::now() + times.meeting / 2;
  while (true) {
    try {
      auto store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
      store->setTimeout(times.meeting);
      return store;
    } catch (const std::exception& error) {
      if (std::string_view(error.what()).find("failed to listen") != std::string_view::npos)
        throw RankLost("the ranks' meeting place cannot be opened at port " + std::to_string(place.port) +
                       " (MASTER_PORT): is it taken?");
      if (options.isServer || Clock::now() > until) throw not_met(place);
    }
  }
}

std::vector<std::string> keys_of(const RankPlace& place, const std::string& name) {
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < place.ranks; ++rank) all.push_back(name + std::to_string(rank));
  return all;
}

/// Until the store has all keys; false after `until`. Calls each_time(), which may throw, while it waits.
template <class EachTime>
bool wait_for(c10d::Store& store, const std::vector<std::string>& keys, const EachTime& each_time,
              const std::optional<Clock::time_point>& until = std::nullopt) {
  while (!store.check(keys)) {
    each_time();
    if (until && Clock::now() > *until) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

/// Where all ranks have come: what the run's keys begin with, and a connection for each thread.
struct Place {
  std::string run = "vggt/";
  c10::intrusive_ptr<c10d::Store> store, watched;
};

/// The prefix of this run's keys. A launcher's store outlives runs, so runs are numbered: the first number
/// that this rank has not used. A rank marks itself gone from a run before it enters the next.
std::string next_run(c10d::Store& store, const RankPlace& place, const std::string& launch) {
  const std::string rank = std::to_string(place.rank);
  for (int64_t number = 0;; ++number) {
    const std::string run = launch + std::to_string(number) + "/";
    if (store.add(run + "came/" + rank, 1) == 1) return run;
    if (!store.check({run + "gone/" + rank}))
      throw RankLost("another process is rank " + rank + " at " + where(place));
  }
}

/// Out of a meeting that failed, so that a later run beside the same store meets anew.
void leave(c10d::Store& store, const RankPlace& place, const std::string& run) try {
  store.deleteKey(run + "here/" + std::to_string(place.rank));
  store.set(run + "gone/" + std::to_string(place.rank), bytes_of("1"));
} catch (const std::exception&) {
  // The store is gone.
}

Place meet(const RankPlace& place, const MeetingTimes& times) {
  // Rank 0 serves the store, so it waits longer than the others: they can still ask who is missing.
  constexpr milliseconds kServed{1'000};
  const Clock::time_point until =
      Clock::now() + times.meeting + (place.rank == 0 ? kServed : milliseconds(0));
  Place met;
  met.store = open_store(place, times);
  bool is_in = false;
  try {
    // torchrun starts ranks again beside the same store.
    const char* attempt = place.store_is_there ? std::getenv("TORCHELASTIC_RESTART_COUNT") : nullptr;
    met.run = next_run(*met.store, place, met.run + (attempt ? std::string(attempt) + "/" : ""));
    is_in = true;
    const std::string ranks = std::to_string(place.ranks),
                      first = text_of(met.store->compareSet(met.run + "ranks", {}, bytes_of(ranks)));
    const auto agree = [&](const std::string& theirs) {
      if (theirs != ranks)
        throw RankLost("this is one of " + ranks + " ranks, and others at " + where(place) + " are " +
                       theirs + " (WORLD_SIZE)");
    };
    // Whoever sees all ranks here sees whether one of them disagreed.
    const std::string other = met.run + "other ranks";
    if (first != ranks) met.store->set(other, bytes_of(ranks));
    met.store->set(met.run + "here/" + std::to_string(place.rank), bytes_of("1"));
    agree(first);
    const auto agree_all = [&] {
      if (met.store->check({other})) agree(text_of(met.store->get(other)));
    };
    const std::vector<std::string> here = keys_of(place, met.run + "here/");
    if (!wait_for(*met.store, here, agree_all, until)) {
      int64_t missing = 0;  // those who gave up have come
      for (const std::string& one : keys_of(place, met.run + "came/"))
        missing += met.store->check({one}) ? 0 : 1;
      throw RankLost(std::to_string(missing) + " of " + ranks + " ranks did not come to " + where(place) +
                     " in time");
    }
    agree_all();
    met.watched = met.store->clone();
  } catch (const RankLost&) {
    if (is_in) leave(*met.store, place, met.run);
    throw;
  } catch (const std::exception&) {
    throw RankLost("the ranks' meeting place at " + where(place) + " has gone before all ranks came");
  }
  return met;
}

/// The same where what listens there may never answer: then the thread that asks it stays behind.
Place meet_in_time(const RankPlace& place, const MeetingTimes& times,
                   const std::function<void()>& each_time) {
  constexpr milliseconds kGrace{2'000}, kLook{100};
  const Clock::time_point until = Clock::now() + times.meeting + kGrace;
  const auto task =
      std::make_shared<std::packaged_task<Place()>>([place, times] { return meet(place, times); });
  std::future<Place> met = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (met.wait_for(kLook) != std::future_status::ready) {
    if (each_time) each_time();
    if (Clock::now() > until) throw not_met(place);
  }
  return met.get();
}

/// How long a thread has waited since it last saw something, the times left out in which it was not awake, as
/// where the whole process is paused.
class Waiting {
 public:
  void begin() { waited_ = milliseconds(0); }
  /// Time goes on to now.
  milliseconds go_on() {
    constexpr milliseconds kAwake = 4 * kBeat;
    const Clock::time_point now = Clock::now();
    const auto passed = std::chrono::duration_cast<milliseconds>(now - last_);
    waited_ += passed < kAwake ? passed : kBeat;
    last_ = now;
    return waited_;
  }

 private:
  Clock::time_point last_ = Clock::now();
  milliseconds waited_{0};
};

/// The last sign of life of a rank.
struct Beat {
  std::string sign;
  Waiting since;
};

}  // namespace

struct Meeting::Impl {
  Impl(const RankPlace& place, const MeetingTimes& times, const std::function<void()>& each_time)
      : place(place), times(times), met(meet_in_time(place, times, each_time)) {}

  void set_lost(const std::string& why);
  void check() const {
    if (!is_lost) return;
    const std::lock_guard lock(mutex);
    throw RankLost(lost);
  }
  RankLost place_lost() const { return RankLost("the ranks' meeting place at " + where(place) + " is gone"); }
  std::string key(const char* name) const { return met.run + name; }
  std::string key(const char* name, int64_t rank) const { return key(name) + std::to_string(rank); }
  std::vector<std::string> keys(const std::string& name) const { return keys_of(place, met.run + name); }

  void look(std::vector<Beat>& beats, int64_t beat);
  void watch();
  void guard();

  const RankPlace place;
  const MeetingTimes times;
  const Place met;
  int64_t round = 0;  // of texts()
  std::atomic<bool> is_lost = false, has_failed = false;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string lost;
  Clock::time_point lost_since;
  Waiting unanswered;                   // the watcher, by the store
  bool ends = false, has_left = false;  // the watcher; this rank
  std::function<void()> at_loss;
  std::function<void(const std::string&)> at_stuck;
  std::thread watcher, guardian;
};

void Meeting::Impl::set_lost(const std::string& why) {
  std::function<void()> tell;
  {
    const std::lock_guard lock(mutex);
    if (is_lost) return;
    lost = why;
    lost_since = Clock::now();
    is_lost = true;
    tell = at_loss;
  }
  if (tell) tell();
}

/// One sign of life, and a look at the others'.
void Meeting::Impl::look(std::vector<Beat>& beats, int64_t beat) {
  met.watched->set(key("beat/", place.rank), bytes_of(std::to_string(beat)));
  if (met.watched->check({key("failed")})) return set_lost(text_of(met.watched->get(key("failed"))));
  for (int64_t rank = 0; rank < place.ranks; ++rank) {
    Beat& last = beats[static_cast<std::size_t>(rank)];
    const std::string name = key("beat/", rank);
    const std::string sign = met.watched->check({name}) ? text_of(met.watched->get(name)) : "";
    const milliseconds silence = last.since.go_on();
    if (sign != last.sign || sign == "end") {
      last.sign = sign;
      last.since.begin();
    } else if (silence > times.silence) {
      return set_lost("rank " + std::to_string(rank) + " gives no sign of life");
    }
  }
}

void Meeting::Impl::watch() {
  std::vector<Beat> beats(static_cast<std::size_t>(place.ranks));
  for (int64_t beat = 0;; ++beat) {
    try {
      if (!is_lost) look(beats, beat);
    } catch (const std::exception&) {
      set_lost(place_lost().what());
    }
    std::unique_lock lock(mutex);
    unanswered.begin();
    changed.wait_for(lock, kBeat, [&] { return ends; });
    if (ends) return;
  }
}

/// What the watcher cannot do while it waits for a store that does not answer.
void Meeting::Impl::guard() {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kBeat, [&] { return has_left; })) {
    const Clock::time_point now = Clock::now();
    const milliseconds waited = unanswered.go_on();
    // Who leaves may wait for the others, and looks no more.
    if (!is_lost && 2 * waited > (ends ? 3 : 2) * times.silence) {
      lost = "the ranks' meeting place at " + where(place) + " does not answer";
      lost_since = now;
      is_lost = true;
      if (at_loss) std::thread(at_loss).detach();  // it may wait too
    }
    if (!is_lost || !at_stuck || now - lost_since < times.stuck) continue;
    const auto end = std::exchange(at_stuck, nullptr);
    const std::string why = lost;
    lock.unlock();
    end(why);
    lock.lock();
  }
}

Meeting::Meeting(const RankPlace& place, const MeetingTimes& times, const std::function<void()>& each_time)
    : impl_(std::make_unique<Impl>(place, times, each_time)) {
  impl_->watcher = std::thread([impl = impl_.get()] { impl->watch(); });
  impl_->guardian = std::thread([impl = impl_.get()] { impl->guard(); });
}

Meeting::~Meeting() {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    impl.ends = true;
  }
  impl.changed.notify_all();
  impl.watcher.join();
  try {
    impl.met.store->set(impl.key("beat/", impl.place.rank), bytes_of("end"));
    impl.met.store->set(impl.key("gone/", impl.place.rank), bytes_of("1"));
    // Rank 0 may serve the store, which the others need up to here.
    if (impl.place.rank == 0 && !impl.place.store_is_there) {
      const bool failed = impl.is_lost.exchange(false);
      wait_for(
          *impl.met.store, impl.keys("gone/"), [&] { impl.check(); },
          Clock::now() + (failed ? milliseconds(2'000) : impl.times.silence));
    }
  } catch (const std::exception&) {
    // The others are gone.
  }
  {
    const std::lock_guard lock(impl.mutex);
    impl.has_left = true;
  }
  impl.changed.notify_all();
  impl.guardian.join();
}

std::vector<std::string> Meeting::texts(const std::string& own) {
  Impl& impl = *impl_;
  impl.check();
  const std::string name = "text/" + std::to_string(impl.round++) + "/";
  const std::vector<std::string> keys = impl.keys(name);
  std::vector<std::string> all;
  try {
    impl.met.store->set(keys[static_cast<std::size_t>(impl.place.rank)], bytes_of(own));
    wait_for(*impl.met.store, keys, [&] { impl.check(); });
    for (const std::string& key : keys) all.push_back(text_of(impl.met.store->get(key)));
  } catch (const RankLost&) {
    throw;
  } catch (const std::exception&) {
    impl.check();
    throw impl.place_lost();
  }
  return all;
}

void Meeting::fail(const std::string& why) {
  impl_->has_failed = true;
  try {
    if (impl_->is_lost) return;
    impl_->met.store->compareSet(impl_->key("failed"), {},
                                 bytes_of("rank " + std::to_string(impl_->place.rank) + ": " + why));
  } catch (const std::exception&) {
    // The others find out by its silence.
  }
}

bool Meeting::has_failed() const {
  return impl_->has_failed;
}

void Meeting::check() const {
  impl_->check();
}

std::string Meeting::lost() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->lost;
}

void Meeting::on_lost(std::function<void()> end) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->is_lost) {
      impl_->at_loss = std::move(end);
      return;
    }
  }
  if (end) end();
}

void Meeting::on_stuck(std::function<void(const std::string& why)> end) {
  const std::lock_guard lock(impl_->mutex);
  impl_->at_stuck = std::move(end);
}

const RankPlace& Meeting::place() const {
  return impl_->place;
}

c10d::Store& Meeting::store() {
  return *impl_->met.store;
}

const std::string& Meeting::prefix() const {
  return impl_->met.run;
}

}  // namespace vggt
