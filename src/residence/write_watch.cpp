#include "residence/write_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "core/error.hpp"

namespace tessera::residence {
namespace {

// Of Linux 6.7; headers of distributions may be older (linux/userfaultfd.h, linux/fs.h).
constexpr std::uint64_t unpopulated_too = 1U << 13U;     // UFFD_FEATURE_WP_UNPOPULATED
constexpr std::uint64_t resolved_by_kernel = 1U << 15U;  // UFFD_FEATURE_WP_ASYNC

constexpr std::uint64_t is_written = 1U << 1U;       // PAGE_IS_WRITTEN
constexpr std::uint64_t protects_found = 1U << 0U;   // PM_SCAN_WP_MATCHING
constexpr std::uint64_t all_are_watched = 1U << 1U;  // PM_SCAN_CHECK_WPASYNC

struct PageRegion {  // page_region
  std::uint64_t begin, end, categories;
};
struct ScanArguments {  // pm_scan_arg
  std::uint64_t size, flags, begin, end, walked_to, regions, region_count, most_pages;
  std::uint64_t inverted, all_of, any_of, returned;
};
constexpr unsigned long pagemap_scan = _IOWR('f', 16, ScanArguments);

std::uint64_t number_of(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address); }
std::byte* address_of(std::uint64_t number) {
  return reinterpret_cast<std::byte*>(number);  // NOLINT(performance-no-int-to-ptr): as the kernel has it
}

std::string why(const char* what, int error) {
  return std::string(what) + ": " + std::generic_category().message(error);
}

}  // namespace

WriteWatch::WriteWatch() {
  constexpr int faults_of_programs_alone =
      1;  // UFFD_USER_MODE_ONLY: needs no privilege; WP_ASYNC sees system calls, too
  watch_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | faults_of_programs_alone));
  if (watch_ < 0) throw NotAvailable(why("userfaultfd", errno));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = unpopulated_too | resolved_by_kernel;
  if (ioctl(watch_, UFFDIO_API, &api) != 0) {
    const int error = errno;
    close(watch_);
    throw NotAvailable(error == EINVAL ? "Linux 6.7 is needed" : why("UFFDIO_API", error));
  }
  pagemap_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap_ < 0) {
    const int error = errno;
    close(watch_);
    throw NotAvailable(why("/proc/self/pagemap", error));
  }
}

WriteWatch::~WriteWatch() {
  close(pagemap_);
  close(watch_);
}

std::size_t WriteWatch::page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

bool WriteWatch::add(Range range) noexcept {
  uffdio_register wanted{};
  wanted.range = {.start = number_of(range.begin), .len = static_cast<std::uint64_t>(range.end - range.begin)};
  wanted.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(watch_, UFFDIO_REGISTER, &wanted) == 0;
}

void WriteWatch::remove(Range range) noexcept {
  uffdio_range unwanted{.start = number_of(range.begin), .len = static_cast<std::uint64_t>(range.end - range.begin)};
  static_cast<void>(ioctl(watch_, UFFDIO_UNREGISTER, &unwanted));
}

void WriteWatch::expect_writes(Range range) noexcept {
  uffdio_writeprotect open{};
  open.range = {.start = number_of(range.begin), .len = static_cast<std::uint64_t>(range.end - range.begin)};
  static_cast<void>(ioctl(watch_, UFFDIO_WRITEPROTECT, &open));
}

bool WriteWatch::written(Range range, const std::function<void(Range)>& tell) const {
  std::array<PageRegion, 256> regions{};
  ScanArguments scan{};
  scan.size = sizeof(scan);
  scan.flags = protects_found | all_are_watched;
  scan.begin = number_of(range.begin);
  scan.end = number_of(range.end);
  scan.regions = reinterpret_cast<std::uintptr_t>(regions.data());
  scan.region_count = regions.size();
  scan.all_of = scan.returned = is_written;
  Range run;
  while (scan.begin < scan.end) {
    const int found = ioctl(pagemap_, pagemap_scan, &scan);
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) return false;
    for (int i = 0; i < found; ++i) {
      const PageRegion& region = regions[static_cast<std::size_t>(i)];
      if (run.end != address_of(region.begin)) {
        if (run.begin != run.end) tell(run);
        run.begin = address_of(region.begin);
      }
      run.end = address_of(region.end);
    }
    scan.begin = scan.walked_to;
  }
  if (run.begin != run.end) tell(run);
  return true;
}

}  // namespace tessera::residence
