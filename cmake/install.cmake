# tilelace::tilelace: one library of all folders' objects, for the examples here and for
# find_package(tilelace) and pkg-config elsewhere. Warnings and sanitizer flags stay in the tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(library_type STATIC)
if(BUILD_SHARED_LIBS AND NOT TILELACE_TORCH)  # the package's library is whole by itself
  set(library_type SHARED)
endif()
add_library(tilelace_library ${library_type})
add_library(tilelace::tilelace ALIAS tilelace_library)
foreach(part comm comm_cuda plan check cpu_gemm cpu cuda cuda_moe cuda_transport cuda_nccl op c)
  if(TARGET tilelace_${part})
    target_sources(tilelace_library PRIVATE $<TARGET_OBJECTS:tilelace_${part}>)
    get_target_property(kernels tilelace_${part} TILELACE_KERNELS)  # objects of objects are not among them
    foreach(kernel ${kernels})
      if(TARGET ${kernel})
        target_sources(tilelace_library PRIVATE $<TARGET_OBJECTS:${kernel}>)
      endif()
    endforeach()
  endif()
endforeach()
set_target_properties(tilelace_library PROPERTIES OUTPUT_NAME tilelace EXPORT_NAME tilelace
                      LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(library_type STREQUAL SHARED)
  target_link_options(tilelace_library PRIVATE -Wl,-z,defs
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_property(TARGET tilelace_library APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
endif()
target_compile_features(tilelace_library INTERFACE cxx_std_20)
target_include_directories(tilelace_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tilelace_library PRIVATE Threads::Threads fmt::fmt ${CMAKE_DL_LIBS})
if(TILELACE_GEMM STREQUAL "onednn")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(tilelace_library PRIVATE $<BUILD_INTERFACE:${TILELACE_DNNL_LIBRARY}>
                        $<INSTALL_INTERFACE:tilelace::dnnl> OpenMP::OpenMP_CXX)
endif()
if(TILELACE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  target_link_libraries(tilelace_library PRIVATE CUDA::cudart_static)
endif()
if(TILELACE_SANITIZE)
  # A sanitized library needs the runtime in whatever links it.
  target_link_options(tilelace_library INTERFACE -fsanitize=${TILELACE_SANITIZE})
endif()
if(TILELACE_COVERAGE)
  # So does one that counts lines: gcov's.
  target_link_options(tilelace_library INTERFACE --coverage)
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilelace)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilelaceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tilelaceConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilelaceConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

# What a program links beside a static library; a shared one names it itself.
set(pc_requires "")
set(pc_libraries "")
if(library_type STREQUAL STATIC)
  set(pc_requires " fmt >= 9")
  set(pc_libraries " -pthread -lstdc++ -lm")
  foreach(library ${CMAKE_DL_LIBS})
    string(APPEND pc_libraries " -l${library}")
  endforeach()
  if(TILELACE_GEMM STREQUAL "onednn")
    string(APPEND pc_libraries " -ldnnl ${OpenMP_CXX_FLAGS}")
  endif()
  if(TILELACE_CUDA)
    string(APPEND pc_libraries " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
endif()
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(${PROJECT_SOURCE_DIR}/cmake/tilelace.pc.in ${PROJECT_BINARY_DIR}/tilelace.pc @ONLY)

install(TARGETS tilelace_library EXPORT tilelace ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_BINARY_DIR}/tilelace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT tilelace NAMESPACE tilelace:: FILE tilelaceTargets.cmake DESTINATION ${config_dir})
install(FILES ${PROJECT_BINARY_DIR}/tilelaceConfig.cmake
        ${PROJECT_BINARY_DIR}/tilelaceConfigVersion.cmake DESTINATION ${config_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tilelace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tilelace/models
        FILES_MATCHING PATTERN "*.json")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/machines/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tilelace/machines FILES_MATCHING PATTERN "*.json")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tuning/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tilelace/tuning FILES_MATCHING PATTERN "*.json")
if(TARGET tilelace_cli)
  install(TARGETS tilelace_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
