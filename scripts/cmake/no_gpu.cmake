# cmake -DLIBRARY=X.so -DORIGINAL=libtorch_cuda.so -DNM=nm -DCXX=c++ -DOUT=Y.so -P no_gpu.cmake: a library that stands in
# for the original where no GPU is used. It has the original's name (DT_SONAME) and those of its functions that LIBRARY
# calls. None of them is called without a GPU; they would return 0.
function(symbols_of file what out)
  execute_process(COMMAND ${NM} -D --${what}-only ${file} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[A-Za-z] [A-Za-z_][A-Za-z_0-9]*" symbols "${text}")  # "T name": its type and the symbol
  set(${out} "${symbols}" PARENT_SCOPE)
endfunction()

symbols_of(${LIBRARY} undefined wanted)
list(TRANSFORM wanted REPLACE "^. " "")
symbols_of(${ORIGINAL} defined defined)
list(FILTER defined INCLUDE REGEX "cuda|c10d|nccl")
cmake_path(GET ORIGINAL FILENAME name)
set(code "extern \"C\" {\nlong vggt_no_gpu() { return 0; }\n")
foreach(symbol IN LISTS defined)
  string(SUBSTRING ${symbol} 0 1 type)
  string(SUBSTRING ${symbol} 2 -1 symbol)
  if(NOT symbol IN_LIST wanted OR symbol MATCHES "^_ZN?K?S[a-z]")  # libstdc++ has those itself
    continue()
  elseif(NOT type MATCHES "[TW]")
    message(FATAL_ERROR "${LIBRARY} uses ${symbol} of ${name}, which is no function")
  endif()
  string(APPEND code "long ${symbol}() __attribute__((alias(\"vggt_no_gpu\")));\n")
endforeach()
file(WRITE ${OUT}.cpp "${code}}\n")
execute_process(COMMAND ${CXX} -shared -fPIC -nostdlib -Wl,-soname,${name} -o ${OUT} ${OUT}.cpp COMMAND_ERROR_IS_FATAL ANY)
