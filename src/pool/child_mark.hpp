// Tells a process from its child after fork, without a handler.
//
// Handlers run in an order that nobody knows: those of other libraries may allocate before ours has run. The kernel
// wipes the page of this mark in each child (MADV_WIPEONFORK, Linux 4.14).
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace tessera::pool {

class ChildMark {
 public:
  ChildMark() noexcept : bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* const page = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, bytes_, MADV_WIPEONFORK) != 0) {
      munmap(page, bytes_);
      return;
    }
    word_ = static_cast<std::atomic<std::uint32_t>*>(page);
    word_->store(is_here, std::memory_order_relaxed);
  }
  ~ChildMark() {
    if (word_ != nullptr) munmap(word_, bytes_);
  }
  ChildMark(const ChildMark&) = delete;
  ChildMark& operator=(const ChildMark&) = delete;

  /// false: the system has no such pages.
  explicit operator bool() const { return word_ != nullptr; }

  /// Runs `begin` once in each child, in the first thread that comes here. Others wait.
  template <class Begin>
  void pass(Begin begin) const noexcept {
    while (word_ != nullptr && word_->load(std::memory_order_acquire) != is_here) {
      std::uint32_t seen = is_new;
      if (word_->compare_exchange_strong(seen, is_beginning)) {
        begin();
        word_->store(is_here, std::memory_order_release);
      } else if (seen == is_beginning) {
        sched_yield();
      }
    }
  }

 private:
  static constexpr std::uint32_t is_new = 0, is_beginning = 1, is_here = 2;

  std::size_t bytes_;
  std::atomic<std::uint32_t>* word_ = nullptr;
};

}  // namespace tessera::pool
