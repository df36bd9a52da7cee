#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vggt {

/// The values of a pickle as plain data. They refer to each other by index, so that shared and cyclic values
/// cost nothing. Texts point into the pickle's bytes, which must outlive this struct.
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
    int64_t integer = 0;           // of an integer; of a boolean, 0 or 1
    std::string_view text = {};    // of a text; of a global, its name
    std::string_view module = {};  // of a global
    std::vector<Index> items = {};
  };

  std::vector<Value> values;
  Index root = 0;

  const Value& operator[](Index index) const { return values[index]; }
};

/// Reads a pickle of protocol 2 that torch.save or TorchScript wrote. Nothing is imported, called or built,
/// and opcodes and globals outside a short list are errors. Limits: 16 MB of pickle, 256 nested marks, 100 MB
/// of memory. Throws std::invalid_argument saying what is wrong.
Pickle read_pickle(std::span<const std::byte> bytes);

}  // namespace vggt
