#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace vggt {

/// A process, as others can tell whether it lives.
struct Owner {
  std::string host;     // its name, for people
  std::string machine;  // where process numbers mean the same: host, boot and namespace of processes
  int64_t pid = 0;
  uint64_t start = 0;  // of the process, in the kernel's ticks: numbers are used again
  std::string token;   // of one object in one process

  bool operator==(const Owner&) const = default;
};

/// This process, with a token that no other has.
Owner this_process();

/// Whether the process lives; nothing where it is another machine's. A dead one whose parent has not asked
/// for it yet is dead.
std::optional<bool> is_alive(const Owner& owner);

/// One line of JSON, and back; nothing for anything else.
std::string to_text(const Owner& owner);
std::optional<Owner> owner_of(const std::string& text);

}  // namespace vggt
