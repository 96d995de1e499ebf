// Runs a function at the end of a block, also if an exception ends it.
#pragma once

#include <utility>

namespace tessera {

/// Calls `end()` in its destructor. @pre end() does not throw
template <class End>
class AtEnd {
 public:
  explicit AtEnd(End end) : end_(std::move(end)) {}
  ~AtEnd() { end_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  End end_;
};

}  // namespace tessera
