// One problem of LAPACK as data: what the faces check and hand down, and what devices, their libraries or the CPU's LAPACK compute.
// Column-major.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "calls/lapack.hpp"
#include "calls/routine.hpp"
#include "core/error.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// Singular vectors on one side: none, the first min(m, n), all, or the first min(m, n) in place of A.
enum class VectorJob : std::uint8_t { none, thin, all, overwrite };

/// Which eigenvalues: all, those in (vl, vu], those with the numbers il .. iu, from 1.
enum class EigenRange : std::uint8_t { all, values, indices };

/// How a block of reflectors is stored: in columns or rows, and in which order they are multiplied.
enum class ReflectorStorage : std::uint8_t { columns, rows };
enum class ReflectorOrder : std::uint8_t { forward, backward };

/// By routine. Real means the type that absolute values have.
///
///   potrf   the `uplo` triangle of A, n x n Hermitian, becomes its Cholesky factor
///   potrs   B n x k becomes X of A X = B, by the Cholesky factor in the `uplo` triangle of A
///   posv    potrf, and if that has succeeded, potrs
///   getrf   A m x n becomes its factors L and U; ipiv: min(m, n) interchanges of rows
///   getrs   B n x k becomes X of op(A) X = B, by the factors in A and ipiv
///   gesv    getrf of A, n x n, and if that has succeeded, getrs
///   geqrf   A m x n becomes R and min(m, n) reflectors, with tau
///   gelqf   likewise L and reflectors in rows
///   sytrf, hetrf   the `uplo` triangle of A, n x n symmetric or Hermitian, becomes its factors by Bunch and Kaufman. A negative
///           pivot, which stands in ipiv twice, belongs to a 2 x 2 block of the diagonal
///   sytrs, hetrs, sysv, hesv   as potrs and posv, by these factors
///   heevd   A n x n Hermitian, its `uplo` triangle is read; values: n reals, ascending; vectors take the place of A, all of it
///   heevr   A likewise, stays as it is; values: as many reals as are found; vectors in U, n x found
///   hegvd   A x = lambda B x (itype 1), A B x = lambda x (2), B A x = lambda x (3); B's triangle gets the Cholesky factor
///   gesdd, gesvd   A m x n = U diag(values) VT; jobs `u` and `vt`, of which one may be overwrite. gesdd's O overwrites U and
///           wants all of VT where m >= n, else overwrites VT and wants all of U
///   ungqr   A m x n becomes the first n columns of the Q of the k reflectors in its first columns and tau
///   unglq   A m x n becomes the first m rows of the Q of LQ, of the k reflectors in its first rows and tau
///   unmqr   B m x n becomes op(Q) B or B op(Q); A has the k reflectors, of m or n rows
///   unmlq   likewise with the Q of LQ: A has the k reflectors in its rows, of m or n columns
///   unmtr   likewise with the Q that reduces a Hermitian matrix: m - 1 or n - 1 reflectors in the `uplo` triangle of A
///   larfb   B m x n becomes op(H) B or B op(H), H = I - V T V^H (columns) or I - V^H T V (rows), of k reflectors. V is A, of
///           m or n rows (columns), T the k x k triangle: the upper one forward, else the lower
///   geev    A n x n, stays as it is; values, and right vectors in U. Real types: values has the real parts, imaginary
///           the others, and U pairs of columns as LAPACK packs them; complex types: values are complex
///   gels    B, max(m, n) x k, of which the first rows are read, becomes X of least |op(A) X - B|, or the least X itself.
///           The residuals lie behind X. A m x n of full rank becomes its factors
///   gelsd   likewise by A's singular values, which go to values; those up to rcond times the largest count as zero. found: rank
///   trtrs   op(A) X = B by the `uplo` triangle of A, n x n; X takes the place of B, n x k. All devices share it
///   posv, potrs, gesv, getrs, trtrs   with side == right: X op(A) = B, of which B is k x n
///   trtri   the `uplo` triangle of A becomes its inverse; diag == unit: the diagonal is not looked at
///   lauum   the `uplo` triangle of A becomes that of U U^H or L^H L
///   getri   A, the factors of getrf with ipiv, becomes the inverse
///   potri   the `uplo` triangle of A, a Cholesky factor, becomes that of the inverse
struct LapackCall {
  Routine routine = Routine::getrf;
  ScalarType type = ScalarType::d;
  bool vectors = false;
  VectorJob u = VectorJob::none, vt = VectorJob::none;
  EigenRange range = EigenRange::all;
  Uplo uplo = Uplo::lower;
  Diag diag = Diag::non_unit;
  Side side = Side::left;
  Op op = Op::no_trans;
  ReflectorStorage storage = ReflectorStorage::columns;
  ReflectorOrder order = ReflectorOrder::forward;
  int itype = 1;
  index_t m = 0, n = 0, k = 0;
  double vl = 0, vu = 0;
  index_t il = 0, iu = 0;
  double rcond = 0;
  void* A = nullptr;
  index_t lda = 0;  ///< elements, as are the others
  void* B = nullptr;
  index_t ldb = 0;
  void* U = nullptr;
  index_t ldu = 0;
  void* VT = nullptr;
  index_t ldvt = 0;
  void* T = nullptr;
  index_t ldt = 0;
  void* values = nullptr;
  void* imaginary = nullptr;
  void* tau = nullptr;
  void* ipiv = nullptr;  ///< integers of ipiv_bits, from 1
  int ipiv_bits = 64;
  index_t* found = nullptr;  ///< heevr: how many eigenvalues there are, gelsd: the rank; may be nullptr
};

/// These numbers are not for devices, or did not come out right there: LAPACK itself has to deal with them. Nothing that
/// the caller handed in has been changed.
class __attribute__((visibility("default"))) UnsuitableNumbers : public NotAvailable {
 public:
  using NotAvailable::NotAvailable;
};

inline std::string name_of(const LapackCall& problem) {
  return letter(problem.type) + std::string(name_of(problem.routine, problem.type));
}

constexpr index_t real_bytes(ScalarType type) {
  return type == ScalarType::s || type == ScalarType::c ? index_t{sizeof(float)} : index_t{sizeof(double)};
}
constexpr Part part_of(Uplo uplo) { return uplo == Uplo::lower ? Part::lower : Part::upper; }

enum class LapackSlot : std::uint8_t { A, B, U, VT, T, values, imaginary, tau, ipiv };

inline void*& address_of(LapackCall& problem, LapackSlot slot) {
  void** const addresses[] = {&problem.A,      &problem.B,         &problem.U,   &problem.VT,  &problem.T,
                              &problem.values, &problem.imaginary, &problem.tau, &problem.ipiv};
  return *addresses[static_cast<int>(slot)];
}
/// @pre the slot has one
inline index_t& ld_of(LapackCall& problem, LapackSlot slot) {
  index_t* const lds[] = {&problem.lda, &problem.ldb, &problem.ldu, &problem.ldvt, &problem.ldt};
  return *lds[static_cast<int>(slot)];
}

/// A matrix of the problem: where it lies, and what of it is read and written.
struct LapackOperand {
  LapackSlot slot = LapackSlot::A;
  std::byte* address = nullptr;
  index_t rows = 0, cols = 0;
  index_t ld = 0;
  index_t element_bytes = 0;
  bool reads = false, writes = false;
  index_t read_rows = 0, read_cols = 0;
  Part read_part = Part::full, written_part = Part::full;
  bool real_diagonal = false;  ///< imaginary parts there are ignored: it is a Hermitian matrix's

  bool has_ld() const { return slot <= LapackSlot::T; }
  index_t bytes() const { return rows * cols * element_bytes; }
  /// Of what moves.
  /// @tparam Number that does not overflow by it
  template <class Number = index_t>
  Number read_bytes() const {
    return reads ? bytes_of<Number>(read_part, read_rows, read_cols) : 0;
  }
  template <class Number = index_t>
  Number written_bytes() const {
    return writes ? bytes_of<Number>(written_part, rows, cols) : 0;
  }

 private:
  template <class Number>
  Number bytes_of(Part part, index_t of_rows, index_t of_cols) const {
    const auto tall = static_cast<Number>(of_rows), wide = static_cast<Number>(of_cols);
    return (part == Part::full ? tall * wide : wide * (wide + 1) / 2) * static_cast<Number>(element_bytes);
  }
};

/// Rows or columns that reflectors are as long as. @pre multiplies_by_reflectors(p.routine)
constexpr index_t reflected_of(const LapackCall& p) { return p.side == Side::left ? p.m : p.n; }

/// Of A. Square matrices have n, whatever m is.
constexpr index_t rows_of(const LapackCall& p) { return has_m(p.routine) ? p.m : p.n; }

/// There is nothing to compute, though B of least squares may become zero. gesv and posv factor A even without right-hand
/// sides. @pre sizes are good
constexpr bool does_nothing(const LapackCall& p) {
  if (rows_of(p) == 0 || p.n == 0) return true;
  if (p.routine == Routine::unmtr) return reflected_of(p) == 1;
  return is(p.routine, counted) && !factors(p.routine) && p.k == 0;
}

/// Calls f with an int32_t or an int64_t for the caller's pivots.
template <class F>
decltype(auto) dispatch_pivots(const LapackCall& p, F&& f) {
  if (p.ipiv_bits == 64) return f(static_cast<std::int64_t*>(p.ipiv));
  return f(static_cast<std::int32_t*>(p.ipiv));
}

/// Eigenvalues that heevr may find at most.
constexpr index_t most_found(const LapackCall& p) { return p.range == EigenRange::indices ? p.iu - p.il + 1 : p.n; }

/// One of sytrf's, hetrf's and those that solve by them.
constexpr bool pivots_diagonally(Routine routine) {
  return row_of(routine).way == Way::whole && (factors(routine) || solves(routine));
}

/// Bounds of the largest element of each matrix.
struct Norms {
  double least = 0, most = 0;
};
/// The bounds within which devices solve a problem, if its matrices are looked at; zero is within them, too. LAPACK does not
/// scale there. Outside, a device's library may overflow or lose what is small. Diagonal pivoting asks for finite numbers alone.
/// Sources: dsyevd, dgels and dgelsd, dgesdd and dgeev of LAPACK 3.12.
inline std::optional<Norms> norms_for_devices(const LapackCall& p) {
  const bool is_single = real_bytes(p.type) == sizeof(float);
  if (pivots_diagonally(p.routine)) {
    return Norms{
        0, is_single ? static_cast<double>(std::numeric_limits<float>::max()) : std::numeric_limits<double>::max()};
  }
  if (!is(p.routine, scaling)) return std::nullopt;
  const double smallest =
      is_single ? static_cast<double>(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  const double eps =
      is_single ? static_cast<double>(std::numeric_limits<float>::epsilon()) : std::numeric_limits<double>::epsilon();
  const double least = is_eigenproblem(p.routine)    ? std::sqrt(smallest / eps)
                       : is_least_squares(p.routine) ? smallest / eps
                                                     : std::sqrt(smallest) / eps;
  return Norms{least, 1 / least};
}

/// The place of the first pivot among those that a problem reads, from 1, that is not a row's number; 0: there is none. The
/// negative of one may stand in two neighbours, where there are 2 x 2 blocks.
inline index_t first_bad_pivot(const LapackCall& p) {
  return dispatch_pivots(p, [&](const auto* ipiv) {
    for (index_t i = 0; i < p.n; ++i) {
      const auto pivot = static_cast<index_t>(ipiv[i]);
      if (pivot >= 1 && pivot <= p.n) continue;
      const bool is_pair = pivots_diagonally(p.routine) && i + 1 < p.n && ipiv[i + 1] == ipiv[i];
      if (!is_pair || pivot > -1 || pivot < -p.n) return i + 1;
      ++i;
    }
    return index_t{0};
  });
}

/// The operands of a problem, at most one for each slot.
class LapackOperands {
 public:
  explicit LapackOperands(const LapackCall& problem) : problem_(problem) { collect(); }
  const LapackOperand* begin() const { return operands_.data(); }
  const LapackOperand* end() const { return begin() + count_; }

 private:
  LapackOperand& add(LapackSlot slot, index_t rows, index_t cols, index_t element) {
    LapackOperand& operand = operands_[count_++];
    operand.slot = slot;
    operand.address = static_cast<std::byte*>(address_of(problem_, slot));
    operand.rows = operand.read_rows = rows;
    operand.cols = operand.read_cols = cols;
    operand.ld = operand.has_ld() ? ld_of(problem_, slot) : rows;
    operand.element_bytes = element;
    return operand;
  }
  LapackOperand& add(LapackSlot slot, index_t rows, index_t cols) {
    return add(slot, rows, cols, static_cast<index_t>(element_bytes(problem_.type)));
  }
  void add_values(index_t count) { add(LapackSlot::values, count, 1, real_bytes(problem_.type)).writes = true; }
  LapackOperand& add_triangle(LapackSlot slot) {
    LapackOperand& operand = add(slot, problem_.n, problem_.n);
    operand.reads = true;
    operand.read_part = operand.written_part = part_of(problem_.uplo);
    operand.real_diagonal = is_hermitian(problem_.routine);
    return operand;
  }

  void collect() {
    const LapackCall& p = problem_;
    if (factors(p.routine) || solves(p.routine)) return collect_factors();
    if (forms_q(p.routine)) return collect_q();
    switch (p.routine) {
      case Routine::heevd:
      case Routine::heevr:
      case Routine::hegvd:
        return collect_eigen();
      case Routine::gesdd:
      case Routine::gesvd:
        return collect_svd();
      case Routine::unmqr:
      case Routine::unmlq:
      case Routine::unmtr:
      case Routine::larfb:
        return collect_product();
      case Routine::gels:
      case Routine::gelsd:
        return collect_least_squares();
      case Routine::geev:
        add(LapackSlot::A, p.n, p.n).reads = true;
        add(LapackSlot::values, p.n, 1).writes = true;
        if (!is_complex(p.type)) add(LapackSlot::imaginary, p.n, 1).writes = true;
        if (p.vectors) add(LapackSlot::U, p.n, p.n).writes = true;
        return;
      case Routine::trtrs:
        add_triangle(LapackSlot::A);
        add_solution();
        return;
      case Routine::trtri:
      case Routine::lauum:
      case Routine::potri:
        add_triangle(LapackSlot::A).writes = true;
        return;
      case Routine::getri:
        add_rewritten(LapackSlot::A, p.n, p.n);
        add_pivots().reads = true;
        return;
      default:
        return;
    }
  }

  /// The factors of A, and what is solved by them.
  void collect_factors() {
    const LapackCall& p = problem_;
    const bool makes_factors = factors(p.routine);
    const bool in_triangle = has(p.routine, Parameter::uplo);
    LapackOperand& A = in_triangle ? add_triangle(LapackSlot::A) : add(LapackSlot::A, rows_of(p), p.n);
    A.reads = true;
    A.writes = makes_factors;
    if (has(p.routine, Parameter::tau)) add(LapackSlot::tau, std::min(p.m, p.n), 1).writes = true;
    if (has(p.routine, Parameter::ipiv)) (makes_factors ? add_pivots().writes : add_pivots().reads) = true;
    if (solves(p.routine)) add_solution();
  }
  void add_solution() {
    const LapackCall& p = problem_;
    p.side == Side::left ? add_rewritten(LapackSlot::B, p.n, p.k) : add_rewritten(LapackSlot::B, p.k, p.n);
  }
  LapackOperand& add_pivots() {
    return add(LapackSlot::ipiv, std::min(rows_of(problem_), problem_.n), 1, problem_.ipiv_bits / 8);
  }

  LapackOperand& add_rewritten(LapackSlot slot, index_t rows, index_t cols) {
    LapackOperand& operand = add(slot, rows, cols);
    operand.reads = operand.writes = true;
    return operand;
  }

  void collect_q() {
    const LapackCall& p = problem_;
    LapackOperand& A = add_rewritten(LapackSlot::A, p.m, p.n);
    (is(p.routine, in_rows) ? A.read_rows : A.read_cols) = p.k;
    add(LapackSlot::tau, p.k, 1).reads = true;
  }

  void collect_product() {
    const LapackCall& p = problem_;
    const index_t reflected = reflected_of(p);
    const bool are_rows =
        is(p.routine, in_rows) || (p.routine == Routine::larfb && p.storage == ReflectorStorage::rows);
    if (p.routine == Routine::unmtr) {
      LapackOperand& A = add(LapackSlot::A, reflected, reflected);
      A.reads = true;
      A.read_part = part_of(p.uplo);
    } else {
      add(LapackSlot::A, are_rows ? p.k : reflected, are_rows ? reflected : p.k).reads = true;
    }
    if (p.routine == Routine::larfb) {
      LapackOperand& T = add(LapackSlot::T, p.k, p.k);
      T.reads = true;
      T.read_part = p.order == ReflectorOrder::forward ? Part::upper : Part::lower;
    } else {
      add(LapackSlot::tau, p.routine == Routine::unmtr ? reflected - 1 : p.k, 1).reads = true;
    }
    add_rewritten(LapackSlot::B, p.m, p.n);
  }

  void collect_least_squares() {
    const LapackCall& p = problem_;
    add_rewritten(LapackSlot::A, p.m, p.n).writes = p.routine == Routine::gels;
    add_rewritten(LapackSlot::B, std::max(p.m, p.n), p.k).read_rows = p.op == Op::no_trans ? p.m : p.n;
    if (p.routine == Routine::gelsd) add_values(std::min(p.m, p.n));
  }

  void collect_eigen() {
    const LapackCall& p = problem_;
    const bool finds_some = p.routine == Routine::heevr;
    LapackOperand& A = add_triangle(LapackSlot::A);
    A.writes = p.vectors && !finds_some;
    A.written_part = Part::full;
    if (p.routine == Routine::hegvd) add_triangle(LapackSlot::B).writes = true;
    add_values(p.n);  // of heevr's the first ones
    if (finds_some && p.vectors) add(LapackSlot::U, p.n, most_found(p)).writes = true;
  }

  void collect_svd() {
    const LapackCall& p = problem_;
    const index_t least = std::min(p.m, p.n);
    const LapackOperand A = add(LapackSlot::A, p.m, p.n);
    operands_[count_ - 1].reads = true;
    add_values(least);
    const auto add_vectors = [&](LapackSlot slot, VectorJob job, index_t rows, index_t cols) {
      if (job == VectorJob::none) return;
      LapackOperand& vectors = add(slot, rows, cols);
      vectors.writes = true;
      if (job != VectorJob::overwrite) return;
      vectors.address = A.address;
      vectors.ld = A.ld;
    };
    add_vectors(LapackSlot::U, p.u, p.m, p.u == VectorJob::all ? p.m : least);
    add_vectors(LapackSlot::VT, p.vt, p.vt == VectorJob::all ? p.n : least, p.n);
  }

  LapackCall problem_;
  std::array<LapackOperand, 5> operands_{};
  std::size_t count_ = 0;
};

/// Floating-point operations, as far as they can be told; complex ones count four times. Sources: LAPACK Working Note 41
/// for Q and inverses; Golub and Van Loan, Matrix Computations, 4th ed., sections 8.3 to 8.7 (divide and conquer without
/// deflation), 8.6 for singular values, 7.5 for geev.
constexpr double flops_of(const LapackCall& p) {
  const auto m = static_cast<double>(rows_of(p)), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double n3 = n * n * n;
  double real = 0;
  switch (p.routine) {
    case Routine::heevd:
    case Routine::heevr:
      real = (p.vectors ? 14.0 / 3 : 4.0 / 3) * n3;
      break;
    case Routine::hegvd:
      real = (p.vectors ? 14.0 / 3 + 7.0 / 3 : 4.0 / 3 + 4.0 / 3) * n3;
      break;
    case Routine::gesdd:
    case Routine::gesvd: {
      const double most = m > n ? m : n, least = m > n ? n : m;
      const bool has_vectors = p.u != VectorJob::none || p.vt != VectorJob::none;
      const bool has_all = (m > n ? p.u : p.vt) == VectorJob::all;
      real = 4 * most * least * least - 4.0 / 3 * least * least * least;
      if (has_vectors) real = 14 * most * least * least - 2 * least * least * least;
      if (has_vectors && has_all) real = 4 * most * most * least + 8 * most * least * least + 9 * least * least * least;
      break;
    }
    case Routine::unmqr:
    case Routine::unmlq:
      real = 4 * m * n * k - 2 * (p.side == Side::left ? n : m) * k * k;
      break;
    case Routine::unmtr:
      real = 2 * m * n * (p.side == Side::left ? m : n);
      break;
    case Routine::larfb:
      real = 4 * m * n * k;
      break;
    case Routine::gels:
    case Routine::gelsd: {
      const double most = m > n ? m : n, least = m > n ? n : m;
      const double factors = 2 * most * least * least - 2.0 / 3 * least * least * least;
      real = factors + 4 * most * least * k - least * least * k;
      if (p.routine == Routine::gelsd) real += 8.0 / 3 * least * least * least + least * least * k;
      break;
    }
    case Routine::trtrs:
      real = n * n * k;
      break;
    case Routine::geev:
      real = (p.vectors ? 25 : 10) * n3;
      break;
    case Routine::trtri:
    case Routine::lauum:
      real = n3 / 3;
      break;
    default:
      real = forms_q(p.routine) ? 4 * m * n * k - 2 * (m + n) * k * k + 4.0 / 3 * k * k * k
                                : real_flops_of(p.routine, m, n, k);
      if (pivots_diagonally(p.routine))
        real = (factors(p.routine) ? n3 / 3 : 0) + (solves(p.routine) ? 2 * n * n * k : 0);
  }
  return (is_complex(p.type) ? 4 : 1) * real;
}

/// Part of a device's matrix rate that a problem of flops_of() reaches.
constexpr double part_of_matrix_rate(const LapackCall& p) {
  const double part = row_of(p.routine).part_of_rate;
  return is_eigenproblem(p.routine) && !p.vectors ? part / 2 : part;  // half of a reduction is bound by memory
}

/// The bytes that cross the link.
struct LapackTraffic {
  double up = 0, down = 0;  ///< bytes
};
inline LapackTraffic traffic_of(const LapackCall& problem) {
  LapackTraffic traffic;
  for (const LapackOperand& operand : LapackOperands(problem)) {
    traffic.up += operand.read_bytes<double>();
    traffic.down += operand.written_bytes<double>();
  }
  return traffic;
}

}  // namespace tessera
