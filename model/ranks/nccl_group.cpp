#include "model/ranks/nccl_group.h"

#include <stdexcept>

#ifdef VGGT_NCCL
#define USE_C10D_NCCL
#include <c10/core/DeviceGuard.h>
#include <c10/util/Logging.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace vggt {

#ifdef VGGT_NCCL

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds, std::chrono::seconds;

constexpr seconds kMeeting{30};     // in which all ranks have to come
constexpr seconds kSilence{12};     // after which a rank counts as gone
constexpr seconds kStuck{8};        // that a rank has to end by itself once the group is lost
constexpr milliseconds kBeat{500};  // from one sign of life to the next
constexpr milliseconds kPoll{5};

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The group watches its ranks itself: c10d's own watchdog would end the process with a stack trace.
void keep_c10d_quiet() {
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
                           "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
                           "TORCH_NCCL_PROPAGATE_ERROR", "TORCH_NCCL_RETHROW_CUDA_ERRORS"})
    ::setenv(name, "0", 0);
  constexpr int kFatal = 3;
  FLAGS_caffe2_log_level = kFatal;
}

struct Work final : Transfer {
  Work(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> outs, std::vector<at::Tensor> ins)
      : work(std::move(work)), outs(std::move(outs)), ins(std::move(ins)) {}
  void wait() override {
    if (!work) return;
    work->wait();
    work.reset();
    outs.clear();
    ins.clear();
  }
  ~Work() override {
    try {
      wait();
    } catch (...) {
      // What comes next tells why.
    }
  }
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> outs, ins;
};

c10::intrusive_ptr<c10d::TCPStore> open_store(const RankPlace& place) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.store_is_there;
  options.waitWorkers = false;
  options.timeout = kMeeting;
  return c10::make_intrusive<c10d::TCPStore>(place.host, options);
}

}  // namespace

struct NcclGroup::Impl {
  Impl(const RankPlace& place, at::Device device) : place(place), device(device) {}

  void set_lost(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (!lost.empty()) return;
      lost = why;
      lost_since = Clock::now();
    }
    is_lost = true;
    if (nccl) nccl->abort();  // ends kernels that wait for the others
  }
  void check() {
    if (!is_lost) return;
    const std::lock_guard lock(mutex);
    throw RankLost(lost);
  }
  std::string where() const { return place.host + ":" + std::to_string(place.port); }
  std::string key(const std::string& name) const { return run + name; }

  void wait_for(const std::vector<std::string>& keys, const std::optional<Clock::time_point>& until);
  void meet();
  void watch();
  void look(c10d::Store& own, std::vector<std::pair<std::string, Clock::time_point>>& beats, int64_t beat);

  const RankPlace place;
  const at::Device device;
  std::string run = "vggt/";  // what the keys of this run begin with: torchrun's store outlives a run
  c10::intrusive_ptr<c10d::Store> store, watched;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl;
  int64_t round = 0;  // of texts()
  std::atomic<bool> is_lost = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::string lost;
  Clock::time_point lost_since;
  bool ends = false;
  std::function<void(const std::string&)> stuck;
  std::thread watcher;
};

/// Until the store has all keys. Throws RankLost where the group is lost, or after `until`.
void NcclGroup::Impl::wait_for(const std::vector<std::string>& keys,
                               const std::optional<Clock::time_point>& until) {
  while (!store->check(keys)) {
    check();
    if (until && Clock::now() > *until) {
      int64_t missing = 0;
      for (const std::string& one : keys) missing += store->check({one}) ? 0 : 1;
      throw RankLost(std::to_string(missing) + " of " + std::to_string(place.ranks) +
                     " ranks did not come to " + where() + " within " + std::to_string(kMeeting.count()) +
                     " s");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void NcclGroup::Impl::meet() {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < place.ranks; ++rank) keys.push_back(key("here/" + std::to_string(rank)));
  if (store->check({keys[static_cast<size_t>(place.rank)]}))
    throw RankLost("another process is rank " + std::to_string(place.rank) + " at " + where());
  store->set(keys[static_cast<size_t>(place.rank)], bytes_of("1"));
  wait_for(keys, Clock::now() + kMeeting);
}

/// One sign of life, and a look at the others'.
void NcclGroup::Impl::look(c10d::Store& own, std::vector<std::pair<std::string, Clock::time_point>>& beats,
                           int64_t beat) {
  own.set(key("beat/" + std::to_string(place.rank)), bytes_of(std::to_string(beat)));
  if (own.check({key("failed")})) return set_lost(text_of(own.get(key("failed"))));
  for (int64_t rank = 0; rank < place.ranks; ++rank) {
    auto& [last, when] = beats[static_cast<size_t>(rank)];
    const std::string name = key("beat/" + std::to_string(rank));
    const std::string now = own.check({name}) ? text_of(own.get(name)) : "";
    if (now == "end") when = Clock::now();
    if (now != last) {
      last = now;
      when = Clock::now();
    } else if (Clock::now() - when > kSilence) {
      return set_lost("rank " + std::to_string(rank) + " gives no sign of life");
    }
  }
}

void NcclGroup::Impl::watch() {
  std::vector<std::pair<std::string, Clock::time_point>> beats(static_cast<size_t>(place.ranks),
                                                               {"", Clock::now()});
  for (int64_t beat = 0;; ++beat) {
    try {
      if (!is_lost) look(*watched, beats, beat);
    } catch (const std::exception&) {
      set_lost("the other ranks' meeting place at " + where() + " is gone");
    }
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kBeat, [&] { return ends; });
    if (ends) return;
    if (is_lost && stuck && Clock::now() - lost_since > kStuck) {
      const auto end = stuck;
      const std::string why = lost;
      lock.unlock();
      return end(why);
    }
  }
}

NcclGroup::NcclGroup(const RankPlace& place, at::Device device)
    : impl_(std::make_unique<Impl>(place, device)) {
  keep_c10d_quiet();
  Impl& impl = *impl_;
  try {
    impl.store = open_store(place);
    if (place.store_is_there) {
      const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
      impl.run += std::string(attempt ? attempt : "0") + "/";
    }
    impl.meet();
    impl.watched = impl.store->clone();
  } catch (const RankLost&) {
    throw;
  } catch (const std::exception&) {
    throw RankLost("the other ranks cannot be met at " + impl.where() + " (MASTER_ADDR, MASTER_PORT)");
  }
  impl.nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(impl.run + "nccl", impl.store), static_cast<int>(place.rank),
      static_cast<int>(place.ranks));
  impl.watcher = std::thread([&impl] { impl.watch(); });
}

NcclGroup::~NcclGroup() {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    impl.ends = true;
  }
  impl.changed.notify_all();
  if (impl.watcher.joinable()) impl.watcher.join();
  if (impl.is_lost) {
    impl.nccl.release();  // what was aborted may wait for ever in its destructor
    return;
  }
  try {
    impl.store->set(impl.key("beat/" + std::to_string(impl.place.rank)), bytes_of("end"));
    impl.nccl->shutdown();
    // Rank 0 serves the store, which the others need up to here.
    std::vector<std::string> keys;
    for (int64_t rank = 0; rank < impl.place.ranks; ++rank)
      keys.push_back(impl.key("gone/" + std::to_string(rank)));
    impl.store->set(keys[static_cast<size_t>(impl.place.rank)], bytes_of("1"));
    if (impl.place.rank == 0) impl.wait_for(keys, Clock::now() + kSilence);
  } catch (const std::exception&) {
    // The run is over.
  }
}

int64_t NcclGroup::rank() const {
  return impl_->place.rank;
}
int64_t NcclGroup::ranks() const {
  return impl_->place.ranks;
}

std::unique_ptr<Transfer> NcclGroup::exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) {
  impl_->check();
  const c10::DeviceGuard guard(impl_->device);
  const at::Tensor nothing = at::empty({0}, at::TensorOptions().device(impl_->device).dtype(at::kByte));
  const auto as_bytes = [&](std::vector<at::Tensor>& tensors) {
    for (at::Tensor& tensor : tensors) {
      if (!tensor.defined() || tensor.numel() == 0) {
        tensor = nothing;
        continue;
      }
      TORCH_CHECK(tensor.is_contiguous() && tensor.device() == impl_->device,
                  "exchange: expected contiguous tensors on ", impl_->device);
      tensor = tensor.view({-1}).view(at::kByte);
    }
  };
  as_bytes(outs);
  as_bytes(ins);
  auto work = impl_->nccl->alltoall(outs, ins);
  return std::make_unique<Work>(std::move(work), std::move(outs), std::move(ins));
}

std::vector<std::string> NcclGroup::texts(const std::string& own) {
  Impl& impl = *impl_;
  impl.check();
  std::vector<std::string> keys, all;
  for (int64_t rank = 0; rank < impl.place.ranks; ++rank)
    keys.push_back(impl.key("text/" + std::to_string(impl.round) + "/" + std::to_string(rank)));
  ++impl.round;
  try {
    impl.store->set(keys[static_cast<size_t>(impl.place.rank)], bytes_of(own));
    impl.wait_for(keys, std::nullopt);
    for (const std::string& key : keys) all.push_back(text_of(impl.store->get(key)));
  } catch (const RankLost&) {
    throw;
  } catch (const std::exception&) {
    impl.check();
    throw RankLost("the other ranks' meeting place at " + impl.where() + " is gone");
  }
  return all;
}

void NcclGroup::fail(const std::string& why) {
  try {
    if (!impl_->is_lost)
      impl_->store->compareSet(impl_->key("failed"), bytes_of(""),
                               bytes_of("rank " + std::to_string(impl_->place.rank) + ": " + why));
  } catch (const std::exception&) {
    // The others find out by its silence.
  }
}

std::string NcclGroup::lost() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->lost;
}

void NcclGroup::on_stuck(std::function<void(const std::string& why)> end) {
  const std::lock_guard lock(impl_->mutex);
  impl_->stuck = std::move(end);
}

#else

struct NcclGroup::Impl {};

NcclGroup::NcclGroup(const RankPlace&, at::Device) {
  throw std::invalid_argument("this build has no NCCL, which several ranks need");
}
NcclGroup::~NcclGroup() = default;
int64_t NcclGroup::rank() const {
  return 0;
}
int64_t NcclGroup::ranks() const {
  return 1;
}
std::unique_ptr<Transfer> NcclGroup::exchange(std::vector<at::Tensor>, std::vector<at::Tensor>) {
  return nullptr;
}
std::vector<std::string> NcclGroup::texts(const std::string&) {
  return {};
}
void NcclGroup::fail(const std::string&) {}
std::string NcclGroup::lost() const {
  return {};
}
void NcclGroup::on_stuck(std::function<void(const std::string&)>) {}

#endif

}  // namespace vggt
