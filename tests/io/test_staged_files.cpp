// Output files appear together or not at all.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>

#include "io/files/folder_mark.h"
#include "io/files/staged_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class StagedFilesTest : public ::testing::Test {
 protected:
  StagedFilesTest() {
    std::string name = (fs::temp_directory_path() / "vggt_outputs_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~StagedFilesTest() override { fs::remove_all(dir_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }

  fs::path dir_;
};

TEST_F(StagedFilesTest, AllAppearAtOnce) {
  const fs::path a = dir_ / "a", b = dir_ / "new/b";
  write(a, "old");
  {
    StagedFiles files({a, b});
    files.write(a, [](const fs::path& place) { write(place, "new a"); });
    files.write(b, [](const fs::path& place) { write(place, "new b"); });
    EXPECT_EQ(text_of(a), "old");
    EXPECT_FALSE(fs::exists(b));
    files.commit();
  }
  EXPECT_EQ(text_of(a), "new a");
  EXPECT_EQ(text_of(b), "new b");
  EXPECT_EQ(entries(), 2u);
}

/// Whether nothing is in the folder within ten seconds.
bool becomes_empty(const fs::path& folder) {
  for (int tries = 0; tries < 1000; ++tries, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    if (fs::is_empty(folder)) return true;
  }
  return false;
}

TEST_F(StagedFilesTest, AProcessThatIsKilledLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    StagedFiles files({dir_ / "out/deep/a"});
    files.write(dir_ / "out/deep/a", [](const fs::path& place) { write(place, "half of it"); });
    files.write_folder(dir_ / "out/maps", [](const fs::path& place) { write(place / "b", "a map"); });
    if (fs::is_empty(dir_ / "out/deep")) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_TRUE(becomes_empty(dir_));
}

// It was there before the process, and so is what else lies in it.
TEST_F(StagedFilesTest, AKilledProcessLeavesAFolderThatItDidNotMake) {
  write(dir_ / "other", "kept");
  const pid_t child = ::fork();
  if (child == 0) {
    StagedFiles files({dir_ / "a"});
    files.write(dir_ / "a", [](const fs::path& place) { write(place, "half of it"); });
    if (std::distance(fs::directory_iterator(dir_), fs::directory_iterator()) != 2) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  for (int tries = 0; tries < 1000 && entries() != 1; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(text_of(dir_ / "other"), "kept");
}

// The third file was announced but never written: its rename fails after the others' have been done.
TEST_F(StagedFilesTest, ALateFailureBringsEverythingBack) {
  const fs::path a = dir_ / "a", b = dir_ / "b", c = dir_ / "c";
  write(a, "old a");
  write(c, "old c");
  {
    StagedFiles files({a, b, c});
    files.write(a, [](const fs::path& place) { write(place, "new a"); });
    files.write(b, [](const fs::path& place) { write(place, "new b"); });
    files.staged(c);
    EXPECT_THROW(files.commit(), std::system_error);
  }
  EXPECT_EQ(text_of(a), "old a");
  EXPECT_FALSE(fs::exists(b));
  EXPECT_EQ(text_of(c), "old c");
  EXPECT_EQ(entries(), 2u);  // no hidden folder is left
}

TEST_F(StagedFilesTest, WithoutCommitNothingChanges) {
  const fs::path a = dir_ / "deep/er/a";
  {
    StagedFiles files({a});
    files.write(a, [](const fs::path& place) { write(place, "x"); });
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(StagedFilesTest, WhatAKilledProcessLeftGoesWithTheNextRun) {
  fs::create_directory(dir_ / ".vggt-recon-Ab1xyZ");  // its guard was killed too
  write(dir_ / ".vggt-recon-Ab1xyZ/a", "half");
  write(dir_ / ".vggt-recon-Ab1xyZ" / kFolderMark, "");
  StagedFiles early({dir_ / "b"});
  EXPECT_EQ(entries(), 1U);  // the guard may be at work
  fs::last_write_time(dir_ / ".vggt-recon-Ab1xyZ",
                      fs::file_time_type::clock::now() - std::chrono::minutes(2));
  StagedFiles living({dir_ / "b"});
  EXPECT_EQ(entries(), 0U);
  const fs::path place = living.staged(dir_ / "b");
  StagedFiles other({dir_ / "c"});
  other.staged(dir_ / "c");
  EXPECT_EQ(entries(), 2U);
  EXPECT_TRUE(fs::exists(place.parent_path()));  // a living one stays
}

TEST_F(StagedFilesTest, AUsersHiddenFolderStays) {
  const fs::path own = dir_ / ".vggt-recon-backup";
  fs::create_directory(own);
  write(own / "notes", "dear");
  fs::last_write_time(own, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  StagedFiles files({dir_ / "b"});
  EXPECT_EQ(text_of(own / "notes"), "dear");
}

TEST_F(StagedFilesTest, AProcessThatIsKilledBeforeItWritesLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    StagedFiles files({dir_ / "new" / "a"}, {dir_ / "other" / "b"});
    ::_exit(0);  // without destructors
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(StagedFilesTest, FoldersAppearWholeAndAreReplacedWhole) {
  const fs::path folder = dir_ / "out/model";
  for (const char* name : {"first", "second"}) {
    StagedFiles files({dir_ / "out/a"}, {folder});
    files.write(dir_ / "out/a", [&](const fs::path& place) { write(place, name); });
    files.write_folder(folder, [&](const fs::path& place) {
      fs::create_directory(place / "deep");
      write(place / "deep" / name, name);
    });
    EXPECT_FALSE(fs::exists(folder / "deep" / name));
    files.commit();
  }
  EXPECT_EQ(text_of(folder / "deep/second"), "second");
  EXPECT_FALSE(fs::exists(folder / "deep/first"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "out"), fs::directory_iterator()), 2);
}

TEST_F(StagedFilesTest, WhatIsWrongNamesThePlaceThatWasMeant) {
  StagedFiles files({}, {dir_ / "all"});
  try {
    files.write_folder(dir_ / "all", [](const fs::path& place) {
      throw std::invalid_argument((place / "points.ply").string() + ": point 0 is not finite");
    });
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), (dir_ / "all/points.ply").string() + ": point 0 is not finite");
  }
}

TEST_F(StagedFilesTest, InputsAreKeptApart) {
  fs::create_directories(dir_ / "export/sub");
  write(dir_ / "export/sub/a", "a");
  write(dir_ / "b", "b");
  EXPECT_THROW(check_apart({dir_ / "b"}, {dir_ / "." / "b"}), std::invalid_argument);
  EXPECT_THROW(check_apart({dir_ / "made/../b"}, {dir_ / "b"}), std::invalid_argument);  // by the run
  EXPECT_THROW(check_apart({}, {dir_ / "export/sub/a"}, {dir_ / "export"}), std::invalid_argument);
  EXPECT_THROW(check_apart({}, {dir_ / "export"}, {dir_ / "export"}), std::invalid_argument);
  EXPECT_NO_THROW(
      check_apart({dir_ / "c"}, {dir_ / "b", "", dir_ / "export"}, {dir_ / "export/sub", dir_ / "exp"}));
}

TEST_F(StagedFilesTest, ALinkIsNoExportsFolder) {
  const fs::path link = dir_ / "depth";
  for (const fs::path& place : {fs::path("/tmp"), dir_ / "nowhere"}) {
    fs::create_directory_symlink(place, link);
    EXPECT_THROW(check_replaceable(link), std::invalid_argument) << place;
    EXPECT_THROW(check_writable({}, {link}), std::invalid_argument) << place;
    fs::remove(link);
  }
}

TEST_F(StagedFilesTest, ADeviceOrPipeIsNotReplaced) {
  const fs::path pipe = dir_ / "pipe", link = dir_ / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", link);
  for (const fs::path& path : {pipe, link, fs::path("/dev/null")}) {
    EXPECT_THROW(check_writable({path}), std::invalid_argument) << path;
    EXPECT_THROW(StagedFiles({path}), std::invalid_argument) << path;
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(), 2U);
}

TEST_F(StagedFilesTest, AFileInAFolderThatIsMadeAnewIsRefused) {
  const fs::path folder = dir_ / "model";
  EXPECT_NO_THROW(check_writable({dir_ / "model.png", dir_ / "other/a.png"}, {folder}));
  EXPECT_THROW(check_writable({dir_ / "other/../model/a/b.png"}, {folder}), std::invalid_argument);
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(StagedFilesTest, AFolderWithForeignFilesStays) {
  const fs::path folder = dir_ / "model";
  {
    StagedFiles files({}, {folder});
    files.write_folder(folder, [](const fs::path& place) { write(place / "ours", "x"); });
    files.commit();
  }
  EXPECT_NO_THROW(check_replaceable(folder));
  EXPECT_NO_THROW(check_replaceable(dir_ / "absent"));
  write(folder / "theirs", "y");
  EXPECT_THROW(check_replaceable(folder), std::invalid_argument);
  EXPECT_THROW(check_writable({}, {folder}), std::invalid_argument);
  EXPECT_THROW(StagedFiles({}, {folder}), std::invalid_argument);
  fs::remove(folder / "theirs");
  {
    StagedFiles files({}, {folder});
    files.write_folder(folder, [](const fs::path& place) { write(place / "new", "z"); });
    write(folder / "late", "y");  // while the run was under way
    EXPECT_THROW(files.commit(), std::invalid_argument);
  }
  EXPECT_EQ(text_of(folder / "ours"), "x");
  EXPECT_EQ(text_of(folder / "late"), "y");
  EXPECT_FALSE(fs::exists(folder / "new"));
  write(dir_ / "file", "");
  EXPECT_THROW(check_replaceable(dir_ / "file"), std::system_error);
  EXPECT_EQ(entries(), 2u);
}

TEST_F(StagedFilesTest, ALateFailureBringsFoldersBack) {
  const fs::path folder = dir_ / "model", fresh = dir_ / "fresh", never = dir_ / "never";
  for (const bool fails : {false, true}) {
    StagedFiles files({never}, {folder, fresh});
    files.write_folder(folder, [&](const fs::path& place) { write(place / "a", fails ? "new" : "old"); });
    if (fails) files.write_folder(fresh, [](const fs::path& place) { write(place / "b", "new"); });
    if (!fails) {
      files.commit();
      continue;
    }
    files.staged(never);
    EXPECT_THROW(files.commit(), std::system_error);
  }
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace vggt
