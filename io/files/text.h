#pragma once
#include <string>
#include <string_view>

namespace vggt {

/// The text with '?' for each control character: a message stays one line, whatever names of files it holds.
std::string one_line(std::string text);

/// A name out of a file, fit for a message: one_line() of it, and what follows the first 100 characters
/// becomes "...".
std::string printable(std::string_view text);

/// The text without the blanks (space, tab, carriage return) at its ends.
std::string_view trimmed(std::string_view text);

/// Takes the next word, between blanks, off the front of a line; empty at the line's end.
std::string_view next_word(std::string_view& line);

}  // namespace vggt
