// Claims of scenes: one owner at a time among threads and processes; what a dead process held is taken over,
// at once on its own machine, and elsewhere when its heartbeat has been missing; an owner that lost its claim
// knows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "app/batch/claims.h"
#include "app/batch/manifest.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class BatchClaims : public ::testing::Test {
 protected:
  BatchClaims() {
    std::string name = (fs::temp_directory_path() / "vggt_claims_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~BatchClaims() override { fs::remove_all(dir_); }

  fs::path folder() const { return dir_ / ".claims"; }
  fs::path lock() const { return dir_ / "manifest.jsonl"; }

  /// A claim's file of a process of another machine, renewed so long ago.
  void claim_elsewhere(const std::string& name, milliseconds age) const {
    Owner owner = this_process();
    owner.machine = "another";
    owner.host = "far";
    fs::create_directories(folder());
    std::ofstream(folder() / name) << to_text(owner);
    fs::last_write_time(folder() / name, fs::file_time_type::clock::now() - age);
  }

  fs::path dir_;
};

TEST_F(BatchClaims, OneOwnerAtATime) {
  FileLock lock_a(lock()), lock_b(lock());
  Claims a(folder(), lock_a), b(folder(), lock_b);
  std::optional<Claim> claim = a.take("s");
  ASSERT_TRUE(claim);
  EXPECT_FALSE(a.take("s"));
  EXPECT_FALSE(b.take("s"));
  EXPECT_EQ(b.holder("s")->pid, ::getpid());
  EXPECT_TRUE(b.take("t"));
  EXPECT_FALSE(claim->is_lost());
  claim.reset();
  EXPECT_FALSE(fs::exists(folder() / "s"));
  EXPECT_FALSE(b.holder("s"));
  EXPECT_TRUE(b.take("s"));
}

TEST_F(BatchClaims, TheFolderGoesWithTheLastClaim) {
  {
    FileLock lock(this->lock());
    Claims claims(folder(), lock);
    EXPECT_TRUE(claims.take("s"));
    std::ofstream(folder() / ".new-1234") << "of a process that was killed";
    Owner dead = this_process();
    dead.start += 1;
    std::ofstream(folder() / "finished") << to_text(dead);
  }
  EXPECT_FALSE(fs::exists(folder()));
}

// Also as a zombie, which a killed process stays until its parent asks for it.
TEST_F(BatchClaims, OfAKilledProcessItIsTakenOverAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    FileLock lock(this->lock());
    Claims claims(folder(), lock);
    const auto claim = claims.take("s");
    ::kill(::getpid(), SIGKILL);
  }
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(fs::exists(folder() / "s"));
  FileLock lock(this->lock());
  Claims claims(folder(), lock);
  EXPECT_FALSE(claims.holder("s"));
  EXPECT_TRUE(claims.take("s"));
  ::waitpid(child, nullptr, 0);
}

TEST_F(BatchClaims, AnotherProcessOfTheSameNumberIsNotTheOwner) {
  Owner owner = this_process();
  EXPECT_EQ(is_alive(owner), true);
  owner.start += 1;
  EXPECT_EQ(is_alive(owner), false);
  owner.machine = "another";
  EXPECT_FALSE(is_alive(owner));
  EXPECT_EQ(owner_of(to_text(owner)), owner);
  EXPECT_FALSE(owner_of("{\"host\":1}"));
}

TEST_F(BatchClaims, OfAnotherMachineTheHeartbeatCounts) {
  FileLock lock(this->lock());
  Claims claims(folder(), lock, {milliseconds(50), milliseconds(10'000)});
  claim_elsewhere("fresh", milliseconds(5'000));
  EXPECT_FALSE(claims.take("fresh"));
  EXPECT_EQ(claims.holder("fresh")->host, "far");
  claim_elsewhere("stale", milliseconds(20'000));
  EXPECT_FALSE(claims.holder("stale"));
  const auto claim = claims.take("stale");
  ASSERT_TRUE(claim);
  // From here on it is renewed.
  fs::last_write_time(folder() / "stale", fs::file_time_type::clock::now() - milliseconds(20'000));
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    if (fs::file_time_type::clock::now() - fs::last_write_time(folder() / "stale") < milliseconds(10'000))
      break;
  }
  EXPECT_LT(fs::file_time_type::clock::now() - fs::last_write_time(folder() / "stale"), milliseconds(10'000));
}

// A process may be killed while it writes the file, where that cannot be done in one piece.
TEST_F(BatchClaims, AFileWithoutOwnerGoesByItsAge) {
  FileLock lock(this->lock());
  Claims claims(folder(), lock, {milliseconds(5000), milliseconds(10'000)});
  claim_elsewhere("s", milliseconds(0));
  std::ofstream(folder() / "s") << "{";
  EXPECT_FALSE(claims.take("s"));
  fs::last_write_time(folder() / "s", fs::file_time_type::clock::now() - milliseconds(20'000));
  EXPECT_TRUE(claims.take("s"));
}

// Nobody waits for the other end of a pipe.
TEST_F(BatchClaims, APipeIsNoClaimAndNoManifest) {
  fs::create_directories(folder());
  ASSERT_EQ(::mkfifo((folder() / "s").c_str(), 0600), 0);
  {
    FileLock of_lock(lock());
    Claims claims(folder(), of_lock, {milliseconds(50), milliseconds(0)});
    EXPECT_FALSE(claims.holder("s"));
    EXPECT_TRUE(claims.take("s"));
  }
  fs::remove(lock());
  ASSERT_EQ(::mkfifo(lock().c_str(), 0600), 0);
  EXPECT_THROW(FileLock{lock()}, std::system_error);
  EXPECT_THROW(ManifestReader(lock()).read(), std::system_error);
}

TEST_F(BatchClaims, AnOwnerNoticesThatItStoodStillForTooLong) {
  FileLock lock(this->lock());
  Claims claims(folder(), lock, {milliseconds(20), milliseconds(10'000)});
  std::optional<Claim> claim = claims.take("s");
  ASSERT_TRUE(claim);
  fs::remove(folder() / "s");
  claim_elsewhere("s", milliseconds(0));
  for (int i = 0; i < 200 && !claim->is_lost(); ++i) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(claim->is_lost());
  claim.reset();
  EXPECT_TRUE(fs::exists(folder() / "s"));  // it is the other's now
}

// Processes that find the same dead owner at the same moment: one of them takes its scene, and the others see
// that.
TEST_F(BatchClaims, TakingOverIsARaceThatOneWins) {
  constexpr int kProcesses = 6, kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    claim_elsewhere("s", milliseconds(3'600'000));
    int begin[2], end[2], results[2];  // pipes; what waits for one goes on when it is closed
    ASSERT_TRUE(::pipe(begin) == 0 && ::pipe(end) == 0 && ::pipe(results) == 0);
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      ::close(begin[1]);
      ::close(end[1]);
      {
        FileLock lock(this->lock());
        Claims claims(folder(), lock);
        char byte = 0;
        [[maybe_unused]] ssize_t ignored = ::read(begin[0], &byte, 1);
        const auto claim = claims.take("s");
        byte = claim ? 'w' : 'l';
        ignored = ::write(results[1], &byte, 1);
        ignored = ::read(end[0], &byte, 1);  // held while the others try
      }
      ::_exit(0);
    }
    ::close(begin[1]);
    int winners = 0;
    for (int p = 0; p < kProcesses; ++p) {
      char byte = 0;
      ASSERT_EQ(::read(results[0], &byte, 1), 1);
      winners += byte == 'w';
    }
    EXPECT_EQ(winners, 1) << round;
    for (const int file : {begin[0], end[0], end[1], results[0], results[1]}) ::close(file);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  }
}

TEST_F(BatchClaims, ThreadsTakeTurns) {
  FileLock lock(this->lock());
  Claims claims(folder(), lock);
  std::atomic<int> held = 0, taken = 0;
  std::atomic<bool> twice = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto claim = claims.take("s");
        if (!claim) continue;
        if (held++ != 0) twice = true;
        ++taken;
        --held;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(twice);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace vggt
