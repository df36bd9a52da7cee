#include "app/scene/frame_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>

#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

using Keys = std::vector<FrameKey>;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

template <class Has>
bool all_have(const Keys& keys, Has&& has) {
  return std::ranges::all_of(keys, has);
}

std::string spelt_key(const std::string& name) {
  return name.starts_with("./") ? name.substr(2) : name;
}
std::string file_key(const std::string& name) {
  return std::filesystem::path(name).filename().string();
}
std::string stem_key(const std::string& name) {
  return std::filesystem::path(name).stem().string();
}
/// The last `parts` of a path.
std::string tail_key(const std::string& name, int parts) {
  const std::filesystem::path path(name);
  std::filesystem::path tail;
  auto at = path.end();
  for (int i = 0; i < parts && at != path.begin(); ++i) tail = tail.empty() ? *--at : *--at / tail;
  return tail.string();
}
/// As frames of a video are called where they are exported: name_000012 of name.mp4#12.
std::string copy_key(const std::string& name) {
  const std::size_t number = name.rfind('#');
  const auto index = number == std::string::npos
                         ? std::nullopt
                         : parse_number<int64_t>(std::string_view(name).substr(number + 1));
  if (!index) return stem_key(name);
  return fmt::format("{}_{:06}", stem_key(name.substr(0, number)), *index);
}

/// The position of each key; nothing if two frames have the same key.
std::optional<std::map<std::string, std::size_t>> by_key(
    const Keys& keys, const std::function<std::string(const std::string&)>& key) {
  std::map<std::string, std::size_t> positions;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!positions.emplace(key(keys[i].name), i).second) return std::nullopt;
  }
  return positions;
}

void refuse_twice(const Keys& keys, const char* side) {
  std::map<std::string, std::size_t> counts;
  for (const FrameKey& frame : keys) {
    if (++counts[spelt_key(frame.name)] == 2) {
      throw std::invalid_argument(fmt::format("{}: frame '{}' is there twice", side, printable(frame.name)));
    }
  }
}

Pairs match_names(const Keys& result, const Keys& truth, const MatchNames& names) {
  refuse_twice(result, names.result);
  refuse_twice(truth, names.truth);
  Pairs best;
  using Key = std::function<std::string(const std::string&)>;
  const auto tail = [](int parts) -> Key { return [=](const std::string& n) { return tail_key(n, parts); }; };
  for (const Key& key : {Key(spelt_key), tail(3), tail(2), Key(file_key), Key(stem_key), Key(copy_key)}) {
    const auto ours = by_key(result, key), theirs = by_key(truth, key);
    if (!ours || !theirs) continue;
    Pairs pairs;
    for (const auto& [name, i] : *ours) {
      if (const auto found = theirs->find(name); found != theirs->end()) pairs.emplace_back(i, found->second);
    }
    if (pairs.size() > best.size()) best = std::move(pairs);
  }
  std::ranges::sort(best, natural_less, [&](const auto& pair) { return result[pair.first].name; });
  return best;
}

std::vector<std::pair<double, std::size_t>> by_time(const Keys& keys, const char* side) {
  std::vector<std::pair<double, std::size_t>> times;
  for (std::size_t i = 0; i < keys.size(); ++i) times.emplace_back(*keys[i].time_s, i);
  std::ranges::sort(times);
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i].first == times[i - 1].first) {
      throw std::invalid_argument(fmt::format("{}: time {} is there twice", side, times[i].first));
    }
  }
  return times;
}

Pairs match_times(const Keys& result, const Keys& truth, const MatchNames& names) {
  const auto ours = by_time(result, names.result), theirs = by_time(truth, names.truth);
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < theirs.size(); ++i)
    step = std::min(step, theirs[i].first - theirs[i - 1].first);
  const double tolerance = std::isfinite(step) ? 0.01 * step : 1e-6;
  Pairs pairs;
  for (const auto& [time, i] : ours) {
    const auto next = std::ranges::lower_bound(theirs, std::pair(time - tolerance, std::size_t{0}));
    if (next != theirs.end() && next->first <= time + tolerance) pairs.emplace_back(i, next->second);
  }
  return pairs;
}

std::string label(const FrameKey& key, std::size_t position) {
  if (!key.name.empty()) return printable(key.name);
  return key.time_s ? fmt::format("{}", *key.time_s) : std::to_string(position);
}

std::vector<std::string> unmatched(const Keys& keys, const std::vector<bool>& matched) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!matched[i]) labels.push_back(label(keys[i], i));
  }
  return labels;
}

Pairs match_positions(const Keys& result, const Keys& truth) {
  if (result.size() != truth.size()) {
    throw std::invalid_argument(
        fmt::format("{} frames against {} true ones, and neither names nor times to match by", result.size(),
                    truth.size()));
  }
  Pairs pairs;
  for (std::size_t i = 0; i < result.size(); ++i) pairs.emplace_back(i, i);
  return pairs;
}

Pairs match_by_what_there_is(const Keys& result, const Keys& truth, const MatchNames& names) {
  const auto named = [](const FrameKey& key) { return !key.name.empty(); };
  const auto timed = [](const FrameKey& key) { return key.time_s.has_value(); };
  const bool result_named = all_have(result, named), truth_named = all_have(truth, named);
  const bool result_timed = all_have(result, timed), truth_timed = all_have(truth, timed);
  if (result_named && truth_named) return match_names(result, truth, names);
  if (result_timed && truth_timed) return match_times(result, truth, names);
  if ((result_named && truth_timed) || (result_timed && truth_named)) {
    throw std::invalid_argument(
        fmt::format("the result's frames have {} only, the true ones {}; a .cameras.json has both",
                    result_named ? "names" : "times", truth_named ? "names" : "times"));
  }
  return match_positions(result, truth);
}

}  // namespace

FrameMatch match_frames(const std::vector<FrameKey>& result, const std::vector<FrameKey>& truth,
                        const MatchNames& names) {
  FrameMatch match;
  match.pairs = match_by_what_there_is(result, truth, names);
  std::vector<bool> in_result(result.size()), in_truth(truth.size());
  for (const auto& [i, j] : match.pairs) {
    if (in_truth[j])
      throw std::invalid_argument("two frames of the result have the time " + label(truth[j], j) +
                                  "; times are in seconds");
    in_result[i] = in_truth[j] = true;
  }
  match.only_result = unmatched(result, in_result);
  match.only_truth = unmatched(truth, in_truth);
  return match;
}

}  // namespace vggt
