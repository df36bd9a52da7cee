// What a killed process had begun is finished, and what it was still writing goes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "io/files/kill_guard.h"

namespace {

using namespace vggt;
namespace fs = std::filesystem;

class KillGuardTest : public testing::Test {
 protected:
  KillGuardTest() {
    fs::remove_all(dir_);
    fs::create_directories(hidden_);
  }
  ~KillGuardTest() override { fs::remove_all(dir_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// As a file system does that can, with three renames.
  static void exchange(const fs::path& a, const fs::path& b) {
    const fs::path third = a.string() + "-third";
    fs::rename(a, third);
    fs::rename(b, a);
    fs::rename(third, b);
  }

  /// Calls work(guard) in a process that is killed at its end, and waits until the guard has ended its work.
  void in_killed_process(const std::function<void(KillGuard& guard)>& work) const {
    const pid_t child = ::fork();
    if (child == 0) {
      KillGuard guard;
      guard.watch(hidden_);
      work(guard);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    for (int tries = 0; tries < 1000 && fs::exists(hidden_); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(fs::exists(hidden_));
  }

  const fs::path dir_ = fs::temp_directory_path() / ("vggt kill\nguard " + std::to_string(::getpid())),
                 hidden_ = dir_ / ".hidden";
};

TEST_F(KillGuardTest, FinishesWhatWasBegun) {
  const fs::path exchanged = "-a b", replaced = ".c\n$(d)", added = "*", folder = "e'\\0";
  for (const fs::path& name : {exchanged, replaced}) write(dir_ / name, "old");
  fs::create_directory(dir_ / folder);
  write(dir_ / folder / "of the old one", "old");
  in_killed_process([&](KillGuard& guard) {
    for (const fs::path& name : {exchanged, replaced, added}) write(hidden_ / name, "new");
    write(hidden_ / "not announced", "half");
    fs::create_directory(hidden_ / folder);
    write(hidden_ / folder / "of the new one", "new");
    guard.finish({hidden_ / exchanged, hidden_ / replaced, hidden_ / added, hidden_ / folder});
    exchange(hidden_ / exchanged, dir_ / exchanged);
  });
  for (const fs::path& name : {exchanged, replaced, added}) EXPECT_EQ(text_of(dir_ / name), "new") << name;
  EXPECT_EQ(text_of(dir_ / folder / "of the new one"), "new");
  EXPECT_FALSE(fs::exists(dir_ / folder / "of the old one"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 4);
}

TEST_F(KillGuardTest, FinishesInAllFolders) {
  const fs::path made = dir_ / "made", second = made / ".second";
  in_killed_process([&](KillGuard& guard) {
    fs::create_directories(second);
    guard.watch_made(made);
    guard.watch(second);
    write(hidden_ / "a", "new");
    write(second / "a", "new too");
    guard.finish({hidden_ / "a", second / "a"});
    fs::rename(second / "a", made / "a");
  });
  for (int tries = 0; tries < 1000 && fs::exists(second); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(text_of(dir_ / "a"), "new");
  EXPECT_EQ(text_of(made / "a"), "new too");
  EXPECT_FALSE(fs::exists(second));
}

TEST_F(KillGuardTest, WhatWasTakenBackIsNotFinished) {
  write(dir_ / "a", "old");
  in_killed_process([&](KillGuard& guard) {
    write(hidden_ / "a", "new");
    guard.finish({hidden_ / "a"});
    guard.do_not_finish();
  });
  EXPECT_EQ(text_of(dir_ / "a"), "old");
}

}  // namespace
