// The host matrices of which devices keep copies between calls, and the devices' mirrors of them.
//
// Host memory is always true: a copy on a device says what host memory says, or it is gone. Each writer of a part of
// a matrix drops that part everywhere: devices when they write results back, callers for writes of their own.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "core/mutex.hpp"
#include "device/device.hpp"
#include "residence/mirror.hpp"
#include "residence/write_watch.hpp"

namespace tessera::residence {

using device::HostMatrix;
/// Of a matrix.
inline Range range_of(const HostMatrix& matrix) {
  const device::HostRange range = matrix.range();
  return {matrix.address, matrix.address + (range.end - range.begin)};
}

class Residence {
 public:
  /// Matrices that are known overlap no other one. @return nothing if this one does
  std::optional<MatrixId> add(const HostMatrix& matrix);
  void remove(MatrixId matrix);

  struct Place {
    MatrixId matrix = 0;
    Rectangle rectangle;
  };
  /// The place of a block that lies in a known matrix.
  std::optional<Place> place_of(device::Block host, device::Extent extent) const;

  /// Bytes of a matrix of which some device has a copy.
  index_t resident_bytes(const HostMatrix& matrix) const;

  /// Mirrors that serve devices, as long as they live.
  void attach(Mirror& mirror);
  void detach(Mirror& mirror);

  /// Somebody writes these bytes: all copies of what they are a part of are gone.
  void drop(Range written);
  /// All copies are gone.
  void clear();
  /// Somebody writes the block. @param told a mirror that knows it already
  void drop(device::Block host, device::Extent extent, const Mirror* told = nullptr);

 private:
  using Known = std::map<const std::byte*, std::pair<MatrixId, HostMatrix>>;

  Known::const_iterator first_overlapped(Range range) const TESSERA_REQUIRES(mutex_);
  void drop_known(Range written) TESSERA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Known known_ TESSERA_GUARDED_BY(mutex_);  ///< by address
  std::vector<Mirror*> mirrors_ TESSERA_GUARDED_BY(mutex_);
  MatrixId next_ TESSERA_GUARDED_BY(mutex_) = 1;
};

}  // namespace tessera::residence
