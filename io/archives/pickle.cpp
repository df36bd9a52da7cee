#include "io/archives/pickle.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "io/files/byte_reader.h"
#include "io/files/text.h"

namespace vggt {
namespace {

using Kind = Pickle::Kind;
using Index = Pickle::Index;
using Value = Pickle::Value;

// VGGT-1B's pickle has 0.3 MB and 60,000 values, the deepest of them 12 marks down.
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxValues = 1 << 20;
constexpr std::size_t kMaxMarks = 256;
constexpr std::size_t kMaxStack = 1 << 16;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("pickle refused: " + what);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kGlobals = {{
    {"collections", "OrderedDict"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch", "DoubleStorage"},
    {"torch", "FloatStorage"},
    {"torch", "HalfStorage"},
    {"torch", "BFloat16Storage"},
    {"torch", "LongStorage"},
    {"torch", "IntStorage"},
    {"torch", "ShortStorage"},
    {"torch", "CharStorage"},
    {"torch", "ByteStorage"},
    {"torch", "BoolStorage"},
    {"torch.jit._pickle", "build_intlist"},
    {"torch.jit._pickle", "build_doublelist"},
    {"torch.jit._pickle", "build_boollist"},
    {"torch.jit._pickle", "build_tensorlist"},
    {"torch.jit._pickle", "restore_type_tag"},
}};

// TorchScript puts the classes of its modules into __torch__ and below. Here they are names, nothing more.
bool is_script_class(std::string_view module) {
  return module == "__torch__" || module.starts_with("__torch__.");
}

bool is_callable(const Value& value) {
  return value.kind == Kind::global &&
         (value.module == "torch._utils" || value.module == "torch.jit._pickle");
}

enum class Opcode : uint8_t {
  proto = 0x80,
  stop = '.',
  mark = '(',
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  long1 = 0x8a,
  binfloat = 'G',
  binunicode = 'X',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_dict = '}',
  setitem = 's',
  setitems = 'u',
  global = 'c',
  reduce = 'R',
  newobj = 0x81,
  build = 'b',
  binpersid = 'Q',
  binput = 'q',
  long_binput = 'r',
  binget = 'h',
  long_binget = 'j',
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : input_(bytes), size_(bytes.size()) {}

  Pickle read() {
    if (size_ > kMaxBytes) fail("it is larger than 16 MB");
    if (size_ < 2 || input_.number<uint8_t>() != static_cast<uint8_t>(Opcode::proto) ||
        input_.number<uint8_t>() != 2)
      fail("it is not of protocol 2");
    while (true) {
      const auto opcode = static_cast<Opcode>(input_.number<uint8_t>());
      if (opcode == Opcode::stop) break;
      run(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("it does not end with one value");
    if (input_.left() != 0) fail("data follow its end");
    pickle_.root = stack_.back();
    return std::move(pickle_);
  }

 private:
  void run(Opcode opcode) {
    switch (opcode) {
      case Opcode::none:
        return push({});
      case Opcode::new_true:
        return push({.kind = Kind::boolean, .integer = 1});
      case Opcode::new_false:
        return push({.kind = Kind::boolean});
      case Opcode::binint:
        return push_integer(input_.number<int32_t>());
      case Opcode::binint1:
        return push_integer(input_.number<uint8_t>());
      case Opcode::binint2:
        return push_integer(input_.number<uint16_t>());
      case Opcode::long1:
        return push_integer(long_integer());
      case Opcode::binfloat:
        return input_.take(8), push({.kind = Kind::real});
      case Opcode::binunicode:
        return push({.kind = Kind::text, .text = input_.text(input_.number<uint32_t>())});
      case Opcode::global:
        return push_global();
      default:
        return run_structure(opcode);
    }
  }

  void run_structure(Opcode opcode) {
    switch (opcode) {
      case Opcode::mark:
        return mark();
      case Opcode::empty_tuple:
        return push({.kind = Kind::tuple});
      case Opcode::tuple:
        return push({.kind = Kind::tuple, .items = pop_to_mark()});
      case Opcode::tuple1:
        return push({.kind = Kind::tuple, .items = pop(1)});
      case Opcode::tuple2:
        return push({.kind = Kind::tuple, .items = pop(2)});
      case Opcode::tuple3:
        return push({.kind = Kind::tuple, .items = pop(3)});
      case Opcode::empty_list:
        return push({.kind = Kind::list});
      case Opcode::append:
        return extend(Kind::list, pop(1));
      case Opcode::appends:
        return extend(Kind::list, pop_to_mark());
      case Opcode::empty_dict:
        return push({.kind = Kind::dict});
      case Opcode::setitem:
        return extend(Kind::dict, pop(2));
      case Opcode::setitems:
        return extend(Kind::dict, pop_to_mark());
      case Opcode::binpersid:
        return push({.kind = Kind::persistent, .items = pop(1)});
      case Opcode::reduce:
        return reduce();
      case Opcode::newobj:
        return new_object();
      case Opcode::build:
        return build();
      case Opcode::binput:
        return put(input_.number<uint8_t>());
      case Opcode::long_binput:
        return put(input_.number<uint32_t>());
      case Opcode::binget:
        return get(input_.number<uint8_t>());
      case Opcode::long_binget:
        return get(input_.number<uint32_t>());
      default:
        fail("opcode " + std::to_string(static_cast<int>(opcode)) + " is not allowed");
    }
  }

  void push(Value value) {
    if (pickle_.values.size() == kMaxValues) fail("it has too many values");
    pickle_.values.push_back(std::move(value));
    push_index(static_cast<Index>(pickle_.values.size() - 1));
  }
  void push_index(Index index) {
    if (stack_.size() == kMaxStack) fail("its stack is too deep");
    stack_.push_back(index);
  }
  void push_integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }

  // Values below the last mark are out of reach, as in Python.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<Index> pop(std::size_t count) {
    if (stack_.size() - floor() < count) fail("a value is missing on its stack");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Index> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }

  void mark() {
    if (marks_.size() == kMaxMarks) fail("it is nested too deeply");
    marks_.push_back(stack_.size());
  }

  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing on its stack");
    std::vector<Index> items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  Value& top() {
    if (stack_.size() == floor()) fail("a value is missing on its stack");
    return pickle_.values[stack_.back()];
  }

  void extend(Kind kind, const std::vector<Index>& items) {
    Value& target = top();
    if (target.kind != kind) fail("items are added to something that takes none");
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a key lacks its value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  int64_t long_integer() {
    const std::size_t count = input_.number<uint8_t>();
    if (count > sizeof(int64_t)) fail("an integer has more than 64 bits");
    const auto bytes = input_.take(count);
    uint64_t value = count > 0 && (bytes[count - 1] & std::byte{0x80}) != std::byte{0} ? ~uint64_t{0} : 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
    return static_cast<int64_t>(value);
  }

  void push_global() {
    const std::string_view module = input_.line(), name = input_.line();
    const bool listed =
        std::find(kGlobals.begin(), kGlobals.end(), std::pair(module, name)) != kGlobals.end();
    if (!listed && !is_script_class(module))
      fail("the global " + printable(module) + "." + printable(name) + " is not allowed");
    push({.kind = Kind::global, .text = name, .module = module});
  }

  void reduce() {
    std::vector<Index> items = pop(2);
    const Value& callable = pickle_[items[0]];
    const Value& arguments = pickle_[items[1]];
    if (arguments.kind != Kind::tuple) fail("a call without a tuple of arguments");
    if (callable.kind == Kind::global && callable.text == "OrderedDict" && arguments.items.empty())
      return push({.kind = Kind::dict});
    if (!is_callable(callable)) fail("a call of something that may not be called");
    push({.kind = Kind::call, .items = std::move(items)});
  }

  void new_object() {
    const std::vector<Index> items = pop(2);
    const Value& type = pickle_[items[0]];
    const Value& arguments = pickle_[items[1]];
    if (type.kind != Kind::global || !is_script_class(type.module) || arguments.kind != Kind::tuple ||
        !arguments.items.empty())
      fail("an object of a class that is not allowed");
    push({.kind = Kind::object, .items = {items[0]}});
  }

  void build() {
    const std::vector<Index> state = pop(1);
    Value& target = top();
    if (target.kind == Kind::dict) return;  // attributes of an OrderedDict, such as a state dict's _metadata
    if (target.kind != Kind::object || target.items.size() != 1)
      fail("a state for something that takes none");
    target.items.push_back(state[0]);
  }

  void put(std::size_t slot) {
    if (slot >= std::min(size_, kMaxValues)) fail("a memo number is too large");
    if (stack_.size() == floor()) fail("a value is missing on its stack");
    if (slot >= memo_.size()) memo_.resize(slot + 1, kEmpty);
    memo_[slot] = stack_.back();
  }

  void get(std::size_t slot) {
    if (slot >= memo_.size() || memo_[slot] == kEmpty) fail("a memo number that was never set");
    push_index(memo_[slot]);
  }

  static constexpr Index kEmpty = ~Index{0};

  ByteReader input_;
  std::size_t size_;
  Pickle pickle_;
  std::vector<Index> stack_, memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes) {
  return Reader(bytes).read();
}

}  // namespace vggt
