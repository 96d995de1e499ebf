// Decides which matrices of a program stay on devices between its calls, without a word of the program.
//
// A matrix is known from the second call on that finds it unchanged. Then its pages are watched (write_watch.hpp), and
// each call asks first what has been written since: that is fetched again. Watching makes the first write to a page
// dear, so a matrix that is written too often between its uses is given up.
//
// A call's own results in a known matrix are in the mirrors, too. It counts as written by others only if the call
// wrote a part of the matrix: the rest of a page may be somebody else's.
//
// Copies of other users of a GPU into page-locked memory do not show, nor do writes of another process to memory that
// both have. So the caller says which memory may be watched, whenever a call uses it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/mutex.hpp"
#include "residence/residence.hpp"
#include "residence/write_watch.hpp"

namespace tessera::residence {

class Keeper {
 public:
  /// Whether nobody writes this memory unseen. Called with the keeper's lock held.
  using MayWatch = std::function<bool(Range)>;

  /// @param residence outlives this @throws NotAvailable where the kernel does not tell what is written
  Keeper(Residence& residence, MayWatch may_watch) : residence_(residence), may_watch_(std::move(may_watch)) {}
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// A call begins that reads or writes these matrices.
  void begin(std::span<const device::Touched> operands);
  /// Drops what has been written of these matrices, before a call.
  void look_at(std::span<const HostMatrix> matrices);
  /// A call begins that reads or writes whatever it may be.
  void begin_any();
  /// It has written those that it writes, by devices or with their knowledge (Residence::drop).
  void end(std::span<const device::Touched> operands);

  /// It ends without a result: all that it might have written counts as written, and is no fault of the program.
  void cancel(std::span<const device::Touched> operands);

  /// Whether it is written too often to be watched.
  bool has_given_up(const HostMatrix& matrix) const;

  /// Matrices that are watched now.
  std::size_t known() const;

 private:
  struct Less {
    bool operator()(const HostMatrix& a, const HostMatrix& b) const {
      const auto key = [](const HostMatrix& m) {
        return std::tuple(m.address, m.pitch_bytes, m.column_bytes, m.columns);
      };
      return key(a) < key(b);
    }
  };
  struct State {
    std::optional<std::uint64_t> sample;  ///< of the elements at the end of the last use
    std::optional<MatrixId> matrix;       ///< it is known
    double credit = 1;                    ///< copies saved, less what writes to it have cost; below 0 it is given up
    std::uint64_t last_use = 0;
  };
  using States = std::map<HostMatrix, State, Less>;

  static Range pages_of(const HostMatrix& matrix);
  static std::uint64_t sample_of(const HostMatrix& matrix);
  /// Calls visit(known, state) for each known matrix that this one is a part of, or has parts of.
  template <class Visit>
  void for_each_overlapped(const HostMatrix& matrix, Visit visit) TESSERA_REQUIRES(mutex_);
  void consider(const HostMatrix& matrix, State& state) TESSERA_REQUIRES(mutex_);
  void refresh(const HostMatrix& matrix, State& state, bool is_use = true) TESSERA_REQUIRES(mutex_);
  void make_known(const HostMatrix& matrix, State& state) TESSERA_REQUIRES(mutex_);
  void make_unknown(const HostMatrix& matrix, State& state) TESSERA_REQUIRES(mutex_);
  void lose(const HostMatrix& matrix, State& state) TESSERA_REQUIRES(mutex_);
  void forget_oldest() TESSERA_REQUIRES(mutex_);

  Residence& residence_;
  const MayWatch may_watch_;
  WriteWatch watch_;
  mutable Mutex mutex_;
  States states_ TESSERA_GUARDED_BY(mutex_);
  std::uint64_t calls_ TESSERA_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::residence
