#include "app/batch/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "app/batch/whole_number.h"
#include "io/files/file_place.h"
#include "io/files/text.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kStates{"running", "done", "failed", "stopped"};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

[[noreturn]] void fail(int error, const fs::path& path) {
  throw std::system_error(error, std::generic_category(), path.string() + ": cannot be written");
}

[[noreturn]] void fail_as_cut_off(const fs::path& path) {
  throw std::system_error(ESTALE, std::generic_category(),
                          path.string() + ": was cut off while it was in use");
}

template <class Value>
void take(const Json& json, const char* key, Value& value) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  if constexpr (std::is_integral_v<Value>) {
    const int64_t number = whole_number(*found);
    if (!std::in_range<Value>(number)) throw std::out_of_range(key);
    value = static_cast<Value>(number);
  } else {
    value = found->get<Value>();
  }
}

Json files_json(const SceneRecord& record) {
  Json files = Json::array();
  for (const OutputFile& file : record.files) files.push_back({{"path", file.path}, {"bytes", file.bytes}});
  return files;
}

Json outcome_json(const SceneRecord& record) {
  std::vector<std::string> warnings = record.warnings;
  if (warnings.size() > SceneRecord::kMostWarnings) warnings.resize(SceneRecord::kMostWarnings);
  return {{"device", record.device},
          {"seconds", record.seconds},
          {"frames", record.frames},
          {"points", record.points},
          {"peak_host_bytes", record.peak_host_bytes},
          {"peak_device_bytes", record.peak_device_bytes},
          {"peak_device_reserved_bytes", record.peak_device_reserved_bytes},
          {"warnings", warnings},
          {"error", record.error},
          {"exit_code", record.exit_code}};
}

void take_outcome(const Json& json, SceneRecord& record) {
  take(json, "device", record.device);
  take(json, "seconds", record.seconds);
  take(json, "frames", record.frames);
  take(json, "points", record.points);
  take(json, "peak_host_bytes", record.peak_host_bytes);
  take(json, "peak_device_bytes", record.peak_device_bytes);
  take(json, "peak_device_reserved_bytes", record.peak_device_reserved_bytes);
  take(json, "warnings", record.warnings);
  take(json, "error", record.error);
  take(json, "exit_code", record.exit_code);
  for (const Json& file : json.value("files", Json::array()))
    record.files.push_back({file.at("path").get<std::string>(), whole_number(file.at("bytes"))});
}

/// Writes all of it, or takes back what was written.
void write_line(int file, const std::string& text, const fs::path& path) {
  struct stat before {};
  if (::fstat(file, &before) != 0) fail(errno, path);
  ssize_t written = 0;
  do {
    written = ::write(file, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return;
  const int error = written < 0 ? errno : ENOSPC;
  // Where this fails as well, the next line begins with an end of line.
  [[maybe_unused]] const int ignored = ::ftruncate(file, before.st_size);
  fail(error, path);
}

/// Whether the file ends within a line.
bool is_torn(int file) {
  struct stat status {};
  char last = '\n';
  if (::fstat(file, &status) != 0 || status.st_size == 0) return false;
  return ::pread(file, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

}  // namespace

const char* state_name(SceneState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

std::size_t missing_of(const std::vector<OutputFile>& files, const fs::path& folder) {
  const auto is_there = [&](const OutputFile& file) {
    std::error_code error;
    const fs::path path = folder / file.path;
    if (file.bytes < 0) return fs::is_directory(path, error);
    return fs::is_regular_file(path, error) &&
           static_cast<int64_t>(fs::file_size(path, error)) == file.bytes && !error;
  };
  return files.size() - static_cast<std::size_t>(std::ranges::count_if(files, is_there));
}

std::string to_line(const SceneRecord& record) {
  Json json = {{"scene", record.scene},
               {"state", state_name(record.state)},
               {"time", record.time},
               {"source", record.source},
               {"fingerprint",
                {{"frames", record.fingerprint.frames},
                 {"options", record.fingerprint.options},
                 {"weights", record.fingerprint.weights}}},
               {"program", record.program},
               {"host", record.host},
               {"pid", record.pid}};
  if (record.state != SceneState::running) json.update(outcome_json(record));
  json["files"] = files_json(record);
  // A path may hold bytes that are no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<SceneRecord> from_line(const std::string& line) try {
  if (nests_deeply(line)) return std::nullopt;
  const Json json = Json::parse(line);
  SceneRecord record;
  record.scene = json.at("scene").get<std::string>();
  const std::string state = json.at("state").get<std::string>();
  const auto* const found = std::ranges::find(kStates, state);
  if (found == kStates.end() || record.scene.empty()) return std::nullopt;
  record.state = static_cast<SceneState>(found - kStates.begin());
  take(json, "time", record.time);
  take(json, "source", record.source);
  const Json sums = json.value("fingerprint", Json::object());
  if (!sums.is_object()) return std::nullopt;
  take(sums, "frames", record.fingerprint.frames);
  take(sums, "options", record.fingerprint.options);
  take(sums, "weights", record.fingerprint.weights);
  take(json, "program", record.program);
  take(json, "host", record.host);
  take(json, "pid", record.pid);
  take_outcome(json, record);
  return record;
} catch (const Json::exception&) {
  return std::nullopt;
} catch (const std::out_of_range&) {
  return std::nullopt;
}

const SceneRecords& ManifestReader::read() {
  const fs::file_status status = fs::status(path_);
  if (!fs::exists(status)) return records_;
  if (!fs::is_regular_file(status))
    throw std::system_error(EINVAL, std::generic_category(), path_.string() + ": is no file");
  std::ifstream file(path_, std::ios::binary);
  if (!file) throw std::system_error(EACCES, std::generic_category(), path_.string() + ": cannot be read");
  if (fs::file_size(path_) < offset_) fail_as_cut_off(path_);
  file.seekg(static_cast<std::streamoff>(offset_));
  // What lies behind the last end of line is read again: it may be half a line, or be taken back.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const uint64_t start = offset_;
    offset_ += line.size() + 1;
    std::optional<SceneRecord> record = from_line(line);
    if (!record) continue;
    record->offset = start;
    records_[record->scene] = std::move(*record);
  }
  return records_;
}

Manifest::Manifest(const fs::path& path, FileLock& lock)
    : path_(path),
      lock_(lock),
      file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
      reader_(path) {
  if (file_ < 0) fail(errno, path);
  reader_.read();
  start_ = reader_.offset();
}

Manifest::~Manifest() {
  ::close(file_);
}

void Manifest::append(SceneRecord record) {
  if (record.time.empty()) record.time = now_text();
  const std::string line = to_line(record) + "\n";
  {
    const FileLock::Turn turn(lock_);
    if (!is_at(file_, path_))  // nobody would find the line
      throw std::system_error(ENOENT, std::generic_category(),
                              path_.string() + ": was removed or replaced while the batch ran");
    if (fs::file_size(path_) < read_up_to()) fail_as_cut_off(path_);  // others read on behind that
    write_line(file_, is_torn(file_) ? "\n" + line : line, path_);
  }
  if (::fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS) fail(errno, path_);
}

uint64_t Manifest::read_up_to() {
  const std::lock_guard guard(reading_);
  return reader_.offset();
}

std::optional<SceneRecord> Manifest::last(const std::string& scene) {
  const std::lock_guard guard(reading_);
  const SceneRecords& records = reader_.read();
  const auto found = records.find(scene);
  return found == records.end() ? std::nullopt : std::optional(found->second);
}

SceneRecords Manifest::all() {
  const std::lock_guard guard(reading_);
  return reader_.read();
}

}  // namespace vggt
