#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "io/files/scratch_folder.h"

namespace vggt {

/// Where the large data of a run lives: in memory as far as `bytes` go, beyond that in a scratch folder.
struct HostStorage {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::optional<std::filesystem::path> scratch;
};

/// The memory and the scratch folder that the parts of a run share. Members may be called from several
/// threads.
class HostSpace {
 public:
  explicit HostSpace(HostStorage storage = {}) : storage_(std::move(storage)), left_(storage_.bytes) {}
  HostSpace(const HostSpace&) = delete;
  HostSpace& operator=(const HostSpace&) = delete;

  /// From now on there are so many bytes of memory in all.
  void set_bytes(int64_t bytes);
  /// Takes so many bytes of memory and returns true, or returns false where fewer are left.
  bool take(int64_t bytes);
  void give_back(int64_t bytes);
  /// The bytes of memory that are taken.
  int64_t taken();
  /// Has take() return false from now on, because memory ran out. False where no scratch folder was named, to
  /// take what memory does not: then nothing changes.
  bool end_memory();
  /// The run's folder, made by the first call. Throws std::system_error: ENOMEM where no scratch folder was
  /// named; what ScratchFolder throws.
  const ScratchFolder& folder();

 private:
  HostStorage storage_;
  std::mutex mutex_;
  int64_t left_;
  bool ended_ = false;  // the memory
  std::unique_ptr<ScratchFolder> folder_;
};

}  // namespace vggt
