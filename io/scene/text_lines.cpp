#include "io/scene/text_lines.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {

void each_line(const std::filesystem::path& path, const std::function<void(std::string_view line)>& take) {
  const std::string text = read_text_file(path, uint64_t{1} << 30, "a list of cameras");
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    try {
      take(std::string_view(text).substr(begin, end - begin));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path.string() + ":" + std::to_string(number) + ": " + error.what());
    }
    begin = end + 1;
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::string_view word; !(word = next_word(line)).empty();) words.push_back(word);
  return words;
}

double finite_number(std::string_view word) {
  const std::optional<double> value = parse_number<double>(word);
  if (!value) throw std::invalid_argument("'" + printable(word) + "' is not a number");
  if (!std::isfinite(*value)) throw std::invalid_argument("'" + printable(word) + "' is not finite");
  return *value;
}

Eigen::Quaterniond unit_quaternion(const Eigen::Quaterniond& q) {
  if (!(q.norm() > 0) || !std::isfinite(q.norm()))
    throw std::invalid_argument("its quaternion cannot be normalised");
  return q.normalized();
}

}  // namespace vggt
