# vggt_torch: LibTorch as found in the Python wheel (or in VGGT_TORCH_DIR), and CUDA where it is wanted.
# Torch's own package file asks for a CUDA toolkit even in a CPU build and sets the GPU architectures itself,
# so the libraries are named here.
if(NOT VGGT_PYTHON AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
  set(VGGT_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
endif()
include(find_torch)
include(cuda_architectures)

# vggt_platform: what all code needs to know of the build, no headers and no libraries.
add_library(vggt_platform INTERFACE)
add_library(vggt_torch INTERFACE)
target_link_libraries(vggt_torch INTERFACE vggt_platform)
target_include_directories(vggt_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${VGGT_TORCH_DIR}/include>
  $<BUILD_INTERFACE:${VGGT_TORCH_DIR}/include/torch/csrc/api/include>)
target_link_directories(vggt_torch INTERFACE $<BUILD_INTERFACE:${VGGT_TORCH_DIR}/lib>)
# at::parallel_for is an OpenMP loop in a header: without the flag it runs on one thread, silently. The libgomp that is
# loaded is torch's own (it has the same name).
target_compile_options(vggt_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(vggt_torch INTERFACE -fopenmp)
# libtorch_cpu.so exports a std::filesystem of its own, of another version: the system's has to be found first.
target_link_libraries(vggt_torch INTERFACE stdc++ torch torch_cpu c10 Threads::Threads)

if(VGGT_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})  # which enable_language() would read too late
  endif()
  set(gpus "")
  if(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE gpus OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  vggt_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" "${gpus}")
  # Code for sm_90a runs on nothing else, and other code lacks Hopper's matrix instructions.
  set(VGGT_SM90A OFF)
  if("${CMAKE_CUDA_ARCHITECTURES} ${CMAKE_CUDA_FLAGS}" MATCHES "90a")
    set(VGGT_SM90A ON)
  endif()
  message(STATUS "CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the one that LibTorch uses too
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
  target_compile_definitions(vggt_platform INTERFACE VGGT_CUDA=1)
  # Nothing refers to torch_cuda by symbol: its kernels register themselves when it is loaded.
  target_link_options(vggt_torch INTERFACE LINKER:--no-as-needed)
  target_link_libraries(vggt_torch INTERFACE torch_cuda c10_cuda CUDA::cudart)
endif()

# LibTorch's headers take most of a compile: one precompiled header serves every target that includes them.
# vggt_torch_pch(target [pch options...]): that one, or with further compiler options one of another name.
function(vggt_torch_pch target)
  set(pch vggt_pch)
  if(ARGC GREATER 1)
    list(POP_FRONT ARGN pch)
  endif()
  if(NOT TARGET ${pch})
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${pch}.cpp CONTENT "")
    add_library(${pch} OBJECT ${CMAKE_BINARY_DIR}/${pch}.cpp)
    target_link_libraries(${pch} PRIVATE vggt_torch vggt_own)
    target_compile_options(${pch} PRIVATE ${ARGN})
    target_precompile_headers(${pch} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<ATen/ATen.h>>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()
