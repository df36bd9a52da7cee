#include "app/options/option_texts.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "io/files/numbers.h"

namespace vggt {
namespace {

std::string text_of(const std::string& value) {
  return value;
}
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(int64_t value) {
  return std::to_string(value);
}
std::string text_of(double value) {
  return number_text(value);
}
std::string text_of(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ",") + value;
  return text;
}
template <class Value>
std::string text_of(const std::optional<Value>& value) {
  return value ? text_of(*value) : "";
}

}  // namespace

std::map<std::string, std::string> option_texts(const Options& options) {
  std::map<std::string, std::string> texts;
  visit_options(options,
                [&](const OptionInfo& info, const auto& field) { texts[info.name] = text_of(field); });
  return texts;
}

}  // namespace vggt
