// Host memory of our own, into which operands are packed on their way to a device and back.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace tessera::device {

class HostMemory {
 public:
  /// Allocates pages and touches them. They lie near the calling thread's processors, if the system places pages at
  /// first touch.
  /// @throws std::bad_alloc
  explicit HostMemory(std::size_t bytes) : bytes_((bytes + page_bytes - 1) / page_bytes * page_bytes) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(memory);
    static_cast<void>(madvise(memory, bytes_, MADV_HUGEPAGE));  // fewer pages to touch and to lock
    for (std::size_t at = 0; at < bytes_; at += page_bytes) data_[at] = std::byte{0};
  }
  virtual ~HostMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 protected:
  /// Leaves the memory to the end of the process.
  void abandon() { data_ = nullptr; }

 private:
  static constexpr std::size_t page_bytes = 4096;  // no machine has smaller pages

  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace tessera::device
