// Batches that are killed, stopped, or run twice at once. VGGT_BATCH_KILLS=30 VGGT_BATCH_SCENES=10 makes the
// long test.
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "app/batch/file_lock.h"
#include "tests/support/batch.h"

namespace vggt::test {
namespace {

using Clock = std::chrono::steady_clock;

int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

class BatchFaults : public BatchTest {
 protected:
  void make_scenes(int count) {
    for (int i = 0; i < count; ++i) make_scene(std::string(1, static_cast<char>('a' + i)), 2 + i % 3);
  }
  /// Every scene is done, nobody has claims, and no hidden folder is left.
  void expect_all_done(int scenes) const {
    const auto last = last_records();
    EXPECT_EQ(last.size(), static_cast<std::size_t>(scenes));
    for (const auto& [name, record] : last) EXPECT_EQ(record["state"], "done") << name;
    EXPECT_FALSE(fs::exists(dir_ / "results/.claims"));
  }
  /// Between two beginnings of a scene the process of the first one has ended. ended: processes that are dead
  /// for another reason than their own lines.
  void expect_never_twice_at_once(const std::set<int64_t>& killed) const {
    std::map<std::string, int64_t> owner;  // of scenes that are begun and not over
    for (const json& record : records()) {
      const std::string scene = record["scene"];
      const int64_t pid = record["pid"];
      if (record["state"] == "running") {
        if (owner.contains(scene)) {
          EXPECT_TRUE(killed.contains(owner[scene])) << scene;
        }
        owner[scene] = pid;
      } else {
        EXPECT_EQ(owner[scene], pid) << scene;
        owner.erase(scene);
      }
    }
  }
  void wait_until_begun(const std::string& scene) const {
    for (int i = 0; i < 3000 && runs_of(scene) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GT(runs_of(scene), 0);
  }
  /// Until a process has said that another one has scenes.
  void wait_until_it_waits(const std::string& log) const {
    for (int i = 0; i < 3000 && text_of(path(log)).find("waiting for") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  /// Stops it at a moment when it does not hold the results' lock, for which others would wait.
  void stop_for_a_while(pid_t process) const {
    FileLock lock(path("results/manifest.jsonl"));
    const FileLock::Turn turn(lock);
    ::kill(process, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, WUNTRACED), process);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
};

TEST_F(BatchFaults, KilledAtRandomMomentsNothingIsLost) {
  const int scenes = number_of("VGGT_BATCH_SCENES", 4), kills = number_of("VGGT_BATCH_KILLS", 4);
  make_scenes(scenes);
  ASSERT_EQ(batch().code, 0);  // which reads the program's libraries for the first time
  fs::remove_all(dir_ / "results");
  const Clock::time_point start = Clock::now();
  ASSERT_EQ(batch().code, 0);
  double duration = std::chrono::duration<double>(Clock::now() - start).count();
  const Files expected = files_in("results");
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(3 * scenes));

  std::mt19937 random(20);
  int killed_in_time = 0, begun = 0, torn = 0;
  for (int kill = 0; kill < kills; ++kill) {
    fs::remove_all(dir_ / "results");
    std::set<int64_t> killed;
    for (;;) {  // until a process comes to its end
      const double moment = std::uniform_real_distribution<double>(0, 1)(random) * duration;
      const pid_t process = start_batch("", "log");
      std::this_thread::sleep_for(std::chrono::duration<double>(moment));
      ::kill(process, SIGKILL);
      const int status = wait_for(process);
      if (!WIFSIGNALED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0) << text_of(path("log"));
        duration = std::min(duration, moment);  // the first run may have been slow
        if (!killed.empty()) break;
        fs::remove_all(dir_ / "results");
        continue;
      }
      killed.insert(process);
      ++killed_in_time;
      if (killed.size() >= 3) {
        ASSERT_EQ(batch().code, 0);
        break;
      }
    }
    expect_all_done(scenes);
    expect_never_twice_at_once(killed);
    EXPECT_TRUE(files_in("results") == expected) << "kill " << kill;
    for (const json& record : records()) begun += record["state"] == "running";
    const std::string manifest = text_of(path("results/manifest.jsonl"));
    torn += static_cast<int>(std::count(manifest.begin(), manifest.end(), '\n')) !=
            static_cast<int>(records().size());
  }
  EXPECT_GE(killed_in_time, kills);
  std::printf(
      "%d batches of %d scenes, %d processes killed: %d scenes begun for %d that are done, %d torn lines; "
      "undisturbed at most %.2f s\n",
      kills, scenes, killed_in_time, begun, kills * scenes, torn, duration);
}

TEST_F(BatchFaults, TwoProcessesDoEachSceneOnce) {
  constexpr int kScenes = 8;
  make_scenes(kScenes);
  ASSERT_EQ(batch().code, 0);
  const Files expected = files_in("results");
  fs::remove_all(dir_ / "results");
  const pid_t first = start_batch("", "log1"), second = start_batch("", "log2");
  const int first_status = wait_for(first), second_status = wait_for(second);
  EXPECT_EQ(first_status, 0) << text_of(path("log1"));
  EXPECT_EQ(second_status, 0) << text_of(path("log2"));
  expect_all_done(kScenes);
  for (const auto& [name, record] : last_records()) EXPECT_EQ(runs_of(name), 1) << name;
  expect_never_twice_at_once({});
  EXPECT_TRUE(files_in("results") == expected);
}

// The second one waits for the first one's scene, and does it when that is killed.
TEST_F(BatchFaults, AnotherProcessDoesWhatAKilledOneHad) {
  constexpr int kScenes = 8;  // more than it may do until it is stopped
  make_scenes(kScenes);
  const pid_t first = start_batch("", "log1");
  wait_until_begun("a");
  stop_for_a_while(first);  // alive, and still
  const pid_t second = start_batch("", "log2");
  wait_until_it_waits("log2");
  EXPECT_NE(text_of(path("log2")).find("waiting for scenes of other processes: "), std::string::npos);
  ::kill(first, SIGKILL);
  const int status = wait_for(second);
  EXPECT_EQ(status, 0) << text_of(path("log2"));
  wait_for(first);
  expect_all_done(kScenes);
  expect_never_twice_at_once({first});
}

// Exports that older options asked for, of a scene whose run without them was killed or stopped.
TEST_F(BatchFaults, WhatAKilledRunWouldHaveReplacedGoes) {
  make_scenes(2);
  for (const int signal : {SIGKILL, SIGTERM}) {
    ASSERT_EQ(batch("--export kitti,depth").code, 0);
    const int begun = runs_of("a");
    const pid_t process = start_batch("", "log");
    for (int i = 0; i < 3000 && runs_of("a") == begun; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(runs_of("a"), begun + 1);
    ::kill(process, signal);
    wait_for(process);
    ASSERT_TRUE(fs::exists(dir_ / "results/a/kitti.txt")) << "it was done before it was killed";
    ASSERT_EQ(batch().code, 0);
    EXPECT_FALSE(fs::exists(dir_ / "results/a/kitti.txt") || fs::exists(dir_ / "results/a/depth")) << signal;
  }
}

// Neither can know the other's options before it looks at what the other did. How many scenes the first one
// has begun when it is stopped depends on the machine.
TEST_F(BatchFaults, TwoProcessesOfOtherOptionsSaySo) {
  constexpr int kScenes = 8;
  make_scenes(kScenes);
  const pid_t first = start_batch("", "log1");
  wait_until_begun("a");
  stop_for_a_while(first);
  const pid_t second = start_batch("--conf-percentile 20", "log2");
  wait_until_it_waits("log2");
  ::kill(first, SIGCONT);
  const int first_status = wait_for(first), second_status = wait_for(second);
  std::set<std::string> by_second;
  for (const auto& [name, record] : last_records()) {
    if (record["pid"] == second) by_second.insert(name);
  }
  const int second_did = static_cast<int>(by_second.size());
  ASSERT_TRUE(0 < second_did && second_did < kScenes) << second_did;
  for (const auto& [status, log, others] :
       {std::tuple(first_status, "log1", second_did), {second_status, "log2", kScenes - second_did}}) {
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 2) << text_of(path(log));
    EXPECT_NE(text_of(path(log)).find(std::to_string(others) +
                                      " of 8 scenes had another process's options or weights meanwhile: "),
              std::string::npos)
        << text_of(path(log));
  }
  ASSERT_EQ(batch().code, 0);
  expect_all_done(kScenes);
  for (const auto& [name, record] : last_records())
    EXPECT_EQ(runs_of(name), by_second.contains(name) ? 2 : 1) << name;
}

TEST_F(BatchFaults, AStopGivesTheSceneUpAndKeepsTheRest) {
  constexpr int kScenes = 4;
  make_scenes(kScenes);
  const pid_t process = start_batch("", "log");
  wait_until_begun("a");
  ::kill(process, SIGTERM);
  const int status = wait_for(process);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130) << text_of(path("log"));
  EXPECT_NE(text_of(path("log")).find("error: stopped; the same command"), std::string::npos)
      << text_of(path("log"));
  EXPECT_FALSE(fs::exists(dir_ / "results/.claims"));
  for (const auto& [name, record] : last_records()) EXPECT_NE(record["state"], "running") << name;
  for (const auto& [name, bytes] : files_in("results"))
    EXPECT_EQ(name.find(".vggt"), std::string::npos) << name;
  EXPECT_EQ(batch().code, 0);
  expect_all_done(kScenes);
  expect_never_twice_at_once({});
}

}  // namespace
}  // namespace vggt::test
