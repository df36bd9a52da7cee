// The manifest of a batch: what is written is read back; a line torn at any byte costs that line alone;
// several processes append at once.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <system_error>

#include "app/batch/manifest.h"
#include "tests/fuzz/check_batch.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

SceneRecord done(const std::string& scene, int64_t points = 7) {
  SceneRecord record;
  record.scene = scene;
  record.state = SceneState::done;
  record.time = "2026-01-31T12:34:56Z";
  record.source = "/in/" + scene;
  record.fingerprint = {"aa", "bb", "cc"};
  record.program = "1.2.3";
  record.host = "host";
  record.pid = 42;
  record.device = "cuda:1";
  record.seconds = 1.5;
  record.frames = 3;
  record.points = points;
  record.peak_host_bytes = 1;
  record.peak_device_bytes = 2;
  record.peak_device_reserved_bytes = 3;
  record.warnings = {"a \"quoted\"\nwarning"};
  record.error = "";
  record.files = {{"scene.ply", 12}, {"colmap", -1}};
  return record;
}

class BatchManifest : public ::testing::Test {
 protected:
  BatchManifest() {
    std::string name = (fs::temp_directory_path() / "vggt_manifest_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    path_ = dir_ / "manifest.jsonl";
  }
  ~BatchManifest() override { fs::remove_all(dir_); }

  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_text(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  fs::path dir_, path_;
};

TEST_F(BatchManifest, ALineIsReadBack) {
  const SceneRecord record = done("kitchen ü");
  const std::string line = to_line(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto read = from_line(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_line(*read), line);
  EXPECT_EQ(read->warnings, record.warnings);
  EXPECT_EQ(read->files.at(0).bytes, 12);
  EXPECT_EQ(read->fingerprint, record.fingerprint);
  // Names of files may be no UTF-8.
  SceneRecord odd = record;
  odd.source = "/in/\xff";
  EXPECT_TRUE(from_line(to_line(odd)));
}

TEST_F(BatchManifest, WhatIsNoRecordIsPassedOver) {
  for (const char* line :
       {"", "{", "[]", "7", "null", "{\"scene\":\"a\"}", "{\"scene\":\"a\",\"state\":\"odd\"}",
        "{\"scene\":7,\"state\":\"done\"}", "{\"scene\":\"\",\"state\":\"done\"}",
        "{\"scene\":\"a\",\"state\":\"done\",\"seconds\":\"x\"}",
        "{\"scene\":\"a\",\"state\":\"done\",\"fingerprint\":7}",
        "{\"scene\":\"a\",\"state\":\"done\",\"files\":[7]}",
        "{\"scene\":\"a\",\"state\":\"done\",\"points\":1e300}",
        "{\"scene\":\"a\",\"state\":\"done\",\"exit_code\":4294967296}",
        "{\"scene\":\"a\",\"state\":\"done\",\"files\":[{\"path\":\"x\",\"bytes\":0.5}]}"}) {
    EXPECT_FALSE(from_line(line)) << line;
  }
  // Keys of later programs are no harm.
  EXPECT_TRUE(from_line("{\"scene\":\"a\",\"state\":\"done\",\"later\":[1]}"));
}

// Lines, owners and names that somebody has damaged are refused, or are read as what they now say.
TEST_F(BatchManifest, WhatIsDamagedIsRefusedOrReadAsItIs) {
  SceneRecord record = done("küche 7");
  record.warnings = {"a \"quoted\" one", "\x1b["};
  std::mt19937 random(18);
  for (const std::string& whole :
       {to_line(record), to_text(this_process()), std::string("a\xc3\xa9/\xf0\x9f\x8f\xa0.mp4")}) {
    check_batch(whole);
    for (int i = 0; i < 4000; ++i) {
      std::string text = whole;
      for (int changes = 1 + static_cast<int>(random() % 4); changes > 0 && !text.empty(); --changes) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = static_cast<char>(random());
            break;
          case 1:
            text.erase(at, random() % 9);
            break;
          case 2:
            text.insert(at, std::string(1 + random() % 40, "9{[\":,e.-"[random() % 9]));
            break;
          default:
            text.insert(at, text.substr(random() % text.size(), random() % 30));
        }
      }
      check_batch(text);
    }
  }
}

// JSON that overflows the stack where it is copied is a damaged line like others.
TEST(ManifestLine, DeepNestingIsNoRecord) {
  const std::string deep(400'000, '['), end(400'000, ']');
  for (const char* name : {"fingerprint", "files", "later"}) {
    std::string line = "{\"scene\":\"a\",\"state\":\"done\",\"";
    line += name;
    EXPECT_FALSE(from_line(line + "\":" + deep + end + "}")) << name;
  }
}

// A process may be killed at any byte of a line.
TEST_F(BatchManifest, ALineTornAnywhereCostsItselfAlone) {
  const std::string first = to_line(done("a")) + "\n", second = to_line(done("b")) + "\n";
  for (std::size_t kept = 0; kept <= second.size(); ++kept) {
    set_text(first + second.substr(0, kept));
    FileLock lock(path_);
    Manifest manifest(path_, lock);
    EXPECT_EQ(manifest.last("b").has_value(), kept == second.size()) << kept;
    manifest.append(done("c"));
    EXPECT_TRUE(manifest.last("a") && manifest.last("c")) << kept;
    ManifestReader again(path_);
    const std::size_t whole = kept >= second.size() - 1 ? 3 : 2;  // a line without its end is one now
    EXPECT_EQ(again.read().size(), whole) << kept;
  }
}

TEST_F(BatchManifest, TheLastLineCounts) {
  FileLock lock(path_);
  Manifest manifest(path_, lock);
  SceneRecord running = done("a");
  running.state = SceneState::running;
  manifest.append(running);
  EXPECT_EQ(manifest.last("a")->state, SceneState::running);
  manifest.append(done("a", 9));
  EXPECT_EQ(manifest.last("a")->points, 9);
  EXPECT_FALSE(manifest.is_old(*manifest.last("a")));
  Manifest later(path_, lock);
  EXPECT_TRUE(later.is_old(*later.last("a")));
  EXPECT_FALSE(later.last("b"));
  ASSERT_EQ(later.all().size(), 1u);
}

TEST_F(BatchManifest, AFileThatIsGoneIsAnError) {
  FileLock lock(path_);
  Manifest manifest(path_, lock);
  manifest.append(done("a"));
  fs::remove(path_);
  EXPECT_THROW(manifest.append(done("b")), std::system_error);
  set_text("");  // another one in its place
  EXPECT_THROW(manifest.append(done("b")), std::system_error);
  EXPECT_EQ(text(), "");
}

// Lines written where others have read already would be lost to them.
TEST_F(BatchManifest, AFileThatLosesLinesIsAnError) {
  FileLock lock(path_);
  Manifest manifest(path_, lock);
  manifest.append(done("a"));
  ManifestReader reader(path_);
  EXPECT_EQ(reader.read().size(), 1u);
  EXPECT_EQ(manifest.all().size(), 1u);
  fs::resize_file(path_, 0);
  EXPECT_THROW(reader.read(), std::system_error);
  EXPECT_THROW(manifest.all(), std::system_error);
  EXPECT_THROW(manifest.append(done("b")), std::system_error);
  EXPECT_EQ(text(), "");
}

TEST_F(BatchManifest, SeveralProcessesAppendAtOnce) {
  constexpr int kProcesses = 4, kLines = 100;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    FileLock lock(path_);
    Manifest manifest(path_, lock);
    for (int i = 0; i < kLines; ++i) manifest.append(done(std::to_string(p) + "-" + std::to_string(i)));
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ManifestReader reader(path_);
  EXPECT_EQ(reader.read().size(), static_cast<std::size_t>(kProcesses * kLines));
  const std::string all = text();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), kProcesses * kLines);
}

// Of a line that the disk has no room for nothing stays.
TEST_F(BatchManifest, AFullDiskIsAnErrorAndLeavesTheOldLines) {
  FileLock lock(path_);
  Manifest manifest(path_, lock);
  manifest.append(done("a"));
  const std::string before = text();
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{before.size() + 20, before.size() + 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      manifest.append(done("b"));
      ::_exit(1);
    } catch (const std::system_error& error) {
      const bool full = error.code().value() == EFBIG || error.code().value() == ENOSPC;
      ::_exit(full && std::string(error.what()).find("manifest.jsonl") != std::string::npos ? 0 : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text(), before);
}

}  // namespace
}  // namespace vggt
