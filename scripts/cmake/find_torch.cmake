# Sets VGGT_TORCH_DIR to the folder of LibTorch, with include/ and lib/: as given, or where VGGT_PYTHON (python3) has
# the wheel. Used by the build and by the installed package.
set(VGGT_TORCH_DIR "" CACHE PATH "The folder of torch (with include/ and lib/); empty: ask Python")
if(NOT VGGT_TORCH_DIR)
  find_program(VGGT_PYTHON NAMES python3)
  execute_process(
    COMMAND ${VGGT_PYTHON} -c
            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT torch_dir)
    message(FATAL_ERROR "LibTorch not found: set VGGT_TORCH_DIR, or VGGT_PYTHON to a Python that has torch")
  endif()
  set(VGGT_TORCH_DIR ${torch_dir} CACHE PATH "" FORCE)
endif()
if(NOT EXISTS ${VGGT_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No LibTorch in ${VGGT_TORCH_DIR}: set VGGT_TORCH_DIR")
endif()
file(STRINGS ${VGGT_TORCH_DIR}/include/torch/headeronly/version.h torch_version
     REGEX "define TORCH_VERSION_(MAJOR|MINOR) [0-9]+")
list(TRANSFORM torch_version REPLACE ".* " "")
list(JOIN torch_version . VGGT_TORCH_VERSION)
message(STATUS "LibTorch ${VGGT_TORCH_VERSION}: ${VGGT_TORCH_DIR}")
