// The libraries of tests/plugins, which lie beside ours in the build folder.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tessera::test {

/// Where the build has its libraries.
inline std::filesystem::path library_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib";
}

inline std::string test_plugin(const std::string& name) {
  return (library_folder() / "test_plugins" / (name + ".so")).string();
}

/// Calls `function` on this thread while the thread holds the loader's lock, as the constructor of a library does.
inline void call_while_loading(void (*function)()) {
  const auto address = std::to_string(reinterpret_cast<std::uintptr_t>(function));
  ASSERT_EQ(setenv("TESSERA_TEST_CALL_AT_LOAD", address.c_str(), 1), 0);
  void* const library = dlopen(test_plugin("calls_at_load").c_str(), RTLD_NOW | RTLD_LOCAL);
  unsetenv("TESSERA_TEST_CALL_AT_LOAD");
  ASSERT_NE(library, nullptr) << dlerror();
  dlclose(library);
}

}  // namespace tessera::test
