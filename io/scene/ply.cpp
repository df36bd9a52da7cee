#include "io/scene/ply.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/files/byte_reader.h"
#include "io/files/input_file.h"
#include "io/files/numbers.h"
#include "io/files/text.h"

namespace vggt {
namespace {

enum class Encoding { ascii, little_endian, big_endian };

struct Scalar {
  std::size_t bytes = 0;
  bool is_float = false;
};

struct Element {
  bool is_vertex = false, has_list = false;
  uint64_t count = 0;
  std::size_t bytes = 0;                  // of one element, in binary files
  int properties = 0;                     // values of one element, in ASCII files
  std::array<Scalar, 3> type;             // of x, y, z
  std::array<std::size_t, 3> offset{};    // in binary files
  std::array<int, 3> column{-1, -1, -1};  // in ASCII files
};

struct Header {
  Encoding encoding = Encoding::ascii;
  std::vector<Element> elements;  // up to the vertices
};

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

Scalar scalar(std::string_view name) {
  if (name == "float" || name == "float32") return {4, true};
  if (name == "double" || name == "float64") return {8, true};
  if (name == "char" || name == "uchar" || name == "int8" || name == "uint8") return {1, false};
  if (name == "short" || name == "ushort" || name == "int16" || name == "uint16") return {2, false};
  if (name == "int" || name == "uint" || name == "int32" || name == "uint32") return {4, false};
  fail("unknown type '" + printable(name) + "'");
}

void add_property(Element& element, std::string_view line) {
  const std::string_view type_name = next_word(line);
  if (type_name == "list") {
    element.has_list = true;
    return;
  }
  const Scalar type = scalar(type_name);
  const std::string_view name = next_word(line);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (name != std::string_view("xyz").substr(axis, 1)) continue;
    element.type[axis] = type;
    element.offset[axis] = element.bytes;
    element.column[axis] = element.properties;
  }
  element.bytes += type.bytes;
  ++element.properties;
}

Element new_element(std::string_view line) {
  Element element;
  element.is_vertex = next_word(line) == "vertex";
  const std::string_view word = next_word(line);
  const std::optional<uint64_t> count = parse_number<uint64_t>(word);
  if (!count) fail("'" + printable(word) + "' is no number of elements");
  element.count = *count;
  return element;
}

Encoding encoding_of(std::string_view name) {
  if (name == "ascii") return Encoding::ascii;
  if (name == "binary_little_endian") return Encoding::little_endian;
  if (name == "binary_big_endian") return Encoding::big_endian;
  fail("unknown format '" + printable(name) + "'");
}

void check_vertices(const Header& header) {
  if (header.elements.empty() || !header.elements.back().is_vertex) fail("it has no vertices");
  for (const Element& element : header.elements) {
    if (element.has_list && header.encoding != Encoding::ascii) fail("it has a list before its vertices");
  }
  const Element& vertex = header.elements.back();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (vertex.has_list || !vertex.type[axis].is_float)
      fail("its vertices have no x, y, z of float or double");
  }
}

Header read_header(ByteReader& reader) {
  constexpr int kMaxLines = 10'000;
  const auto magic = reader.line();
  if (magic != "ply" && magic != "ply\r") fail("not a PLY file");
  Header header;
  for (int lines = 0; lines < kMaxLines; ++lines) {
    std::string_view line = reader.line();
    const std::string_view word = next_word(line);
    const bool past_vertices = !header.elements.empty() && header.elements.back().is_vertex;
    if (word == "end_header") {
      check_vertices(header);
      return header;
    }
    if (word == "format") header.encoding = encoding_of(next_word(line));
    if (word == "element") {
      if (!past_vertices) {
        header.elements.push_back(new_element(line));
      } else {  // elements after the vertices are not read: their properties must not count as the vertices'
        while (next_word(line = reader.line()) != "end_header") {
        }
        check_vertices(header);
        return header;
      }
    }
    if (word != "property") continue;
    if (header.elements.empty()) fail("a property before the first element");
    add_property(header.elements.back(), line);
  }
  fail("its header does not end");
}

template <class T, class Raw>
double value_at(const std::byte* data, bool swap) {
  Raw raw;
  std::memcpy(&raw, data, sizeof raw);
  if (swap)
    raw = sizeof(Raw) == 4 ? static_cast<Raw>(__builtin_bswap32(static_cast<uint32_t>(raw)))
                           : static_cast<Raw>(__builtin_bswap64(raw));
  return std::bit_cast<T>(raw);
}

void skip(ByteReader& reader, const Element& element, Encoding encoding) {
  if (encoding == Encoding::ascii) {
    for (uint64_t i = 0; i < element.count; ++i) reader.line();
  } else {
    if (element.bytes > 0 && element.count > reader.left() / element.bytes) fail("it ends too early");
    reader.take(element.count * element.bytes);
  }
}

std::vector<Eigen::Vector3d> binary_points(ByteReader& reader, const Element& vertex, bool swap) {
  if (vertex.count > reader.left() / vertex.bytes) {
    fail("it ends too early for its " + std::to_string(vertex.count) + " vertices");
  }
  std::vector<Eigen::Vector3d> points(vertex.count);
  for (Eigen::Vector3d& point : points) {
    const std::byte* data = reader.take(vertex.bytes).data();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::byte* at = data + vertex.offset[axis];
      point(static_cast<Eigen::Index>(axis)) = vertex.type[axis].bytes == 4
                                                   ? value_at<float, uint32_t>(at, swap)
                                                   : value_at<double, uint64_t>(at, swap);
    }
  }
  return points;
}

Eigen::Vector3d ascii_point(std::string_view line, const Element& vertex) {
  Eigen::Vector3d point;
  for (int column = 0; column < vertex.properties; ++column) {
    const std::string_view word = next_word(line);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (vertex.column[axis] != column) continue;
      const std::optional<double> value = parse_number<double>(word);
      if (!value) fail("'" + printable(word) + "' is not a number");
      point(static_cast<Eigen::Index>(axis)) = *value;
    }
  }
  return point;
}

/// The next line; the last one may lack its line feed.
std::string_view ascii_line(ByteReader& reader, std::string_view& rest) {
  if (rest.empty()) rest = reader.text(reader.left());
  if (rest.empty()) fail("it ends too early");
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

std::vector<Eigen::Vector3d> ascii_points(ByteReader& reader, const Element& vertex) {
  std::vector<Eigen::Vector3d> points;
  std::string_view rest;
  for (uint64_t i = 0; i < vertex.count; ++i) points.push_back(ascii_point(ascii_line(reader, rest), vertex));
  return points;
}

std::vector<Eigen::Vector3d> parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const Header header = read_header(reader);
  for (std::size_t i = 0; i + 1 < header.elements.size(); ++i)
    skip(reader, header.elements[i], header.encoding);
  const Element& vertex = header.elements.back();
  const bool swap = header.encoding == Encoding::big_endian;
  std::vector<Eigen::Vector3d> points =
      header.encoding == Encoding::ascii ? ascii_points(reader, vertex) : binary_points(reader, vertex, swap);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].allFinite()) fail("point " + std::to_string(i) + " is not finite");
  }
  return points;
}

}  // namespace

std::vector<Eigen::Vector3d> read_ply_points(const std::filesystem::path& path) {
  const InputFile file(path);
  const FileMapping mapping(file);
  try {
    return parse(mapping.bytes());
  } catch (const std::invalid_argument& error) {
    fail(path.string() + ": " + error.what());
  }
}

}  // namespace vggt
