// Matrices of the own C API whose results stay on devices (tessera/matrix.h). Calls find them by their addresses
// (runtime/lazy_matrices.hpp).
#include "tessera/matrix.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <shared_mutex>
#include <utility>

#include "blas_api/c_api/context.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "runtime/lazy_matrices.hpp"

using tessera::index_t;
using tessera::require_argument;
using tessera::c_api::guarded;
using tessera::device::HostMatrix;
using Part = tessera::runtime::LazyMatrix::Part;

/// Addresses without memory, until they are written.
class MappedAddresses {
 public:
  MappedAddresses() = default;
  explicit MappedAddresses(std::size_t bytes) : bytes_(bytes) {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(made);
  }
  ~MappedAddresses() {
    if (begin_ != nullptr) munmap(begin_, bytes_);
  }
  MappedAddresses(MappedAddresses&&) = delete;
  MappedAddresses& operator=(MappedAddresses&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

struct tessera_matrix_struct {
  tessera_context ctx = nullptr;
  std::uint64_t maker = tessera::process::identity();
  tessera_layout layout = TESSERA_COL_MAJOR;
  int64_t rows = 0, cols = 0, ld = 0;
  index_t element_bytes = 0;
  HostMatrix place;
  MappedAddresses own;                                 ///< none: the memory is the caller's
  std::unique_ptr<tessera::runtime::LazyMatrix> lazy;  ///< none: there are no devices
};

namespace {

bool is_row_major(tessera_layout layout) { return layout == TESSERA_ROW_MAJOR; }

void check_shape(tessera_context ctx, int layout, int64_t rows, int64_t cols, std::size_t element_size) {
  require_argument(ctx != nullptr, 1, "ctx is null");
  require_argument(layout == TESSERA_ROW_MAJOR || layout == TESSERA_COL_MAJOR, 2, "layout is not a tessera_layout");
  require_argument(rows >= 1, 3, "rows is less than 1");
  require_argument(cols >= 1, 4, "cols is less than 1");
  require_argument(element_size >= 1 && element_size <= 16, 5, "no element has so many bytes");
}

/// @return the bytes of the matrix, what lies between its runs included @throws InvalidArgument if no memory has so
/// many
index_t bytes_of(int64_t runs, int64_t ld, index_t element, int position) {
  constexpr index_t most = std::numeric_limits<index_t>::max() / 4;
  require_argument(ld <= most / element / runs, position, "the matrix reaches beyond any memory");
  return runs * ld * element;
}

std::unique_ptr<tessera_matrix_struct> describe(tessera_context ctx, tessera_layout layout, int64_t rows, int64_t cols,
                                                std::size_t element_size) {
  auto made = std::make_unique<tessera_matrix_struct>();
  made->ctx = ctx;
  made->layout = layout;
  made->rows = rows;
  made->cols = cols;
  made->element_bytes = static_cast<index_t>(element_size);
  return made;
}

/// Makes it known at its place. @param position of the argument that names the place
tessera_matrix make_known(std::unique_ptr<tessera_matrix_struct> made, std::byte* address, int64_t ld, int position) {
  const bool by_rows = is_row_major(made->layout);
  const index_t element = made->element_bytes;
  made->ld = ld;
  made->place = {address, ld * element, (by_rows ? made->cols : made->rows) * element,
                 by_rows ? made->rows : made->cols};
  const std::shared_lock alive(made->ctx->in_use);
  if (tessera::runtime::LazyMatrices* const matrices = made->ctx->context.place_of_matrices()) {
    made->lazy = tessera::runtime::LazyMatrix::make(*matrices, made->place);
    require_argument(made->lazy != nullptr, position, "another matrix overlaps this one");
  }
  made->ctx->matrices.fetch_add(1);
  return made.release();
}

/// A child after fork has no devices, and the locks may be held for ever.
void check_owner(tessera_matrix matrix) {
  require_argument(matrix != nullptr, 1, "matrix is null");
  if (matrix->maker != tessera::process::identity())
    throw tessera::NotAvailable("the matrix belongs to the process that this one is a child of");
}

/// Of a checked block.
Part block_of(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  check_owner(matrix);
  require_argument(row >= 0 && row <= matrix->rows, 2, "row is not in the matrix");
  require_argument(col >= 0 && col <= matrix->cols, 3, "col is not in the matrix");
  require_argument(rows >= 0 && rows <= matrix->rows - row, 4, "rows leads out of the matrix");
  require_argument(cols >= 0 && cols <= matrix->cols - col, 5, "cols leads out of the matrix");
  const index_t element = matrix->element_bytes;
  if (is_row_major(matrix->layout)) return {col * element, row, cols * element, rows};
  return {row * element, col, rows * element, cols};
}

/// Of memory beside the matrix, for that block. @return its bytes from run to run
index_t pitch_of(tessera_matrix matrix, const Part& block, const void* memory, int64_t ld) {
  require_argument(memory != nullptr || block.bytes() == 0, 6, "the memory is null");
  require_argument(ld >= block.column_bytes / matrix->element_bytes, 7, "the leading dimension is too small");
  static_cast<void>(bytes_of(std::max<int64_t>(block.columns, 1), ld, matrix->element_bytes, 7));
  return ld * matrix->element_bytes;
}

std::byte* place_of(tessera_matrix matrix, const Part& block) {
  return matrix->place.address + block.first_column * matrix->place.pitch_bytes + block.first_byte;
}

void copy_runs(std::byte* to, index_t to_pitch, const std::byte* from, index_t from_pitch, const Part& block) {
  for (index_t j = 0; j < block.columns; ++j)
    std::memcpy(to + j * to_pitch, from + j * from_pitch, static_cast<std::size_t>(block.column_bytes));
}

}  // namespace

extern "C" {

tessera_status tessera_matrix_create(tessera_context ctx, tessera_layout layout, int64_t rows, int64_t cols,
                                     size_t element_size, void* memory, int64_t ld, tessera_matrix* matrix) {
  return guarded([&] {
    check_shape(ctx, +layout, rows, cols, element_size);
    const bool by_rows = is_row_major(layout);
    require_argument(memory != nullptr, 6, "memory is null");
    require_argument(ld >= (by_rows ? cols : rows), 7, "ld is too small");
    require_argument(matrix != nullptr, 8, "matrix is null");
    *matrix = nullptr;
    auto made = describe(ctx, layout, rows, cols, element_size);
    static_cast<void>(bytes_of(by_rows ? rows : cols, ld, made->element_bytes, 7));
    *matrix = make_known(std::move(made), static_cast<std::byte*>(memory), ld, 6);
  });
}

tessera_status tessera_matrix_create_on_devices(tessera_context ctx, tessera_layout layout, int64_t rows, int64_t cols,
                                                size_t element_size, tessera_matrix* matrix) {
  return guarded([&] {
    check_shape(ctx, +layout, rows, cols, element_size);
    require_argument(matrix != nullptr, 6, "matrix is null");
    *matrix = nullptr;
    auto made = describe(ctx, layout, rows, cols, element_size);
    const int64_t run = is_row_major(layout) ? cols : rows;
    const index_t bytes = bytes_of(is_row_major(layout) ? rows : cols, run, made->element_bytes, 3);
    made->own = MappedAddresses(static_cast<std::size_t>(bytes));
    std::byte* const begin = made->own.begin();
    *matrix = make_known(std::move(made), begin, run, 6);
  });
}

void* tessera_matrix_address(tessera_matrix matrix) { return matrix != nullptr ? matrix->place.address : nullptr; }

int64_t tessera_matrix_ld(tessera_matrix matrix) { return matrix != nullptr ? matrix->ld : 0; }

tessera_status tessera_matrix_sync(tessera_matrix matrix) {
  return guarded([&] {
    check_owner(matrix);
    const std::shared_lock alive(matrix->ctx->in_use);
    if (matrix->lazy) matrix->lazy->settle();
  });
}

tessera_status tessera_matrix_host_changed(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows,
                                           int64_t cols) {
  return guarded([&] {
    const auto block = block_of(matrix, row, col, rows, cols);
    const std::shared_lock alive(matrix->ctx->in_use);
    if (matrix->lazy && block.bytes() > 0) matrix->lazy->write(block, {});
  });
}

tessera_status tessera_matrix_read(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows, int64_t cols,
                                   void* to, int64_t ldto) {
  return guarded([&] {
    const auto block = block_of(matrix, row, col, rows, cols);
    const index_t pitch = pitch_of(matrix, block, to, ldto);
    if (block.bytes() == 0) return;
    const std::shared_lock alive(matrix->ctx->in_use);
    auto* const target = static_cast<std::byte*>(to);
    if (matrix->lazy) return matrix->lazy->read(block, {target, pitch});
    copy_runs(target, pitch, place_of(matrix, block), matrix->place.pitch_bytes, block);
  });
}

tessera_status tessera_matrix_write(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows, int64_t cols,
                                    const void* from, int64_t ldfrom) {
  return guarded([&] {
    const auto block = block_of(matrix, row, col, rows, cols);
    const index_t pitch = pitch_of(matrix, block, from, ldfrom);
    if (block.bytes() == 0) return;
    const std::shared_lock alive(matrix->ctx->in_use);
    const auto write = [&] {
      copy_runs(place_of(matrix, block), matrix->place.pitch_bytes, static_cast<const std::byte*>(from), pitch, block);
    };
    matrix->lazy ? matrix->lazy->write(block, write) : write();
  });
}

tessera_status tessera_matrix_resident_bytes(tessera_matrix matrix, int64_t* bytes) {
  return guarded([&] {
    check_owner(matrix);
    require_argument(bytes != nullptr, 2, "bytes is null");
    const std::shared_lock alive(matrix->ctx->in_use);
    *bytes = matrix->lazy ? matrix->lazy->resident_bytes() : 0;
  });
}

tessera_status tessera_matrix_destroy(tessera_matrix matrix) {
  return guarded([&] {
    if (matrix == nullptr) return;
    const std::shared_lock alive(matrix->ctx->in_use);
    const std::unique_ptr<tessera_matrix_struct> ends(matrix);
    matrix->ctx->matrices.fetch_sub(1);
    if (matrix->maker != tessera::process::identity()) {
      static_cast<void>(matrix->lazy.release());  // its locks may be held for ever
    } else if (matrix->lazy && matrix->own.begin() == nullptr) {
      matrix->lazy->settle();
    }
  });
}

}  // extern "C"
