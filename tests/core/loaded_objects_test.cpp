#include "core/loaded_objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tessera {
namespace loaded_objects_test {

// Every program has a C library and libm, with any BLAS or CUDA.
void* in_c_library() { return dlsym(RTLD_DEFAULT, "getenv"); }
void* in_program() { return reinterpret_cast<void*>(&in_c_library); }

TEST(LoadedObjects, AnAddressBelongsToOneObject) {
  EXPECT_EQ(object_of(in_c_library()), object_of(dlsym(RTLD_DEFAULT, "setenv")));
  EXPECT_NE(object_of(in_program()), nullptr);
  EXPECT_NE(object_of(in_program()), object_of(in_c_library()));
  EXPECT_EQ(object_of(nullptr), nullptr);
  int local = 0;
  EXPECT_EQ(object_of(&local), nullptr);
}

TEST(LoadedObjects, AnObjectIsItsHandle) {
  void* const handle = keep_loaded(file_of_object(in_c_library()));
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(object_of(in_c_library()), handle);
}

TEST(LoadedObjects, FilesAreThoseOfTheLoader) {
  const char* const file = file_of_object(in_c_library());
  ASSERT_NE(file, nullptr);
  const std::vector<std::string> files = loaded_objects();
  EXPECT_NE(std::find(files.begin(), files.end(), file), files.end()) << file;
  EXPECT_EQ(std::find(files.begin(), files.end(), ""), files.end());
  int local = 0;
  EXPECT_EQ(file_of_object(&local), nullptr);
}

TEST(LoadedObjects, NothingIsLoadedToBeKept) {
  const unsigned long long before = loads_so_far();
  EXPECT_GT(before, 0u);
  EXPECT_EQ(keep_loaded("libtessera_that_is_not_there.so"), nullptr);
  EXPECT_EQ(keep_loaded(nullptr), nullptr);
  EXPECT_EQ(loads_so_far(), before);
}

}  // namespace loaded_objects_test
}  // namespace tessera
