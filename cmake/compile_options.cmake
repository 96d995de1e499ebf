# tessera_options: language level, warnings, visibility and sanitizers of every target of this project.
add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(tessera_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wconversion;-Werror>
  # Code that nvcc generates does not survive -Wconversion, so device sources get the rest.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>)

# The arithmetic is in the BLAS; at -O3 gcc 12 and 13 take sound code for uninitialised, and warnings are errors.
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

# Everything finds its libraries relative to itself, in the build tree as in the install tree, so that both can be moved.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib;$ORIGIN")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN")
list(REMOVE_DUPLICATES CMAKE_INSTALL_RPATH)

# tessera_final_rpath(<target>): it is linked with the path that it is installed with. Otherwise CMake edits the file
# when it installs it, and leaves room for that by a colon at the end: an empty entry, by which the loader searches the
# current folder.
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
  # GCC 12 takes members of std::function for uninitialized in what the sanitizers add.
  target_compile_options(tessera_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:${tessera_sanitizers};-fno-omit-frame-pointer;-Wno-maybe-uninitialized>)
  target_link_options(tessera_options INTERFACE ${tessera_sanitizers})
  # A library opened with RTLD_DEEPBIND would bind malloc past the sanitizer; the sources leave the flag out when this is set.
  target_compile_definitions(tessera_options INTERFACE TESSERA_SANITIZED=1)
endif()

# The C++ runtime becomes a part of each of our shared libraries: a program may have an older libstdc++ of its own
# (MATLAB), or load a newer one later (conda), and ours must be in the way of neither. The run-time library of a
# sanitizer wants the shared one.
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

# tessera_shared_library(<target> <version script>): what all our shared libraries have in common.
function(tessera_shared_library target version_script)
  if(tessera_static_runtime)
    # Sections that nobody needs would bring relocations, and functions of the newest libc. Tables of abstract classes
    # refer to the runtime's function for calls without an implementation only weakly, which takes nothing from an
    # archive.
    target_link_options(${target} PRIVATE ${tessera_static_runtime} LINKER:--gc-sections LINKER:--undefined=__cxa_pure_virtual)
  endif()
  tessera_final_rpath(${target})
  # Worker threads run code of these libraries until the process ends, and device drivers do not survive an unload.
  target_link_options(${target} PRIVATE LINKER:-z,nodelete LINKER:--version-script=${version_script} LINKER:--as-needed)
  if(NOT TESSERA_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${version_script})
endfunction()

# tessera_export_only(<target> <generate_exports.cmake's arguments> DEPENDS <files that these name>): the library exports what
# the lists say and nothing else. Its TESSERA_EXPORTS property is the argument list with which the script checks that.
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
