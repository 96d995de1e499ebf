// A host matrix as a routine sees it: column-major storage, an op, and perhaps a triangle that stands for the whole.
// Nothing is transposed in memory: tile() returns the stored block and the op to apply to it. Coordinates are elements
// of the matrix after the op.
#pragma once

#include <algorithm>
#include <cstddef>

#include "calls/lapack_call.hpp"
#include "calls/level3.hpp"
#include "runtime/tiles/step.hpp"

namespace tessera::routines {

constexpr index_t triangle_elements(index_t n) { return n * (n + 1) / 2; }

/// A range of one dimension in elements.
struct Span {
  index_t first = 0;
  index_t size = 0;
};

/// A block as a product reads it: rows x cols after the op. It may be a part of the stored tile (Read::first_row).
struct Block : runtime::Read {
  Op op = Op::no_trans;
  index_t rows = 0, cols = 0;
};

/// The op of the transpose, or of the conjugate transpose.
constexpr Op transposed(Op op, bool hermitian) {
  if (op != Op::no_trans) return Op::no_trans;
  return hermitian ? Op::conj_trans : Op::trans;
}
inline Block transposed(Block block, bool hermitian) {
  block.op = transposed(block.op, hermitian);
  std::swap(block.rows, block.cols);
  return block;
}

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

  /// The same elements as the transpose, or the conjugate transpose.
  MatrixView transpose(bool hermitian) const {
    MatrixView view = *this;
    std::swap(view.rows_, view.cols_);
    view.op_ = transposed(op_, hermitian);
    return view;
  }
  /// One triangle is stored, and stands for all of a symmetric or Hermitian matrix. @pre no op
  MatrixView mirrored(Uplo uplo, bool hermitian) const {
    MatrixView view = *this;
    view.symmetry_ = hermitian ? Symmetry::hermitian : Symmetry::symmetric;
    view.uplo_ = uplo;
    return view;
  }
  /// Blocks are parts of tiles of so many stored rows. @pre blocks are not cut by these
  MatrixView in_tiles(index_t stored_rows_of_tile) const {
    MatrixView view = *this;
    view.tile_rows_ = stored_rows_of_tile;
    return view;
  }

  /// The block of these rows and columns. Of a mirrored view, a triangle on the diagonal, and otherwise the stored block,
  /// or the transpose of the one that mirrors it.
  Block tile(Span i, Span j) const {
    if (symmetry_ == Symmetry::none) return stored_tile(i, j);
    if (i.first == j.first) return {{.tile = diagonal_tile(i, uplo_)}, op_, i.size, j.size};
    if ((i.first > j.first) == (uplo_ == Uplo::lower)) return stored_tile(i, j);
    return transposed(stored_tile(j, i), symmetry_ == Symmetry::hermitian);
  }
  /// The square block on the diagonal of which only the stored triangle exists.
  runtime::HostTile diagonal_tile(Span i, Uplo uplo) const {
    return {at(i.first, i.first), i.size, i.size, ld_, part_of(uplo)};
  }

  index_t bytes() const { return rows_ * cols_ * element_bytes_; }
  index_t triangle_bytes() const { return triangle_elements(rows_) * element_bytes_; }

  device::HostMatrix host() const {
    return {storage_, ld_ * element_bytes_, stored_rows() * element_bytes_, stored_cols()};
  }

  /// Whether both views are the same stored elements.
  bool same_storage(const MatrixView& other) const {
    return storage_ == other.storage_ && ld_ == other.ld_ && stored_rows() == other.stored_rows() &&
           stored_cols() == other.stored_cols();
  }

 private:
  enum class Symmetry : std::uint8_t { none, symmetric, hermitian };

  Block stored_tile(Span i, Span j) const {
    const auto [row, col] = op_ == Op::no_trans ? std::pair{i, j} : std::pair{j, i};
    const index_t begin = tile_rows_ > 0 ? row.first / tile_rows_ * tile_rows_ : row.first;
    const index_t tall = tile_rows_ > 0 ? std::min(tile_rows_, stored_rows() - begin) : row.size;
    return {{.tile = {at(begin, col.first), tall, col.size, ld_}, .first_row = row.first - begin}, op_, i.size, j.size};
  }
  index_t stored_rows() const { return op_ == Op::no_trans ? rows_ : cols_; }
  index_t stored_cols() const { return op_ == Op::no_trans ? cols_ : rows_; }
  std::byte* at(index_t row, index_t col) const { return storage_ + (row + col * ld_) * element_bytes_; }

  std::byte* storage_;
  index_t rows_;
  index_t cols_;
  index_t ld_;
  Op op_;
  index_t element_bytes_;
  Symmetry symmetry_ = Symmetry::none;
  Uplo uplo_ = Uplo::lower;
  index_t tile_rows_ = 0;  // 0: a tile is what is asked for
};

}  // namespace tessera::routines
