# cmake --install: the program with its default weights and presets, the libraries with their public headers, and the
# package vggt_recon. The core (attention, model, weights) and what needs OpenCV, Open3D and Eigen (media) are two
# export sets, so that the core can be used without these.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vggt_recon)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/vggt_recon)
set(data_dir ${CMAKE_INSTALL_DATADIR}/vggt_recon)

set(core vggt_attention vggt_model vggt_weights vggt_files vggt_torch)
foreach(target IN LISTS core)
  string(REPLACE vggt_ "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${core} EXPORT vggt_core)
install(EXPORT vggt_core NAMESPACE vggt_recon:: FILE core.cmake DESTINATION ${package_dir})
install(FILES attention/attention.h attention/autotune.h attention/cuda_plan.h attention/lean.h attention/variant.h
        DESTINATION ${header_dir}/attention)
install(FILES model/config.h model/load_state.h model/observer.h model/vggt.h DESTINATION ${header_dir}/model)
install(FILES io/weight_file.h DESTINATION ${header_dir}/io)

if(VGGT_APP)
  set_target_properties(vggt_media PROPERTIES EXPORT_NAME media)
  install(TARGETS vggt_media EXPORT vggt_media)
  install(EXPORT vggt_media NAMESPACE vggt_recon:: FILE media.cmake DESTINATION ${package_dir})
  install(FILES io/atomic_file.h io/frames.h io/scene_files.h DESTINATION ${header_dir}/io)

  # Where there is no package of it, Open3D is not in a system folder.
  cmake_path(SET open3d_lib NORMALIZE ${Open3D_DIR}/../../)
  set(program_rpath ${VGGT_TORCH_DIR}/lib ${CUDAToolkit_LIBRARY_DIR} ${open3d_lib})
  set_target_properties(vggt-recon PROPERTIES INSTALL_RPATH "${program_rpath}" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS vggt-recon)
  install(DIRECTORY weights/ DESTINATION ${data_dir}/weights FILES_MATCHING PATTERN *.ts)
  install(DIRECTORY configs/ DESTINATION ${data_dir}/configs FILES_MATCHING PATTERN *.yaml)
endif()

configure_package_config_file(scripts/cmake/vggt_recon-config.cmake.in vggt_recon-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(vggt_recon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon-config.cmake scripts/cmake/find_torch.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/vggt_recon-config-version.cmake DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
