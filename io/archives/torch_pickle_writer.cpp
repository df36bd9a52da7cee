#include "io/archives/torch_pickle_writer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace vggt {
namespace {

// Writes only what PyTorch's readers need, and keeps no memo: repeated texts cost less than the code for it.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  PickleWriter& op(char code) {
    bytes_ += code;
    return *this;
  }
  PickleWriter& text(std::string_view text) {
    op('X').number(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  PickleWriter& integer(int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) {
      op('J').number(static_cast<int32_t>(value));
    } else {
      op('\x8a').op(8).number(value);
    }
    return *this;
  }
  PickleWriter& global(std::string_view module, std::string_view name) {
    ((bytes_ += 'c') += module) += '\n';
    (bytes_ += name) += '\n';
    return *this;
  }
  PickleWriter& integers(const std::vector<int64_t>& values) {
    op('(');
    for (const int64_t value : values) integer(value);
    return op('t');
  }
  PickleWriter& ordered_dict() { return global("collections", "OrderedDict").op(')').op('R'); }

  PickleWriter& tensor(std::size_t record, ElementType type, const std::vector<int64_t>& shape) {
    global("torch._utils", "_rebuild_tensor_v2").op('(');
    op('(').text("storage").global("torch", storage_name(type)).text(std::to_string(record)).text("cpu");
    integer(checked_count(shape)).op('t').op('Q');
    integer(0).integers(shape).integers(row_major_strides(shape)).op('\x89');
    return ordered_dict().op('t').op('R');
  }

  std::string finish() { return std::move(op('.').bytes_); }

 private:
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  static std::string_view storage_name(ElementType type) {
    switch (type) {
      case ElementType::f64:
        return "DoubleStorage";
      case ElementType::f32:
        return "FloatStorage";
      case ElementType::f16:
        return "HalfStorage";
      case ElementType::bf16:
        return "BFloat16Storage";
      default:
        throw std::logic_error("weights are written in a floating type");
    }
  }

  std::string bytes_;
};

struct Module {
  std::vector<std::pair<std::string, std::size_t>> tensors;  // attribute, record
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> modules;
  std::string class_name;

  Module& child(const std::string& name) {
    const auto same = [&](const auto& module) { return module.first == name; };
    const auto found = std::find_if(modules.begin(), modules.end(), same);
    if (found != modules.end()) return *found->second;
    return *modules.emplace_back(name, std::make_unique<Module>()).second;
  }
};

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Module make_tree(const std::vector<TensorDescription>& tensors) {
  Module root;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Module* module = &root;
    std::string_view rest = tensors[i].name;
    for (std::size_t dot = rest.find('.');; dot = rest.find('.')) {
      const std::string part(rest.substr(0, dot));
      if (!is_word(part))
        throw std::invalid_argument("tensor '" + tensors[i].name +
                                    "' cannot be an attribute of a TorchScript module");
      if (dot == std::string_view::npos) {
        module->tensors.emplace_back(part, i);
        break;
      }
      module = &module->child(part);
      rest.remove_prefix(dot + 1);
    }
  }
  return root;
}

void check_attributes(const Module& module) {
  std::vector<std::string> names = {"training", "_is_full_backward_hook"};
  for (const auto& [name, record] : module.tensors) names.push_back(name);
  for (const auto& [name, child] : module.modules) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw std::invalid_argument("'" + *twice + "' would be two attributes of one TorchScript module");
}

// Modules that look alike share a class, so that the source stays short.
void name_classes(Module& module, std::map<std::string, std::string>& classes, std::string& source) {
  check_attributes(module);
  for (auto& [name, child] : module.modules) name_classes(*child, classes, source);
  std::string parameters, fields;
  // Numbers and Python's keywords cannot be the names of fields, but this notation takes every name.
  const auto field = [&](const std::string& name, const std::string& type) {
    fields += "  __annotations__[\"" + name + "\"] = " + type + "\n";
  };
  for (const auto& [name, record] : module.tensors) {
    parameters += "\"" + name + "\", ";
    field(name, "Tensor");
  }
  for (const auto& [name, child] : module.modules) field(name, "__torch__." + child->class_name);
  const std::string body = "  __parameters__ = [" + parameters + "]\n  __buffers__ = []\n" + fields +
                           "  training : bool\n  _is_full_backward_hook : Optional[bool]\n";
  const auto [known, is_new] = classes.try_emplace(body, "Module" + std::to_string(classes.size()));
  module.class_name = known->second;
  if (is_new) source += "class " + module.class_name + "(Module):\n" + body;
}

void write_module(const Module& module, const std::vector<TensorDescription>& tensors, PickleWriter& pickle) {
  pickle.global("__torch__", module.class_name).op(')').op('\x81').op('}').op('(');
  for (const auto& [name, record] : module.tensors)
    pickle.text(name).tensor(record, tensors[record].type, tensors[record].shape);
  pickle.text("training").op('\x89').text("_is_full_backward_hook").op('N');
  for (const auto& [name, child] : module.modules) {
    pickle.text(name);
    write_module(*child, tensors, pickle);
  }
  pickle.op('u').op('b');
}

}  // namespace

std::string state_dict_pickle(const std::vector<TensorDescription>& tensors) {
  PickleWriter pickle;
  pickle.ordered_dict().op('(');
  for (std::size_t i = 0; i < tensors.size(); ++i)
    pickle.text(tensors[i].name).tensor(i, tensors[i].type, tensors[i].shape);
  return pickle.op('u').finish();
}

ScriptModule script_module(const std::vector<TensorDescription>& tensors) {
  Module root = make_tree(tensors);
  ScriptModule result;
  std::map<std::string, std::string> classes;
  name_classes(root, classes, result.source);
  PickleWriter pickle;
  write_module(root, tensors, pickle);
  result.pickle = pickle.finish();
  return result;
}

}  // namespace vggt
