// A scratch folder is the run's own, and disappears with it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

#include "io/files/scratch_folder.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

TEST(ScratchFolder, IsItsOwnAndDisappearsWithWhatLiesInIt) {
  const fs::path parent = fs::temp_directory_path();
  fs::path first, second;
  {
    const ScratchFolder a(parent), b(parent);
    first = a.path();
    second = b.path();
    EXPECT_NE(first, second);
    EXPECT_EQ(first.parent_path(), parent);
    EXPECT_TRUE(first.filename().string().starts_with("vggt-recon-" + std::to_string(::getpid()) + "-"));
    std::ofstream(first / "maps") << "bytes";
    fs::create_directory(first / "more");
    EXPECT_EQ(fs::status(first).permissions() & fs::perms::others_all, fs::perms::none);
  }
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
  EXPECT_TRUE(fs::exists(parent));
}

TEST(ScratchFolder, DisappearsAfterAnError) {
  fs::path path;
  const auto fail = [&] {
    const ScratchFolder folder(fs::temp_directory_path());
    path = folder.path();
    throw std::runtime_error("stop");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchFolder, RemovesWhatKilledRunsLeft) {
  const ScratchFolder parent(fs::temp_directory_path());
  const ScratchFolder running(parent.path());
  const fs::path killed = parent.path() / "vggt-recon-12345-aBc123",
                 empty = parent.path() / "vggt-recon-12345-aBc124",
                 other = parent.path() / "vggt-recon-notes",
                 photos = parent.path() / "vggt-recon-2026-photos",
                 resumable = parent.path() / "vggt-recon-0123456789abcdef";
  fs::create_directory(empty);
  for (const fs::path& path : {killed, other, photos, resumable}) {
    fs::create_directory(path);
    std::ofstream(path / "maps") << "bytes";
  }
  fs::copy(running.path(), killed);  // what a run puts into its folder first
  const ScratchFolder next(parent.path());
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_TRUE(fs::exists(photos / "maps"));
  for (const fs::path& path : {running.path(), next.path(), other, resumable})
    EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(ScratchFolder, NeedsAFolderToStandIn) {
  try {
    const ScratchFolder folder("/nowhere/at all");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at all"), std::string::npos);
  }
}

}  // namespace
}  // namespace vggt
