# cmake -P: which GPUs a build has code for, by what the user asks for.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../scripts/cmake/cuda_architectures.cmake)

function(expect wanted gpus result)
  vggt_cuda_architectures(got "${wanted}" "${gpus}")
  if(NOT got STREQUAL result)
    message(SEND_ERROR "'${wanted}' with GPUs '${gpus}': expected '${result}', got '${got}'")
  endif()
endfunction()

expect("" "" "75-virtual;80;86-real;89-real;90a-real;120")
expect("" "8.9" "75-virtual;80;86-real;89-real;90a-real;120")  # also on a machine with a GPU
expect("90" "" "90a-real;90-virtual")
expect("90-real" "" "90a-real")
expect("90a" "" "90a")
expect("90a-real" "" "90a-real")
expect("90-virtual" "" "90-virtual")  # PTX alone, as asked for
expect("80;90" "" "80;90a-real;90-virtual")
expect("80-real;90-real;90a-real;90-virtual" "" "80-real;90a-real;90-virtual")
expect("100-real;120" "" "100-real;120")
expect("native" "9.0" "90a-real")
expect("native" "9.0\n9.0" "90a-real")
expect("native" "8.9\n9.0" "89-real;90a-real")
expect("native" "12.0" "120-real")
