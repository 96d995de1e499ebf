// The operations under way on a device, of all jobs that share it. Each job looks at the whole before it adds to it, so
// that together they queue no more on the link and in the streams than one alone would. The job that is asked first has
// priority. Owned and used by the device's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cache/tile_cache.hpp"
#include "core/scalar.hpp"

namespace tessera::runtime {

/// Kernels launched and not completed.
struct Backlog {
  std::size_t kernels = 0;
  double seconds = 0;  ///< by the device's rough rates
};

class DeviceTraffic {
 public:
  /// One job's part of it.
  class Source {
   public:
    virtual ~Source() = default;
    virtual Backlog backlog() const = 0;
    /// Bytes of copies from the host that wait behind the one under way.
    virtual index_t queued_bytes() const = 0;
  };

  /// @pre its place was made by reserve()
  void enter(const Source& job) noexcept { jobs_.push_back(&job); }
  void leave(const Source& job) noexcept { std::erase(jobs_, &job); }
  void reserve(std::size_t jobs) { jobs_.reserve(jobs); }

  Backlog backlog() const {
    Backlog sum;
    for (const Source* job : jobs_) {
      const Backlog own = job->backlog();
      sum.kernels += own.kernels;
      sum.seconds += own.seconds;
    }
    return sum;
  }
  index_t queued_bytes() const {
    index_t sum = 0;
    for (const Source* job : jobs_) sum += job->queued_bytes();
    return sum;
  }

 private:
  std::vector<const Source*> jobs_;
};

}  // namespace tessera::runtime
