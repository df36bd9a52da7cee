// Frames out of folders, lists and single images: which are loaded, in what order, and with what warnings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "io/frames/decoding_budget.h"
#include "io/frames/frame_sources.h"
#include "io/frames/frames.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using test::encoded;
using test::files_of;
using test::load_error;
using test::write_bytes;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

FrameOptions small_options(const std::filesystem::path& source) {
  FrameOptions options;
  options.source = source;
  options.width = 56;
  return options;
}

void write_picture(const std::filesystem::path& path, int level = 100) {
  std::string extension = path.extension().string();
  write_bytes(path, encoded(extension, test::flat_picture(40, 30, level)));
}

TEST(NaturalOrder, DigitsAreNumbers) {
  EXPECT_TRUE(natural_less("2.jpg", "10.jpg"));
  EXPECT_FALSE(natural_less("10.jpg", "2.jpg"));
  EXPECT_TRUE(natural_less("a2b9", "a2b10"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("img9", "img009a"));
  EXPECT_TRUE(natural_less("01", "1"));
  EXPECT_FALSE(natural_less("1", "01"));
  EXPECT_FALSE(natural_less("x", "x"));
  EXPECT_TRUE(natural_less("99999999999999999999998", "99999999999999999999999"));
}

// As Pillow, which the reference reads images with.
TEST(LoadFrames, GreyOf16BitsIsClippedAndToldOf) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.png", "b.png", "c.png"}) {
    const double level = name[0] == 'a' ? 200 : 40'000;
    write_bytes(folder / name, encoded(".png", cv::Mat(30, 40, CV_16UC1, cv::Scalar(level))));
  }
  const FrameSet set = load_frames(small_options(folder.path()));
  EXPECT_THAT(set.warnings, IsEmpty());
  ASSERT_THAT(set.notes, SizeIs(1));
  EXPECT_THAT(set.notes[0], HasSubstr("b.png and 1 other are grey with values above 255"));
  EXPECT_EQ(set.rgb(0).front(), 200);
  EXPECT_EQ(set.rgb(1).front(), 255);
  FrameOptions dark = small_options(folder.path());
  dark.max_frames = 1;
  EXPECT_THAT(load_frames(dark).notes, IsEmpty());
}

TEST(ChooseEvenly, FirstAndLastAndEvenSteps) {
  EXPECT_THAT(choose_evenly(5, std::nullopt), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(choose_evenly(5, 9), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(choose_evenly(9, 3), ElementsAre(0, 4, 8));
  EXPECT_THAT(choose_evenly(10, 1), ElementsAre(0));
  EXPECT_THAT(choose_evenly(0, 3), IsEmpty());
  for (std::size_t count = 1; count < 60; ++count) {
    for (int limit = 2; limit < 60; ++limit) {
      const auto chosen = choose_evenly(count, limit);
      ASSERT_EQ(chosen.size(), std::min<std::size_t>(count, limit));
      ASSERT_EQ(chosen.front(), 0U);
      ASSERT_EQ(chosen.back(), count - 1);
      const double step = chosen.size() > 1 ? (count - 1.0) / (chosen.size() - 1.0) : 0;
      for (std::size_t i = 0; i < chosen.size(); ++i) ASSERT_NEAR(chosen[i], i * step, 0.5 + 1e-9);
    }
  }
}

TEST(Folder, NaturalOrderAndOnlyImages) {
  const test::TemporaryFolder folder;
  for (const char* name : {"10.png", "2.png", "1.png", "3.bmp", "4.jpeg", "5.webp", "6.tiff", "7.tif"}) {
    write_picture(folder / name);
  }
  std::filesystem::rename(folder / "1.png", folder / "1.PNG");
  write_picture(folder / ".hidden.png");
  write_text(folder / "notes.txt", "no image");
  std::filesystem::create_directory(folder / "8.png");
  const FrameSet set = load_frames(small_options(folder.path()));
  EXPECT_THAT(files_of(set),
              ElementsAre("1.PNG", "2.png", "3.bmp", "4.jpeg", "5.webp", "6.tiff", "7.tif", "10.png"));
  EXPECT_THAT(set.warnings, IsEmpty());
  EXPECT_EQ(set.width, 56);
  EXPECT_EQ(set.height, 42);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    const Frame& frame = set.frames[i];
    EXPECT_EQ(frame.time_s, static_cast<double>(i));
    EXPECT_EQ(frame.original_width, 40);
    EXPECT_EQ(frame.original_height, 30);
    for (const uint8_t value : set.rgb(i)) ASSERT_NEAR(value, 100, 1) << frame.file;
  }
}

TEST(Folder, OneImageFileIsOneFrame) {
  const test::TemporaryFolder folder;
  write_picture(folder / "a.png", 7);
  const FrameSet set = load_frames(small_options(folder / "a.png"));
  EXPECT_THAT(files_of(set), ElementsAre("a.png"));
  EXPECT_EQ(set.rgb(0)[0], 7);
}

TEST(Folder, MaxFramesAreChosenBeforeDecoding) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) {
    const auto path = folder / (std::to_string(i) + ".png");
    i % 4 == 0 ? write_picture(path) : write_text(path, "would be reported if it were opened");
  }
  FrameOptions options = small_options(folder.path());
  options.max_frames = 3;
  options.strict = true;
  const FrameSet set = load_frames(options);
  EXPECT_THAT(files_of(set), ElementsAre("0.png", "4.png", "8.png"));
  EXPECT_EQ(set.frames[1].time_s, 4);
}

TEST(Folder, NothingToRead) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(load_error(small_options(folder.path())), HasSubstr("no images"));
  EXPECT_THAT(load_error(small_options(folder / "absent")), HasSubstr("no such file"));
  write_bytes(folder / "data.bin", {1, 0, 2});
  EXPECT_THAT(load_error(small_options(folder / "data.bin")), HasSubstr("data.bin: not a folder"));
}

TEST(List, PathsAreRelativeToIt) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  write_picture(folder / "sub/b.png", 1);
  write_picture(folder / "a b.png", 2);
  const std::string absolute = (folder / "sub/b.png").string();
  write_text(
      folder / "frames.txt",
      "\xEF\xBB\xBF# the frames\r\nsub/b.png\r\n\n  a b.png  \n   # a comment\nabsent.png\n" + absolute);
  const FrameSet set = load_frames(small_options(folder / "frames.txt"));
  EXPECT_THAT(files_of(set), ElementsAre("sub/b.png", "a b.png", absolute));
  EXPECT_EQ(set.rgb(1)[0], 2);
  ASSERT_THAT(set.warnings, SizeIs(1));
  EXPECT_THAT(set.warnings[0], HasSubstr("frames.txt:6: absent.png: "));
  EXPECT_THAT(set.warnings[0], HasSubstr("No such file"));

  write_text(folder / "empty.txt", "# nothing\n\n");
  EXPECT_THAT(load_error(small_options(folder / "empty.txt")), HasSubstr("empty.txt: lists no images"));
}

// A shell's <(…) can be read only once, and its bytes come in parts.
TEST(List, MayBeAPipe) {
  const test::TemporaryFolder folder;
  write_picture(folder / "a.png", 1);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer(
      [&] { write_text(folder / "pipe", "a.png\n#" + std::string(100000, '-') + "\na.png\n"); });
  EXPECT_THAT(files_of(load_frames(small_options(folder / "pipe"))), ElementsAre("a.png", "a.png"));
  writer.join();
}

TEST(Folder, OneSetOfDifferentShapesIsCentredOnWhite) {
  FrameOptions options;
  const test::TemporaryFolder folder;
  const std::string golden = VGGT_FIXTURES "/golden/preprocess/";
  write_text(folder / "list.txt", golden + "small_rgb.png\n" + golden + "wide_rgba.png\n");
  options.source = folder / "list.txt";
  const FrameSet set = load_frames(options);
  ASSERT_THAT(set.frames, SizeIs(2));
  ASSERT_EQ(set.width, 518);
  ASSERT_EQ(set.height, 322);
  const cv::Mat small = cv::imread(golden + "expected_small_rgb_crop.png");
  const cv::Mat wide = cv::imread(golden + "expected_wide_rgba_crop.png");
  cv::Mat padded(322, 518, CV_8UC3, cv::Scalar::all(255));
  wide.copyTo(padded.rowRange(84, 84 + 154));
  for (int i = 0; i < 2; ++i) {
    const cv::Mat& expected = i == 0 ? small : padded;
    const std::vector<uint8_t> rgb = set.rgb(static_cast<std::size_t>(i));
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 322; ++y) {
        for (int x = 0; x < 518; ++x) {
          ASSERT_EQ(rgb[(c * 322 + y) * 518 + x], expected.at<cv::Vec3b>(y, x)[2 - c]);
        }
      }
    }
  }
  EXPECT_EQ(set.frames[1].map.pad_y, 84);
}

TEST(Folder, SizesAloneAreThoseOfTheFrames) {
  const test::TemporaryFolder folder;
  const cv::Mat tall = test::position_picture(50, 120), wide = test::position_picture(130, 60);
  for (const char* extension : {".png", ".jpg", ".webp", ".tiff", ".bmp"}) {
    write_bytes(folder / ("tall" + std::string(extension)), encoded(extension, tall));
    write_bytes(folder / ("wide" + std::string(extension)), encoded(extension, wide));
  }
  for (const int orientation : {3, 6, 8}) {
    write_bytes(folder / ("turned" + std::to_string(orientation) + ".jpg"),
                test::with_exif(encoded(".jpg", test::stored_picture(wide, orientation)), orientation, true));
  }
  write_text(folder / "none.jpg", "no image");
  write_bytes(folder / "thin.png", encoded(".png", test::position_picture(400, 2)));
  FrameOptions options = small_options(folder.path());
  for (const Fit fit : {Fit::crop, Fit::pad}) {
    for (const std::optional<int> most : {std::optional<int>(), {5}}) {
      options.fit = fit;
      options.max_frames = most;
      test::expect_sized(options);
    }
  }
  options.strict = true;
  options.pixels = false;
  options.max_frames.reset();
  EXPECT_THAT(load_error(options), HasSubstr("none.jpg"));
}

TEST(Decoding, SameWithAnyNumberOfThreadsAndAnyBudget) {
  const test::TemporaryFolder folder;
  for (unsigned i = 0; i < 12; ++i) {
    const int size = 20 + 17 * static_cast<int>(i % 5);
    write_bytes(folder / (std::to_string(i) + ".png"), encoded(".png", test::noise_picture(size, 60, i)));
  }
  write_text(folder / "4a.png", "bad");
  FrameOptions options = small_options(folder.path());
  options.threads = 1;
  const FrameSet one = load_frames(options);
  ASSERT_THAT(one.frames, SizeIs(12));
  for (const std::size_t budget : {std::size_t{0}, std::size_t{20000}, std::size_t{1} << 30}) {
    options.threads = 7;
    options.memory_budget_bytes = budget;
    const FrameSet many = load_frames(options);
    ASSERT_EQ(files_of(many), files_of(one));
    EXPECT_EQ(many.warnings, one.warnings);
    for (std::size_t i = 0; i < one.frames.size(); ++i) EXPECT_EQ(many.rgb(i), one.rgb(i));
  }
}

// Nothing is shared between two runs of one process.
TEST(Decoding, TwoLoadsAtOnceAreRight) {
  const test::TemporaryFolder folders[2];
  for (unsigned f = 0; f < 2; ++f) {
    for (unsigned i = 0; i < 8; ++i)
      write_bytes(
          folders[f] / (std::to_string(i) + (i % 2 ? ".png" : ".jpg")),
          encoded(i % 2 ? ".png" : ".jpg", test::noise_picture(60, 30 + 10 * static_cast<int>(f), i)));
    write_text(folders[f] / "3a.png", "bad");
  }
  FrameSet alone[2], together[2];
  for (int f = 0; f < 2; ++f) alone[f] = load_frames(small_options(folders[f].path()));
  for (int repeat = 0; repeat < 5; ++repeat) {
    {
      std::vector<std::jthread> runs;
      for (int f = 0; f < 2; ++f)
        runs.emplace_back([&, f] { together[f] = load_frames(small_options(folders[f].path())); });
    }
    for (int f = 0; f < 2; ++f) {
      ASSERT_EQ(files_of(together[f]), files_of(alone[f]));
      EXPECT_EQ(together[f].warnings, alone[f].warnings);
      for (std::size_t i = 0; i < alone[f].frames.size(); ++i) EXPECT_EQ(together[f].rgb(i), alone[f].rgb(i));
    }
  }
}

TEST(Decoding, BudgetBoundsWhatIsHeld) {
  constexpr std::size_t kLimit = 1000;
  DecodingBudget budget(kLimit);
  std::atomic<std::size_t> held{0};
  std::atomic<int> holders{0}, wrong{0}, most{0};
  const auto work = [&](std::size_t bytes) {
    for (int i = 0; i < 300; ++i) {
      const DecodingBudget::Lease lease(budget, bytes);
      const std::size_t now = held += bytes;
      const int count = ++holders;
      if (now > kLimit && count > 1) ++wrong;
      most = std::max<int>(most, count);
      std::this_thread::yield();
      --holders;
      held -= bytes;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const std::size_t bytes : {100UL, 300UL, 400UL, 600UL, 5000UL, 0UL})
      threads.emplace_back(work, bytes);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(most, 1);
}

TEST(Decoding, ProgressCountsAndStops) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) write_picture(folder / (std::to_string(i) + ".png"));
  const auto caller = std::this_thread::get_id();
  int last = 0;
  load_frames(small_options(folder.path()), [&](int done, int total) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(total, 20);
    EXPECT_GT(done, last);
    last = done;
  });
  EXPECT_EQ(last, 20);
  struct Stop {};
  EXPECT_THROW(load_frames(small_options(folder.path()), [](int, int) { throw Stop(); }), Stop);
}

TEST(Options, BadOnesAreErrorsThatNameThem) {
  const test::TemporaryFolder folder;
  write_picture(folder / "a.png");
  const auto error_with = [&](auto change) {
    FrameOptions options = small_options(folder.path());
    change(options);
    return load_error(options);
  };
  EXPECT_THAT(error_with([](FrameOptions& o) { o.width = 57; }), HasSubstr("width"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.width = 0; }), HasSubstr("width"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.width = -14; }), HasSubstr("width"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.max_frames = 0; }), HasSubstr("max-frames"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.fps = 0; }), HasSubstr("fps"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.fps = std::nan(""); }), HasSubstr("fps"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.stride = 0; }), HasSubstr("stride"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.stride = 2; }), HasSubstr("not a video"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.fps = 2; }), HasSubstr("not a video"));
  EXPECT_THAT(error_with([](FrameOptions& o) { o.fps = 2, o.stride = 2; }), HasSubstr("not both"));
  EXPECT_EQ(error_with([](FrameOptions&) {}), "");
}

}  // namespace
}  // namespace vggt
