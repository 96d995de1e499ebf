// Asks the kernel which pages of memory have been written, by whomever: code of the program, or system calls. Copies by
// a GPU do not show.
//
// A watched range is registered with userfaultfd, whose faults the kernel resolves itself (WP_ASYNC): the first write to
// a page costs a fault, and nobody has to answer it. PAGEMAP_SCAN tells the pages that are written, and protects them
// again in the same step, so that no write between two questions is missed. Pages that have been dropped
// (MADV_DONTNEED) count as written. Of memory that has been moved there, or mapped anew, the kernel cannot say it.
//
// Sources: Linux 6.7, userfaultfd(2), ioctl_pagemap_scan(2), Documentation/admin-guide/mm/{userfaultfd,pagemap}.rst.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace tessera::residence {

/// A range of memory; whole pages unless said otherwise.
struct Range {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
};

/// Thread-safe, but for the destructor. A child by fork has to make one of its own.
class WriteWatch {
 public:
  /// @throws NotAvailable with the reason: the kernel is too old, or does not allow it
  WriteWatch();
  ~WriteWatch();
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  static std::size_t page_bytes();

  /// Begins to watch anonymous private memory. All of it counts as written until the first question.
  /// @return false if the kernel refuses, as for memory that somebody else watches
  bool add(Range range) noexcept;
  /// Ends it: writes cost nothing more. Memory that has been unmapped may be named.
  void remove(Range range) noexcept;

  /// Lets the range be written without faults until the next question; all of it counts as written then.
  void expect_writes(Range range) noexcept;

  /// Calls `tell` with the pages that have been written since the last question, in order, and protects them again.
  /// Neighbouring pages come together. @param tell must not ask
  /// @return false if the kernel cannot say it of all of the range: all of it may have been written. Of a hole, which
  /// nobody can read, nothing is told.
  /// @pre the range is within one that is watched
  bool written(Range range, const std::function<void(Range)>& tell) const;

 private:
  int watch_ = -1;    ///< userfaultfd
  int pagemap_ = -1;  ///< of this process
};

}  // namespace tessera::residence
