// The host devices that can be opened under a limit of address space.
#include "kernels/host/host_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <memory>

#include "core/error.hpp"

namespace tessera::kernels {
namespace host_backend_test {

/// Limits the process to so much more address space, for the lifetime of the object.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t more_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more_bytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(HostBackend, LeavesOutDevicesForWhichTheCpuBlasWouldHaveNoAddressSpace) {
  std::shared_ptr<const CpuBlas> blas;
  try {
    blas = CpuBlas::open("");
  } catch (const NotAvailable& error) {
    GTEST_SKIP() << error.what();
  }
  if (blas->bytes_per_caller() == 0) GTEST_SKIP() << blas->path() << " takes no buffers";
  Config config;
  config.host_device.front().memory_bytes = std::size_t{16} << 30;
  const auto backend = make_host_backend(config, 3, blas);
  EXPECT_EQ(backend->open({0, 1, 2}, 0).accelerators.size(), 3u);
  {
    // The least that a device takes: its memory, and four buffers.
    const AddressLimit limit((std::size_t{16} << 30) + 4 * blas->bytes_per_caller());
    const Opened opened = backend->open({0, 1, 2}, 0);
    EXPECT_TRUE(opened.accelerators.empty());
    ASSERT_EQ(opened.refused.size(), 3u);
    EXPECT_EQ(opened.refused[2].ordinal, 2);
    EXPECT_THAT(opened.refused[2].reason, testing::HasSubstr("MiB of address space"));
  }
  {
    const AddressLimit limit(std::size_t{40} << 30);
    const Opened opened = backend->open({0, 1, 2}, 0);
    EXPECT_EQ(opened.accelerators.size(), 2u);
    ASSERT_EQ(opened.refused.size(), 1u);
    EXPECT_EQ(opened.refused[0].ordinal, 2);
  }
  // without buffers the limit is not checked in advance: each part fails by itself
  const AddressLimit limit(std::size_t{1} << 30);
  EXPECT_EQ(make_host_backend(config, 3, nullptr)->open({0, 1, 2}, 0).accelerators.size(), 3u);
}

}  // namespace host_backend_test
}  // namespace tessera::kernels
