#include "core/matrix_copy.hpp"

#include <algorithm>
#include <atomic>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/host_copy.hpp"
#include "core/side_by_side.hpp"

namespace tessera {
namespace {

/// A thread takes some ten microseconds to start; fewer bytes are not worth one.
constexpr std::int64_t bytes_of_thread = std::int64_t{1} << 19;
constexpr std::int64_t line_bytes = 64;

/// Elements of 16 bytes without a meaning.
struct Pair {
  std::uint64_t first, second;
};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T, bool conjugates>
T element_of(const std::byte* at) {
  const T value = load<T>(at);
  if constexpr (conjugates) return std::conj(value);
  return value;
}

/// The copy with the target's smaller stride along columns: rows are what it is cut into.
template <class T, bool conjugates>
class Bands {
 public:
  explicit Bands(const MatrixCopy& copy) : copy_(copy), from_(copy.from.address), to_(copy.to.address) {}

  /// Of one matrix.
  void copy_rows(std::int64_t matrix, std::int64_t first, std::int64_t end) {
    of_matrix(matrix);
    if (!is_turned()) {
      for (std::int64_t i = first; i < end; ++i) copy_row(i);
      return;
    }
    for (std::int64_t i = first; i < end; i += tile) {
      for (std::int64_t j = 0; j < copy_.columns; j += tile) copy_tile(i, std::min(i + tile, end), j);
    }
  }

  static constexpr std::int64_t square = std::max<std::int64_t>(line_bytes / std::int64_t{sizeof(T)}, 4);
  /// Squares side by side: so many that all of a page is used while it is in the TLB, and so few that their pages fit there.
  static constexpr std::int64_t tile = 8 * square;

 private:
  void of_matrix(std::int64_t number) {
    from_ = copy_.from.address + number * copy_.from.matrix_stride;
    to_ = copy_.to.address + number * copy_.to.matrix_stride;
  }
  /// The source runs along rows where the target runs along columns.
  bool is_turned() const { return std::abs(copy_.from.row_stride) < std::abs(copy_.from.column_stride); }
  const std::byte* source(std::int64_t i, std::int64_t j) const {
    return from_ + i * copy_.from.row_stride + j * copy_.from.column_stride;
  }
  std::byte* target(std::int64_t i, std::int64_t j) const {
    return to_ + i * copy_.to.row_stride + j * copy_.to.column_stride;
  }
  /// The columns of row i that are copied.
  std::pair<std::int64_t, std::int64_t> columns_of(std::int64_t i) const {
    switch (copy_.part) {
      case CopiedPart::lower:
        return {0, std::min(i + 1, copy_.columns)};
      case CopiedPart::upper:
        return {std::min(i, copy_.columns), copy_.columns};
      default:
        return {0, copy_.columns};
    }
  }

  void put(std::byte* at, T value) const { std::memcpy(at, &value, sizeof value); }

  void clear(std::int64_t i, std::int64_t first, std::int64_t end) const {
    if (copy_.to.column_stride == std::int64_t{sizeof(T)}) {
      if (first < end) std::memset(target(i, first), 0, static_cast<std::size_t>(end - first) * sizeof(T));
      return;
    }
    for (std::int64_t j = first; j < end; ++j) put(target(i, j), T{});
  }

  void copy_elements(std::int64_t i, std::int64_t first, std::int64_t end) const {
    constexpr std::int64_t element = sizeof(T);
    if (first >= end) return;
    if (!conjugates && copy_.from.column_stride == element && copy_.to.column_stride == element) {
      std::memcpy(target(i, first), source(i, first), static_cast<std::size_t>((end - first) * element));
      return;
    }
    for (std::int64_t j = first; j < end; ++j) put(target(i, j), element_of<T, conjugates>(source(i, j)));
  }

  void copy_row(std::int64_t i) const {
    const auto [first, end] = columns_of(i);
    clear(i, 0, first);
    copy_elements(i, first, end);
    clear(i, end, copy_.columns);
  }

  void copy_tile(std::int64_t first_row, std::int64_t end_row, std::int64_t first_column) const {
    const std::int64_t end_column = std::min(first_column + tile, copy_.columns);
    for (std::int64_t i = first_row; i < end_row; i += square) {
      for (std::int64_t j = first_column; j < end_column; j += square)
        copy_square(i, std::min(i + square, end_row), j, std::min(j + square, end_column));
    }
  }

  /// Rows of the target, columns of the source: read whole before it is written.
  void copy_square(std::int64_t first_row, std::int64_t end_row, std::int64_t first_column,
                   std::int64_t end_column) const {
    const bool is_whole = end_row - first_row == square && end_column - first_column == square;
    if (!is_whole || copy_.part != CopiedPart::full) {
      for (std::int64_t i = first_row; i < end_row; ++i) {
        const auto [first, end] = columns_of(i);
        const std::int64_t from = std::clamp(first, first_column, end_column), to = std::clamp(end, from, end_column);
        clear(i, first_column, from);
        copy_elements(i, from, to);
        clear(i, to, end_column);
      }
      return;
    }
    T elements[square][square];
    for (std::int64_t j = 0; j < square; ++j) {
      for (std::int64_t i = 0; i < square; ++i)
        elements[i][j] = element_of<T, conjugates>(source(first_row + i, first_column + j));
    }
    if (copy_.to.column_stride == std::int64_t{sizeof(T)}) {
      for (std::int64_t i = 0; i < square; ++i)
        copy_streaming(target(first_row + i, first_column), reinterpret_cast<const std::byte*>(elements[i]),
                       std::int64_t{sizeof elements[i]});
      return;
    }
    for (std::int64_t i = 0; i < square; ++i) {
      for (std::int64_t j = 0; j < square; ++j) put(target(first_row + i, first_column + j), elements[i][j]);
    }
  }

  const MatrixCopy& copy_;
  const std::byte* from_;  // of the matrix in hand
  std::byte* to_;
};

template <class T, bool conjugates>
void copy_by_bands(const MatrixCopy& copy, int processors) {
  using Copied = Bands<T, conjugates>;
  const std::int64_t bytes = copy.count * copy.rows * copy.columns * std::int64_t{sizeof(T)};
  const std::int64_t threads = std::clamp<std::int64_t>(bytes / bytes_of_thread, 1, std::max(processors, 1));
  // Several pieces for each thread, since some threads begin late: bands of whole squares, or several small matrices.
  const std::int64_t pieces = threads * 8;
  const std::int64_t wanted = ceil_div(copy.count * copy.rows, pieces);
  const std::int64_t band = std::min(ceil_div(wanted, Copied::square) * Copied::square, copy.rows);
  const std::int64_t of_matrix = ceil_div(copy.rows, band), bands = copy.count * of_matrix;
  const std::int64_t at_once = ceil_div(bands, pieces);
  std::atomic<std::int64_t> next = 0;  // relaxed: it deals bands out, the threads' end orders the rest
  side_by_side(static_cast<std::size_t>(threads), [&](std::size_t) {
    Copied copied(copy);
    for (std::int64_t begin = next.fetch_add(at_once, std::memory_order_relaxed); begin < bands;
         begin = next.fetch_add(at_once, std::memory_order_relaxed)) {
      for (std::int64_t number = begin; number < std::min(begin + at_once, bands); ++number) {
        const std::int64_t first = number % of_matrix * band;
        copied.copy_rows(number / of_matrix, first, std::min(first + band, copy.rows));
      }
    }
    finish_streaming();
  });
}

StridedMatrix transposed(const StridedMatrix& matrix) {
  return {matrix.address, matrix.column_stride, matrix.row_stride, matrix.matrix_stride};
}

/// The same copy, with the target's smaller stride along columns.
MatrixCopy along_target(MatrixCopy copy) {
  if (std::abs(copy.to.column_stride) <= std::abs(copy.to.row_stride)) return copy;
  std::swap(copy.rows, copy.columns);
  copy.from = transposed(copy.from);
  copy.to = transposed(copy.to);
  if (copy.part != CopiedPart::full) copy.part = copy.part == CopiedPart::lower ? CopiedPart::upper : CopiedPart::lower;
  return copy;
}

}  // namespace

void copy_matrix(const MatrixCopy& given, int processors) {
  if (given.rows <= 0 || given.columns <= 0 || given.count <= 0) return;
  const MatrixCopy copy = along_target(given);
  if (copy.conjugates) {
    copy.element_bytes == sizeof(std::complex<float>) ? copy_by_bands<std::complex<float>, true>(copy, processors)
                                                      : copy_by_bands<std::complex<double>, true>(copy, processors);
    return;
  }
  switch (copy.element_bytes) {
    case 1:
      return copy_by_bands<std::uint8_t, false>(copy, processors);
    case 2:
      return copy_by_bands<std::uint16_t, false>(copy, processors);
    case 4:
      return copy_by_bands<std::uint32_t, false>(copy, processors);
    case 8:
      return copy_by_bands<std::uint64_t, false>(copy, processors);
    default:
      return copy_by_bands<Pair, false>(copy, processors);
  }
}

}  // namespace tessera
