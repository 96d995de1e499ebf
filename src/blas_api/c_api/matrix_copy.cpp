// Copies of matrices by the own C API (tessera/tessera.h).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "blas_api/c_api/context.hpp"
#include "core/error.hpp"
#include "core/host_share.hpp"
#include "core/matrix_copy.hpp"
#include "tessera/tessera.h"

using tessera::require_argument;

namespace {

tessera::CopiedPart part_of(int part) {
  switch (part) {
    case TESSERA_COPY_UPPER:
      return tessera::CopiedPart::upper;
    case TESSERA_COPY_LOWER:
      return tessera::CopiedPart::lower;
    default:
      require_argument(part == TESSERA_COPY_FULL, 1, "part is not a tessera_copied_part");
      return tessera::CopiedPart::full;
  }
}

/// The bytes that steps of a stride lead over stay within any memory.
bool is_reachable(std::int64_t count, std::int64_t stride) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;
  return stride != std::numeric_limits<std::int64_t>::min() && (count <= 1 || std::abs(stride) <= most / (count - 1));
}

/// @param of_to the place of `to` among the arguments: strides of a stack may stand between
void check(const tessera::MatrixCopy& copy, int of_to) {
  require_argument(copy.rows >= 0, 3, "rows is negative");
  require_argument(copy.columns >= 0, 4, "cols is negative");
  const std::size_t bytes = copy.element_bytes;
  const bool is_element =
      copy.conjugates ? bytes == 8 || bytes == 16 : bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
  require_argument(is_element, 5, "no element has so many bytes");
  const bool is_empty = copy.rows == 0 || copy.columns == 0 || copy.count == 0;
  const auto check_matrices = [&](const tessera::StridedMatrix& matrices, int place, const char* what) {
    constexpr const char* too_far = "the stride leads beyond any memory";
    require_argument(is_empty || matrices.address != nullptr, place, what);
    require_argument(is_reachable(copy.rows, matrices.row_stride), place + 1, too_far);
    require_argument(is_reachable(copy.columns, matrices.column_stride), place + 2, too_far);
    require_argument(is_reachable(copy.count, matrices.matrix_stride), place + 3, too_far);
  };
  check_matrices(copy.from, 6, "from is null");
  check_matrices(copy.to, of_to, "to is null");
}

tessera::StridedMatrix matrices_at(const void* address, int64_t row_stride, int64_t col_stride, int64_t stride) {
  return {static_cast<std::byte*>(const_cast<void*>(address)), row_stride, col_stride, stride};
}

/// @param part a number: an enumerator of C may have any value @param of_to see check()
void check_and_copy(int part, int conjugate, tessera::MatrixCopy copy, int of_to) {
  copy.part = part_of(part);
  copy.conjugates = conjugate != 0;
  check(copy, of_to);
  copy_matrix(copy, tessera::available_processors(1));
}

}  // namespace

extern "C" tessera_status tessera_copy_matrix(tessera_copied_part part, int conjugate, int64_t rows, int64_t cols,
                                              size_t element_size, const void* from, int64_t from_row_stride,
                                              int64_t from_col_stride, void* to, int64_t to_row_stride,
                                              int64_t to_col_stride) {
  return tessera::c_api::guarded([&] {
    check_and_copy(+part, conjugate,
                   {.rows = rows,
                    .columns = cols,
                    .element_bytes = element_size,
                    .from = matrices_at(from, from_row_stride, from_col_stride, 0),
                    .to = matrices_at(to, to_row_stride, to_col_stride, 0)},
                   9);
  });
}

extern "C" tessera_status tessera_copy_matrix_batch_strided(tessera_copied_part part, int conjugate, int64_t rows,
                                                            int64_t cols, size_t element_size, const void* from,
                                                            int64_t from_row_stride, int64_t from_col_stride,
                                                            int64_t from_stride, void* to, int64_t to_row_stride,
                                                            int64_t to_col_stride, int64_t to_stride,
                                                            int64_t batch_size) {
  return tessera::c_api::guarded([&] {
    require_argument(batch_size >= 0, 14, "batch_size is negative");
    check_and_copy(+part, conjugate,
                   {.rows = rows,
                    .columns = cols,
                    .element_bytes = element_size,
                    .from = matrices_at(from, from_row_stride, from_col_stride, from_stride),
                    .to = matrices_at(to, to_row_stride, to_col_stride, to_stride),
                    .count = batch_size},
                   10);
  });
}
