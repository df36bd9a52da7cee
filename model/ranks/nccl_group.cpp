#include "model/ranks/nccl_group.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#ifdef VGGT_NCCL
#define USE_C10D_NCCL
#include <c10/core/DeviceGuard.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace vggt {
namespace {

constexpr int64_t kManyChannels = 32;  // NCCL's most between GPUs with NVLink
constexpr int64_t kFewChannels = 8;

}  // namespace

int64_t nccl_device_bytes(int64_t ranks, NcclBuffers buffers) {
  // Measured with NCCL 2.28 on two H100 with NVLink: its kernels and their stacks, and pieces of 2 MiB: three
  // of a channel, and of a channel to another GPU of the machine its buffers and one for control. More GPUs
  // are by calculation; to other machines there are few channels.
  constexpr int64_t kKernels = 700'000'000, kPiece = int64_t{2} << 20, kMostOfMachine = 8;
  const bool few = buffers == NcclBuffers::few;
  const int64_t channels = few ? kFewChannels : kManyChannels, of_peer = few ? 4 : 6;  // pieces
  return kKernels + channels * (3 + (std::min(ranks, kMostOfMachine) - 1) * of_peer) * kPiece;
}

#ifdef VGGT_NCCL

namespace {

/// The ranks watch each other themselves: c10d's own watchdog, which torchrun asks for, would end the process
/// with a stack trace.
void keep_c10d_quiet() {
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
                           "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
                           "TORCH_NCCL_PROPAGATE_ERROR", "TORCH_NCCL_RETHROW_CUDA_ERRORS"})
    ::setenv(name, "0", 1);
}

/// Unless it is set to less.
void set_at_most(const char* name, int64_t most) {
  const char* given = std::getenv(name);
  char* end = nullptr;
  const int64_t value = given ? std::strtoll(given, &end, 10) : 0;
  if (value > 0 && value <= most && *end == '\0') return;
  ::setenv(name, std::to_string(most).c_str(), 1);
}

/// NCCL reads these when its first group is made; a limit of memory goes before what the user has set. LL128
/// is a protocol of collective operations, of which there are none.
void keep_few_buffers() {
  set_at_most("NCCL_MAX_CTAS", kFewChannels);
  set_at_most("NCCL_MAX_P2P_NCHANNELS", kFewChannels);
  set_at_most("NCCL_LL128_BUFFSIZE", 65536);
}

/// Before there are threads that may read the environment.
const RankPlace& with_environment(const RankPlace& place, NcclBuffers buffers) {
  keep_c10d_quiet();
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);  // memory of switches, for collective operations
  if (buffers == NcclBuffers::few) keep_few_buffers();
  return place;
}

/// Keeps what is sent and received until it is waited for.
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
      // What is called next tells why.
    }
  }
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> outs, ins;
};

}  // namespace

struct NcclGroup::Nccl {
  at::Device device;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group;
};

NcclGroup::NcclGroup(const RankPlace& place, at::Device device, NcclBuffers buffers,
                     const std::function<void()>& each_time)
    : meeting_(with_environment(place, buffers), {}, each_time) {
  auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&meeting_.store());
  nccl_ = std::make_unique<Nccl>(
      Nccl{device, c10::make_intrusive<c10d::ProcessGroupNCCL>(
                       c10::make_intrusive<c10d::PrefixStore>(meeting_.prefix() + "nccl", store->clone()),
                       static_cast<int>(place.rank), static_cast<int>(place.ranks))});
  // Ends kernels that wait for the others.
  meeting_.on_lost([group = nccl_->group] {
    try {
      group->abort();
    } catch (const std::exception&) {
      // The run ends as of a lost rank all the same.
    }
  });
}

NcclGroup::~NcclGroup() {
  meeting_.on_lost(nullptr);
  if (!meeting_.lost().empty() || meeting_.has_failed()) {
    nccl_->group.release();  // what others have left may wait for ever in its destructor
    return;
  }
  try {
    nccl_->group->shutdown();
  } catch (const std::exception&) {
    // The run is over.
  }
}

std::unique_ptr<Transfer> NcclGroup::exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) {
  meeting_.check();
  const c10::DeviceGuard guard(nccl_->device);
  const at::Tensor nothing = at::empty({0}, at::TensorOptions().device(nccl_->device).dtype(at::kByte));
  const auto as_bytes = [&](std::vector<at::Tensor>& tensors) {
    for (at::Tensor& tensor : tensors) {
      if (!tensor.defined() || tensor.numel() == 0) {
        tensor = nothing;
        continue;
      }
      TORCH_CHECK(tensor.is_contiguous() && tensor.device() == nccl_->device,
                  "exchange: expected contiguous tensors on ", nccl_->device);
      tensor = tensor.view({-1}).view(at::kByte);
    }
  };
  as_bytes(outs);
  as_bytes(ins);
  auto work = nccl_->group->alltoall(outs, ins);
  return std::make_unique<Work>(std::move(work), std::move(outs), std::move(ins));
}

#else

namespace {

[[noreturn]] const RankPlace& refuse() {
  throw std::invalid_argument("this build has no NCCL, which several ranks need");
}

}  // namespace

struct NcclGroup::Nccl {};

NcclGroup::NcclGroup(const RankPlace&, at::Device, NcclBuffers, const std::function<void()>&)
    : meeting_(refuse()) {}
NcclGroup::~NcclGroup() = default;
std::unique_ptr<Transfer> NcclGroup::exchange(std::vector<at::Tensor>, std::vector<at::Tensor>) {
  return nullptr;
}

#endif

}  // namespace vggt
