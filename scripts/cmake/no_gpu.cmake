# cmake -DLIBRARY=X.so -DORIGINAL=libtorch_cuda.so -DNM=nm -DCXX=c++ -DOUT=Y -P no_gpu.cmake: a library that stands in for
# the original where no GPU is used. It has the original's name (DT_SONAME) and those of its functions that LIBRARY
# calls. None of them is called without a GPU; they would return 0.
cmake_minimum_required(VERSION 3.28)

# Lines "name type ..." of a library's symbols.
function(symbols_of file what out)
  execute_process(COMMAND ${NM} -D -P --${what}-only ${file} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${text}")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

symbols_of(${LIBRARY} undefined wanted)
list(TRANSFORM wanted REPLACE "[ @].*" "")
symbols_of(${ORIGINAL} defined defined)
list(FILTER defined INCLUDE REGEX "cuda|c10d|nccl")
cmake_path(GET ORIGINAL FILENAME name)
set(code "extern \"C\" {\nlong vggt_no_gpu() { return 0; }\n")
foreach(line IN LISTS defined)
  string(REGEX REPLACE "[ @].*" "" symbol "${line}")
  if(NOT symbol IN_LIST wanted OR symbol MATCHES "^_ZN?K?S[a-z]")  # libstdc++ has those itself
    continue()
  elseif(NOT line MATCHES " [TW] ")
    message(FATAL_ERROR "${LIBRARY} uses ${symbol} of ${name}, which is no function")
  endif()
  string(APPEND code "long ${symbol}() __attribute__((alias(\"vggt_no_gpu\")));\n")
endforeach()
file(WRITE ${OUT}.cpp "${code}}\n")
execute_process(COMMAND ${CXX} -shared -fPIC -nostdlib -Wl,-soname,${name} -o ${OUT} ${OUT}.cpp COMMAND_ERROR_IS_FATAL ANY)
