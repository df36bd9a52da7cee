// Files that are no images, or damaged ones: each is skipped with one line, or ends the load with `strict`,
// and nothing else reaches stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <system_error>

#include "io/frames/frames.h"
#include "io/frames/image_header.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using test::encoded;
using test::load_error;
using test::write_bytes;
using test::write_text;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

FrameOptions small_options(const std::filesystem::path& source) {
  FrameOptions options;
  options.source = source;
  options.width = 56;
  return options;
}

using Bytes = std::vector<uint8_t>;

Bytes first_part(const Bytes& bytes, double share) {
  return {bytes.begin(),
          bytes.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(bytes.size()))};
}

class TruncatedImage : public testing::TestWithParam<const char*> {};

TEST_P(TruncatedImage, IsSkippedWhereverItEnds) {
  const std::string extension = GetParam();
  const Bytes whole = encoded(extension, test::noise_picture(64, 48, 5));
  const test::TemporaryFolder folder;
  write_bytes(folder / ("00" + extension), whole);
  int count = 0;
  for (const double share : {0.0005, 0.001, 0.003, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999}) {
    write_bytes(folder / (std::to_string(++count) + extension), first_part(whole, share));
  }
  test::StderrCapture capture;
  const FrameSet set = load_frames(small_options(folder.path()));
  EXPECT_EQ(capture.text(), "");
  EXPECT_THAT(set.frames, SizeIs(1));
  ASSERT_THAT(set.warnings, SizeIs(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_THAT(set.warnings[i],
                AllOf(HasSubstr(std::to_string(i + 1) + extension + ": "), Not(HasSubstr("\n"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TruncatedImage, testing::Values(".jpg", ".png", ".webp", ".tiff", ".bmp"),
                         [](const auto& info) { return std::string(info.param + 1); });

TEST(BadImages, FlippedBitsNeverCrash) {
  const test::TemporaryFolder folder;
  write_bytes(folder / "good.png", encoded(".png", test::flat_picture(30, 30, 5)));
  std::mt19937 random(11);
  int number = 0;
  for (const std::string extension : {".jpg", ".png", ".webp", ".tiff", ".bmp"}) {
    const Bytes whole = encoded(extension, test::position_picture(40, 30));
    for (int i = 0; i < 60; ++i) {
      Bytes bytes = whole;
      // Half of them in the header, where they matter most.
      const std::size_t reach = i % 2 == 0 ? std::min<std::size_t>(64, bytes.size()) : bytes.size();
      bytes[random() % reach] ^= static_cast<uint8_t>(1U << random() % 8);
      write_bytes(folder / (std::to_string(number++) + extension), bytes);
    }
  }
  test::StderrCapture capture;  // libjpeg reports what it repairs
  const FrameSet set = load_frames(small_options(folder.path()));
  capture.text();
  EXPECT_THAT(set.frames.size() + set.warnings.size(), number + 1);
}

TEST(BadImages, PngWithAWrongChecksum) {
  const test::TemporaryFolder folder;
  Bytes bytes = encoded(".png", test::noise_picture(64, 48, 5));
  bytes[bytes.size() / 2] ^= 4;
  write_bytes(folder / "a.png", bytes);
  test::StderrCapture capture;
  EXPECT_THAT(load_error(small_options(folder.path())), HasSubstr("a.png: is a damaged PNG"));
  EXPECT_EQ(capture.text(), "");
}

struct BadFile {
  const char* name;
  Bytes bytes;
  const char* reason;
};

std::vector<BadFile> bad_files() {
  Bytes text{'h', 'e', 'l', 'l', 'o'};
  return {
      {"empty.jpg", {}, "is empty"},
      {"text.png", text, "is not a JPEG"},
      {"flat.png", encoded(".png", test::flat_picture(3000, 2, 9)), "3000x2 pixels: the height rounds to 0"},
      {"short.jpg", first_part(encoded(".jpg", test::noise_picture(50, 50, 1)), 0.8), "is truncated"}};
}

TEST(BadImages, AreSkippedAmongGoodOnes) {
  const test::TemporaryFolder folder;
  write_bytes(folder / "a.png", encoded(".png", test::flat_picture(30, 30, 5)));
  write_bytes(folder / "z.png", encoded(".png", test::flat_picture(30, 30, 6)));
  for (const BadFile& file : bad_files()) write_bytes(folder / file.name, file.bytes);
  std::filesystem::create_symlink(folder / "nowhere", folder / "link.png");
  test::StderrCapture capture;
  const FrameSet set = load_frames(small_options(folder.path()));
  EXPECT_EQ(capture.text(), "");
  EXPECT_THAT(test::files_of(set), testing::ElementsAre("a.png", "z.png"));
  EXPECT_EQ(set.frames[1].time_s, 6);
  ASSERT_THAT(set.warnings, SizeIs(5));
  EXPECT_THAT(set.warnings, testing::Contains(AllOf(HasSubstr("link.png"), HasSubstr("No such file"))));
  for (const BadFile& file : bad_files()) {
    EXPECT_THAT(set.warnings, testing::Contains(AllOf(HasSubstr(file.name), HasSubstr(file.reason))));
  }
}

TEST(BadImages, StrictNamesTheFirst) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) {
    const auto path = folder / (std::to_string(i) + ".png");
    i == 3 || i == 7 ? write_text(path, "x")
                     : write_bytes(path, encoded(".png", test::noise_picture(300, 300, 5)));
  }
  FrameOptions options = small_options(folder.path());
  options.strict = true;
  options.threads = 6;
  for (int repeat = 0; repeat < 5; ++repeat) {
    EXPECT_THAT(load_error(options), AllOf(HasSubstr("3.png: is not a JPEG"), Not(HasSubstr("7.png"))));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take terabytes of address space
// Decoders say of a file that it is damaged where they have no memory for it.
TEST(BadImages, AreNotTakenForDamagedWhereMemoryLacks) {
  const test::TemporaryFolder folder;
  write_bytes(folder / "good.png", encoded(".png", test::noise_picture(4000, 3000, 5)));
  write_bytes(folder / "bad.png", first_part(encoded(".png", test::noise_picture(64, 48, 5)), 0.9));
  EXPECT_THAT(load_frames(small_options(folder.path())).frames, SizeIs(1));
  const pid_t child = ::fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto limit = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (int64_t{30} << 20));
    const rlimit address_space{limit, limit};
    if (::setrlimit(RLIMIT_AS, &address_space) != 0) ::_exit(2);
    FrameOptions options = small_options(folder.path());
    options.threads = 1;
    try {
      load_frames(options);
    } catch (const std::bad_alloc&) {
      ::_exit(0);
    } catch (const std::system_error& error) {  // the file cannot be mapped
      ::_exit(error.code() == std::errc::not_enough_memory ? 0 : 1);
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

TEST(BadImages, OnlyBadOnesAreAnError) {
  const test::TemporaryFolder folder;
  for (const BadFile& file : bad_files()) write_bytes(folder / file.name, file.bytes);
  EXPECT_THAT(load_error(small_options(folder.path())),
              AllOf(HasSubstr("none of the 4 frames can be used"), HasSubstr("empty.jpg: is empty"),
                    Not(HasSubstr("\n"))));
  for (const BadFile& file : bad_files()) {
    EXPECT_THAT(load_error(small_options(folder / file.name)), HasSubstr(file.reason)) << file.name;
  }
}

/// A little-endian TIFF directory of such (tag, value) pairs, in order, and nothing else.
Bytes tiff_of(const std::vector<std::pair<uint16_t, uint16_t>>& fields) {
  Bytes bytes{'I', 'I', 42, 0, 8, 0, 0, 0, static_cast<uint8_t>(fields.size()), 0};
  for (const auto& [tag, value] : fields) {
    for (const int part : {tag & 255, tag >> 8, 3, 0, 1, 0, 0, 0, value & 255, value >> 8, 0, 0})
      bytes.push_back(static_cast<uint8_t>(part));
  }
  bytes.insert(bytes.end(), 4, 0);
  return bytes;
}

// Before any of them is in memory.
TEST(TiffHeaders, TellWhatDecodingTakes) {
  const auto header = [](uint16_t tag, uint16_t value, uint16_t compression = 1, uint16_t colors = 2) {
    std::vector<std::pair<uint16_t, uint16_t>> fields = {
        {256, 600}, {257, 400}, {258, 8}, {259, compression}, {262, colors}, {277, colors == 3 ? 1 : 3},
        {278, 400}};
    if (tag > 278) fields.emplace_back(tag, value);
    const Bytes file = tiff_of(fields);
    return read_image_header(std::as_bytes(std::span(file)));
  };
  EXPECT_EQ(header(0, 0).bytes_per_pixel, 3);
  EXPECT_EQ(header(0, 0).decoder_bytes, 0);
  EXPECT_EQ(header(284, 2).decoder_bytes, 5);           // planes that lie apart
  EXPECT_NEAR(header(0, 0, 5).decoder_bytes, 4, .01);   // one compressed strip, of few bytes
  EXPECT_EQ(header(0, 0, 1, 3).bytes_per_pixel, 3);     // a palette's colours
  EXPECT_THROW(header(339, 3), std::invalid_argument);  // numbers with a point
}

TEST(TiffHeaders, BytesOfAStripCountAsFarAsTheyGo) {
  const auto held = [](uint16_t rows, uint16_t planes, std::size_t file_bytes, uint16_t compression = 5,
                       uint16_t bits = 8) {
    Bytes file = tiff_of({{256, 60},
                          {257, 40},
                          {258, bits},
                          {259, compression},
                          {262, 2},
                          {277, 3},
                          {278, rows},
                          {284, planes}});
    if (file_bytes > 0) file.resize(file_bytes);
    return read_image_header(std::as_bytes(std::span(file))).decoder_bytes;
  };
  constexpr std::size_t kPixels = 60 * 40;
  EXPECT_NEAR(held(40, 1, 2 * kPixels), 6, 1e-9);
  EXPECT_NEAR(held(10, 1, 2 * kPixels), 6. / 4, 1e-9);
  EXPECT_NEAR(held(40, 2, 3 * kPixels), 5, 1e-9);  // a strip of a plane
  EXPECT_NEAR(held(20, 1, 0, 1), 7. / 2, 1e-9);    // not compressed
  EXPECT_NEAR(held(20, 1, 0, 1, 16), 6. / 2, 1e-9);
  EXPECT_NEAR(held(40, 2, 0, 1, 16), 2, 1e-9);
  EXPECT_NEAR(held(40, 1, 1000 * kPixels), 4 + 1.5 * 3, 1e-9);  // a file of other things
}

TEST(TiffHeaders, TilesAreHeldWhole) {
  const auto held = [](uint16_t columns, uint16_t rows) {
    const Bytes file =
        tiff_of({{256, 60}, {257, 40}, {258, 8}, {262, 2}, {277, 3}, {322, columns}, {323, rows}});
    return read_image_header(std::as_bytes(std::span(file))).decoder_bytes;
  };
  EXPECT_NEAR(held(64, 48), 7, 1e-9);
  EXPECT_NEAR(held(30, 20), 7. / 4, 1e-9);
}

TEST(TiffHeaders, OddNumbersAreNoTrouble) {
  for (const uint16_t samples : {0, 1, 65535}) {
    const Bytes file =
        tiff_of({{256, 60}, {257, 40}, {258, 65535}, {259, 5}, {277, samples}, {278, 0}, {284, 2}});
    const ImageHeader header = read_image_header(std::as_bytes(std::span(file)));
    EXPECT_GE(header.bytes_per_pixel, 1);
    EXPECT_LE(header.bytes_per_pixel, 32);
    EXPECT_GE(header.decoder_bytes, 0);
    EXPECT_LE(header.decoder_bytes, 64);
  }
}

TEST(PngHeaders, PalettesHaveAlphaWhereAChunkSaysSo) {
  const auto header = [](std::string_view chunk) {
    Bytes file{0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0,
               60,   0,   0,   0,   40,   8,    3,    0,    0, 0, 0, 0,  0,   0,   0,   0,   0, 1};
    file.insert(file.end(), chunk.begin(), chunk.end());
    file.insert(file.end(), 5, 0);
    return read_image_header(std::as_bytes(std::span(file)));
  };
  EXPECT_EQ(header("tEXt").bytes_per_pixel, 3);
  EXPECT_EQ(header("tRNS").bytes_per_pixel, 4);
}

TEST(BmpHeaders, TellGrayFromColors) {
  const auto header = [](uint16_t bits, uint8_t blue) {
    Bytes file(54 + 4 * 256, 0);
    const auto put = [&](std::size_t at, uint32_t value) {
      for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(value >> 8 * i);
    };
    file[0] = 'B';
    file[1] = 'M';
    put(14, 40);
    put(18, 60);
    put(22, 40);
    put(26, 1U | uint32_t{bits} << 16);
    for (std::size_t i = 0; i < 256; ++i) put(54 + 4 * i, static_cast<uint32_t>(i * 0x010101));
    file[54 + 4] = blue;
    return read_image_header(std::as_bytes(std::span(file)));
  };
  EXPECT_EQ(header(1, 1).bytes_per_pixel, 1);
  EXPECT_EQ(header(8, 1).bytes_per_pixel, 1);
  EXPECT_EQ(header(8, 2).bytes_per_pixel, 3);
  EXPECT_EQ(header(24, 1).bytes_per_pixel, 3);
  EXPECT_EQ(header(32, 1).bytes_per_pixel, 4);
}

TEST(BadImages, ExtremeShapesThatRun) {
  const test::TemporaryFolder folder;
  write_bytes(folder / "1.png", encoded(".png", test::flat_picture(1, 1, 50)));
  write_bytes(folder / "2.png", encoded(".png", test::flat_picture(1, 20000, 50)));
  write_bytes(folder / "3.png", encoded(".png", test::flat_picture(8000, 2000, 50)));
  const FrameSet set = load_frames(small_options(folder.path()));
  EXPECT_THAT(set.warnings, IsEmpty());
  ASSERT_THAT(set.frames, SizeIs(3));
  EXPECT_EQ(set.height, 56);
  // The 56 rows are from the middle of 1,120,000.
  EXPECT_EQ(set.frames[1].map.pad_y, -(1120000 - 56) / 2);
  EXPECT_EQ(set.rgb(1), Bytes(3 * 56 * 56, 50));
  EXPECT_EQ(set.frames[2].map.pad_y, 21);
}

}  // namespace
}  // namespace vggt
