#include "core/memory_limit.hpp"

#include <gtest/gtest.h>

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
  std::size_t available() const { return available_memory(path_); }

 private:
  std::string path_;
};

const std::size_t machine = memory_of_machine();
constexpr const char* mount_of_version_2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

TEST(MemoryLimit, IsTheMachinesWhereNothingIsSaid) {
  Root root;
  EXPECT_EQ(root.limit(), machine);
  root.write("/proc/self/mountinfo", mount_of_version_2);
  root.write("/proc/self/cgroup", "0::/");
  EXPECT_EQ(root.limit(), machine);
  root.write("/sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(root.limit(), machine);
  EXPECT_LE(memory_limit(), machine);
}

TEST(MemoryLimit, IsTheLeastOfAGroupAndThoseAboveIt) {
  Root root;
  root.write("/proc/self/mountinfo", mount_of_version_2);
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
  root.write("/proc/self/mountinfo",
             "40 23 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
             "41 23 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/other\n3:memory:/jobs/7\n0::/");
  root.write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "5000000");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(root.limit(), 5000000U);
}

TEST(AvailableMemory, IsWhatTheMachineHasOrTheLeastThatGroupsLeave) {
  EXPECT_GT(available_memory(), 0U);
  EXPECT_LT(available_memory(), machine);
  Root root;
  EXPECT_EQ(root.available(), 0U) << "nobody says so";
  root.write("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    900 kB\nMemFree:  1 kB");
  EXPECT_EQ(root.available(), 900U * 1024);
  root.write("/proc/self/mountinfo", mount_of_version_2);
  root.write("/proc/self/cgroup", "0::/a/b");
  root.write("/sys/fs/cgroup/a/memory.current", "5000");
  EXPECT_EQ(root.available(), 900U * 1024);
  root.write("/sys/fs/cgroup/a/memory.max", "70000");
  root.write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 2000\nactive_file 7");
  EXPECT_EQ(root.available(), 67000U) << "pages of files can go";
  root.write("/sys/fs/cgroup/a/b/memory.max", "20000");
  root.write("/sys/fs/cgroup/a/b/memory.current", "30000");
  EXPECT_EQ(root.available(), 0U);
}

TEST(AvailableMemory, KnowsTheControllerOfVersionOne) {
  Root root;
  root.write("/proc/meminfo", "MemAvailable: 900 kB");
  root.write("/proc/self/mountinfo", "41 23 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  root.write("/proc/self/cgroup", "3:memory:/job");
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "50000");
  root.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "45000");
  root.write("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 1000");
  EXPECT_EQ(root.available(), 6000U);
}

// As in a container, which sees a part of the hierarchy, and somewhere else.
TEST(MemoryLimit, IsFoundWhereverTheHierarchyIsMounted) {
  Root root;
  root.write("/proc/self/mountinfo", "30 23 0:26 /docker/x /cg rw - cgroup2 cgroup2 rw");
  root.write("/proc/self/cgroup", "0::/docker/x/job");
  root.write("/cg/job/memory.max", "7000000");
  EXPECT_EQ(root.limit(), 7000000U);
}

}  // namespace
}  // namespace tessera
