#include "kernels/host/cpu_lapack.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "calls/arguments.hpp"
#include "core/process.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/gemm_pieces.hpp"
#include "kernels/host/gemmt_pieces.hpp"
#include "kernels/host/small_solve.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/plan/cholesky_blocks.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_lapack.hpp"

namespace tessera::kernels {
namespace {

/// As in cpu_blas.cpp: a library reads the same value whether its integers have 32 or 64 bits.
using BlasInt = std::int64_t;
static_assert(std::endian::native == std::endian::little);

/// potrf, potri
using CholeskyFunction = void (*)(const char* uplo, const BlasInt* n, void* A, const BlasInt* lda, BlasInt* info,
                                  std::size_t);
using GetrfFunction = void (*)(const BlasInt* m, const BlasInt* n, void* A, const BlasInt* lda, void* ipiv,
                               BlasInt* info);
using GetrsFunction = void (*)(const char* trans, const BlasInt* n, const BlasInt* nrhs, const void* A,
                               const BlasInt* lda, const void* ipiv, void* B, const BlasInt* ldb, BlasInt* info,
                               std::size_t);
using GetriFunction = void (*)(const BlasInt* n, void* A, const BlasInt* lda, const void* ipiv, void* work,
                               const BlasInt* lwork, BlasInt* info);

// The sizes up to which OpenBLAS (0.3.21) uses only the calling thread, beside those of products.
constexpr index_t most_product = 64;
constexpr index_t most_of_solve = 7;  ///< rows or right-hand sides
constexpr index_t most_of_cholesky = 63;
constexpr index_t most_columns_of_panel = 32;
constexpr index_t most_elements_of_panel = 8192;
constexpr index_t most_of_getri = 64;
constexpr index_t most_of_getrs = 1;  ///< right-hand sides

/// Columns that getri handles together, in its workspace.
constexpr index_t columns_of_getri = 32;

constexpr index_t space_alignment = 64;
constexpr index_t aligned(index_t bytes) { return (bytes + space_alignment - 1) / space_alignment * space_alignment; }

/// Bytes of the matrix, or of getri's workspace, within the space.
index_t matrix_bytes(Routine routine, ScalarType type, index_t n) {
  if (!inverts(routine)) return 0;
  const index_t columns = n <= most_order_of_shared_inverse ? std::max(n, columns_of_getri) : columns_of_getri;
  return aligned(n * columns * static_cast<index_t>(element_bytes(type)));
}

struct View {
  std::byte* at = nullptr;
  index_t ld = 0;
  index_t element = 0;

  View block(index_t i, index_t j) const { return {at + (i + j * ld) * element, ld, element}; }
};

/// The matrix as a batch of one for the readable reference.
LapackBatch reference_batch(Routine routine, ScalarType type, const LapackForm& form, index_t m, index_t n, void* A,
                            index_t lda, int& info) {
  LapackBatch one;
  one.routine = routine;
  one.type = type;
  one.uplo = form.uplo;
  one.op = form.op;
  one.tiny = form.tiny;
  one.count = 1;
  one.m.of_all = one.max_m = m;
  one.n.of_all = one.max_n = n;
  one.A.first = A;
  one.lda.of_all = lda;
  one.info = &info;
  return one;
}

class OneProblem {
 public:
  OneProblem(const CpuBlas& blas, const LapackProblems& batch, const LapackProblem& problem, bool on_one_thread,
             std::byte* space)
      : blas_(blas),
        lapack_(blas.lapack()),
        routine_(batch.routine),
        type_(batch.type),
        form_(batch.form_of(problem)),
        problem_(problem),
        on_one_thread_(on_one_thread),
        space_(space),
        pivot_space_(space + matrix_bytes(batch.routine, batch.type, problem.n)) {}

  int run() const {
    const View A = view(problem_.A, problem_.lda);
    switch (routine_) {
      case Routine::potrf:
        return factor_cholesky(problem_.n, A);
      case Routine::posv: {
        const int info = factor_cholesky(problem_.n, A);
        if (info == 0) solve_cholesky(view(problem_.B, problem_.ldb), problem_.nrhs);
        return info;
      }
      case Routine::potrs:
        solve_cholesky(view(problem_.B, problem_.ldb), problem_.nrhs);
        return 0;
      case Routine::getrf:
      case Routine::getrf_nopiv:
        return factor_lu(problem_.m, problem_.n, A, problem_.ipiv);
      case Routine::gesv: {
        const int info = factor_lu(problem_.n, problem_.n, A, problem_.ipiv);
        if (info == 0) solve_lu(view(problem_.B, problem_.ldb), problem_.nrhs);
        return info;
      }
      case Routine::getrs:
        solve_lu(view(problem_.B, problem_.ldb), problem_.nrhs);
        return 0;
      case Routine::potri:
      case Routine::getri:
        return invert(A);
      default:
        return 0;
    }
  }

  /// Computes the problem by the readable reference.
  static int by_reference(const LapackProblems& batch, const LapackProblem& problem) {
    int info = 0;
    LapackBatch one = reference_batch(batch.routine, batch.type, batch.form_of(problem), problem.m, problem.n,
                                      problem.A, problem.lda, info);
    one.nrhs.of_all = one.max_nrhs = problem.nrhs;
    one.ldb.of_all = std::max<index_t>(problem.ldb, 1);
    one.B.first = problem.B;
    one.ipiv.first = problem.ipiv;
    reference_lapack_batch(one);
    return info;
  }

 private:
  View view(void* matrix, index_t ld) const {
    return {static_cast<std::byte*>(matrix), ld, static_cast<index_t>(element_bytes(type_))};
  }
  void* function(const LapackFunctions::OfType& functions) const { return functions[static_cast<std::size_t>(type_)]; }
  bool has_wide_pivots() const { return lapack_.integer_bits == 64; }

  // --- products and solves of Level 3 ---

  void multiply(const Level3& gemm) const {
    if (!on_one_thread_) return blas_.run(gemm);
    for_each_gemm_piece(gemm, most_product, [this](const Level3& piece) { blas_.run(piece); });
  }

  /// C -= op_a(A) op_b(B), C m x n.
  Level3 subtraction(index_t m, index_t n, index_t k, Op op_a, View A, Op op_b, View B, View C) const {
    return {.type = type_,
            .op_a = op_a,
            .op_b = op_b,
            .m = m,
            .n = n,
            .k = k,
            .alpha = -1,
            .A = A.at,
            .lda = A.ld,
            .B = B.at,
            .ldb = B.ld,
            .beta = 1,
            .C = C.at,
            .ldc = C.ld};
  }

  struct Triangle {
    Uplo uplo = Uplo::lower;
    Op op = Op::no_trans;
    Diag diag = Diag::non_unit;
    View A;
  };

  /// Solves op(A) X = C, or X op(A) = C; C is m x n.
  void solve(Side side, const Triangle& triangle, index_t m, index_t n, View C) const {
    if (m == 0 || n == 0) return;
    const Level3 trsm{.routine = Routine::trsm,
                      .type = type_,
                      .side = side,
                      .uplo = triangle.uplo,
                      .op_a = triangle.op,
                      .diag = triangle.diag,
                      .m = m,
                      .n = n,
                      .A = triangle.A.at,
                      .lda = triangle.A.ld,
                      .C = C.at,
                      .ldc = C.ld};
    const bool is_left = side == Side::left;
    const index_t order = is_left ? m : n;
    if (!on_one_thread_ || std::min(m, n) <= most_of_solve) return blas_.run(trsm);
    if (order <= most_order_of_small_solve) return solve_small(trsm);
    const bool is_lower = triangle.uplo == Uplo::lower;
    const index_t half = order / 8 * 4, rest = order - half;
    const View across = is_lower ? triangle.A.block(half, 0) : triangle.A.block(0, half);
    const View C2 = is_left ? C.block(half, 0) : C.block(0, half);
    Triangle last = triangle;
    last.A = triangle.A.block(half, half);
    // If op(A) is lower triangular on the left, or upper triangular on the right, the first half is solved first.
    const bool first_first = is_left == (is_lower == (triangle.op == Op::no_trans));
    const auto solve_half = [&](bool is_first) {
      const index_t own = is_first ? half : rest;
      solve(side, is_first ? triangle : last, is_left ? own : m, is_left ? n : own, is_first ? C : C2);
    };
    solve_half(first_first);
    const index_t solved = first_first ? half : rest, other = order - solved;
    const View X = first_first ? C : C2, left = first_first ? C2 : C;
    multiply(is_left ? subtraction(other, n, solved, triangle.op, across, Op::no_trans, X, left)
                     : subtraction(m, other, solved, Op::no_trans, X, triangle.op, across, left));
    solve_half(!first_first);
  }

  // --- Cholesky ---

  int factor_cholesky(index_t n, View A) const {
    if (!on_one_thread_ || n <= most_of_cholesky) return cholesky_leaf(n, A);
    const index_t half = (n / 2 + 31) / 32 * 32, rest = n - half;
    if (const int info = factor_cholesky(half, A); info != 0) return info;
    const View A22 = A.block(half, half);
    const bool is_lower = form_.uplo == Uplo::lower;
    const View across = is_lower ? A.block(half, 0) : A.block(0, half);
    const Triangle factor{.uplo = form_.uplo, .op = Op::conj_trans, .A = A};
    if (is_lower)
      solve(Side::right, factor, rest, half, across);
    else
      solve(Side::left, factor, half, rest, across);
    Level3 update = subtraction(rest, rest, half, is_lower ? Op::no_trans : Op::conj_trans, across,
                                is_lower ? Op::conj_trans : Op::no_trans, across, A22);
    update.routine = Routine::gemmt;
    update.uplo = form_.uplo;
    compute_gemmt_by_gemm(update, [this](const Level3& gemm) { multiply(gemm); });
    const int info = factor_cholesky(rest, A22);
    return info != 0 ? info + static_cast<int>(half) : 0;
  }

  int cholesky_leaf(index_t n, View A) const {
    const auto potrf = reinterpret_cast<CholeskyFunction>(function(lapack_.potrf));
    if (potrf == nullptr || !fits(n, A)) {
      int info = 0;
      reference_lapack_batch(reference_batch(Routine::potrf, type_, form_, n, n, A.at, A.ld, info));
      return info;
    }
    const BlasInt order = n, lda = A.ld;
    BlasInt told = 0;
    potrf(letter_of_uplo(), &order, A.at, &lda, &told, 1);
    const int info = static_cast<std::int32_t>(told);
    // OpenBLAS continues after a NaN: every later diagonal element is a NaN then.
    const index_t looked_at = info > 0 ? info - 1 : n;
    return dispatch(type_, [&]<Scalar T>(T) {
      for (index_t j = 0; j < looked_at; ++j) {
        if (std::isnan(std::real(element<T>(A, j, j)))) return static_cast<int>(j + 1);
      }
      return info;
    });
  }

  void solve_cholesky(View B, index_t columns) const {
    const bool is_lower = form_.uplo == Uplo::lower;
    Triangle factor{.uplo = form_.uplo, .A = view(problem_.A, problem_.lda)};
    for (const Op op : {is_lower ? Op::no_trans : Op::conj_trans, is_lower ? Op::conj_trans : Op::no_trans}) {
      factor.op = op;
      solve(Side::left, factor, problem_.n, columns, B);
    }
  }

  // --- LU ---

  int factor_lu(index_t m, index_t n, View A, int* ipiv) const {
    const index_t least = std::min(m, n);
    const bool is_panel = least <= 8 || (n <= most_columns_of_panel && m * n <= most_elements_of_panel);
    const bool swaps = ipiv != nullptr;
    if (is_panel || (!on_one_thread_ && swaps && function(lapack_.getrf) != nullptr)) return lu_panel(m, n, A, ipiv);
    const index_t half = (least / 2 + 7) / 8 * 8, rest = n - half;
    const View A12 = A.block(0, half), A21 = A.block(half, 0), A22 = A.block(half, half);
    const int first_info = factor_lu(m, half, A, ipiv);
    if (swaps) interchange(A12, rest, ipiv, half, true);
    solve(Side::left, {.uplo = Uplo::lower, .diag = Diag::unit, .A = A}, half, rest, A12);
    if (m > half) multiply(subtraction(m - half, rest, half, Op::no_trans, A21, Op::no_trans, A12, A22));
    int* const later = swaps ? ipiv + half : nullptr;
    const int info = factor_lu(m - half, rest, A22, later);
    if (swaps) {
      interchange(A21, half, later, least - half, true);
      std::for_each(later, ipiv + least, [&](int& row) { row += static_cast<int>(half); });
    }
    if (first_info != 0 || info == 0) return first_info;
    return info + static_cast<int>(half);
  }

  int lu_panel(index_t m, index_t n, View A, int* ipiv) const {
    if (m == 0 || n == 0) return 0;
    const auto getrf = reinterpret_cast<GetrfFunction>(function(lapack_.getrf));
    if (ipiv == nullptr || getrf == nullptr || !fits(std::max(m, n), A)) {
      int info = 0;
      const Routine routine = ipiv != nullptr ? Routine::getrf : Routine::getrf_nopiv;
      LapackBatch one = reference_batch(routine, type_, form_, m, n, A.at, A.ld, info);
      one.ipiv.first = ipiv;
      reference_lapack_batch(one);
      return info;
    }
    const BlasInt rows = m, columns = n, lda = A.ld;
    BlasInt told = 0;
    auto* const wide = reinterpret_cast<BlasInt*>(pivot_space_);
    getrf(&rows, &columns, A.at, &lda, has_wide_pivots() ? static_cast<void*>(wide) : ipiv, &told);
    if (has_wide_pivots()) std::transform(wide, wide + std::min(m, n), ipiv, [](BlasInt row) { return int(row); });
    return static_cast<std::int32_t>(told);
  }

  /// Pivots as the library has them; where there are none, no row moves.
  void take_pivots() const {
    auto* const wide = reinterpret_cast<BlasInt*>(pivot_space_);
    auto* const narrow = reinterpret_cast<std::int32_t*>(pivot_space_);
    for (index_t i = 0; i < problem_.n; ++i) {
      const BlasInt row = problem_.ipiv != nullptr ? problem_.ipiv[i] : i + 1;
      if (has_wide_pivots())
        wide[i] = row;
      else
        narrow[i] = static_cast<std::int32_t>(row);
    }
  }

  void solve_lu_by_blas(View A, View B, index_t columns) const {
    take_pivots();
    const BlasInt order = problem_.n, nrhs = columns, lda = A.ld, ldb = B.ld;
    BlasInt info = 0;
    const char* const trans = form_.op == Op::no_trans ? "N" : form_.op == Op::trans ? "T" : "C";
    reinterpret_cast<GetrsFunction>(function(lapack_.getrs))(trans, &order, &nrhs, A.at, &lda, pivot_space_, B.at, &ldb,
                                                             &info, 1);
  }

  /// Interchanges rows of so many columns by so many pivots, starting with the first or with the last pivot.
  void interchange(View matrix, index_t columns, const int* ipiv, index_t pivots, bool first_first) const {
    dispatch(type_, [&]<Scalar T>(T) {
      for (index_t j = 0; j < columns; ++j) {
        for (index_t t = 0; t < pivots; ++t) {
          const index_t i = first_first ? t : pivots - 1 - t, row = ipiv[i] - 1;
          if (row != i) std::swap(element<T>(matrix, i, j), element<T>(matrix, row, j));
        }
      }
    });
  }

  void solve_lu(View B, index_t columns) const {
    const View A = view(problem_.A, problem_.lda);
    const bool is_quiet = !on_one_thread_ || columns <= most_of_getrs;
    // For few columns, LAPACK's is quicker than two trsm.
    if (is_quiet && problem_.ipiv != nullptr && function(lapack_.getrs) != nullptr &&
        fits(std::max(problem_.n, columns), A) && fits(B.ld, A))
      return solve_lu_by_blas(A, B, columns);
    const bool is_plain = form_.op == Op::no_trans;
    const auto swap_rows = [&] {
      if (problem_.ipiv != nullptr) interchange(B, columns, problem_.ipiv, problem_.n, is_plain);
    };
    const Triangle lower{.uplo = Uplo::lower, .op = form_.op, .diag = Diag::unit, .A = A};
    const Triangle upper{.uplo = Uplo::upper, .op = form_.op, .A = A};
    if (is_plain) swap_rows();
    solve(Side::left, is_plain ? lower : upper, problem_.n, columns, B);
    solve(Side::left, is_plain ? upper : lower, problem_.n, columns, B);
    if (!is_plain) swap_rows();
  }

  // --- inverses ---

  int invert(View A) const {
    const index_t n = problem_.n;
    const bool is_cholesky = routine_ == Routine::potri;
    if (const int zero = first_zero_on_diagonal(A); zero != 0) return zero;
    const bool by_blas = fits(n, A) && (!on_one_thread_ || (!is_cholesky && n <= most_of_getri));
    if (by_blas && is_cholesky && function(lapack_.potri) != nullptr) return invert_cholesky_by_blas(A);
    if (by_blas && !is_cholesky && function(lapack_.getri) != nullptr) return invert_lu_by_blas(A);
    if (n > most_order_of_shared_inverse) {
      LapackProblems batch;
      batch.routine = routine_;
      batch.type = type_;
      batch.forms = {form_};
      LapackProblem problem = problem_;
      problem.form = 0;
      return by_reference(batch, problem);
    }
    const View X = view(space_, n);
    make_identity(X);
    is_cholesky ? solve_cholesky(X, n) : solve_lu(X, n);
    copy_inverse(A, X);
    return 0;
  }

  int first_zero_on_diagonal(View A) const {
    return dispatch(type_, [&]<Scalar T>(T) {
      for (index_t j = 0; j < problem_.n; ++j) {
        if (element<T>(A, j, j) == T(0)) return static_cast<int>(j + 1);
      }
      return 0;
    });
  }

  int invert_cholesky_by_blas(View A) const {
    const BlasInt order = problem_.n, lda = A.ld;
    BlasInt info = 0;
    reinterpret_cast<CholeskyFunction>(function(lapack_.potri))(letter_of_uplo(), &order, A.at, &lda, &info, 1);
    return static_cast<std::int32_t>(info);
  }

  int invert_lu_by_blas(View A) const {
    const index_t n = problem_.n;
    const BlasInt order = n, lda = A.ld, work_size = n * std::min(columns_of_getri, n);
    take_pivots();
    BlasInt info = 0;
    reinterpret_cast<GetriFunction>(function(lapack_.getri))(&order, A.at, &lda, pivot_space_, space_, &work_size,
                                                             &info);
    return static_cast<std::int32_t>(info);
  }

  void make_identity(View X) const {
    dispatch(type_, [&]<Scalar T>(T) {
      for (index_t j = 0; j < problem_.n; ++j) {
        for (index_t i = 0; i < problem_.n; ++i) element<T>(X, i, j) = T(i == j ? 1 : 0);
      }
    });
  }

  /// Copies the part of X that the routine writes.
  void copy_inverse(View A, View X) const {
    const index_t n = problem_.n;
    const Part part = part_of_factors(routine_, form_.uplo);
    dispatch(type_, [&]<Scalar T>(T) {
      for (index_t j = 0; j < n; ++j) {
        const index_t first = part == Part::lower ? j : 0, last = part == Part::upper ? j + 1 : n;
        for (index_t i = first; i < last; ++i) element<T>(A, i, j) = element<T>(X, i, j);
        if (part != Part::full) element<T>(A, j, j) = T(std::real(element<T>(X, j, j)));
      }
    });
  }

  template <Scalar T>
  static T& element(View matrix, index_t i, index_t j) {
    return *reinterpret_cast<T*>(matrix.block(i, j).at);
  }
  bool fits(index_t size, View A) const {
    return lapack_.integer_bits == 64 || std::max(size, A.ld) <= std::numeric_limits<std::int32_t>::max();
  }
  const char* letter_of_uplo() const { return form_.uplo == Uplo::lower ? "L" : "U"; }

  const CpuBlas& blas_;
  const LapackFunctions& lapack_;
  const Routine routine_;
  const ScalarType type_;
  const LapackForm& form_;
  const LapackProblem& problem_;
  const bool on_one_thread_;
  std::byte* const space_;
  std::byte* const pivot_space_;
};

}  // namespace

LapackFunctions LapackFunctions::find(void* handle, const SymbolScheme& scheme, int integer_bits) {
  LapackFunctions found;
  found.integer_bits = integer_bits;
  const std::pair<const char*, OfType*> names[] = {{"potrf", &found.potrf},
                                                   {"potri", &found.potri},
                                                   {"getrf", &found.getrf},
                                                   {"getrs", &found.getrs},
                                                   {"getri", &found.getri}};
  for (const auto& [name, functions] : names) {
    for (const ScalarType type : scalar_types)
      (*functions)[static_cast<std::size_t>(type)] =
          dlsym(handle, scheme.fortran(letter(type) + std::string(name)).c_str());
  }
  return found;
}

std::size_t lapack_space_bytes(Routine routine, ScalarType type, index_t n) {
  const index_t pivots = aligned(n * index_t{sizeof(BlasInt)});
  return static_cast<std::size_t>(matrix_bytes(routine, type, n) + (is_hermitian(routine) ? 0 : pivots));
}

int run_lapack(const CpuBlas* blas, const LapackProblems& batch, const LapackProblem& problem, bool on_one_thread,
               std::byte* space) {
  if (blas == nullptr) return OneProblem::by_reference(batch, problem);
  const process::Pass pass(process::Work::computing);
  return OneProblem(*blas, batch, problem, on_one_thread, space).run();
}

int factor_tile(const TileFactorization& tile, const std::function<void(const Level3&)>& compute) {
  constexpr index_t block_order = 64;  // a block's work is a negligible part of a tile's, at any rate
  int info = 0;
  const auto factor = [&](index_t first, index_t size) {
    int failed = 0;
    auto* const block =
        static_cast<std::byte*>(tile.A) + first * (tile.lda + 1) * static_cast<index_t>(element_bytes(tile.type));
    reference_lapack_batch(
        reference_batch(Routine::potrf, tile.type, {.uplo = tile.uplo}, size, size, block, tile.lda, failed));
    if (failed > 0) info = static_cast<int>(first) + failed;
    return failed == 0;
  };
  plan::factor_in_blocks(tile, block_order, factor, compute);
  return info;
}

}  // namespace tessera::kernels
