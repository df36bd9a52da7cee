#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include "io/archives/torch_archive.h"
#include "io/tensors/safetensors.h"
#include "tests/fuzz/check_config.h"
#include "tests/fuzz/check_index.h"
#include "tests/support/torch_bytes.h"
#if VGGT_APP
#include "tests/fuzz/check_image_header.h"
#include "tests/fuzz/check_yaml.h"
#endif

// Replays the inputs that the fuzzers kept: each is refused with one line, or is safe to read.
namespace vggt {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(VGGT_FIXTURES) / "corpus";

struct Counts {
  int read = 0, refused = 0;
};

Counts replay(const std::string& target, const std::function<void(std::span<const std::byte>)>& parse) {
  Counts counts;
  for (const auto& file : fs::directory_iterator(kCorpus / target)) {
    const std::string bytes = torch_bytes::read_file(file.path());
    try {
      parse(std::as_bytes(std::span(bytes)));
      ++counts.read;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << file.path();
      ++counts.refused;
    }
  }
  return counts;
}

TEST(Corpus, Pickle) {
  const std::map<std::string, ZipEntry> directory = {
      {"data/0", {64, 4096, 0, false}}, {"data/1", {8192, 64, 0, false}}, {"data/2", {16384, 64, 0, true}}};
  const Counts counts =
      replay("pickle", [&](auto bytes) { check_index(read_torch_pickle(bytes, directory), 16384 + 64); });
  EXPECT_GE(counts.read, 5);
  EXPECT_GE(counts.refused, 50);
}

TEST(Corpus, Safetensors) {
  const Counts counts =
      replay("safetensors", [](auto bytes) { check_index(read_safetensors(bytes), bytes.size()); });
  EXPECT_GE(counts.read, 3);
  EXPECT_GE(counts.refused, 50);
}

TEST(Corpus, ZipPickle) {
  const Counts counts = replay(
      "zip_pickle", [](auto bytes) { check_index(read_torch_archive(memory_source(bytes)), bytes.size()); });
  EXPECT_GE(counts.read, 3);
  EXPECT_GE(counts.refused, 20);
}

TEST(Corpus, Config) {
  const Counts counts = replay("config", check_config);
  EXPECT_GE(counts.read, 3);
  EXPECT_GE(counts.refused, 20);
}

#if VGGT_APP
TEST(Corpus, ImageHeader) {
  const Counts counts = replay("image_header", check_image_header);
  EXPECT_GE(counts.read, 20);
  EXPECT_GE(counts.refused, 20);
}

TEST(Corpus, Yaml) {
  const Counts counts = replay("yaml", [](auto bytes) {
    check_yaml(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  });
  EXPECT_GE(counts.read, 3);
  EXPECT_GE(counts.refused, 20);
}
#endif

}  // namespace
}  // namespace vggt
