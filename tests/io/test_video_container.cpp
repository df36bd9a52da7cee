// What a video's container and its parameter sets say: hostile, cut off, of a codec.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <opencv2/videoio.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "io/frames/fourcc.h"
#include "io/frames/parameter_sets.h"
#include "io/frames/video.h"
#include "io/frames/video_container.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

const std::filesystem::path kVideos = VGGT_FIXTURES "/videos";

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Sequence parameter sets of x264, by their reference frames.
const std::string kOneFrame = "6742c00bda0507ec0440000003004000000503c50aa8",
                  kEightFrames = "67640015ac5624141fb011000003000100000300140f162d8980",
                  kTenBits422 = "677a0016b6c72044141fb011000003000100000300140f162d8460",
                  k444 = "67f4000c919b30283f6022000003000200000300281e285334";
// And by hand: Constrained Baseline of 352x288, 1 and 4.
const std::string kFewOfCif = "6742001eda058259", kManyOfCif = "6742001ed941609640";

/// A decoder configuration record for H.264 with one sequence parameter set.
std::string configuration_record(const std::string& set) {
  return from_hex("0164001effe1") + '\0' + static_cast<char>(set.size()) + set;
}

/// A Matroska element with a size of eight bytes.
std::string element(const std::string& id, const std::string& content, uint64_t more = 0) {
  std::string text = id + '\x01';
  for (int byte = 6; byte >= 0; --byte)
    text += static_cast<char>((content.size() + more) >> (8 * byte) & 0xff);
  return text + content;
}

TEST(VideoContainer, KnowsFilesThatWereCutOff) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> whole = test::read_bytes(kVideos / "turned180.mp4");
  EXPECT_FALSE(read_video_container(kVideos / "turned180.mp4").is_cut_off);
  EXPECT_TRUE(read_video_container(kVideos / "turned180.mp4").seconds.has_value());
  std::vector<uint8_t> cut = whole;
  cut.resize(cut.size() - 10);
  test::write_bytes(folder / "cut.mp4", cut);
  EXPECT_TRUE(read_video_container(folder / "cut.mp4").is_cut_off);

  const std::string head = element("\x1a\x45\xdf\xa3", "webm"), id = "\x18\x53\x80\x67";
  test::write_text(folder / "a.mkv", head + element(id, "pictures"));
  const VideoContainer matroska = read_video_container(folder / "a.mkv");
  EXPECT_FALSE(matroska.is_cut_off);
  EXPECT_FALSE(matroska.counts_from_first);  // its first picture may be late
  test::write_text(folder / "b.mkv", head + element(id, "pictures", 1));
  EXPECT_TRUE(read_video_container(folder / "b.mkv").is_cut_off);
  test::write_text(folder / "live.mkv", head + id + "\xff pictures");
  EXPECT_FALSE(read_video_container(folder / "live.mkv").is_cut_off);
}

TEST(VideoContainer, APipeIsLeftAlone) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "a.mp4").c_str(), 0600), 0);
  EXPECT_FALSE(read_video_container(folder / "a.mp4").matrix.has_value());  // and does not wait
  EXPECT_FALSE(read_video_container(folder / "missing.mp4").is_cut_off);
}

TEST(VideoContainer, AnyBytesAreRead) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> whole = test::read_bytes(kVideos / "turned180.mp4");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 20; ++change)
      bytes[random() % (i % 2 == 0 ? bytes.size() : 1000)] =
          static_cast<uint8_t>(i % 3 == 0 ? 0xff : random());
    test::write_bytes(folder / "a.mp4", bytes);
    read_video_container(folder / "a.mp4");
  }
  for (const std::size_t size : {0, 3, 4, 7, 8, 12}) {
    test::write_bytes(folder / "a.mp4", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(read_video_container(folder / "a.mp4").matrix.has_value());
    test::write_text(folder / "a.mkv",
                     std::string("\x1a\x45\xdf\xa3\x01\xff\xff\xff\xff\xff\xff\xff").substr(0, size));
    EXPECT_FALSE(read_video_container(folder / "a.mkv").is_cut_off);
  }
}

TEST(VideoContainer, TooManyBoxesAreLeft) {
  const test::TemporaryFolder folder;
  const std::string many = element("\xae", std::string(8000, '\x81')),  // elements of one byte
      last = element("\xae", element("\x83", "\1") + element("\x86", "V_VP9"));
  const auto codec = [&](int tracks) {
    std::string all;
    for (int i = 0; i < tracks; ++i) all += many;
    const std::string content = element("\x16\x54\xae\x6b", all + last);
    test::write_text(folder / "a.mkv",
                     element("\x1a\x45\xdf\xa3", "webm") + element("\x18\x53\x80\x67", content));
    return read_video_container(folder / "a.mkv").codec;
  };
  EXPECT_EQ(codec(3), fourcc("VP90"));
  EXPECT_EQ(codec(4000), 0U);
}

// Of x264: Constrained Baseline, High, High 4:2:2 in 10 bits, High 4:4:4, and High with scaling lists.
TEST(ParameterSets, ReferenceFramesOfH264) {
  const std::map<std::string, int> sets = {
      {kOneFrame, 1},
      {kEightFrames, 8},
      {kTenBits422, 16},
      {k444, 5},
      {"6764000cacd9c141fb011000000300100000030140f14299e0", 6},
  };
  const auto reference_frames = [](const std::string& set) {
    const auto parameters = h264_parameters(set);
    return parameters ? std::optional(parameters->reference_frames) : std::nullopt;
  };
  for (const auto& [digits, frames] : sets) {
    const std::string set = from_hex(digits);
    EXPECT_EQ(reference_frames(set), frames) << digits;
    for (std::size_t size = 0; size < 5; ++size)
      EXPECT_EQ(reference_frames(set.substr(0, size)), std::nullopt) << digits;
    EXPECT_EQ(reference_frames("\x68" + set.substr(1)), std::nullopt);
  }
  EXPECT_EQ(reference_frames(from_hex("6742c00b") + std::string(4096, '\0')), std::nullopt);
  EXPECT_EQ(read_video_container(kVideos / "reordered.mp4").reference_frames, 4);
}

// Of x265: 8 bits, 10 bits.
TEST(ParameterSets, KeptFramesOfHevc) {
  for (const auto& [digits, frames] :
       std::map<std::string, int>{{"40010c01ffff01600000030090000003000003001e959809", 4},
                                  {"40010c01ffff0220000003009000000300000300b4999809", 5}}) {
    const std::string set = from_hex(digits);
    EXPECT_EQ(hevc_kept_frames(set), frames) << digits;
    for (std::size_t size = 0; size < 19; ++size)
      EXPECT_EQ(hevc_kept_frames(set.substr(0, size)), std::nullopt);
    EXPECT_EQ(hevc_kept_frames("\x42" + set.substr(1)), std::nullopt);
  }
  EXPECT_EQ(hevc_kept_frames(from_hex("40010c0f") + std::string(64, '\xff')), std::nullopt);
  EXPECT_EQ(read_video_container(kVideos / "hevc.mp4").reference_frames, 4);
}

TEST(VideoContainer, FindsParameterSetsInAStream) {
  const test::TemporaryFolder folder;
  const std::string start("\0\0\1", 3), few = from_hex(kOneFrame), many = from_hex(kEightFrames);
  test::write_text(folder / "a.ts",
                   "G" + std::string(20, 'x') + start + few + start + "\x65picture" + start + many);
  EXPECT_EQ(read_video_container(folder / "a.ts").reference_frames, 8);
  const std::string x(80, 'x');
  test::write_text(folder / "a.avi", "RIFF" + x + "strf" + configuration_record(many) + x);
  EXPECT_EQ(read_video_container(folder / "a.avi").reference_frames, 8);
  test::write_text(folder / "b.ts", "G" + start + "\x65picture" + start);
  EXPECT_EQ(read_video_container(folder / "b.ts").reference_frames, std::nullopt);
}

// Slices of MPEG-2 have the bytes of H.264's parameter sets in front.
TEST(VideoContainer, FindsNoParameterSetsOfH264InMpeg2) {
  const test::TemporaryFolder folder;
  const std::string start("\0\0\1", 3);
  test::write_text(folder / "a.mpg", start + "\xb3sequence" + start + from_hex(kEightFrames));
  const VideoContainer container = read_video_container(folder / "a.mpg");
  EXPECT_EQ(container.reference_frames, std::nullopt);
  EXPECT_EQ(container.named_codec, 0U);
}

/// A box of an MP4.
std::string box(const std::string& type, const std::string& content) {
  return from_hex("0000") + static_cast<char>((content.size() + 8) >> 8) +
         static_cast<char>((content.size() + 8) & 0xff) + type + content;
}

/// An MP4 with a track of pictures of 352x288, of this codec and with these boxes beside its size.
std::string mp4_of(const std::string& codec, const std::string& boxes, const std::string& samples = "") {
  const std::string size = from_hex("01600120"),
                    entry = box(codec, std::string(24, '\0') + size + std::string(50, '\0') + boxes),
                    handler = box("hdlr", std::string(8, '\0') + "vide"),
                    table = box("stbl", box("stsd", std::string(8, '\0') + entry)),
                    media = box("mdia", handler + box("minf", table));
  return box("moov", box("trak", box("tkhd", std::string(100, '\0')) + media)) + box("mdat", samples);
}

TEST(VideoContainer, TakesTheMostReferenceFramesOfAllParameterSets) {
  const test::TemporaryFolder folder;
  const std::string few = from_hex(kFewOfCif), many = from_hex(kManyOfCif), other = from_hex(kEightFrames);
  const auto with_length = [](const std::string& set) {
    return std::string("\0", 1) + static_cast<char>(set.size()) + set;
  };
  const auto sample = [&](const std::string& set) { return "x" + std::string("\0\0", 2) + with_length(set); };
  const auto frames = [&](const std::string& record, const std::string& samples) {
    test::write_text(folder / "a.mp4", mp4_of("avc1", box("avcC", record), samples));
    test::write_text(
        folder / "a.mkv",
        element("\x1a\x45\xdf\xa3", "webm") +
            element("\x18\x53\x80\x67",
                    element("\x16\x54\xae\x6b",
                            element("\xae", element("\x83", "\1") + element("\x86", "V_MPEG4/ISO/AVC") +
                                                element("\x63\xa2", record) +
                                                element("\xe0", element("\xb0", from_hex("0160")) +
                                                                    element("\xba", from_hex("0120"))))) +
                        samples));
    const auto found = read_video_container(folder / "a.mp4").reference_frames;
    EXPECT_EQ(read_video_container(folder / "a.mkv").reference_frames, found);
    return found;
  };
  const std::string head = from_hex("0164001eff");
  const std::string one = head + "\xe1" + with_length(few);
  EXPECT_EQ(frames(one, ""), 1);
  EXPECT_EQ(frames(head + "\xe2" + with_length(few) + with_length(many), ""), 4);
  EXPECT_EQ(frames(head + "\xe2" + with_length(many) + with_length(few), ""), 4);
  EXPECT_EQ(frames(head + "\xe2" + with_length(few), ""), 1);  // the second is missing
  EXPECT_EQ(frames(one, sample(many) + sample(few)), 4);
  EXPECT_EQ(frames(one, sample(other)), 1);  // of another size: no parameter set of this track
}

TEST(VideoContainer, TellsSizeAndFormatBeforeADecoderIsOpened) {
  const test::TemporaryFolder folder;
  const auto format = [&](const std::string& codec, const std::string& type, const std::string& record) {
    test::write_text(folder / "a.mp4", mp4_of(codec, box(type, record)));
    const VideoContainer container = read_video_container(folder / "a.mp4");
    EXPECT_EQ(container.width, 352);
    EXPECT_EQ(container.height, 288);
    EXPECT_EQ(container.named_codec, fourcc(codec));
    return container.pixel_format;
  };
  const auto of_planes = [](char across, char bits) { return fourcc(std::string("Y3") + across + bits); };
  EXPECT_EQ(format("avc1", "avcC", configuration_record(from_hex(kEightFrames))), fourcc("I420"));
  EXPECT_EQ(format("avc1", "avcC", configuration_record(from_hex(kTenBits422))), of_planes(10, 10));
  EXPECT_EQ(format("avc3", "avcC", configuration_record(from_hex(k444))), fourcc("444P"));
  const std::string before(16, '\0');
  EXPECT_EQ(format("hvc1", "hvcC", before + "\xfd\xfa"), of_planes(11, 10));
  EXPECT_EQ(format("hev1", "hvcC", before + "\xfc\xf8"), fourcc("Y800"));
  EXPECT_EQ(format("av01", "av1C", from_hex("81004c00")), of_planes(11, 10));
  EXPECT_EQ(format("av01", "av1C", from_hex("81000000")), fourcc("444P"));
  EXPECT_EQ(format("apcn", "none", ""), 0U);
  const std::string theora =
      from_hex("4f676753") + std::string(24, '\0') + "\x80theora" + from_hex("030201") + from_hex("00160012");
  test::write_text(folder / "a.ogv", theora);
  EXPECT_EQ(read_video_container(folder / "a.ogv").width, 352);
  EXPECT_EQ(read_video_container(folder / "a.ogv").height, 288);
}

/// An AVI's header of a stream of pictures, with `before` it.
std::string avi(const std::string& letters, const std::string& before, const std::string& after) {
  const std::string format = from_hex("28000000") + from_hex("80070000") + from_hex("38040000") +
                             from_hex("01001800") + letters + std::string(20, '\0');
  return "RIFF" + before + "strhvids" + std::string(40, '\0') + "strf" + from_hex("28000000") + format +
         after;
}

TEST(VideoHeader, OfAnAviIsThatOfItsPictures) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    test::write_text(folder / "a.avi", bytes);
    return read_video_container(folder / "a.avi");
  };
  const std::string set = from_hex("000001") + from_hex(kEightFrames);
  const VideoContainer late = read(avi("CFHD", std::string(9000, 'x'), ""));  // behind a stream of sound
  EXPECT_EQ(late.named_codec, fourcc("CFHD"));
  EXPECT_EQ(late.width, 1920);
  EXPECT_EQ(late.height, 1080);
  const VideoContainer other = read(avi("XVID", "", set));
  EXPECT_EQ(other.named_codec, fourcc("XVID"));
  EXPECT_EQ(other.reference_frames, std::nullopt);
  const VideoContainer h264 = read(avi("H264", "", set));
  EXPECT_EQ(h264.named_codec, fourcc("avc1"));
  EXPECT_EQ(h264.width, 1920);
  EXPECT_EQ(h264.reference_frames, 8);
}

TEST(VideoHeader, OfAStreamIsThatOfItsFirstSet) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    test::write_text(folder / "a.ts", bytes);
    return read_video_container(folder / "a.ts");
  };
  const std::string start = from_hex("000001"), few = start + from_hex(kFewOfCif),
                    many = start + from_hex(kTenBits422), mpeg2 = start + from_hex("b31e0120230000");
  for (const std::string& sets : {few + many, few + mpeg2 + many}) {
    const VideoContainer container = read(std::string(30, 'x') + sets + std::string(30, 'x'));
    EXPECT_EQ(container.width, 352);
    EXPECT_EQ(container.height, 288);
    EXPECT_EQ(container.reference_frames, 16);
    EXPECT_EQ(container.pixel_format, fourcc(std::string("Y3\x0a\x0a")));  // the larger one
  }
  EXPECT_EQ(read(many + few).pixel_format, fourcc(std::string("Y3\x0a\x0a")));
  EXPECT_EQ(read(mpeg2 + many).named_codec, 0U);
}

TEST(VideoHeader, IsWhatTheOpenedVideoSays) {
  const test::TemporaryFolder folder;
  std::vector<std::filesystem::path> videos;
  for (const auto& entry : std::filesystem::directory_iterator(kVideos)) videos.push_back(entry.path());
  for (const auto& [codec, name] : std::map<std::string, std::string>{
           {"mp4v", "a.mp4"}, {"MJPG", "a.avi"}, {"FFV1", "a.mkv"}, {"XVID", "b.avi"}}) {
    const cv::Size size(320, 192);
    cv::VideoWriter writer((folder / name).string(), cv::CAP_FFMPEG,
                           cv::VideoWriter::fourcc(codec[0], codec[1], codec[2], codec[3]), 10, size);
    for (int i = 0; i < 25; ++i) writer.write(cv::Mat(size, CV_8UC3, cv::Scalar(9 * i, 60, 120)));
    videos.push_back(folder / name);
  }
  EXPECT_GT(videos.size(), 8U);
  for (const auto& path : videos) {
    SCOPED_TRACE(path);
    for (const VideoSampling& sampling : {VideoSampling{}, {4, {}}, {1, 3}}) {
      const auto header = read_video_header(path, sampling);
      ASSERT_TRUE(header);
      const VideoReader video(path, sampling);
      EXPECT_EQ(header->size, video.size());
      // FFmpeg makes another rate of frames that come neither evenly nor in order.
      const std::string name = path.filename();
      const bool is_even = name != "variable.mp4" && name != "reordered.mp4",
                 tells_length = is_even && (name.ends_with(".mp4") || name.ends_with(".mov")),
                 tells_format = name != "a.mkv";
      if (tells_length) {
        EXPECT_EQ(header->promised_frames, video.promised_frames());
      }
      if (tells_format) {
        EXPECT_EQ(header->decoder_bytes, video.decoder_bytes());
      }
    }
  }
  test::write_text(folder / "text.mp4", "#EXTM3U");
  EXPECT_FALSE(read_video_header(folder / "text.mp4", {}));
}

TEST(VideoContainer, TellsTheCodecOfMatroska) {
  const test::TemporaryFolder folder;
  const auto track = [](const std::string& type, const std::string& codec, const std::string& more = "") {
    return element("\xae", element("\x83", type) + element("\x86", codec) + more);
  };
  const std::string head = element("\x1a\x45\xdf\xa3", "webm"), sound = track("\2", "A_OPUS"),
                    configuration = element("\x63\xa2", configuration_record(from_hex(kEightFrames)));
  const auto read = [&](const std::string& tracks, bool is_live = false) {
    const std::string content = element("\xec", "nothing") + element("\x16\x54\xae\x6b", tracks),
                      segment = "\x18\x53\x80\x67";
    test::write_text(folder / "a.mkv",
                     head + (is_live ? segment + '\xff' + content : element(segment, content)));
    return read_video_container(folder / "a.mkv");
  };
  EXPECT_EQ(read(sound + track("\1", "V_VP9") + track("\1", "V_VP8")).codec, fourcc("VP90"));
  EXPECT_EQ(read(track("\1", "V_AV1"), true).codec, fourcc("av01"));
  EXPECT_EQ(read(track("\1", "V_THEORA")).codec, 0U);
  EXPECT_EQ(read(sound).codec, 0U);
  EXPECT_EQ(read(track("\1", "V_MPEG4/ISO/AVC", configuration)).reference_frames, 8);
  EXPECT_EQ(read(track("\1", "V_MPEG4/ISO/AVC")).reference_frames, std::nullopt);
  EXPECT_EQ(read(track("\1", std::string("V_VP9\0\0", 7))).codec, fourcc("VP90"));

  read(sound + track("\1", "V_MPEG4/ISO/AVC", configuration));
  const std::vector<uint8_t> whole = test::read_bytes(folder / "a.mkv");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {  // any bytes are read
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 10; ++change)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(i % 3 == 0 ? 0xff : random());
    test::write_bytes(folder / "b.mkv", bytes);
    read_video_container(folder / "b.mkv");
  }
}

TEST(VideoContainer, TellsMpeg2FromMpeg4) {
  const test::TemporaryFolder folder;
  const auto codec = [&](const std::string& descriptor) {
    const std::string padding(16, '\0'),
        entry = box("mp4v", std::string(78, '\0') + box("esds", descriptor + padding));
    const std::string handler = box("hdlr", std::string(8, '\0') + "vide"),
                      table = box("stbl", box("stsd", std::string(8, '\0') + entry)),
                      media = box("mdia", handler + box("minf", table));
    test::write_text(folder / "a.mp4", box("moov", box("trak", box("tkhd", std::string(100, '\0')) + media)));
    return read_video_container(folder / "a.mp4").codec;
  };
  // Version and flags; an ES_Descriptor (3), its size, id and flags; a DecoderConfigDescriptor (4), its size,
  // and the type of object.
  EXPECT_EQ(codec(from_hex("00000000031a000100041261")), fourcc("mpg2"));
  EXPECT_EQ(codec(from_hex("00000000038080801a00010004808080126a")), fourcc("mpg1"));
  EXPECT_EQ(codec(from_hex("00000000031900010004116e")), fourcc("mjp2"));
  EXPECT_EQ(codec(from_hex("00000000038080801a000100048080801220")), 0U);
  EXPECT_EQ(codec(from_hex("0000000003808080808080808080808080808080")), 0U);
}

TEST(VideoContainer, TakesAProgramStreamForMpeg2) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.mpg", from_hex("000001ba") + "pictures");
  EXPECT_EQ(read_video_container(folder / "a.mpg").codec, fourcc("mpg2"));
}

}  // namespace
}  // namespace vggt
