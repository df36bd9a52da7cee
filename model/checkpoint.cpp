#include "model/checkpoint.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <utility>

#include "io/files/atomic_file.h"
#include "io/files/crc32.h"
#include "io/files/input_file.h"
#include "io/files/scratch_file.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "checkpoint.json";
constexpr int kFormat = 1;
constexpr uint64_t kMostManifestBytes = 1 << 20;
constexpr int64_t kPieceBytes = int64_t{32} << 20;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw std::invalid_argument(path.string() + ": " + what + "; the checkpoint cannot be used (remove " +
                              path.parent_path().string() + " to begin anew)");
}

/// Calls work(offset, bytes) for the pieces of so many bytes and returns the checksum of all.
uint32_t in_pieces(int64_t bytes, const std::function<void(int64_t, std::span<std::byte>)>& work) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
  uint32_t sum = 0;
  for (int64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const auto piece =
        std::span(buffer).first(static_cast<std::size_t>(std::min(bytes - offset, kPieceBytes)));
    work(offset, piece);
    sum = combine_crc32(sum, crc32(piece), piece.size());
  }
  return sum;
}

uint32_t sum_of(const json& manifest) {
  const std::string text = manifest.dump();
  return crc32(std::as_bytes(std::span(text)));
}

}  // namespace

Checkpoint::Checkpoint(fs::path folder, std::string run) : folder_(std::move(folder)), run_(std::move(run)) {
  if (is_in(folder_)) read_manifest();
}

bool Checkpoint::is_in(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kManifest, ignored);
}

int64_t Checkpoint::layers_in(const fs::path& folder) try {
  const fs::path path = folder / kManifest;
  if (!fs::is_regular_file(path)) return 0;
  const std::string text = read_text_file(path, kMostManifestBytes, "a checkpoint's manifest");
  if (nests_deeply(text)) return 0;
  const json layers = json::parse(text).at("layers");
  return layers.is_number_integer() ? layers.get<int64_t>() : 0;
} catch (const std::exception&) {  // reading it says why
  return 0;
}

void Checkpoint::read_manifest() {
  const fs::path path = folder_ / kManifest;
  if (!fs::is_regular_file(path)) refuse(path, "not a file");
  const std::string text = read_text_file(path, kMostManifestBytes, "a checkpoint's manifest");
  if (nests_deeply(text)) refuse(path, "damaged");
  try {
    json manifest = json::parse(text);
    const uint32_t sum = manifest.at("crc32");
    manifest.erase("crc32");
    if (sum != sum_of(manifest)) refuse(path, "damaged (wrong checksum)");
    if (manifest.at("format") != kFormat) refuse(path, "of another version of the program");
    if (manifest.at("run") != run_) refuse(path, "of another run");
    layers_ = manifest.at("layers");
    published_ = manifest.at("published");
    for (const auto& [name, file] : manifest.at("tensors").items())
      files_[name] = {file.at("file"), file.at("shape"), file.at("type"), file.at("crc32")};
    for (const auto& [name, file] : files_) {
      if (file.name != fs::path(file.name).filename()) refuse(path, "damaged");
      std::error_code ignored;
      const std::uintmax_t bytes = fs::file_size(folder_ / file.name, ignored);
      if (!ignored) on_disk_[file.name].hold(static_cast<int64_t>(bytes));
    }
  } catch (const json::exception&) {
    refuse(path, "damaged");
  }
}

void Checkpoint::read(const std::string& name, FrameTensor& to) const {
  const auto found = files_.find(name);
  if (found == files_.end()) refuse(folder_ / kManifest, "has no " + name);
  const File& file = found->second;
  const fs::path path = folder_ / file.name;
  if (file.shape != to.shape() || file.type != c10::toString(to.scalar_type()))
    refuse(path, "of another shape or type");
  if (!fs::exists(path)) refuse(path, "missing");
  const InputFile input(path);
  if (input.size() != static_cast<uint64_t>(to.bytes())) {
    refuse(path, "expected " + std::to_string(to.bytes()) + " bytes, got " + std::to_string(input.size()));
  }
  const uint32_t sum = in_pieces(to.bytes(), [&](int64_t offset, std::span<std::byte> piece) {
    input.read(static_cast<uint64_t>(offset), piece);
    to.write(offset, piece.data(), static_cast<int64_t>(piece.size()));
  });
  if (sum != file.crc) refuse(path, "damaged (wrong checksum)");
}

void Checkpoint::write(const std::string& name, FrameTensor& from) {
  from.finish();
  File file{name + "-" + std::to_string(published_ + 1), from.shape(), c10::toString(from.scalar_type())};
  {
    ScratchFile output(folder_ / file.name, from.bytes());
    file.crc = in_pieces(from.bytes(), [&](int64_t offset, std::span<std::byte> piece) {
      const auto bytes = static_cast<int64_t>(piece.size());
      from.read(offset, piece.data(), bytes);
      output.write(offset, piece.data(), bytes);
    });
    output.sync();
    output.keep();
  }
  on_disk_[file.name].hold(from.bytes());
  drop(name);
  files_[name] = std::move(file);
}

void Checkpoint::drop(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) return;
  replaced_.push_back(found->second.name);
  files_.erase(found);
}

void Checkpoint::publish(int64_t layers) {
  json tensors = json::object();
  for (const auto& [name, file] : files_) {
    tensors[name] = {{"file", file.name}, {"shape", file.shape}, {"type", file.type}, {"crc32", file.crc}};
  }
  json manifest = {{"format", kFormat},
                   {"run", run_},
                   {"layers", layers},
                   {"published", published_ + 1},
                   {"tensors", std::move(tensors)}};
  manifest["crc32"] = sum_of(manifest);
  write_atomically(folder_ / kManifest, [&](std::ostream& out) { out << manifest.dump(1) << "\n"; });
  layers_ = layers;
  ++published_;
  std::error_code ignored;
  for (const std::string& name : std::exchange(replaced_, {})) {
    // One that was written again, after a write that did not come to this, has the same name.
    const bool used = std::ranges::any_of(files_, [&](const auto& file) { return file.second.name == name; });
    if (used) continue;
    fs::remove(folder_ / name, ignored);
    on_disk_.erase(name);
  }
}

}  // namespace vggt
