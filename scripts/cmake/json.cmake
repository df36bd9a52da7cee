# nlohmann-json is header-only: a package, or only its header on CMAKE_INCLUDE_PATH, will do.
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  find_path(VGGT_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${VGGT_JSON_INCLUDE})
endif()
