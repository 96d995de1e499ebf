// Where libraries of CUDA are looked for. Any library stands for one here.
#include "kernels/cuda/cuda_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/temporary_folder.hpp"
#include "tests/test_plugin.hpp"

namespace tessera {
namespace cuda_library_test {

using kernels::cuda::CudaLibrary;
constexpr const char* function = "tessera_test_plugin_without_entry";

class CudaLibraries : public testing::Test {
 protected:
  ~CudaLibraries() override { unsetenv("TESSERA_CUDA_LIBRARIES"); }
  void put(const char* name) { std::filesystem::copy_file(test::test_plugin("no_entry"), folder_.path(name)); }
  static void set(const std::string& folders) { setenv("TESSERA_CUDA_LIBRARIES", folders.c_str(), 1); }
  static std::string file_of(const CudaLibrary& library) {
    Dl_info info{};
    return dladdr(library.find(function), &info) != 0 ? info.dli_fname : "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(CudaLibraries, AreThoseOfTheFoldersThatAreNamed) {
  put("libtessera_first.so.1");
  set("/no/such/folder::" + folder_.path().string() + ":/another");
  const CudaLibrary library("cuFirst", "libtessera_first.so.1");
  EXPECT_EQ(file_of(library), folder_.path("libtessera_first.so.1"));
  int (*found)() = nullptr;
  library.resolve(function, found);
  EXPECT_EQ(found(), 0);
  try {
    library.resolve("tessera_no_such_function", found);
    ADD_FAILURE();
  } catch (const NotAvailable& error) {
    EXPECT_STREQ(error.what(), "libtessera_first.so.1 has no tessera_no_such_function");
  }
}

TEST_F(CudaLibraries, AreThoseThatAreLoadedBeforeAnyFolder) {
  put("libm.so.6");  // the process has another one by this name
  set(folder_.path().string());
  const CudaLibrary library("cuMath", "libm.so.6");
  EXPECT_NE(library.find("cos"), nullptr);
  EXPECT_EQ(library.find(function), nullptr);
}

TEST_F(CudaLibraries, ThatAreNowhereAreNotAvailable) {
  try {
    const CudaLibrary library("cuNothing", "libtessera_nothing.so.1");
    ADD_FAILURE();
  } catch (const NotAvailable& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cuNothing cannot be loaded: libtessera_nothing.so.1"));
  }
}

}  // namespace cuda_library_test
}  // namespace tessera
