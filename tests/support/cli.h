// The program as a person meets it: run in a folder of its own that holds three frames, with what it printed.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

namespace vggt::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline const fs::path kFixtures = VGGT_FIXTURES;
inline const std::string kNano = (kFixtures / "golden/nano/weights.ts").string();

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    std::string name = (fs::temp_directory_path() / "vggt_cli_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    fs::create_directory(dir_ / "frames");
    for (int i = 0; i < 3; ++i) make_image("frames/" + std::to_string(i) + ".png", 64, 48, i);
  }
  ~CliTest() override {
    std::error_code ignored;
    fs::permissions(dir_, fs::perms::owner_all, ignored);
    fs::remove_all(dir_);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  void make_image(const std::string& name, int width, int height, int seed) {
    cv::Mat image(height, width, CV_8UC3);
    cv::RNG random(static_cast<uint64_t>(seed) + 1);
    random.fill(image, cv::RNG::UNIFORM, 30, 220);
    ASSERT_TRUE(cv::imwrite(path(name), image));
  }

  /// Runs the program through the shell, in the test's folder.
  Outcome run(const std::string& arguments, const std::string& before = "") {
    // One cache for all tests, not the user's: rates of a sanitized program would be wrong there.
    const std::string cache = (fs::temp_directory_path() / "vggt_cli_cache").string();
    const std::string command = "cd '" + dir_.string() + "' && export XDG_CACHE_HOME='" + cache + "' && " +
                                before + " '" VGGT_PROGRAM "' " + arguments + " >'" + path("stdout") +
                                "' 2>'" + path("stderr") + "'";
    const int status = std::system(command.c_str());
    Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path("stdout")),
                    text_of(path("stderr"))};
    fs::remove(path("stdout"));
    fs::remove(path("stderr"));
    return outcome;
  }
  Outcome reconstruct(const std::string& arguments, const std::string& before = "") {
    return run("--device cpu --weights '" + kNano + "' " + arguments, before);
  }

  /// Makes nano.safetensors: the small weights in fp32, with their config.
  void make_safetensors() {
    const Outcome outcome = run("weights convert '" + kNano + "' nano.safetensors --type fp32");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  /// Exit 2, exactly one error line, which holds `words`; nothing written beside what was there.
  void expect_refusal(const Outcome& outcome, const std::string& words) {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    expect_one_error(outcome, words);
  }
  void expect_one_error(const Outcome& outcome, const std::string& words) {
    const std::string prefix = "vggt-recon: error: ";
    std::size_t errors = 0;
    for (std::size_t at = 0; (at = outcome.err.find(prefix, at)) != std::string::npos; ++at) ++errors;
    EXPECT_EQ(errors, 1u) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << "expected '" << words << "' in: " << outcome.err;
    const std::size_t line = outcome.err.find(prefix);
    EXPECT_EQ(outcome.err.find('\n', std::min(line, outcome.err.size())), outcome.err.size() - 1)
        << outcome.err;
    EXPECT_LT(outcome.err.size(), 1000u);
  }
  void expect_no_outputs() {
    for (const auto& entry : fs::recursive_directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      EXPECT_FALSE(name.starts_with(".vggt") || name.ends_with(".ply") || name.ends_with(".tum") ||
                   name.ends_with("report.json") || name.starts_with("pred") || name == "out")
          << entry.path();
    }
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder))) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  fs::path dir_;
};

/// The parser takes no NaN or infinity.
inline json parse_strictly(const std::string& path) {
  return json::parse(text_of(path));
}

}  // namespace vggt::test
