#include "offload/row_interchanges.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "core/side_by_side.hpp"

namespace tessera::offload {
namespace {

/// Columns are taken one by one, so that what is random stays within one; these are taken at once by a thread.
constexpr index_t columns_of_piece = 16;
/// A thread takes some ten microseconds to start; as many interchanges are not worth it.
constexpr index_t interchanges_of_thread = index_t{1} << 18;

template <Scalar T, class Integer>
void interchange_column(T* column, const Integer* ipiv, index_t n, PivotOrder order) {
  for (index_t i = 0; i < n; ++i) {
    const index_t row = order == PivotOrder::first_to_last ? i : n - 1 - i;
    const auto other = static_cast<index_t>(ipiv[row]) - 1;
    if (other != row) std::swap(column[row], column[other]);
  }
}

}  // namespace

void interchange_rows(const LapackCall& call, PivotOrder order, int processors) {
  std::atomic<index_t> next = 0;
  const auto interchange = [&](std::size_t) {
    for (index_t first = next.fetch_add(columns_of_piece); first < call.k; first = next.fetch_add(columns_of_piece)) {
      const index_t end = std::min(first + columns_of_piece, call.k);
      dispatch(call.type, [&]<Scalar T>(T) {
        dispatch_pivots(call, [&](const auto* ipiv) {
          for (index_t j = first; j < end; ++j)
            interchange_column(static_cast<T*>(call.B) + j * call.ldb, ipiv, call.n, order);
        });
      });
    }
  };
  const index_t pieces = (call.k + columns_of_piece - 1) / columns_of_piece;
  const index_t worth_it = call.n * call.k / interchanges_of_thread + 1;
  const index_t threads = std::clamp<index_t>(std::min(pieces, worth_it), 1, std::max(processors, 1));
  side_by_side(static_cast<std::size_t>(threads), interchange);
}

}  // namespace tessera::offload
