// Pieces lie in memory as far as the budget goes, and in the scratch folder beyond it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "io/files/piece_store.h"
#include "io/files/system_fault.h"
#include "tests/support/failing_new.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

Bytes piece_of(std::size_t index, std::size_t size, int shift = 0) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(7 * index + i + std::size_t(shift));
  return bytes;
}

Bytes got(const PieceStore& store, std::size_t index) {
  Bytes buffer;
  const std::span<const std::byte> bytes = store.get(index, buffer);
  return {bytes.begin(), bytes.end()};
}

class PieceStoreTest : public ::testing::Test {
 protected:
  PieceStoreTest() {
    std::string name = (fs::temp_directory_path() / "vggt_pieces_XXXXXX").string();
    parent_ = mkdtemp(name.data());
  }
  ~PieceStoreTest() override { fs::remove_all(parent_); }

  std::shared_ptr<HostSpace> space_of(int64_t bytes) const {
    return std::make_shared<HostSpace>(HostStorage{bytes, parent_});
  }
  /// Bytes of all files in the scratch folder.
  uint64_t on_disk() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(parent_)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }

  fs::path parent_;
};

// Not the budget, but the machine's memory.
TEST_F(PieceStoreTest, GoesToTheFileWhereMemoryRunsOut) {
  constexpr std::size_t kSize = 5000;
  const auto space = space_of(int64_t{1} << 40);
  PieceStore store(space, "pieces");
  const Bytes first = piece_of(0, kSize), second = piece_of(1, kSize), third = piece_of(2, kSize);
  store.put(0, first);
  EXPECT_EQ(on_disk(), 0U);
  {
    const test::Faults faults(0, 1, kSize);
    store.put(1, second);
  }
  store.put(2, third);  // nor is memory tried again
  EXPECT_EQ(on_disk(), 2 * kSize);
  EXPECT_EQ(got(store, 0), first);
  EXPECT_EQ(got(store, 1), second);
  EXPECT_EQ(got(store, 2), third);
}

TEST_F(PieceStoreTest, WithoutAFolderMissesAPieceThatMemoryHasNoRoomFor) {
  constexpr std::size_t kSize = 5000;
  PieceStore store(std::make_shared<HostSpace>(HostStorage{2 * kSize, std::nullopt}), "pieces");
  const Bytes first = piece_of(0, kSize), second = piece_of(1, kSize);
  {
    const test::Faults faults(0, 1, kSize);
    EXPECT_THROW(store.put(0, first), std::bad_alloc);
  }
  EXPECT_FALSE(store.has(0));
  store.put(1, second);
  store.put(0, first);  // of which nothing counts twice
  EXPECT_EQ(got(store, 0), first);
  EXPECT_EQ(got(store, 1), second);
}

TEST_F(PieceStoreTest, GivesBackWhateverThePlace) {
  for (const int64_t budget : {int64_t{0}, int64_t{250}, int64_t{1} << 40}) {
    PieceStore store(space_of(budget), "maps");
    for (const std::size_t i : {4, 0, 2}) store.put(i, piece_of(i, 100 + i));
    for (const std::size_t i : {0, 2, 4}) EXPECT_EQ(got(store, i), piece_of(i, 100 + i)) << budget;
    store.put(2, piece_of(2, 102, 1));
    EXPECT_EQ(got(store, 2), piece_of(2, 102, 1));
    EXPECT_EQ(got(store, 4), piece_of(4, 104));
    EXPECT_TRUE(store.has(4));
    EXPECT_FALSE(store.has(3));
    EXPECT_FALSE(store.has(5));
    EXPECT_THROW(got(store, 3), std::logic_error);
    EXPECT_THROW(store.put(2, piece_of(2, 99)), std::logic_error);
    EXPECT_EQ(on_disk(), budget == 0 ? 306U : budget == 250 ? 102U : 0U);
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(PieceStoreTest, StoresShareTheBudgetAndGiveItBack) {
  const auto space = space_of(300);
  {
    PieceStore one(space, "one"), two(space, "two");
    one.put(0, piece_of(0, 200));
    two.put(0, piece_of(0, 200));
    EXPECT_EQ(on_disk(), 200U);
  }
  PieceStore three(space, "three");
  three.put(0, piece_of(0, 300));
  EXPECT_EQ(on_disk(), 0U);
}

TEST_F(PieceStoreTest, TakesPiecesFromSeveralThreads) {
  PieceStore store(space_of(50'000), "maps");
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&store, t] {
        for (std::size_t i = t; i < 200; i += 4) store.put(i, piece_of(i, 1000));
      });
    }
  }
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(got(store, i), piece_of(i, 1000));
  EXPECT_EQ(on_disk(), 150'000U);
}

TEST_F(PieceStoreTest, WithoutAScratchFolderTheBudgetIsALackOfResources) {
  PieceStore store(std::make_shared<HostSpace>(HostStorage{150, std::nullopt}), "maps");
  store.put(0, piece_of(0, 100));
  try {
    store.put(1, piece_of(1, 100));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(fault_of(error.code()), SystemFault::resources);
  }
  EXPECT_EQ(got(store, 0), piece_of(0, 100));
}

TEST_F(PieceStoreTest, AFullDiskIsALackOfResourcesAndLeavesNothing) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  {
    PieceStore store(space_of(0), "maps");
    store.put(0, piece_of(0, 3000));
    const rlimit small{4096, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      store.put(1, piece_of(1, 3000));
      ADD_FAILURE();
    } catch (const std::system_error& error) {
      EXPECT_EQ(fault_of(error.code()), SystemFault::resources);
      EXPECT_NE(std::string(error.what()).find(parent_.string()), std::string::npos);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_EQ(got(store, 0), piece_of(0, 3000));
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

/// Of this process, at its peak, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> word) return 1024 * std::stoll(word);
  }
  return 0;
}

TEST_F(PieceStoreTest, PiecesOnDiskTakeNoMemory) {
  constexpr std::size_t kPiece = 1 << 20, kCount = 256;
  PieceStore store(space_of(0), "maps");
  const Bytes piece = piece_of(0, kPiece);
  Bytes buffer(kPiece);
  const int64_t before = peak_memory();
  for (std::size_t i = 0; i < kCount; ++i) store.put(i, piece);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(store.get(i, buffer).size(), kPiece);
  EXPECT_LT(peak_memory() - before, int64_t{16} << 20);
}

}  // namespace
}  // namespace vggt
