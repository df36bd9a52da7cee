# ccache, where it is installed, in front of the compilers. Its two laxities are what precompiled headers need.
find_program(VGGT_CCACHE ccache)
mark_as_advanced(VGGT_CCACHE)
if(VGGT_CCACHE)
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${VGGT_CCACHE})
    endif()
  endforeach()
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
