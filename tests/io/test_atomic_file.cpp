// A failure to write leaves the old file and nothing else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ostream>
#include <stdexcept>
#include <system_error>

#include "io/files/atomic_file.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

// The error code that writing a file of this many bytes throws; 0 if nothing, -1 if the message lacks the
// path.
int error_of_writing(const std::filesystem::path& path, std::size_t bytes) {
  try {
    write_atomically(path, [&](std::ostream& out) { out << std::string(bytes, 'x'); });
  } catch (const std::system_error& error) {
    return std::string(error.what()).find(path.string()) == std::string::npos ? -1 : error.code().value();
  }
  return 0;
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  const auto path = folder / "a.bin";
  test::write_text(path, "old");
  // Sizes below and above the stream's buffer: the error shows in the flush or in the middle.
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{3} << 20}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{4096, 4096};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::_exit(error_of_writing(path, bytes));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EFBIG);
    EXPECT_EQ(folder.file_count(), 1U);
    EXPECT_EQ(test::read_bytes(path), (std::vector<uint8_t>{'o', 'l', 'd'}));
  }
}

TEST(AtomicFile, PathsThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "file", "x");
  EXPECT_EQ(error_of_writing(folder / "file/below.bin", 10), ENOTDIR);
  EXPECT_EQ(error_of_writing(folder / "absent/a.bin", 10), ENOENT);
  EXPECT_EQ(error_of_writing(folder.path(), 10), EISDIR);
  EXPECT_EQ(error_of_writing("/dev/null", 10), EINVAL);
  EXPECT_EQ(error_of_writing(folder / std::string(300, 'n'), 10), ENAMETOOLONG);
  EXPECT_EQ(folder.file_count(), 1U);
  EXPECT_EQ(error_of_writing(folder / "file", 10), 0);
  EXPECT_EQ(test::read_bytes(folder / "file").size(), 10U);
}

TEST(AtomicFile, AnErrorOfTheBodyPassesThrough) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.bin", "old");
  EXPECT_THROW(write_atomically(folder / "a.bin",
                                [](std::ostream& out) {
                                  out << "half";
                                  throw std::out_of_range("stop");
                                }),
               std::out_of_range);
  EXPECT_EQ(folder.file_count(), 1U);
  EXPECT_EQ(test::read_bytes(folder / "a.bin").size(), 3U);
}

TEST(AtomicFile, AKilledProcessLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  const int without_name = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (without_name < 0) GTEST_SKIP() << "this file system knows no files without a name";
  ::close(without_name);
  test::write_text(folder / "a.bin", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    write_atomically(folder / "a.bin", [](std::ostream& out) {
      out << std::string(3 << 20, 'x');
      ::kill(::getpid(), SIGKILL);
    });
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.file_count(), 1U);
  EXPECT_EQ(test::read_bytes(folder / "a.bin").size(), 3U);
}

TEST(AtomicFile, LinksKeepPointingAndStreamsSeek) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "real.bin", "old");
  std::filesystem::create_symlink("real.bin", folder / "link.bin");
  write_atomically(folder / "link.bin", [](std::ostream& out) {
    out << std::string(2 << 20, 'a');
    EXPECT_EQ(out.tellp(), 2 << 20);
    out.seekp(1);
    out << 'b';
  });
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.bin"));
  const auto bytes = test::read_bytes(folder / "real.bin");
  ASSERT_EQ(bytes.size(), std::size_t{2} << 20);
  EXPECT_EQ(bytes[1], 'b');
  EXPECT_EQ(bytes[2], 'a');
}

}  // namespace
}  // namespace vggt
