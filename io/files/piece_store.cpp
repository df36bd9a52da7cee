#include "io/files/piece_store.h"

#include <new>
#include <stdexcept>
#include <utility>

namespace vggt {

PieceStore::PieceStore(std::shared_ptr<HostSpace> space, std::string name)
    : space_(std::move(space)), name_(std::move(name)) {}

PieceStore::~PieceStore() {
  space_->give_back(taken_);
}

PieceStore::Piece PieceStore::place_for(std::size_t size) {
  Piece piece;
  piece.size = size;
  if (space_->take(static_cast<int64_t>(size))) {
    taken_ += static_cast<int64_t>(size);
    return piece;
  }
  if (!file_) file_.emplace(space_->folder().path() / name_, 0);  // which grows with what is written
  piece.in_file = true;
  piece.offset = file_end_;
  file_end_ += static_cast<int64_t>(size);
  return piece;
}

void PieceStore::put(std::size_t index, std::span<const std::byte> bytes) {
  Piece* piece = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (index >= pieces_.size()) pieces_.resize(index + 1);
    if (!pieces_[index]) pieces_[index] = std::make_unique<Piece>(place_for(bytes.size()));
    piece = pieces_[index].get();
  }
  if (piece->size != bytes.size()) throw std::logic_error(name_ + ": a piece came with another size");
  if (!piece->in_file) {
    try {
      piece->memory.assign(bytes.begin(), bytes.end());
      return;
    } catch (const std::bad_alloc&) {
      piece = moved_to_file(index);
      if (!piece) throw;
    }
  }
  file_->write(piece->offset, bytes.data(), static_cast<int64_t>(bytes.size()));
}

PieceStore::Piece* PieceStore::moved_to_file(std::size_t index) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = pieces_[index]->size;
  taken_ -= static_cast<int64_t>(size);
  space_->give_back(static_cast<int64_t>(size));
  pieces_[index].reset();
  if (!space_->end_memory()) return nullptr;
  pieces_[index] = std::make_unique<Piece>(place_for(size));
  return pieces_[index].get();
}

bool PieceStore::has(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return index < pieces_.size() && pieces_[index];
}

const PieceStore::Piece& PieceStore::piece(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= pieces_.size() || !pieces_[index])
    throw std::logic_error(name_ + ": there is no piece " + std::to_string(index));
  return *pieces_[index];
}

std::span<const std::byte> PieceStore::get(std::size_t index, std::vector<std::byte>& buffer) const {
  const Piece& found = piece(index);
  if (!found.in_file) return found.memory;
  buffer.resize(found.size);
  file_->read(found.offset, buffer.data(), static_cast<int64_t>(buffer.size()));
  return buffer;
}

}  // namespace vggt
