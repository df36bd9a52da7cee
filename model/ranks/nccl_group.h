#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "model/ranks/group.h"
#include "model/ranks/meeting.h"

namespace vggt {

/// How much of a GPU NCCL keeps outside LibTorch's allocator: by its own choice, or few buffers, with which
/// 100 frames on two H100 take 1.03 of the time.
enum class NcclBuffers { many, few };
/// The most that it keeps, in bytes, with so many ranks.
int64_t nccl_device_bytes(int64_t ranks, NcclBuffers buffers);

/// Ranks that are processes with a GPU each: LibTorch's c10d with NCCL moves their tensors. Where a rank is
/// lost, work that waits for it ends, and what is called next throws RankLost.
class NcclGroup final : public Group {
 public:
  /// buffers: one choice in a process. each_time: as Meeting's. Throws as Meeting(), and
  /// std::invalid_argument in a build without NCCL.
  NcclGroup(const RankPlace& place, at::Device device, NcclBuffers buffers = NcclBuffers::many,
            const std::function<void()>& each_time = {});
  ~NcclGroup() override;

  int64_t rank() const override { return meeting_.place().rank; }
  int64_t ranks() const override { return meeting_.place().ranks; }
  std::unique_ptr<Transfer> exchange(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override;
  std::vector<std::string> texts(const std::string& own) override { return meeting_.texts(own); }

  Meeting& meeting() { return meeting_; }

 private:
  struct Nccl;
  Meeting meeting_;
  std::unique_ptr<Nccl> nccl_;
};

}  // namespace vggt
