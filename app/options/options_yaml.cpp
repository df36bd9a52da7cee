#include "app/options/options_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>

#include "app/options/spelling.h"
#include "io/files/numbers.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

constexpr uint64_t kMaxBytes = 64 * 1024;

/// Takes options as the parser meets them: one map of keys to scalars or to lists of scalars.
/// Note [YAML events]: no document tree is built and deeper nesting, anchors and aliases are refused at the
/// event that opens them, so neither recursion nor expansion can grow with the file.
class OptionEvents : public YAML::EventHandler {
 public:
  OptionEvents(const std::string& path, Options& options) : path_(path), options_(options) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (depth_ == 0) return;  // an empty file: nothing is set
    if (!in_value_) fail(mark, "a key is empty");
    if (in_list_) fail(mark, "'" + key_ + "' has an empty entry");
    reset_option(options_, key_);
    in_value_ = false;
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "aliases are not used here"); }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (depth_ == 0) fail(mark, "expected 'key: value' lines");
    if (!in_value_) {
      begin_value(mark, value);
    } else if (in_list_) {
      if (value.find(',') != value.npos) fail(mark, "'" + key_ + "' has an entry with a comma in it");
      list_ += (list_.empty() ? "" : ",") + value;
    } else {
      set(mark, value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    if (!in_value_ || in_list_) fail(mark, "a list cannot stand here: write 'key: value' lines");
    if (!takes_list(key_)) fail(mark, "'" + key_ + "' takes one value, not a list");
    in_list_ = true;
    list_mark_ = mark;
    list_.clear();
  }

  void OnSequenceEnd() override {
    in_list_ = false;
    if (list_.empty()) {
      reset_option(options_, key_);
      in_value_ = false;
    } else {
      set(list_mark_, list_);
    }
  }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    if (depth_++ > 0) fail(mark, "a map is out of place: options are not nested");
  }
  void OnMapEnd() override { --depth_; }

 private:
  std::string place(const YAML::Mark& mark) const {
    return path_ + ":" + std::to_string(mark.line + 1) + ": ";
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw std::invalid_argument(place(mark) + what);
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(mark, "anchors are not used here");
  }

  void begin_value(const YAML::Mark& mark, const std::string& key) {
    const std::vector<std::string> names = option_names();
    if (!std::count(names.begin(), names.end(), key)) {
      fail(mark, "unknown key '" + key.substr(0, 80) + "'; did you mean '" + nearest_name(key, names) + "'?");
    }
    const auto [first, is_new] = lines_.emplace(key, mark.line + 1);
    if (!is_new) fail(mark, "'" + key + "' was already given in line " + std::to_string(first->second));
    key_ = key;
    in_value_ = true;
  }

  void set(const YAML::Mark& mark, const std::string& value) {
    set_option(options_, key_, value, place(mark) + key_);
    in_value_ = false;
  }

  const std::string& path_;
  Options& options_;
  std::map<std::string, int> lines_;
  std::string key_, list_;
  YAML::Mark list_mark_;
  int depth_ = 0;
  bool in_value_ = false, in_list_ = false;
};

void emit(YAML::Emitter& out, const std::string& value) {
  out << value;
}
void emit(YAML::Emitter& out, bool value) {
  out << value;
}
void emit(YAML::Emitter& out, int64_t value) {
  out << value;
}
void emit(YAML::Emitter& out, double value) {
  out << number_text(value);
}
void emit(YAML::Emitter& out, const std::vector<std::string>& value) {
  out << YAML::Flow << value;
}
template <class Value>
void emit(YAML::Emitter& out, const std::optional<Value>& value) {
  if (value) {
    emit(out, *value);
  } else {
    out << YAML::Null;
  }
}

}  // namespace

std::string options_to_yaml(const Options& options) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  std::string group;
  visit_options(options, [&](const OptionInfo& info, const auto& field) {
    if (group != info.group) out << YAML::Newline << YAML::Comment(info.group);
    group = info.group;
    out << YAML::Key << info.name << YAML::Value;
    emit(out, field);
  });
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

void parse_options_yaml(const std::string& text, const std::string& name, Options& options) {
  std::istringstream stream(text);
  OptionEvents events(name, options);
  try {
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(events) && parser.HandleNextDocument(events)) {
      throw std::invalid_argument(name + ": holds more than one document");
    }
  } catch (const YAML::Exception& error) {
    throw std::invalid_argument(name + ":" + std::to_string(error.mark.line + 1) +
                                ": not YAML: " + error.msg);
  }
}

void read_options_yaml(const std::string& path, Options& options) {
  parse_options_yaml(read_text_file(path, kMaxBytes, "a file of options"), path, options);
}

}  // namespace vggt
