# `cpack -G DEB` in the build folder makes tessera_VERSION_ARCH.deb, and tessera-cuda if CUDA is built. It is separate,
# so that the first package does not depend on CUDA. Files go under /usr; the libraries under tessera/ are offered as
# alternatives of libblas.so.3 and libblas64.so.3.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(TESSERA_MAINTAINER "Tessera contributors <tessera@example.org>" CACHE STRING "Maintainer of the package, with address")
set(CPACK_PACKAGE_VENDOR "Tessera contributors")
set(CPACK_PACKAGE_CONTACT ${TESSERA_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)  # stage.cmake strips, and does more than strip
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# All files have one date: that of the last change of the changelog.
set(prefix ${CPACK_PACKAGING_INSTALL_PREFIX})
file(TIMESTAMP ${PROJECT_SOURCE_DIR}/CHANGELOG.md package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REGEX REPLACE "\n" "\n " license " ${license}")
string(REGEX REPLACE "\n *\n" "\n .\n" license "${license}")
set(debian ${PROJECT_BINARY_DIR}/debian)
foreach(file postinst prerm copyright changelog stage.cmake)
  configure_file(packaging/debian/${file}.in ${debian}/${file} @ONLY)
endforeach()
configure_file(packaging/debian/triggers ${debian}/triggers COPYONLY)
configure_file(packaging/debian/postrm ${debian}/postrm COPYONLY)
file(CHMOD ${debian}/postinst ${debian}/prerm ${debian}/postrm
  PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(CHMOD ${debian}/triggers PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
set(CPACK_PRE_BUILD_SCRIPTS ${debian}/stage.cmake)
install(FILES ${debian}/copyright ${debian}/changelog DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/tessera
  COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_UNSPECIFIED_GROUP main)
set(CPACK_COMPONENT_DEBIAN_GROUP main)
set(CPACK_COMPONENTS_ALL Unspecified debian)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_NAME tessera)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_RECOMMENDS "libopenblas0 | libblas.so.3, liblapack3")
set(CPACK_DEBIAN_MAIN_PACKAGE_SUGGESTS "libopenblas64-0")
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm ${debian}/postrm
  ${debian}/triggers)
set(CPACK_DEBIAN_MAIN_DESCRIPTION "Takes the place of the BLAS of unchanged programs: large matrix products,
triangular solves and rank updates are cut into tiles that all GPUs compute
together, on matrices that stay in host memory. Without a GPU every call is
answered by the CPU BLAS.")
if(TARGET tessera_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_COMPONENT_CUDA_GROUP cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME tessera-cuda)
  # The driver and cuBLAS are found when the plugin is opened, wherever they are installed.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  file(GLOB hwloc ${HWLOC_LIBDIR}/libhwloc.so.[0-9]*)
  list(FILTER hwloc INCLUDE REGEX "libhwloc\\.so\\.[0-9]+$")
  string(REGEX REPLACE ".*libhwloc\\.so\\." "libhwloc" hwloc "${hwloc}")
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "tessera (= ${PROJECT_VERSION}), libc6, ${hwloc}")
  set(CPACK_DEBIAN_CUDA_PACKAGE_CONTROL_EXTRA ${debian}/triggers)
  set(CPACK_DEBIAN_CUDA_DESCRIPTION "The plugin that Tessera opens on machines with NVIDIA GPUs, and its routines
on device memory (libtessera_device.so). Needs the CUDA runtime's cuBLAS,
however it was installed.")
endif()
include(CPack)
