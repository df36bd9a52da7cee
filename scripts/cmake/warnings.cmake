# vggt_own_code(target): what every target of ours is compiled with.
add_library(vggt_own INTERFACE)
target_compile_options(vggt_own INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra -Werror=all-warnings>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 and 13 report std::string's own copies (GCC bugs 105651 and 105329).
  target_compile_options(vggt_own INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>)
endif()
# Empty optionals, indices past the end: checked wherever speed is not the point.
target_compile_definitions(vggt_own INTERFACE $<$<NOT:$<CONFIG:Release>>:_GLIBCXX_ASSERTIONS>)
if(VGGT_SANITIZE)
  target_compile_options(vggt_own INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${VGGT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined>
    # GCC's own manual: sanitizers bring false reports of this one (here in LibTorch's optional arguments).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(vggt_own INTERFACE -fsanitize=${VGGT_SANITIZE})
endif()
set_target_properties(vggt_own PROPERTIES EXPORT_NAME own)

function(vggt_own_code target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:vggt_own>)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/vggt_recon>)
endfunction()
