# tessera_options: language level, warnings, visibility and sanitizers of every target of this project.
add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_BINARY_DIR}/generated)
target_compile_options(tessera_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wconversion;-Werror>
  # Code that nvcc generates fails with -Wconversion, so device sources get the other warnings.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>)

# -O2 suffices, since the arithmetic is in the BLAS. At -O3 gcc 12 and 13 report correct code as uninitialised, and
# warnings are errors.
foreach(language C CXX)
  string(REPLACE "-O3" "-O2" CMAKE_${language}_FLAGS_RELEASE "${CMAKE_${language}_FLAGS_RELEASE}")
endforeach()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
foreach(language C CXX CUDA)
  set(CMAKE_${language}_VISIBILITY_PRESET hidden)
endforeach()
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# All binaries find their libraries relative to themselves, in the build tree as in the install tree, so both can be
# moved.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib;$ORIGIN")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN")
list(REMOVE_DUPLICATES CMAKE_INSTALL_RPATH)

# tessera_final_rpath(<target>): links it with its run path after installation. Otherwise CMake edits the file at
# installation, and reserves room for that by a colon at the end. The loader takes this colon as an empty entry, and
# searches the current folder.
function(tessera_final_rpath target)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

if(TESSERA_SANITIZE STREQUAL "thread")
  set(tessera_sanitizers -fsanitize=thread)
elseif(TESSERA_SANITIZE STREQUAL "address")
  set(tessera_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(NOT TESSERA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TESSERA_SANITIZE must be empty, thread or address, not '${TESSERA_SANITIZE}'")
endif()
if(tessera_sanitizers)
  # With the sanitizers' instrumentation, GCC 12 reports members of std::function as uninitialized.
  target_compile_options(tessera_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:${tessera_sanitizers};-fno-omit-frame-pointer;-Wno-maybe-uninitialized>)
  target_link_options(tessera_options INTERFACE ${tessera_sanitizers})
  # A library opened with RTLD_DEEPBIND would bypass the sanitizer's malloc; the sources omit the flag if this is set.
  target_compile_definitions(tessera_options INTERFACE TESSERA_SANITIZED=1)
endif()

# The C++ runtime becomes a part of each of our shared libraries: a program may have an older libstdc++ of its own
# (MATLAB), or load a newer one later (conda), and ours must not conflict with either. The run-time library of a
# sanitizer needs the shared one.
set(tessera_static_runtime)
if(NOT TESSERA_SANITIZE)
  set(tessera_static_runtime -static-libstdc++ -static-libgcc)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${tessera_static_runtime})
  check_cxx_source_compiles("#include <string>\nint main(int count, char**) { return std::to_string(count).size() == 0; }"
    TESSERA_HAS_STATIC_RUNTIME)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(NOT TESSERA_HAS_STATIC_RUNTIME)
    message(FATAL_ERROR "The static C++ runtime (libstdc++.a, libgcc_eh.a) is missing; Fedora has it in libstdc++-static")
  endif()
endif()

# tessera_shared_library(<target> <version script>): sets the common properties of our shared libraries.
function(tessera_shared_library target version_script)
  if(tessera_static_runtime)
    # Unused sections would bring relocations and functions of the newest libc. The tables of abstract classes refer
    # only weakly to __cxa_pure_virtual, and a weak reference links no member of an archive.
    target_link_options(${target} PRIVATE ${tessera_static_runtime} LINKER:--gc-sections LINKER:--undefined=__cxa_pure_virtual)
  endif()
  tessera_final_rpath(${target})
  # Worker threads run code of these libraries until the process ends, and device drivers fail after an unload.
  target_link_options(${target} PRIVATE LINKER:-z,nodelete LINKER:--version-script=${version_script} LINKER:--as-needed)
  if(NOT TESSERA_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${version_script})
endfunction()

# tessera_export_only(<target> <generate_exports.cmake's arguments> DEPENDS <files that these name>): the library
# exports the names of the lists and nothing else. Its TESSERA_EXPORTS property is the argument list with which the
# script checks this.
function(tessera_export_only target)
  cmake_parse_arguments(PARSE_ARGV 1 only "" "" "DEPENDS")
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  set(script ${PROJECT_SOURCE_DIR}/cmake/generate_exports.cmake)
  add_custom_command(
    OUTPUT ${map}
    COMMAND ${CMAKE_COMMAND} ${only_UNPARSED_ARGUMENTS} -DOUTPUT=${map} -P ${script}
    DEPENDS ${only_DEPENDS} ${script}
    VERBATIM)
  add_custom_target(${target}_exports DEPENDS ${map})
  add_dependencies(${target} ${target}_exports)
  set_target_properties(${target} PROPERTIES TESSERA_EXPORTS "${only_UNPARSED_ARGUMENTS}")
  tessera_shared_library(${target} ${map})
endfunction()
