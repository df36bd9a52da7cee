#include "app/run/resume.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "app/run/device.h"
#include "app/run/head_choice.h"
#include "io/files/atomic_file.h"
#include "io/files/content_sum.h"
#include "io/files/crc32.h"
#include "io/files/file_place.h"
#include "io/files/text.h"
#include "io/files/text_file.h"
#include "io/frames/frame_sources.h"
#include "model/checkpoint.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "manifest.json";

std::string plain(const fs::path& path) {
  return plain_path(path).string();
}

/// What changes with a file's contents.
std::string state_of(const fs::path& path, const Events& events) try {
  return fs::exists(path) ? content_sum(path, [&] { events.check_stop(); }) : "missing";
} catch (const std::bad_alloc&) {
  throw;
} catch (const Stopped&) {
  throw;
} catch (const std::exception& error) {
  return error.what();  // decoding will skip it, with a warning
}

uint32_t sum_of_index(const WeightFile& weights) {
  std::ostringstream text;
  for (const auto& [name, tensor] : weights.tensors()) {
    text << name << " " << at::toString(tensor.type) << " " << tensor.offset;
    for (const int64_t side : tensor.shape) text << " " << side;
    text << "\n";
  }
  text << weights.config_json().value_or("");
  const std::string all = text.str();
  return crc32(std::as_bytes(std::span(all)));
}

/// Of the frames that the run takes.
json frames_in(const FrameOptions& options, const Events& events) {
  const fs::path& source = options.source;
  json frames = json::array();
  const auto add = [&](const std::string& name, const fs::path& path) {
    frames.push_back({name, state_of(path, events)});
  };
  if (fs::is_fifo(source))
    throw std::invalid_argument("resume: frames that come from a pipe cannot be read again");
  const SourceKind kind = kind_of_source(source);
  if (kind == SourceKind::video || kind == SourceKind::tensor_file) {
    add(source.filename().string(), source);
    return frames;
  }
  const ImageList images = find_images(source, kind);
  for (const std::size_t i : choose_evenly(images.names.size(), options.max_frames))
    add(images.names[i], images.path(i));
  return frames;
}

template <class Number>
json or_null(const std::optional<Number>& value) {
  return value ? json(*value) : json();
}

/// What the network's results depend on, by the name that a person knows it by.
json parts_of(const RunPlan& plan, const Events& events) {
  const FrameOptions& frames = plan.frames;
  const ModelOptions& model = plan.model.options;
  const fs::path& weights = plan.model.weights.path();
  json parts = {
      {"program", VGGT_VERSION},
      {"--weights", {plain(weights), state_of(weights, events), sum_of_index(plan.model.weights)}},
      {"--fit", frames.fit == Fit::pad     ? "pad"
                : frames.fit == Fit::whole ? "whole"
                                           : "crop"},
      {"--width", frames.width},
      {"--fps", or_null(frames.fps)},
      {"--stride", or_null(frames.stride)},
      {"--max-frames", or_null(frames.max_frames)},
      {"--heads", heads_text(model.heads)},
      {"--precision", precision_name(model.precision)},
      {"--head-precision", model.heads_in_bf16 ? "bf16" : "fp32"},
      {"--attention", variant_name(model.attention)},
      {"--device", model.device.is_cuda() ? "cuda" : "cpu"},
      {"--merge", plan.given.merge},
      {"--frames", frames_in(frames, events)},
  };
  if (const auto& merge = model.merge) {
    parts["--merge-start"] = merge->start;
    parts["--merge-ratio"] = merge->ratio;
    parts["--merge-protect"] = merge->protect;
    parts["--merge-refresh"] = merge->refresh;
    parts["--merge-metric"] = merge->metric;
    parts["--merge-seed"] = merge->seed;
  }
  // A file's name may be no UTF-8, which JSON has to be: as it comes back from the manifest.
  return json::parse(parts.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// The first frame that is another one.
std::string changed_frame(const json& before, const json& now) {
  if (!before.is_array()) return "--frames";
  if (before.size() != now.size()) {
    return "--frames (" + std::to_string(before.size()) + " files then, " + std::to_string(now.size()) +
           " now)";
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before[i] != now[i]) return "--frames (" + now[i][0].get<std::string>() + ")";
  }
  return "--frames";
}

/// What differs, by names; empty: nothing. How a run merges is told only of two that both may.
std::string changes(const json& before, const json& now) {
  std::string names;
  const bool other_merge = before.value("--merge", json()) != now.value("--merge", json());
  const auto is_told = [&](const std::string& name) { return !other_merge || !name.starts_with("--merge-"); };
  const auto add = [&](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  for (const auto& [name, value] : now.items()) {
    const json old = before.value(name, json());
    if (old == value || !is_told(name)) continue;
    if (name == "--frames") {
      add(changed_frame(old, value));
    } else if (value.is_string() && old.is_string()) {
      add(name + " (" + old.get<std::string>() + " then, " + value.get<std::string>() + " now)");
    } else {
      add(name);
    }
  }
  for (const auto& [name, value] : before.items()) {
    if (!now.contains(name) && is_told(name)) add(name);
  }
  return names;
}

json read_manifest(const fs::path& folder) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 28;
  const fs::path path = folder / kManifest;
  if (!fs::is_regular_file(fs::symlink_status(path))) return {};
  const std::string text = read_text_file(path, kMostBytes, "a manifest");
  if (nests_deeply(text)) return {};
  const json manifest = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool whole = manifest.is_object() && manifest.contains("parts") && manifest["parts"].is_object();
  return whole ? manifest : json();
}

void write_manifest(const fs::path& folder, const json& manifest) {
  const std::string text = manifest.dump(0, ' ', false, json::error_handler_t::replace);
  write_atomically(folder / kManifest, [&](std::ostream& out) { out << text << "\n"; });
}

/// All but the lock, or what `keeps` says.
template <class Keeps>
void clear(const fs::path& folder, const Keeps& keeps) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name != "lock" && !keeps(name)) fs::remove_all(entry.path(), ignored);
  }
}

/// Whether a folder holds something, but no manifest, whole or half-written: a user's own that is named as a
/// run's.
bool is_foreign(const fs::path& folder) {
  bool is_empty = true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(kManifest) != std::string::npos) return false;
    is_empty &= name == "lock";
  }
  return !is_empty;
}

/// Throws where the finished stages in a folder are of another run.
void check_same(const fs::path& folder, const json& before, const json& now) {
  const std::string changed = before.is_null() ? "the manifest" : changes(before["parts"], now);
  if (changed.empty()) return;
  throw std::invalid_argument("resume: not the run whose stages are in " + folder.string() +
                              ": changed are " + changed + "; remove it to begin anew");
}

fs::path folder_of(const RunPlan& plan) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](const std::string& text) {
    for (const char c : text + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  mix(plain(plan.frames.source));
  const OutputPaths& outputs = plan.outputs.paths;
  if (const auto& named = outputs.base ? outputs.base : outputs.predictions) mix(plain(*named));
  char name[40];
  std::snprintf(name, sizeof name, "vggt-recon-%016llx", static_cast<unsigned long long>(hash));
  return *plan.limits.storage.scratch / name;
}

}  // namespace

void check_resume(const RunPlan& plan, const Events& events) {
  const fs::path folder = folder_of(plan);
  if (Checkpoint::is_in(folder)) check_same(folder, read_manifest(folder), parts_of(plan, events));
}

Resume::LockedFolder::LockedFolder(fs::path folder) : path(std::move(folder)) {
  const auto fail = [&](int error, const std::string& what) {
    if (lock >= 0) ::close(lock);
    throw std::system_error(error, std::generic_category(), "scratch: " + what + " " + path.string());
  };
  bool has_lock = false;
  for (;;) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail(errno, "cannot make");
    // Its name can be guessed: who else may write in the scratch folder may have put something there.
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()))
      throw std::invalid_argument("scratch: " + path.string() + " is no folder of this user; remove it");
    const fs::path file = path / "lock";
    has_lock = fs::exists(fs::symlink_status(file));
    lock = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0 && errno == ENOENT) continue;  // the run that had it has just removed the folder
    if (lock < 0) fail(errno, "cannot write in");
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail(errno, "cannot lock");
      ::close(lock);
      throw std::invalid_argument("resume: another process runs in " + path.string());
    }
    if (is_at(lock, file)) break;
    ::close(lock);  // likewise
  }
  if (!is_foreign(path)) return;
  if (!has_lock) ::unlink((path / "lock").c_str());
  ::close(lock);
  throw std::invalid_argument("scratch: " + path.string() +
                              " holds something else than a run's stages: move it away");
}

Resume::LockedFolder::~LockedFolder() {
  std::error_code ignored;
  if (!keep || !Checkpoint::is_in(path)) {
    clear(path, [](const std::string& name) { return name == kManifest; });  // which goes last
    fs::remove_all(path, ignored);
  }
  ::close(lock);
}

Resume::Resume(const RunPlan& plan, const Events& events) : folder_(folder_of(plan)) {
  const json before = read_manifest(folder());
  const json now = parts_of(plan, events);
  json manifest = {{"parts", now}};
  if (has_stages()) {
    check_same(folder(), before, now);
    if (before.contains("merges")) manifest["merges"] = before["merges"];
  }
  // Scratch folders of a killed run go; without finished stages, everything.
  const bool keep = has_stages();
  clear(folder(), [&](const std::string& name) {
    return name == kManifest || (keep && !name.starts_with("vggt-recon-"));  // the first is written anew
  });
  write_manifest(folder(), manifest);
}

bool Resume::has_stages() const {
  return Checkpoint::is_in(folder());
}

int64_t Resume::finished_layers() const {
  return Checkpoint::layers_in(folder());
}

void Resume::count_finished() {
  std::error_code ignored;
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder(), ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<int64_t>(entry.file_size(ignored));
  }
  finished_.hold(bytes);
}

bool Resume::merges(bool chosen) {
  json manifest = read_manifest(folder());
  if (has_stages() && manifest.contains("merges")) return manifest["merges"] == true;
  manifest["merges"] = chosen;
  write_manifest(folder(), manifest);
  return chosen;
}

}  // namespace vggt
