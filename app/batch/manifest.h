#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/batch/file_lock.h"
#include "app/batch/fingerprint.h"

// RESULTS/manifest.jsonl: what became of the scenes of a batch. One JSON object a line, only ever appended;
// the last line of a scene is its state. A line that is no such object (the process that wrote it was killed,
// the disk was full) is passed over. Keys, in the order of SceneRecord:
//
//   scene             its name, which is its folder's in RESULTS
//   state             "running"; "done"; "failed": the scene's own fault; "stopped": to be done again
//   time              when the line was written: "2026-01-31T12:34:56Z"
//   source            its frames, absolute
//   fingerprint       {"frames", "options", "weights"}: see fingerprint.h
//   program           the program's version
//   host, pid         who wrote the line
// and but for "running":
//   device            such as "cuda:0"
//   seconds           of the scene alone, its frames' decoding included
//   frames, points    how many
//   peak_host_bytes, peak_device_bytes, peak_device_reserved_bytes
//                     most memory while it ran, of all that the process did meanwhile; 0: not known
//   warnings          texts, at most kMostWarnings
//   error             "" or one line
//   exit_code         of a run that ends so: 0, 1, 2, 3, 130
//
// and in every line
//   files             what the scene's last run that ended well wrote, in any line since:
//                     [{"path", "bytes"}], relative to its folder; folders have -1 bytes
namespace vggt {

enum class SceneState { running, done, failed, stopped };
const char* state_name(SceneState state);

/// An output of a scene.
struct OutputFile {
  std::string path;    // relative to the scene's folder
  int64_t bytes = -1;  // -1: a folder
};

/// How many of the outputs are not there, files with the size that they had.
std::size_t missing_of(const std::vector<OutputFile>& files, const std::filesystem::path& folder);

/// A line of the manifest.
struct SceneRecord {
  static constexpr std::size_t kMostWarnings = 20;

  std::string scene;
  SceneState state = SceneState::running;
  std::string time;  // empty: append() writes now
  std::string source;
  Fingerprint fingerprint;
  std::string program, host;
  int64_t pid = 0;
  std::string device;
  double seconds = 0;
  int64_t frames = 0, points = 0;
  int64_t peak_host_bytes = 0, peak_device_bytes = 0, peak_device_reserved_bytes = 0;
  std::vector<std::string> warnings;
  std::string error;
  int exit_code = 0;
  std::vector<OutputFile> files;
  uint64_t offset = 0;  // of the line in the file; not part of it
};

/// The line, without its end.
std::string to_line(const SceneRecord& record);
/// Nothing for what is no line of a manifest.
std::optional<SceneRecord> from_line(const std::string& line);

/// The last record of each scene.
using SceneRecords = std::map<std::string, SceneRecord>;

/// Follows a manifest that others may be writing.
class ManifestReader {
 public:
  /// A file that does not exist has no records.
  explicit ManifestReader(std::filesystem::path path) : path_(std::move(path)) {}
  /// Reads what was appended since the last call. Throws std::system_error, also where the file has become
  /// shorter.
  const SceneRecords& read();
  uint64_t offset() const { return offset_; }  // behind the last whole line

 private:
  std::filesystem::path path_;
  uint64_t offset_ = 0;
  SceneRecords records_;
};

/// A manifest that this process writes too. Threads may use it at once.
class Manifest {
 public:
  /// lock: of the folder that it lies in. Throws std::system_error.
  Manifest(const std::filesystem::path& path, FileLock& lock);
  Manifest(const Manifest&) = delete;
  Manifest& operator=(const Manifest&) = delete;
  ~Manifest();

  /// Appends a line in one piece and brings it to the disk. Throws std::system_error, also where the file is
  /// no longer at its path, or has lost lines; then the manifest is as before, or ends in a piece of the
  /// line, which the next one steps over.
  void append(SceneRecord record);
  /// The last record of a scene, of all processes; nothing: it has none.
  std::optional<SceneRecord> last(const std::string& scene);
  /// The same of all scenes.
  SceneRecords all();
  /// Whether the line was there when this object was made.
  bool is_old(const SceneRecord& record) const { return record.offset < start_; }

 private:
  uint64_t read_up_to();

  std::filesystem::path path_;
  FileLock& lock_;
  int file_ = -1;
  std::mutex reading_;
  ManifestReader reader_;
  uint64_t start_ = 0;
};

}  // namespace vggt
