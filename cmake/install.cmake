# Install rules: libraries, headers, the command, the CMake package (Tessera::tessera, Tessera::device_host,
# Tessera::device), pkg-config, licence and documents.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)

foreach(target tessera tessera_blas tessera_blas64 tessera_lapack tessera_memory tessera_slots tessera_device_host tessera_tool)
  if(TARGET ${target})
    set(export)
    if(target MATCHES "^tessera(_device_host)?$")
      set(export EXPORT TesseraTargets)
    endif()
    install(TARGETS ${target} ${export}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
# Libraries with the names of the system's libraries are installed into a separate folder, which the loader does not
# search by default.
foreach(target tessera_system_blas tessera_system_blas64)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
  endif()
endforeach()
foreach(target tessera_system_lapack tessera_system_lapack64)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera/lapack)
  endif()
endforeach()
if(TARGET tessera_system_blas)
  install(CODE "file(CREATE_LINK libblas.so.3 \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/tessera/libcblas.so.3\" SYMBOLIC)")
endif()
if(TARGET tessera_cuda)
  install(TARGETS tessera_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endif()

# tessera_pkg_config(<name> <library> <description> [<arguments of install>...]): <name>.pc
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
function(tessera_pkg_config pc_name pc_library pc_description)
  configure_file(cmake/library.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${ARGN})
endfunction()

# The GPU parts have their own component and export: a package without CUDA must not refer to a missing library.
if(TARGET tessera_device)
  install(TARGETS tessera_device EXPORT TesseraDeviceTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
  install(EXPORT TesseraDeviceTargets NAMESPACE Tessera:: DESTINATION ${package_dir} COMPONENT cuda)
  tessera_pkg_config(tessera-device tessera_device "Tessera's routines on the memory of a GPU" COMPONENT cuda)
endif()
if(TARGET tessera_device_host)
  tessera_pkg_config(tessera-device-host tessera_device_host "Tessera's routines on device memory, in host memory, for tests")
endif()
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

if(TARGET tessera)
  install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${package_dir})
  configure_package_config_file(cmake/TesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/TesseraConfig.cmake
    INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/TesseraConfig.cmake ${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake
    DESTINATION ${package_dir})
  tessera_pkg_config(tessera tessera "${PROJECT_DESCRIPTION}")
endif()

foreach(document LICENSE README.md CHANGELOG.md)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${document})
    install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endif()
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")

include(cmake/package.cmake)
