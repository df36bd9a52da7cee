#pragma once
#include <string>
#include <string_view>

namespace vggt {

/// A name out of a file, fit for a message: each control character becomes '?', and what follows the first
/// 100 characters becomes "...".
std::string printable(std::string_view text);

/// The text without the blanks (space, tab, carriage return) at its ends.
std::string_view trimmed(std::string_view text);

/// Takes the next word, between blanks, off the front of a line; empty at the line's end.
std::string_view next_word(std::string_view& line);

}  // namespace vggt
