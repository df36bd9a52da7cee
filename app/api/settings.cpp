#include "app/api/settings.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "app/options/option_texts.h"
#include "app/options/spelling.h"

namespace vggt {
namespace {

/// A library's run is given its frames in another way, prints nothing and opens no viewer.
constexpr std::array<std::string_view, 5> kOfProgram = {"frames", "dry-run", "open", "quiet", "verbose"};

bool is_of_program(std::string_view name) {
  return std::ranges::count(kOfProgram, name) > 0;
}

template <class Value>
struct Kind {
  static constexpr const char* name = "text";
};
template <>
struct Kind<bool> {
  static constexpr const char* name = "flag";
};
template <>
struct Kind<int64_t> {
  static constexpr const char* name = "whole number";
};
template <>
struct Kind<double> {
  static constexpr const char* name = "number";
};
template <>
struct Kind<std::vector<std::string>> {
  static constexpr const char* name = "list";
};
template <class Value>
struct Kind<std::optional<Value>> : Kind<Value> {};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

/// The table and the texts that it points to.
struct Table {
  std::deque<std::string> texts;
  std::vector<vggt_recon_option_info> rows;

  Table() {
    const Options defaults;
    const std::map<std::string, std::string> values = option_texts(defaults);
    visit_options(defaults, [&](const OptionInfo& info, const auto& field) {
      if (is_of_program(info.name)) return;
      const char* const kind = Kind<std::decay_t<decltype(field)>>::name;
      const std::string& choices = texts.emplace_back(joined(info.choices));
      const std::string& value = texts.emplace_back(values.at(info.name));
      rows.push_back({info.name, kind, choices.c_str(), value.c_str(), info.help});
    });
  }
};

}  // namespace

void set_by_name(Options& options, const char* name, const char* value) {
  if (!name) throw std::invalid_argument("an option has no name");
  std::vector<std::string> names;
  for (const vggt_recon_option_info& row : option_table()) names.emplace_back(row.name);
  if (!std::ranges::count(names, name)) {
    const std::string unknown = std::string(name).substr(0, 80);
    throw std::invalid_argument(is_of_program(name) ? unknown + ": is no option of a library's run"
                                                    : "unknown option '" + unknown + "'; did you mean '" +
                                                          nearest_name(unknown, names) + "'?");
  }
  if (value) {
    set_option(options, name, value, name);
  } else {
    reset_option(options, name);
  }
}

const std::vector<vggt_recon_option_info>& option_table() {
  static const Table table;
  return table.rows;
}

}  // namespace vggt
