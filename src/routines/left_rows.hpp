// The rows of L in columns to the left of an LU panel, which its interchanges move, too (block_columns.cpp).
//
// Columns are at home by then, and the host moves their rows: beside the devices as soon as some panels' pivots are
// known, and the rest at the end. Rows move by several panels' interchanges at once, because each time all of a column
// passes through the processor.
//
// The host's part of a job (runtime/tiles/host_part.hpp). Invariant: a piece of columns has been interchanged by the
// panels right of its own up to some panel, and by none behind that.
#pragma once

#include <optional>
#include <vector>

#include "core/mutex.hpp"
#include "core/scalar.hpp"
#include "runtime/tiles/host_part.hpp"

namespace tessera::routines {

class LeftRows final : public runtime::HostPart {
 public:
  /// @param panels of A in host memory, in order; a task of the same number makes each
  /// @param processors that may be busy with it
  LeftRows(std::vector<kernels::Panel> panels, int processors);

  std::size_t threads() const override { return threads_; }
  std::optional<runtime::WrittenArea> do_some(const IsHome& is_home) override;
  void undo() noexcept override;
  /// Does what is left. @pre all panels are in host memory; no thread is in do_some() @throws std::bad_alloc
  void finish();

 private:
  struct Piece {
    index_t panel = 0;                ///< that it is a part of
    index_t column = 0, columns = 0;  ///< of the panel
    index_t moved = 0;                ///< by panels after its own and before this one
    index_t moving_to = 0;            ///< the next value of `moved` while a thread is at it; 0: none is
  };

  index_t panel_count() const { return static_cast<index_t>(panels_.size()); }
  const kernels::Panel& panel(index_t number) const { return panels_[static_cast<std::size_t>(number)]; }
  /// Rows of panel `from` above the first one of `to`. Each panel has the rows of the matrix from its first one on.
  index_t rows_between(index_t from, index_t to) const { return panel(from).m - panel(to).m; }
  Piece* take(const IsHome& is_home) TESSERA_EXCLUDES(mutex_);
  runtime::WrittenArea move(Piece& piece) TESSERA_EXCLUDES(mutex_);
  std::vector<index_t> sources_of_rows(index_t begin, index_t end) const;

  const std::vector<kernels::Panel> panels_;
  std::size_t processors_;
  std::size_t threads_ = 0;
  Mutex mutex_;
  std::vector<Piece> pieces_ TESSERA_GUARDED_BY(mutex_);
  index_t home_ TESSERA_GUARDED_BY(mutex_) = 0;  ///< panels before this one are in host memory
};

}  // namespace tessera::routines
