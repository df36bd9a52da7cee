// Batches of small scenes: how they are made and run, and what they leave.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <sstream>
#include <string>

#include "tests/support/cli.h"

namespace vggt::test {

using Files = std::map<std::string, std::string>;  // by path

class BatchTest : public CliTest {
 protected:
  BatchTest() {
    fs::remove_all(dir_ / "frames");
    fs::create_directory(dir_ / "scenes");
  }

  void make_scene(const std::string& name, int frames) {
    fs::create_directory(dir_ / "scenes" / name);
    for (int i = 0; i < frames; ++i)
      make_image("scenes/" + name + "/" + std::to_string(i) + ".png", 64, 48,
                 static_cast<int>(7 * name[0]) + i);
  }

  static std::string arguments(const std::string& more) {
    return "batch --scenes scenes --out results --device cpu --no-autotune --weights '" + kNano + "' " + more;
  }
  Outcome batch(const std::string& more = "", const std::string& before = "") {
    return run(arguments(more), before);
  }
  /// The same in the background; its output goes into a file `name`. Returns its process.
  pid_t start_batch(const std::string& more, const std::string& name) const {
    const std::string command = "exec '" VGGT_PROGRAM "' " + arguments(more) + " >" + name + " 2>&1";
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(dir_.c_str()) == 0) ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }
  /// How it ended, as waitpid() tells it.
  static int wait_for(pid_t process) {
    int status = -1;
    ::waitpid(process, &status, 0);
    return status;
  }

  /// All lines of the manifest that are whole.
  std::vector<json> records() const {
    std::vector<json> records;
    std::istringstream lines(text_of(path("results/manifest.jsonl")));
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      json record = json::parse(line, nullptr, false);
      if (!record.is_discarded()) records.push_back(std::move(record));
    }
    return records;
  }
  std::map<std::string, json> last_records() const {
    std::map<std::string, json> last;
    for (const json& record : records()) last[record["scene"]] = record;
    return last;
  }
  /// How often a scene was begun.
  int runs_of(const std::string& scene) const {
    int runs = 0;
    for (const json& record : records()) runs += record["scene"] == scene && record["state"] == "running";
    return runs;
  }

  /// The files below a folder, but reports, which hold seconds, and manifests.
  Files files_in(const std::string& folder) const {
    Files files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / folder)) {
      const std::string name = entry.path().lexically_relative(dir_ / folder).string();
      if (!entry.is_regular_file() || name.ends_with("report.json") || name.ends_with("manifest.jsonl"))
        continue;
      files[name] = text_of(entry.path());
    }
    return files;
  }
};

}  // namespace vggt::test
