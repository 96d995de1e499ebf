// The plugin loader against files that are no plugins, plugins of tests/plugins, and the real one.
#include "kernels/plugin_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "tests/test_plugin.hpp"

namespace tessera::kernels {
namespace plugin_loader_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using test::library_folder;
using test::test_plugin;

/// The text of the NotAvailable that opening `path` throws. The test fails if there is none.
std::string refusal(const std::string& path) {
  try {
    open_plugin(path);
  } catch (const NotAvailable& error) {
    return error.what();
  }
  ADD_FAILURE() << path << " was opened";
  return {};
}

TEST(PluginLoader, MissingFile) {
  EXPECT_THAT(refusal("/nonexistent/libtessera_cuda.so"),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr("/nonexistent/libtessera_cuda.so")));
}

TEST(PluginLoader, FileThatIsNoLibrary) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "tessera_no_library.so";
  std::ofstream(file) << "this is text\n";
  EXPECT_THAT(refusal(file.string()), AllOf(HasSubstr("cannot be loaded"), HasSubstr(file.string())));
  std::filesystem::remove(file);
}

TEST(PluginLoader, LibraryWithoutTheEntry) {
  EXPECT_THAT(refusal(test_plugin("no_entry")), AllOf(HasSubstr("no_entry.so"), HasSubstr(plugin_backends[0].entry)));
}

TEST(PluginLoader, PluginOfAnotherBuild) {
  EXPECT_THAT(refusal(test_plugin("other_build")), AllOf(HasSubstr("other_build.so"), HasSubstr("another build")));
}

TEST(PluginLoader, GoodPluginIsOpenedAndItsExceptionsAreCaughtByType) {
  const auto backend = open_plugin(test_plugin("two_devices"));
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->devices().size(), 2u);
  EXPECT_EQ(backend->devices()[1].ordinal, 1);
  try {
    backend->open({0, 1}, 0);
    FAIL() << "open() returned";
  } catch (const OutOfDeviceMemory& error) {
    EXPECT_STREQ(error.what(), "no memory for 2 devices");
  }
  // A second opening gives another backend of the same library.
  EXPECT_NE(open_plugin(test_plugin("two_devices")), nullptr);
}

/// With a driver and a GPU the real plugin shows devices; otherwise it reports the missing part. Both ways must end
/// well.
TEST(PluginLoader, RealPluginShowsDevicesOrSaysWhatIsMissing) {
  const char* const named = std::getenv("TESSERA_CUDA_PLUGIN");
  const std::string path = named ? named : (library_folder() / "libtessera_cuda.so").string();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the CUDA plugin was not built (" << path << ")";
  std::unique_ptr<Backend> backend;
  try {
    backend = open_plugin(path);
  } catch (const NotAvailable& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("CUDA"), Not(HasSubstr("another build")), Not(HasSubstr("is no CUDA"))));
    return;
  }
  const auto devices = backend->devices();
  ASSERT_FALSE(devices.empty());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i].backend, "cuda");
    EXPECT_EQ(devices[i].ordinal, static_cast<int>(i));
    EXPECT_FALSE(devices[i].name.empty());
    EXPECT_GT(devices[i].memory_bytes, 0u);
  }
  EXPECT_THROW(backend->open({static_cast<int>(devices.size())}, 0), NotAvailable);
  EXPECT_THROW(backend->open({-1}, 0), NotAvailable);
  EXPECT_THROW(backend->open({0, 0}, 0), NotAvailable);
}

}  // namespace plugin_loader_test
}  // namespace tessera::kernels
