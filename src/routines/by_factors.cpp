// LU, Cholesky and QR by the name of their routine, and solves by the factors.
#include "routines/by_factors.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/side_by_side.hpp"
#include "routines/lapack.hpp"

namespace tessera::routines {
namespace {

/// Cholesky: L L^H X = B, or U^H U X = B.
std::vector<Triangle> triangles_of_cholesky(Uplo uplo) {
  if (uplo == Uplo::lower) return {{uplo, Op::no_trans}, {uplo, Op::conj_trans}};
  return {{uplo, Op::conj_trans}, {uplo, Op::no_trans}};
}
/// P^T L U X = B, or its transpose.
std::vector<Triangle> triangles_of_lu(Op op) {
  const Triangle L{Uplo::lower, op, Diag::unit}, U{Uplo::upper, op, Diag::non_unit};
  if (op == Op::no_trans) return {L, U};
  return {U, L};
}

enum class PivotOrder : std::uint8_t { first_to_last, last_to_first };

/// Columns are taken one by one, so that what is random stays within one; these are taken at once by a thread.
constexpr index_t columns_of_piece = 16;
/// Pages of elements of a column, where columns are interchanged: what a thread swaps lies side by side.
constexpr index_t rows_of_piece = 512;
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

/// The elements of rows [first, end) of all n columns.
template <Scalar T, class Integer>
void interchange_columns(T* B, index_t ldb, index_t first, index_t end, const Integer* ipiv, index_t n,
                         PivotOrder order) {
  for (index_t i = 0; i < n; ++i) {
    const index_t column = order == PivotOrder::first_to_last ? i : n - 1 - i;
    const auto other = static_cast<index_t>(ipiv[column]) - 1;
    if (other != column) std::swap_ranges(B + column * ldb + first, B + column * ldb + end, B + other * ldb + first);
  }
}

/// Of all n rows of B by call.ipiv, or all n columns where X is on the left. Columns, or rows, are dealt to so many threads, the
/// caller's included, where they are worth it.
void interchange(const LapackCall& call, PivotOrder order, int processors) {
  const index_t piece = call.side == Side::left ? columns_of_piece : rows_of_piece;
  std::atomic<index_t> next = 0;
  const auto take_pieces = [&](std::size_t) {
    for (index_t first = next.fetch_add(piece); first < call.k; first = next.fetch_add(piece)) {
      const index_t end = std::min(first + piece, call.k);
      dispatch(call.type, [&]<Scalar T>(T) {
        T* const B = static_cast<T*>(call.B);
        dispatch_pivots(call, [&](const auto* ipiv) {
          if (call.side == Side::right) return interchange_columns(B, call.ldb, first, end, ipiv, call.n, order);
          for (index_t j = first; j < end; ++j) interchange_column(B + j * call.ldb, ipiv, call.n, order);
        });
      });
    }
  };
  const index_t pieces = (call.k + piece - 1) / piece;
  const index_t worth_it = call.n * call.k / interchanges_of_thread + 1;
  const index_t threads = std::clamp<index_t>(std::min(pieces, worth_it), 1, std::max(processors, 1));
  side_by_side(static_cast<std::size_t>(threads), take_pieces);
}

}  // namespace

Level3 triangular_solve(const LapackCall& call, const Triangle& triangle) {
  return {.routine = Routine::trsm,
          .type = call.type,
          .side = call.side,
          .uplo = triangle.uplo,
          .op_a = triangle.op,
          .diag = triangle.diag,
          .m = call.side == Side::left ? call.n : call.k,
          .n = call.side == Side::left ? call.k : call.n,
          .A = call.A,
          .lda = call.lda,
          .C = call.B,
          .ldc = call.ldb};
}

runtime::JobStatistics factor(runtime::Runtime& runtime, const LapackCall& call, index_t tile,
                              const runtime::CpuHelp& cpu) {
  if (is_hermitian(call.routine)) return cholesky(runtime, {call.type, call.uplo, call.n, call.A, call.lda}, tile, cpu);
  const index_t m = rows_of(call);
  if (makes_reflectors(call.routine)) {
    const ReflectorStorage storage = is(call.routine, in_rows) ? ReflectorStorage::rows : ReflectorStorage::columns;
    return qr(runtime, {call.type, m, call.n, call.A, call.lda, call.tau, storage}, tile, cpu);
  }
  std::vector<index_t> pivots(static_cast<std::size_t>(std::min(m, call.n)), 0);
  runtime::JobStatistics job;
  try {
    job = lu(runtime, {call.type, m, call.n, call.A, call.lda, pivots.data()}, tile, cpu);
  } catch (const std::bad_alloc&) {
    // Pivots are told when A has its factors, but for interchanges that need memory.
    if (pivots.front() == 0) throw;
    throw DeviceLost("memory ran out while results were written");
  }
  dispatch_pivots(call, [&]<class Integer>(Integer* ipiv) {
    std::transform(pivots.begin(), pivots.end(), ipiv, [](index_t row) { return static_cast<Integer>(row); });
  });
  return job;
}

void solve_by_factors(const LapackCall& call, int processors, const std::function<void(const Level3&)>& solve) {
  const bool has_pivots = !is_hermitian(call.routine);
  const Op op = call.routine == Routine::getrs ? call.op : Op::no_trans;
  std::vector<Triangle> triangles = has_pivots ? triangles_of_lu(op) : triangles_of_cholesky(call.uplo);
  // X op(A) = B is op(A)^T X^T = B^T, so that all comes in the other order.
  const bool is_right = call.side == Side::right;
  if (is_right) std::reverse(triangles.begin(), triangles.end());
  const bool interchanges_first = (op == Op::no_trans) != is_right;
  if (has_pivots && interchanges_first) interchange(call, PivotOrder::first_to_last, processors);
  for (const Triangle& triangle : triangles) solve(triangular_solve(call, triangle));
  if (has_pivots && !interchanges_first) interchange(call, PivotOrder::last_to_first, processors);
}

}  // namespace tessera::routines
