#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/archives/zip_writer.h"

// Archives as PyTorch writes them, and as it never would, byte by byte.
namespace vggt::torch_bytes {

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

inline std::string text(std::string_view value) {
  return "X" + raw(static_cast<uint32_t>(value.size())) + std::string(value);
}
inline std::string integer(int64_t value) {
  return std::string("\x8a\x08") + raw(value);
}

inline std::string tuple(const std::vector<int64_t>& values) {
  std::string result = "(";
  for (const int64_t value : values) result += integer(value);
  return result + "t";
}

/// A view of a storage, as the opcodes that describe it.
struct View {
  std::string key = "0";
  int64_t storage_count = 0, offset = 0;
  std::vector<int64_t> shape, strides;
  std::string storage = "FloatStorage";

  std::string opcodes() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" +
           text(key) + text("cpu") + integer(storage_count) + "tQ" + integer(offset) + tuple(shape) +
           tuple(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
  }
};

inline std::string pickle(const std::string& body) {
  return "\x80\x02" + body + ".";
}

inline std::string state_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string result = "}(";
  for (const auto& [name, value] : items) result += text(name) + value;
  return pickle(result + "u");
}

using Records = std::vector<std::pair<std::string, std::string>>;

inline std::string archive(const Records& records) {
  std::ostringstream out;
  ZipWriter zip(out, "archive");
  for (const auto& [name, data] : records) zip.add(name, data);
  zip.finish();
  return out.str();
}

inline std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// A path for a temporary file: tests run side by side.
inline std::filesystem::path scratch(const std::string& name, const std::string& extension = ".pt") {
  return std::filesystem::temp_directory_path() /
         ("vggt " + name + "_" + std::to_string(::getpid()) + extension);
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // truncating instead would make some file systems write at once
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace vggt::torch_bytes
