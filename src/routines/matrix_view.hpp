// A host matrix as a routine sees it: column-major storage, an op, and perhaps a triangle that stands for the whole. Transposing a
// view transposes nothing physically: tile() returns the stored block and the op to apply to it. Coordinates are elements of the
// matrix after the op.
#pragma once

#include <cstddef>

#include "core/level3.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

/// A block as a product reads it.
struct ViewTile {
  runtime::HostTile tile;
  Op op = Op::no_trans;
  index_t first_row = 0;  ///< the block is as many stored rows from there on as the product reads

  runtime::Operand operand() const { return {.tile = tile, .first_row = first_row}; }
};

constexpr index_t triangle_elements(index_t n) { return n * (n + 1) / 2; }
constexpr Part part_of(Uplo uplo) { return uplo == Uplo::lower ? Part::lower : Part::upper; }

class MatrixView {
 public:
  /// op(storage) is rows x cols. `storage` is not written through inputs; the runtime has one tile type for both.
  MatrixView(const void* storage, index_t rows, index_t cols, index_t ld, Op op, ScalarType type)
      : storage_(static_cast<std::byte*>(const_cast<void*>(storage))),
        rows_(rows),
        cols_(cols),
        ld_(ld),
        op_(op),
        element_bytes_(static_cast<index_t>(tessera::element_bytes(type))) {}

  /// Rows [i, i + rows) and columns [j, j + cols).
  ViewTile tile(index_t i, index_t j, index_t rows, index_t cols) const {
    if (op_ != Op::no_trans) return {{at(j, i), cols, rows, ld_}, op_};
    return {{at(i, j), rows, cols, ld_}, op_};
  }
  /// The square block of n rows on the diagonal at i, of which only the stored triangle exists.
  runtime::HostTile diagonal_tile(index_t i, index_t n, Uplo uplo) const {
    return {at(i, i), n, n, ld_, part_of(uplo)};
  }

  index_t bytes() const { return rows_ * cols_ * element_bytes_; }
  index_t triangle_bytes() const { return triangle_elements(rows_) * element_bytes_; }

  /// From the first to past the last element in memory, the padding between columns included.
  device::HostRange range() const { return {storage_, at(stored_rows(), stored_cols() - 1)}; }

  /// Whether most of range() belongs to the matrix: a few rows of a much larger one are not worth locking all its pages.
  bool is_dense() const { return 2 * stored_rows() >= ld_; }

  /// Whether both views are the same stored elements.
  bool same_storage(const MatrixView& other) const {
    return storage_ == other.storage_ && ld_ == other.ld_ && stored_rows() == other.stored_rows() &&
           stored_cols() == other.stored_cols();
  }

 private:
  index_t stored_rows() const { return op_ == Op::no_trans ? rows_ : cols_; }
  index_t stored_cols() const { return op_ == Op::no_trans ? cols_ : rows_; }
  std::byte* at(index_t row, index_t col) const { return storage_ + (row + col * ld_) * element_bytes_; }

  std::byte* storage_;
  index_t rows_;
  index_t cols_;
  index_t ld_;
  Op op_;
  index_t element_bytes_;
};

/// The other factor of a rank update: the transpose of op(A), or its conjugate transpose, from the same storage.
constexpr Op transposed(Op op, bool hermitian) {
  if (op != Op::no_trans) return Op::no_trans;
  return hermitian ? Op::conj_trans : Op::trans;
}

}  // namespace tessera::routines
