#include "app/options/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "app/options/spelling.h"
#include "io/files/numbers.h"
#include "io/files/text.h"

namespace vggt {
namespace {

[[noreturn]] void bad_value(const std::string& where, const std::string& text, const std::string& expected) {
  throw std::invalid_argument(where + ": '" + text.substr(0, 80) + "' is not " + expected);
}

/// number: the one that is not in it.
std::string range_of(const OptionInfo& info, double number) {
  constexpr double kUnbounded = 1e15;  // told where it is exceeded
  if (info.max < kUnbounded || number > info.max)
    return " from " + number_text(info.min) + " to " + number_text(info.max);
  return info.min > -kUnbounded ? " of at least " + number_text(info.min) : "";
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

/// As the options spell their choices.
std::string as_spelt(std::string text) {
  std::ranges::replace(text, '_', '-');
  return lower(std::move(text));
}

void check_choice(const OptionInfo& info, const std::string& text, const std::string& where) {
  if (info.choices.empty() || std::ranges::count(info.choices, text)) return;
  const std::string spelt = as_spelt(text).substr(0, 64), nearest = nearest_name(spelt, info.choices);
  const bool is_near = 2 * edit_distance(spelt, nearest) <= std::ssize(nearest);
  bad_value(where, text,
            "one of " + joined(info.choices, ", ") + (is_near ? "; did you mean '" + nearest + "'?" : ""));
}

bool in_range(const OptionInfo& info, double number) {
  return std::isfinite(number) && number >= info.min && number <= info.max;
}

// What a field may hold, however it was set.
void check_field(const OptionInfo& info, const std::string& value) {
  check_choice(info, value, info.name);
}
void check_field(const OptionInfo&, bool) {}
void check_field(const OptionInfo& info, double value) {
  if (!in_range(info, value)) bad_value(info.name, number_text(value), "a number" + range_of(info, value));
}
void check_field(const OptionInfo& info, int64_t value) {
  if (!in_range(info, static_cast<double>(value)))
    bad_value(info.name, std::to_string(value),
              "a whole number" + range_of(info, static_cast<double>(value)));
}
void check_field(const OptionInfo& info, const std::vector<std::string>& values) {
  for (const std::string& value : values) check_choice(info, value, info.name);
}
template <class Value>
void check_field(const OptionInfo& info, const std::optional<Value>& value) {
  if (value) check_field(info, *value);
}

/// A camera's model as the option spells it, where the text spells it as COLMAP does (SIMPLE_RADIAL); all
/// other texts as they are.
std::string as_choice(const OptionInfo& info, const std::string& text) {
  std::string spelt = as_spelt(text);
  const bool is_model =
      std::string_view(info.name) == "camera" && std::ranges::count(info.choices, spelt) > 0;
  return is_model ? spelt : text;
}

void parse(const OptionInfo& info, const std::string& text, const std::string& where, std::string& value) {
  value = as_choice(info, text);
  check_choice(info, value, where);
}

void parse(const OptionInfo&, const std::string& text, const std::string& where, bool& value) {
  if (text == "true" || text == "on" || text == "yes") {
    value = true;
  } else if (text == "false" || text == "off" || text == "no") {
    value = false;
  } else {
    bad_value(where, text, "true or false");
  }
}

template <class Number>
void parse_in_range(const OptionInfo& info, const std::string& text, const std::string& where,
                    Number& value) {
  const auto number = parse_number<Number>(text);
  if (!number || !in_range(info, static_cast<double>(*number))) {
    bad_value(where, text,
              (std::is_integral_v<Number> ? "a whole number" : "a number") +
                  range_of(info, parse_number<double>(text).value_or(0)));
  }
  value = *number;
}

void parse(const OptionInfo& info, const std::string& text, const std::string& where, int64_t& value) {
  parse_in_range(info, text, where, value);
}
void parse(const OptionInfo& info, const std::string& text, const std::string& where, double& value) {
  parse_in_range(info, text, where, value);
}

template <class Value>
void parse(const OptionInfo& info, const std::string& text, const std::string& where,
           std::optional<Value>& value) {
  parse(info, text, where, value.emplace());
}

void parse(const OptionInfo& info, const std::string& text, const std::string& where,
           std::vector<std::string>& value) {
  value.clear();
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    check_choice(info, part, where);
    if (!std::ranges::count(value, part)) value.push_back(part);
  }
  if (value.empty()) bad_value(where, text, "a list of " + joined(info.choices, ", "));
}

/// Calls act(info, field) for one option; false if there is none of this name.
template <class Act>
bool with_option(Options& options, std::string_view name, Act&& act) {
  bool found = false;
  visit_options(options, [&](const OptionInfo& info, auto& field) {
    if (name != info.name) return;
    found = true;
    act(info, field);
  });
  return found;
}

[[noreturn]] void missing(const char* name) {
  throw std::invalid_argument(std::string("--") + name + " is missing (see vggt-recon --help)");
}

void check_attention(const Options& options) {
  const std::vector<std::string> precisions = precisions_for(options.attention);
  if (options.precision == "auto" || std::ranges::count(precisions, options.precision)) return;
  throw std::invalid_argument("attention: '" + options.attention + "' goes with precision " +
                              joined(precisions, " or ") + ", not with " + options.precision);
}

}  // namespace

void check_device(const std::string& device) {
  if (device == "all" || device.find(',') != std::string::npos)
    return;  // a list, which only this machine can check
  if (device == "auto" || device == "cpu" || device == "cuda") return;
  const bool is_numbered = device.starts_with("cuda:");
  const auto index = is_numbered ? parse_number<int>(device.substr(5)) : std::nullopt;
  if (!index || *index < 0 || *index > 127)
    bad_value("device", device, "auto, cpu, cuda, cuda:N, cuda:0,1 or all");
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  const Options options;
  visit_options(options, [&](const OptionInfo& info, const auto&) { names.emplace_back(info.name); });
  return names;
}

void set_option(Options& options, std::string_view name, const std::string& text, const std::string& where) {
  const bool found = with_option(
      options, name, [&](const OptionInfo& info, auto& field) { parse(info, text, where, field); });
  if (!found) throw std::logic_error("no option '" + std::string(name) + "'");
}

bool takes_list(std::string_view name) {
  bool is_list = false;
  Options options;
  with_option(options, name, [&](const OptionInfo&, auto& field) {
    is_list = std::is_same_v<std::decay_t<decltype(field)>, std::vector<std::string>>;
  });
  return is_list;
}

void reset_option(Options& options, std::string_view name) {
  Options defaults;
  std::map<std::string_view, const void*> default_fields;
  visit_options(defaults, [&](const OptionInfo& info, auto& field) { default_fields[info.name] = &field; });
  with_option(options, name, [&](const OptionInfo& info, auto& field) {
    field = *static_cast<const std::decay_t<decltype(field)>*>(default_fields.at(info.name));
  });
}

std::optional<OutlierOption> parse_outliers(const std::string& text, const std::string& where) {
  if (text == "off" || text == "false") return std::nullopt;
  if (text == "on" || text == "true") return OutlierOption{};
  const std::size_t comma = text.find(',');
  const auto neighbors = parse_number<int>(std::string_view(text).substr(0, comma));
  const auto std_ratio = comma == text.npos ? std::optional(OutlierOption{}.std_ratio)
                                            : parse_number<double>(std::string_view(text).substr(comma + 1));
  const bool in_range =
      neighbors && std_ratio && *neighbors >= 1 && *neighbors <= 1000 && *std_ratio > 0 && *std_ratio <= 1000;
  if (!in_range) bad_value(where, text, "off, on, or neighbours,deviations such as 20,2.0");
  return OutlierOption{*neighbors, *std_ratio};
}

std::pair<int, int> parse_picture_size(const std::string& text, const std::string& where) {
  constexpr int kSmallest = 16, kLargest = 8192;
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto width = parse_number<int>(std::string_view(text).substr(0, cross));
  const auto height = parse_number<int>(std::string_view(text).substr(std::min(cross + 1, text.size())));
  const auto fits = [](std::optional<int> side) { return side && *side >= kSmallest && *side <= kLargest; };
  if (!fits(width) || !fits(height)) {
    bad_value(where, text,
              "a width and height such as 1280x960, each from " + std::to_string(kSmallest) + " to " +
                  std::to_string(kLargest));
  }
  return {*width, *height};
}

std::optional<int64_t> parse_bytes(const std::string& text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit = text.substr(std::min(text.find_first_not_of(' ', digits), text.size()));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::map<std::string, double> units = {{"", 1},          {"B", 1},
                                               {"KB", 1e3},      {"MB", 1e6},
                                               {"GB", 1e9},      {"TB", 1e12},
                                               {"K", 1e3},       {"M", 1e6},
                                               {"G", 1e9},       {"T", 1e12},
                                               {"KIB", 1 << 10}, {"MIB", 1 << 20},
                                               {"GIB", 1 << 30}, {"TIB", 1099511627776.0}};
  const auto factor = units.find(unit);
  const auto number = parse_number<double>(std::string_view(text).substr(0, digits));
  constexpr double kMost = 1e15;
  const bool in_range =
      factor != units.end() && number && *number * factor->second >= 1 && *number * factor->second <= kMost;
  if (!in_range) bad_value(where, text, "a size such as 6GB, 500MB or 1.5GiB");
  return static_cast<int64_t>(*number * factor->second);
}

std::vector<std::string> precisions_for(const std::string& attention) {
  if (attention == "strict" || attention == "split") return {"fp32", "tf32"};
  if (attention == "turbo") return {"tf32"};
  if (attention == "half") return {"bf16", "fp16"};
  return {"bf16", "fp16", "tf32", "fp32"};
}

void check_options(const Options& options) {
  check_options_but_outputs(options);
  if (options.out.empty() && options.save_predictions.empty()) missing("out");
  if (options.out.empty() && !options.exports.empty())
    throw std::invalid_argument("export: it goes beside the result, which needs --out");
}

void check_options_but_outputs(const Options& options) {
  if (options.frames.empty()) missing("frames");
  visit_options(options, [](const OptionInfo& info, const auto& field) { check_field(info, field); });
  check_device(options.device);
  check_attention(options);
  parse_outliers(options.outliers, "outliers");
  parse_picture_size(options.picture_size, "picture-size");
  parse_bytes(options.gpu_memory, "gpu-memory");
  parse_bytes(options.host_memory, "host-memory");
  if (!options.picture.empty() && options.out.empty()) {
    throw std::invalid_argument("picture: it shows the scene, which needs --out");
  }
  if (options.report && options.out.empty())
    throw std::invalid_argument("report: it shows the scene, which needs --out");
  if (options.resume && options.scratch.empty())
    throw std::invalid_argument("resume: it goes on from what is kept in --scratch DIR, which is missing");
  if (!options.align.empty() && (options.scale || options.up != "none"))
    throw std::invalid_argument("align: it sets scale and axes; give it without scale and up");
  if (options.fps && options.stride) throw std::invalid_argument("give fps or stride, not both");
  if (options.quiet && options.verbose) throw std::invalid_argument("give quiet or verbose, not both");
  const bool wants_tracks = std::ranges::count(options.heads, "tracks") > 0;
  if (wants_tracks && options.query_points.empty()) {
    throw std::invalid_argument("heads: 'tracks' needs --query-points");
  }
  if (options.width && *options.width % 14 != 0) {
    const int64_t below = *options.width / 14 * 14;
    throw std::invalid_argument("width: " + std::to_string(*options.width) +
                                " is not a multiple of 14 (try " + std::to_string(below) + " or " +
                                std::to_string(below + 14) + ")");
  }
}

std::vector<std::string> idle_options(const Options& options) {
  const Options unset;
  std::vector<std::string> lines;
  const auto add = [&](bool is_idle, const char* line) {
    if (is_idle) lines.emplace_back(line);
  };
  const auto exports = [&](const char* name) { return std::ranges::count(options.exports, name) > 0; };
  const auto merging = [](const Options& o) {
    return std::tie(o.merge_start, o.merge_ratio, o.merge_protect, o.merge_seed, o.merge_refresh,
                    o.merge_metric);
  };
  add(options.merge == "off" && merging(options) != merging(unset),
      "merge: it is off, so that its other options have no effect");
  add(options.conf_threshold && options.conf_percentile != unset.conf_percentile,
      "conf-percentile: has no effect beside --conf-threshold");
  add(options.export_images != unset.export_images && !exports("colmap") && !exports("nerfstudio"),
      "export-images: has no effect without --export colmap or nerfstudio");
  add(options.depth_format != unset.depth_format && !exports("depth") && !exports("confidence"),
      "depth-format: has no effect without --export depth or confidence");
  add(options.depth_size != unset.depth_size && !exports("depth") && !exports("confidence"),
      "depth-size: has no effect without --export depth or confidence");
  add(options.picture_size != unset.picture_size && options.picture.empty(),
      "picture-size: has no effect without --picture");
  return lines;
}

std::string help_text() {
  struct Line {
    std::string group, left, help;
  };
  std::vector<Line> lines;
  const Options options;
  visit_options(options, [&](const OptionInfo& info, const auto&) {
    const std::string left = std::string("--") + info.name + (*info.value ? " " : "") + info.value;
    if (*info.help) {
      lines.push_back({info.group, left, info.help});
    } else {
      lines.back().left += ", " + left;
    }
  });
  lines.push_back({"Output", "--config YAML, --print-config", "read options from a file; print all options"});
  lines.push_back({"Output", "--version, --help", ""});
  std::string text =
      "vggt-recon --frames PATH --out SCENE.ply [options]    frames in, a 3D scene out\n"
      "vggt-recon batch --scenes ROOT --out RESULTS [options] many scenes, resumable\n"
      "vggt-recon weights inspect|convert|verify|random ...  look at and make weights\n"
      "vggt-recon eval --result PATH... --truth PATH...      measure errors of a result\n"
      "vggt-recon plan [options]                             predict memory and time\n"
      "vggt-recon bench [attention|merge|stream ...]         measure speed and error\n";
  std::string group;
  for (const Line& line : lines) {
    if (line.group != group) text += line.group + ":\n";
    group = line.group;
    std::string row = "  " + line.left;
    row.resize(std::max<std::size_t>(row.size() + 1, 32), ' ');
    row += line.help;
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace vggt
