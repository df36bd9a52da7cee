# cmake --install: the program with its default weights and presets, the libraries with their public headers, and the
# package vggt_recon. The core (attention, model, weights) and what needs OpenCV, Open3D and Eigen (media) are two
# export sets, so that the core can be used without these.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vggt_recon)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/vggt_recon)
set(data_dir ${CMAKE_INSTALL_DATADIR}/vggt_recon)

# install_headers(files...): public headers, in their rooms.
function(install_headers)
  foreach(header IN LISTS ARGN)
    cmake_path(GET header PARENT_PATH room)
    install(FILES ${header} DESTINATION ${header_dir}/${room})
  endforeach()
endfunction()

# export_targets(set targets...): installs libraries as vggt_recon::<name without vggt_>.
function(export_targets set)
  foreach(target IN LISTS ARGN)
    string(REPLACE vggt_ "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  endforeach()
  install(TARGETS ${ARGN} EXPORT vggt_${set})
  install(EXPORT vggt_${set} NAMESPACE vggt_recon:: FILE ${set}.cmake DESTINATION ${package_dir})
endfunction()

set(kernels)
if(VGGT_CUDA)
  set(kernels vggt_attention_kernels vggt_model_kernels)
endif()
export_targets(core vggt_attention vggt_attention_base ${kernels} vggt_model vggt_model_base vggt_weights
               vggt_archives vggt_tensors vggt_files vggt_platform vggt_torch)
install_headers(attention/attention.h attention/attention_types.h attention/variant.h attention/cuda/cuda_plan.h
                attention/stream/attention_streamed.h attention/stream/lean.h attention/stream/stream_plan.h
                attention/stream/stream_rows.h attention/tune/autotune.h
                attention/tune/plan_cache.h model/config.h
                model/cost_plan.h model/measure_rates.h model/rates.h
                model/frame_provider.h model/model_options.h model/heads/track_sizes.h model/memory_plan.h model/merge_options.h
                model/observer.h model/overlap.h model/precision.h model/predictions.h model/schedule.h model/state/binder.h model/vggt.h
                io/weights/weight_file.h)

if(VGGT_APP)
  export_targets(media vggt_media vggt_scene_files vggt_frames)
  install_headers(io/files/atomic_file.h io/files/host_storage.h io/files/piece_store.h
                  io/files/scratch_file.h io/files/scratch_folder.h io/frames/frames.h io/frames/pixel_map.h io/scene/camera.h
                  io/scene/cameras_json.h io/scene/colmap_text.h io/scene/depth_files.h io/scene/ply.h
                  io/scene/point_cloud.h io/scene/point_filters.h io/scene/pose_files.h io/scene/tracks.h io/scene/tum.h)
  # The whole run without the command line.
  export_targets(run vggt_run vggt_adjust vggt_export vggt_report vggt_health vggt_scene vggt_options vggt_events)
  install_headers(app/adjust/bundle_adjustment.h app/adjust/bundle_setup.h app/adjust/match_input.h
                  app/events/events.h app/export/export_plan.h app/options/options.h app/options/options_yaml.h
                  app/health/scene_health.h app/health/small_frames.h app/report/report.h app/run/given_cameras.h app/run/head_choice.h app/run/memory_limits.h
                  app/run/outputs.h app/run/placement.h app/run/query_points.h
                  app/run/reconstruct.h app/run/run_plan.h app/scene/dense_maps.h app/scene/for_each_frame.h
                  app/scene/frame_points.h app/scene/rank_search.h app/scene/scene_builder.h app/scene/scene_cloud.h
                  app/scene/scene_filters.h app/scene/voxel_choice.h)

  # Where there is no package of it, Open3D is not in a system folder.
  cmake_path(SET open3d_lib NORMALIZE ${Open3D_DIR}/../../)
  set(library_rpath ${VGGT_TORCH_DIR}/lib ${CUDAToolkit_LIBRARY_DIR} ${open3d_lib})
  file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(vggt-recon PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib};${library_rpath}"
                        BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS vggt-recon)
  # The shared library with the program and its C interface, for CMake, for pkg-config and for Python.
  set_target_properties(vggt_recon_shared PROPERTIES INSTALL_RPATH "$ORIGIN;${library_rpath}"
                        BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS vggt_recon_shared EXPORT vggt_c)
  install(EXPORT vggt_c NAMESPACE vggt_recon:: FILE c.cmake DESTINATION ${package_dir})
  install(FILES app/api/vggt_recon.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(scripts/cmake/vggt_recon.pc.in ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(TARGET vggt_recon_python)
    get_target_property(python_dir vggt_recon_python VGGT_FOLDER)
    set(python_dir ${CMAKE_INSTALL_LIBDIR}/${python_dir})
    install(DIRECTORY ${CMAKE_BINARY_DIR}/python/vggt_recon DESTINATION ${python_dir}
            PATTERN __pycache__ EXCLUDE PATTERN _core.*.so EXCLUDE)
    install(TARGETS vggt_recon_python DESTINATION ${python_dir}/vggt_recon)
  endif()
  install(DIRECTORY weights/ DESTINATION ${data_dir}/weights FILES_MATCHING PATTERN *.ts
          PATTERN *.config.json)
  install(DIRECTORY configs/ DESTINATION ${data_dir}/configs FILES_MATCHING PATTERN *.yaml PATTERN *.sbatch)
endif()

configure_package_config_file(scripts/cmake/vggt_recon-config.cmake.in vggt_recon-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(vggt_recon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon-config.cmake scripts/cmake/find_torch.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon-config-version.cmake DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
