#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/files/host_storage.h"
#include "io/files/scratch_file.h"

namespace vggt {

/// Numbered pieces of bytes, such as the depth maps of frames: each in memory while the run's budget has room
/// for it and memory lasts, else in a scratch file. Pieces are written and read from several threads, each
/// piece by one at a time.
class PieceStore {
 public:
  /// The scratch file gets this name; no other store of the same space has it.
  PieceStore(std::shared_ptr<HostSpace> space, std::string name);
  ~PieceStore();
  PieceStore(const PieceStore&) = delete;
  PieceStore& operator=(const PieceStore&) = delete;

  /// Keeps a piece. A piece that is there already is replaced by one of the same size, else std::logic_error.
  /// Throws std::system_error where neither memory nor disk has room, std::bad_alloc where memory runs out
  /// and the space has no scratch folder; then there is no such piece.
  void put(std::size_t index, std::span<const std::byte> bytes);
  bool has(std::size_t index) const;
  /// A piece: in place where it lies in memory, else read into `buffer`. Throws std::logic_error if there is
  /// none, std::system_error if it cannot be read.
  std::span<const std::byte> get(std::size_t index, std::vector<std::byte>& buffer) const;

 private:
  struct Piece {
    std::size_t size = 0;
    bool in_file = false;
    int64_t offset = 0;  // in the file
    std::vector<std::byte> memory;
  };
  const Piece& piece(std::size_t index) const;
  Piece place_for(std::size_t size);
  /// A piece for which there is no memory, its place in the file now; null without a scratch folder, and then
  /// it is forgotten.
  Piece* moved_to_file(std::size_t index);

  std::shared_ptr<HostSpace> space_;
  std::string name_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::optional<ScratchFile> file_;
  int64_t file_end_ = 0;
  int64_t taken_ = 0;  // of the space's memory
};

}  // namespace vggt
