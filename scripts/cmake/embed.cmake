# cmake -DOUT=X.cpp -DFOLDER=DIR -DFILES=A;B -P embed.cmake: a source file that holds the files' bytes, and defines
# vggt::page_asset(name).
string(CONCAT text "// Made by scripts/cmake/embed.cmake.\n#include \"app/report/page_assets.h\"\n\n#include <stdexcept>\n#include <string>\n\n"
         "namespace vggt {\nnamespace {\n\n")
set(chosen "")
foreach(file IN LISTS FILES)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER "k_${file}" name)
  string(APPEND text "constexpr unsigned char ${name}[] = {\n${bytes}};\n")
  string(APPEND chosen "  if (name == \"${file}\") return {reinterpret_cast<const char*>(${name}), sizeof(${name})};\n")
endforeach()
string(APPEND text "\n}  // namespace\n\nstd::string_view page_asset(std::string_view name) {\n${chosen}"
                   "  throw std::logic_error(\"no part of a page: \" + std::string(name));\n}\n\n}  // namespace vggt\n")
file(WRITE ${OUT} "${text}")
