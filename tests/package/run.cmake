# Installs a build, moves what was installed, builds the project beside this file against it, and runs what is
# installed and what was built.
# cmake -DBUILD=… -DSOURCE=… -DAPP=ON|OFF -DCOMPILER=… -DNINJA=… -P run.cmake
set(work ${BUILD}/package_test)
file(REMOVE_RECURSE ${work})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/installed)
set(prefix "${work}/moved elsewhere")
file(RENAME ${work}/installed ${prefix})
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/package -B ${work}/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_MAKE_PROGRAM=${NINJA} -DCMAKE_BUILD_TYPE=Release -DWITH_MEDIA=${APP})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/core ${SOURCE}/weights/vggt-small.ts)
if(APP)
  run(${work}/build/media ${SOURCE}/examples/room/groundtruth.tum ${SOURCE}/examples/room)
  run(${work}/build/run ${SOURCE}/examples/room ${SOURCE}/weights/vggt-small.ts ${work}/run/)
  run(${prefix}/bin/vggt-recon --frames ${SOURCE}/examples/room --max-frames 2 --out ${work}/room.ply)
  run(${prefix}/bin/vggt-recon eval --poses ${work}/room.tum --truth ${SOURCE}/examples/room/groundtruth.tum)

  # In C, and in Python where its module was built.
  run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/package/c -B ${work}/build_c -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_MAKE_PROGRAM=${NINJA} -DEXAMPLE=${SOURCE}/examples/c/reconstruct.c)
  run(${CMAKE_COMMAND} --build ${work}/build_c)
  run(${work}/build_c/by_cmake)
  if(EXISTS ${work}/build_c/by_pkg_config)
    run(${work}/build_c/by_pkg_config ${SOURCE}/examples/room)
  endif()
  file(GLOB site_packages ${prefix}/lib*/python*/site-packages ${prefix}/lib/*/python*/site-packages)
  if(PYTHON AND site_packages)
    run(${CMAKE_COMMAND} -E env PYTHONPATH=${site_packages} ${PYTHON} ${SOURCE}/examples/python/memory.py)
  endif()
endif()
file(REMOVE_RECURSE ${work})
