#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/batch/manifest.h"

namespace vggt {

/// A scene as the table shows it.
struct SceneRow {
  std::string scene;
  std::string state;   // that of the manifest; "waiting", or "interrupted" where no living process has it
  SceneRecord record;  // empty for one that is waiting
  std::string owner;   // who is doing it: host and process
};

/// How many scenes are in which state.
struct BatchCounts {
  int64_t done = 0, failed = 0, running = 0, left = 0;
};
BatchCounts count_rows(const std::vector<SceneRow>& rows);

/// The rows of scenes, in their order. claims: the folder of claims, by which a scene that runs is told from
/// one whose process was killed.
std::vector<SceneRow> scene_rows(const std::vector<std::string>& scenes, const SceneRecords& records,
                                 const std::filesystem::path& claims);

/// The table, a line each: all rows, or where they are many those that are not done; and a line of sums.
std::vector<std::string> table_lines(const std::vector<SceneRow>& rows);

/// What is said of a scene when it is over, such as "[3/12] kitchen: 25 frames, 123456 points, 8.1 s (new)".
std::string scene_line(std::size_t number, std::size_t scenes, const std::string& reason,
                       const SceneRecord& record);

}  // namespace vggt
