// The host matrices of which devices keep copies between calls, and the devices' mirrors of them.
//
// Host memory is true, but for matrices that are lazy: a copy on a device says what host memory says, or it is gone.
// Each writer of a part of a matrix drops that part everywhere: devices when they write results back, callers for
// writes of their own.
//
// Results in a lazy matrix stay on devices: what was written last is in one mirror alone, until the matrix is settled.
// While the host uses it, results go to host memory, too; while the host writes it, devices find no copies of it. It is
// lost once a device has failed that had something of it alone.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
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

inline device::Block block_of(const HostMatrix& matrix) { return {matrix.address, matrix.pitch_bytes}; }
inline Rectangle all_of(const HostMatrix& matrix) { return {0, 0, matrix.column_bytes, matrix.columns}; }

class Residence {
 public:
  /// Whose results go to host memory: of lazy matrices only when they are settled.
  enum class Kind : std::uint8_t { written_through, lazy };

  /// Matrices that are known overlap no other one. A lazy one takes the place of others that are not.
  /// @return nothing if this one overlaps one that stays
  std::optional<MatrixId> add(const HostMatrix& matrix, Kind kind = Kind::written_through);
  void remove(MatrixId matrix);

  bool has_lazy() const { return lazy_count_.load(std::memory_order_relaxed) > 0; }
  /// The lazy matrices that these overlap, each once.
  std::vector<MatrixId> lazy_among(std::span<const HostMatrix> matrices) const;
  /// Whether every part of a lazy matrix among these is a block of it, as devices find it.
  bool are_blocks(std::span<const HostMatrix> matrices) const;
  std::optional<HostMatrix> matrix_of(MatrixId matrix) const;

  enum class HostUse : std::uint8_t { reads, writes };
  /// The host uses the matrix from now on, until as many release() of the kind have come. @pre it is settled before the
  /// host reads or writes it
  void hold(MatrixId matrix, HostUse use);
  void release(MatrixId matrix, HostUse use);
  bool is_held(MatrixId matrix) const;
  /// Something of it is only on devices.
  bool is_stale(MatrixId matrix) const;
  /// All lazy matrices that this one overlaps are lost: something of them is nowhere any more. Takes no memory.
  void lose_overlapped(const HostMatrix& matrix);
  /// Empties a mirror whose device is lost, and loses the matrices that it alone had something of. Takes no memory.
  void lose_copies_of(Mirror& mirror);
  bool is_lost(MatrixId matrix) const;
  /// Whether this one overlaps a lazy one that is lost. Takes no memory.
  bool overlaps_lost(const HostMatrix& matrix) const;
  /// All of it has been written anew.
  void find_again(MatrixId matrix);

  struct Place {
    MatrixId matrix = 0;
    Rectangle rectangle;
    bool is_lazy = false;  ///< and the host does not use it
  };
  /// The place of a block that lies in a known matrix which the host does not write.
  std::optional<Place> place_of(device::Block host, device::Extent extent) const;

  /// Bytes of a matrix of which some device has a copy.
  index_t resident_bytes(const HostMatrix& matrix) const;

  /// Mirrors that serve devices, as long as they live. @param device behind the mirror
  void attach(Mirror& mirror, device::Device& device);
  void detach(Mirror& mirror);

  /// The only copy of a part of a matrix, and the device that it is on.
  struct OnlyCopy {
    device::Device* device = nullptr;
    Mirror::Piece piece;
  };
  std::vector<OnlyCopy> only_copies(MatrixId matrix, const Rectangle& rectangle) const;
  /// Host memory has all of the matrix.
  void note_in_host_memory(MatrixId matrix);

  /// A call uses these lazy matrices.
  void note_use(std::span<const MatrixId> matrices);
  /// If some mirror has little room beside only copies: the matrix with such whose last use is longest ago, but for
  /// these.
  std::optional<MatrixId> to_be_settled(std::span<const MatrixId> others) const;

  /// Somebody writes these bytes: all copies of what they are a part of are gone, but for those of lazy matrices, whose
  /// writers name blocks.
  void drop(Range written);
  /// All copies are gone, but for those that are the only ones.
  void clear();
  /// Somebody writes the block. @param told a mirror that knows it already
  void drop(device::Block host, device::Extent extent, const Mirror* told = nullptr);

 private:
  struct Matrix {
    MatrixId id = 0;
    HostMatrix place;
    Kind kind = Kind::written_through;
    int holders = 0, writers = 0;  ///< uses of the host; those that write
    bool is_lost = false;
    std::uint64_t last_use = 0;
  };
  struct Attached {
    Mirror* mirror = nullptr;
    device::Device* device = nullptr;
  };
  using Known = std::map<const std::byte*, Matrix>;

  Known::const_iterator first_overlapped(Range range) const TESSERA_REQUIRES(mutex_);
  void lose(Matrix& matrix) TESSERA_REQUIRES(mutex_);
  const Matrix* find(device::Block host, device::Extent extent, Rectangle& part) const TESSERA_REQUIRES(mutex_);
  const Matrix* find(MatrixId matrix) const TESSERA_REQUIRES(mutex_);
  Matrix* find(MatrixId matrix) TESSERA_REQUIRES(mutex_);
  void drop_known(Range written, bool spares_lazy) TESSERA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Known known_ TESSERA_GUARDED_BY(mutex_);  ///< by address
  std::vector<Attached> mirrors_ TESSERA_GUARDED_BY(mutex_);
  /// Of the lazy ones. It orders nothing: a matrix is used after it has been made.
  std::atomic<int> lazy_count_ = 0;
  MatrixId next_ TESSERA_GUARDED_BY(mutex_) = 1;
  std::uint64_t uses_ TESSERA_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::residence
