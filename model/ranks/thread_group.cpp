#include "model/ranks/thread_group.h"

#include <condition_variable>
#include <mutex>

namespace vggt {
namespace {

/// What the ranks show to each other between two barriers.
struct Hub {
  explicit Hub(int64_t ranks) : ranks(ranks), shown(ranks), texts(ranks) {}

  void barrier() {
    std::unique_lock lock(mutex);
    if (lost) throw RankLost("another rank has ended");
    const int64_t now = round;
    if (++arrived == ranks) {
      arrived = 0;
      ++round;
      all_arrived.notify_all();
      return;
    }
    all_arrived.wait(lock, [&] { return lost || round != now; });
    if (round == now) throw RankLost("another rank has ended");
  }
  void leave() {
    const std::lock_guard lock(mutex);
    lost = true;
    all_arrived.notify_all();
  }

  const int64_t ranks;
  std::mutex mutex;
  std::condition_variable all_arrived;
  int64_t arrived = 0, round = 0;
  bool lost = false;
  std::vector<std::vector<at::Tensor>> shown;  // by rank
  std::vector<std::string> texts;              // by rank
};

struct Done final : Transfer {
  void wait() override {}
};

bool empty(const at::Tensor& x) {
  return !x.defined() || x.numel() == 0;
}

class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<Hub> hub, int64_t rank) : hub_(std::move(hub)), rank_(rank) {}
  ~ThreadGroup() override { hub_->leave(); }

  int64_t rank() const override { return rank_; }
  int64_t ranks() const override { return hub_->ranks; }

  std::unique_ptr<Transfer> exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override {
    TORCH_CHECK(std::ssize(outs) == ranks() && std::ssize(ins) == ranks(), "exchange: expected ", ranks(),
                " tensors each, got ", outs.size(), " and ", ins.size());
    hub_->shown[rank_] = std::move(ins);
    hub_->barrier();
    for (int64_t from = 0; from < ranks(); ++from) {
      const at::Tensor& sent = hub_->shown[from][rank_];
      TORCH_CHECK(empty(sent) == empty(outs[from]), "exchange: rank ", from, " and rank ", rank_,
                  " disagree on whether anything is sent");
      if (empty(sent)) continue;
      TORCH_CHECK(sent.is_contiguous() && outs[from].is_contiguous() &&
                      sent.scalar_type() == outs[from].scalar_type() && sent.numel() == outs[from].numel(),
                  "exchange: rank ", from, " sends ", sent.sizes(), ", rank ", rank_, " expects ",
                  outs[from].sizes());
      outs[from].view({-1}).copy_(sent.view({-1}));
    }
    hub_->barrier();
    return std::make_unique<Done>();
  }

  std::vector<std::string> texts(const std::string& own) override {
    hub_->texts[rank_] = own;
    hub_->barrier();
    std::vector<std::string> all = hub_->texts;
    hub_->barrier();
    return all;
  }

 private:
  std::shared_ptr<Hub> hub_;
  int64_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int64_t ranks) {
  const auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::unique_ptr<Group>> groups;
  for (int64_t rank = 0; rank < ranks; ++rank) groups.push_back(std::make_unique<ThreadGroup>(hub, rank));
  return groups;
}

}  // namespace vggt
