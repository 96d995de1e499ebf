# tessera_fmt: fmt as part of our libraries, compiled once. As headers only, it adds three seconds to the compilation of
# every source that formats. The distribution's library is a shared one, which our libraries must not need.
find_package(fmt REQUIRED)
set(folder ${PROJECT_BINARY_DIR}/generated)
# The functions that fmt's headers leave to its library; their names are the same from fmt 8 to 11.
file(CONFIGURE OUTPUT ${folder}/fmt.cpp @ONLY CONTENT [[
#include <fmt/format-inl.h>
FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}
FMT_END_NAMESPACE
]])
file(CONFIGURE OUTPUT ${folder}/fmt_check.cpp @ONLY CONTENT [[
#include <fmt/format.h>
#include <cstdio>
int main(int count, char** arguments) {
  fmt::print(stderr, "{:>{}} {:.3g} {:L} {:#x}\n", arguments[0], 20, 1.5f * count, 0.1 * count, count);
}
]])
get_target_property(includes fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
if(NOT DEFINED TESSERA_FMT_ONCE)
  try_compile(TESSERA_FMT_ONCE ${PROJECT_BINARY_DIR}/fmt_check SOURCES ${folder}/fmt.cpp ${folder}/fmt_check.cpp
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
endif()
if(TESSERA_FMT_ONCE)
  add_library(tessera_fmt STATIC ${folder}/fmt.cpp)
  target_include_directories(tessera_fmt SYSTEM PUBLIC ${includes})
  target_compile_options(tessera_fmt PRIVATE ${tessera_sanitizers})
else()
  message(STATUS "fmt: this version is compiled with every source that formats")
  add_library(tessera_fmt INTERFACE)
  target_link_libraries(tessera_fmt INTERFACE fmt::fmt-header-only)
endif()
