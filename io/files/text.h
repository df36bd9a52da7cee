#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// Bytes of the control character that the text begins with: below 32, 127, or U+0080 to U+009F in UTF-8,
/// which terminals obey too; 0: it begins with none.
std::size_t control_length(std::string_view text);

/// The text with '?' for each control character: a message stays one line, whatever names of files it holds.
std::string one_line(const std::string& text);

/// A name out of a file, fit for a message: one_line() of it, and what follows the first 100 characters
/// becomes "...".
std::string printable(std::string_view text);

/// The first names with commas between them, at most so many, and ", ..." for the others.
std::string first_of(const std::vector<std::string>& names, std::size_t most);

/// Whether brackets and braces outside of strings nest deeper than any document of ours: nlohmann::json
/// copies and writes such JSON by recursion, and would overflow the stack.
bool nests_deeply(std::string_view json);

/// The text with a to z for A to Z.
std::string lower(std::string text);

/// The text without the blanks (space, tab, carriage return) at its ends.
std::string_view trimmed(std::string_view text);

/// Takes the next word, between blanks, off the front of a line; empty at the line's end.
std::string_view next_word(std::string_view& line);

}  // namespace vggt
