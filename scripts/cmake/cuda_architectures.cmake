# Which GPUs a build has code for.

# vggt_cuda_architectures(out wanted gpus): the list of CMAKE_CUDA_ARCHITECTURES for the list that the user wants;
# for none, code for every GPU from compute capability 7.5 on: machine code for the chips of workstations (8.6, 8.9,
# 12.0) and servers (8.0, 9.0), PTX of 7.5 and 8.0 for the others and of 12.0 for later ones. gpus: the compute capabilities of this machine's GPUs,
# as nvidia-smi prints them ("9.0" in lines), which "native" stands for.
# Hopper's matrix instructions exist in code for 90a alone, without which attention runs at .6 of its speed: 90 becomes
# 90a, with 90-virtual for later GPUs where the list asked for that.
function(vggt_cuda_architectures out wanted gpus)
  if(NOT wanted)
    set(wanted 75-virtual 80 86-real 89-real 90a-real 120)
  endif()
  if(wanted STREQUAL "native")
    if(NOT gpus MATCHES "^[0-9]+\\.[0-9]+")
      message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=native: nvidia-smi finds no GPU on this machine")
    endif()
    string(REPLACE "\n" ";" wanted "${gpus}")
    list(TRANSFORM wanted STRIP)
    list(TRANSFORM wanted REPLACE "\\." "")
    list(TRANSFORM wanted APPEND "-real")
  elseif(wanted MATCHES "^all(-major)?$")
    message(WARNING "CMAKE_CUDA_ARCHITECTURES=${wanted} has no code for 90a: attention is slow on Hopper")
  endif()
  set(raised ${wanted})
  list(TRANSFORM raised REPLACE "^90$" "90a-real;90-virtual")
  list(TRANSFORM raised REPLACE "^90-real$" "90a-real")
  list(REMOVE_DUPLICATES raised)
  if(NOT raised STREQUAL wanted)
    message(STATUS "CUDA architectures ${wanted} are raised to ${raised}, for Hopper's matrix instructions")
  endif()
  if(raised MATCHES "(^|;)90-virtual" AND NOT raised MATCHES "90a")
    message(WARNING "CMAKE_CUDA_ARCHITECTURES=${wanted} has no code for 90a: attention is slow on Hopper")
  endif()
  set(${out} ${raised} PARENT_SCOPE)
endfunction()
