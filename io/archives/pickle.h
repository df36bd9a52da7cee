#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vggt {

/// What a pickle describes, as plain data. Values refer to each other by index, so that shared and cyclic
/// values cost nothing; texts point into the pickle's bytes, which must outlive it.
struct Pickle {
  using Index = uint32_t;
  enum class Kind {
    none,
    boolean,
    integer,
    real,  // its value is not kept
    text,
    tuple,
    list,
    dict,        // items: key, value, key, value... Also collections.OrderedDict
    global,      // module.name, from the allow-list
    call,        // items: the callable (a global), its arguments (a tuple). Not called
    object,      // items: its class (a global of __torch__), then its state once it is set. Not built
    persistent,  // items: the identifier
  };
  struct Value {
    Kind kind = Kind::none;
    int64_t integer = 0;           // also a boolean's
    std::string_view text = {};    // also a global's name
    std::string_view module = {};  // of a global
    std::vector<Index> items = {};
  };

  std::vector<Value> values;
  Index root = 0;

  const Value& operator[](Index index) const { return values[index]; }
};

/// Reads a pickle of protocol 2 that torch.save or TorchScript wrote. Nothing is imported, called or built:
/// opcodes and globals outside a short list are errors. Size, depth and memory have limits (16 MB, 256 marks,
/// 100 MB). Throws std::invalid_argument saying what is wrong.
Pickle read_pickle(std::span<const std::byte> bytes);

}  // namespace vggt
