#include "core/memory_limit.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {
namespace {

/// A folder that stands for "/".
class Root {
 public:
  Root() {
    std::string text = (std::filesystem::temp_directory_path() / "tessera_limit.XXXXXX").string();
    path_ = mkdtemp(text.data());
  }
  ~Root() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text << "\n";
  }
  std::size_t limit() const { return memory_limit(path_); }

 private:
  std::string path_;
};

const std::size_t machine =
    static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

TEST(MemoryLimit, IsTheMachinesWhereNothingIsSaid) {
  Root root;
  EXPECT_EQ(root.limit(), machine);
  root.write("/proc/self/cgroup", "0::/");
  EXPECT_EQ(root.limit(), machine);
  root.write("/sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(root.limit(), machine);
  EXPECT_LE(memory_limit(), machine);
}

TEST(MemoryLimit, IsTheLeastOfAGroupAndThoseAboveIt) {
  Root root;
  root.write("/proc/self/cgroup", "0::/user.slice/a:b/job");
  root.write("/sys/fs/cgroup/user.slice/a:b/memory.max", "1000000");
  EXPECT_EQ(root.limit(), 1000000U);
  root.write("/sys/fs/cgroup/user.slice/a:b/job/memory.max", "2000000");
  EXPECT_EQ(root.limit(), 1000000U);
  root.write("/sys/fs/cgroup/user.slice/a:b/job/memory.max", "900000");
  EXPECT_EQ(root.limit(), 900000U);
}

TEST(MemoryLimit, KnowsTheControllerOfVersionOne) {
  Root root;
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/other\n3:memory:/jobs/7\n0::/");
  root.write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "5000000");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(root.limit(), 5000000U);
}

}  // namespace
}  // namespace tessera
