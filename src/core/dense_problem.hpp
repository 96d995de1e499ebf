// One problem of LAPACK that a device solves whole, in its own memory: eigenvalues, singular values, least squares, reflectors,
// inverses. As data: what the faces check and hand down, and what a device's library is called with. Column-major.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The names of complex types; those of real ones begin with sy and or. heevr stands for all that find some of the
/// eigenvalues (heevx, too), and gesvd and gesdd differ only in what their faces make of them.
enum class DenseRoutine : std::uint8_t {
  heevd,
  heevr,
  hegvd,
  gesdd,
  gesvd,
  ungqr,
  unmqr,
  unmlq,
  unmtr,
  larfb,
  geev,
  gels,
  gelsd,
  trtrs,
  trtri,
  lauum,
  getri,
  potri
};
inline constexpr int dense_routine_count = 18;

/// Singular vectors on one side: none, the first min(m, n), all, or the first min(m, n) in place of A.
enum class VectorJob : std::uint8_t { none, thin, all, overwrite };

/// Which eigenvalues: all, those in (vl, vu], those with the numbers il .. iu, from 1.
enum class EigenRange : std::uint8_t { all, values, indices };

/// How a block of reflectors is stored: in columns or rows, and in which order they are multiplied.
enum class ReflectorStorage : std::uint8_t { columns, rows };
enum class ReflectorOrder : std::uint8_t { forward, backward };

/// By routine. Real means the type that absolute values have.
///
///   heevd   A n x n Hermitian, its `uplo` triangle is read; values: n reals, ascending; vectors take the place of A, all of it
///   heevr   A likewise, stays as it is; values: as many reals as are found; vectors in U, n x found
///   hegvd   A x = lambda B x (itype 1), A B x = lambda x (2), B A x = lambda x (3); B's triangle gets the Cholesky factor
///   gesdd, gesvd   A m x n = U diag(values) VT; jobs `u` and `vt`, of which one may be overwrite. gesdd's O overwrites U and
///           wants all of VT where m >= n, else overwrites VT and wants all of U
///   ungqr   A m x n becomes the first n columns of the Q of the k reflectors in its first columns and tau
///   unmqr   B m x n becomes op(Q) B or B op(Q); A has the k reflectors, of m or n rows
///   unmlq   likewise with the Q of LQ: A has the k reflectors in its rows, of m or n columns
///   unmtr   likewise with the Q that reduces a Hermitian matrix: m - 1 or n - 1 reflectors in the `uplo` triangle of A
///   larfb   B m x n becomes op(H) B or B op(H), H = I - V T V^H (columns) or I - V^H T V (rows), of k reflectors. V is A, of
///           m or n rows (columns), T the k x k triangle: the upper one forward, else the lower
///   geev    A n x n, stays as it is; values, and right vectors in U. Real types: values has the real parts, imaginary
///           the others, and U pairs of columns as LAPACK packs them; complex types: values are complex
///   gels    B, max(m, n) x k, of which the first rows are read, becomes X of least |op(A) X - B|, or the least X itself, and
///           behind it what the residuals are told by; A m x n of full rank becomes its factors
///   gelsd   likewise by A's singular values, which go to values; those up to rcond times the largest count as zero. found: rank
///   trtrs   op(A) X = B by the `uplo` triangle of A, n x n; X takes the place of B, n x k. All devices share it
///   trtri   the `uplo` triangle of A becomes its inverse; diag == unit: the diagonal is not looked at
///   lauum   the `uplo` triangle of A becomes that of U U^H or L^H L
///   getri   A, the factors of getrf with ipiv, becomes the inverse
///   potri   the `uplo` triangle of A, a Cholesky factor, becomes that of the inverse
struct DenseProblem {
  DenseRoutine routine = DenseRoutine::heevd;
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
  void* ipiv = nullptr;  ///< n integers of ipiv_bits, from 1
  int ipiv_bits = 64;
  index_t* found = nullptr;  ///< heevr: how many eigenvalues there are, gelsd: the rank; may be nullptr
};

/// These numbers are not for devices, or did not come out right there: LAPACK itself has to deal with them. Nothing that
/// the caller handed in has been changed.
class __attribute__((visibility("default"))) UnsuitableNumbers : public NotAvailable {
 public:
  using NotAvailable::NotAvailable;
};

constexpr bool is_svd(DenseRoutine routine) { return routine == DenseRoutine::gesdd || routine == DenseRoutine::gesvd; }
/// Eigenvalues of Hermitian matrices.
constexpr bool is_hermitian(DenseRoutine routine) { return routine <= DenseRoutine::hegvd; }
constexpr bool is_least_squares(DenseRoutine routine) {
  return routine == DenseRoutine::gels || routine == DenseRoutine::gelsd;
}
/// Singular values are found on the way.
constexpr bool finds_singular_values(DenseRoutine routine) { return is_svd(routine) || routine == DenseRoutine::gelsd; }
/// B becomes a product with reflectors in A.
constexpr bool multiplies_by_reflectors(DenseRoutine routine) {
  return routine >= DenseRoutine::unmqr && routine <= DenseRoutine::larfb;
}
/// Of triangles and of LU.
constexpr bool is_inverse(DenseRoutine routine) {
  return routine == DenseRoutine::trtri || routine == DenseRoutine::potri || routine == DenseRoutine::getri;
}
/// Where LAPACK would scale A, or B, by its norm.
constexpr bool looks_at_norms(DenseRoutine routine) {
  return is_hermitian(routine) || is_svd(routine) || routine == DenseRoutine::geev || is_least_squares(routine);
}

/// Without the type: "syevd" or "heevd".
constexpr const char* name_of(DenseRoutine routine, ScalarType type) {
  constexpr const char* real[dense_routine_count] = {"syevd", "syevr", "sygvd", "gesdd", "gesvd", "orgqr",
                                                     "ormqr", "ormlq", "ormtr", "larfb", "geev",  "gels",
                                                     "gelsd", "trtrs", "trtri", "lauum", "getri", "potri"};
  constexpr const char* complex[dense_routine_count] = {"heevd", "heevr", "hegvd", "gesdd", "gesvd", "ungqr",
                                                        "unmqr", "unmlq", "unmtr", "larfb", "geev",  "gels",
                                                        "gelsd", "trtrs", "trtri", "lauum", "getri", "potri"};
  return (is_complex(type) ? complex : real)[static_cast<int>(routine)];
}
inline std::string name_of(const DenseProblem& problem) {
  return letter(problem.type) + std::string(name_of(problem.routine, problem.type));
}

constexpr index_t real_bytes(ScalarType type) {
  return type == ScalarType::s || type == ScalarType::c ? index_t{sizeof(float)} : index_t{sizeof(double)};
}
constexpr Part part_of(Uplo uplo) { return uplo == Uplo::lower ? Part::lower : Part::upper; }

enum class DenseSlot : std::uint8_t { A, B, U, VT, T, values, imaginary, tau, ipiv };

inline void*& address_of(DenseProblem& problem, DenseSlot slot) {
  void** const addresses[] = {&problem.A,      &problem.B,         &problem.U,   &problem.VT,  &problem.T,
                              &problem.values, &problem.imaginary, &problem.tau, &problem.ipiv};
  return *addresses[static_cast<int>(slot)];
}
/// @pre the slot has one
inline index_t& ld_of(DenseProblem& problem, DenseSlot slot) {
  index_t* const lds[] = {&problem.lda, &problem.ldb, &problem.ldu, &problem.ldvt, &problem.ldt};
  return *lds[static_cast<int>(slot)];
}

/// A matrix of the problem: where it lies, and what of it is read and written.
struct DenseOperand {
  DenseSlot slot = DenseSlot::A;
  std::byte* address = nullptr;
  index_t rows = 0, cols = 0;
  index_t ld = 0;
  index_t element_bytes = 0;
  bool reads = false, writes = false;
  index_t read_rows = 0, read_cols = 0;
  Part read_part = Part::full, written_part = Part::full;

  bool has_ld() const { return slot <= DenseSlot::T; }
  index_t bytes() const { return rows * cols * element_bytes; }
  /// Of what moves.
  index_t read_bytes() const { return reads ? bytes_of(read_part, read_rows, read_cols) : 0; }
  index_t written_bytes() const { return writes ? bytes_of(written_part, rows, cols) : 0; }

 private:
  index_t bytes_of(Part part, index_t of_rows, index_t columns) const {
    return (part == Part::full ? of_rows * columns : columns * (columns + 1) / 2) * element_bytes;
  }
};

/// Eigenvalues that heevr may find at most.
constexpr index_t most_found(const DenseProblem& p) { return p.range == EigenRange::indices ? p.iu - p.il + 1 : p.n; }

/// Rows or columns that reflectors are as long as. @pre multiplies_by_reflectors(p.routine)
constexpr index_t reflected_of(const DenseProblem& p) { return p.side == Side::left ? p.m : p.n; }

/// The operands of a problem, at most one for each slot.
class DenseOperands {
 public:
  explicit DenseOperands(const DenseProblem& problem) : problem_(problem) { collect(); }
  const DenseOperand* begin() const { return operands_.data(); }
  const DenseOperand* end() const { return begin() + count_; }

 private:
  DenseOperand& add(DenseSlot slot, index_t rows, index_t cols, index_t element) {
    DenseOperand& operand = operands_[count_++];
    operand.slot = slot;
    operand.address = static_cast<std::byte*>(address_of(problem_, slot));
    operand.rows = operand.read_rows = rows;
    operand.cols = operand.read_cols = cols;
    operand.ld = operand.has_ld() ? ld_of(problem_, slot) : rows;
    operand.element_bytes = element;
    return operand;
  }
  DenseOperand& add(DenseSlot slot, index_t rows, index_t cols) {
    return add(slot, rows, cols, static_cast<index_t>(element_bytes(problem_.type)));
  }
  void add_values(index_t count) { add(DenseSlot::values, count, 1, real_bytes(problem_.type)).writes = true; }
  DenseOperand& add_triangle(DenseSlot slot) {
    DenseOperand& operand = add(slot, problem_.n, problem_.n);
    operand.reads = true;
    operand.read_part = operand.written_part = part_of(problem_.uplo);
    return operand;
  }

  void collect() {
    const DenseProblem& p = problem_;
    switch (p.routine) {
      case DenseRoutine::heevd:
      case DenseRoutine::heevr:
      case DenseRoutine::hegvd:
        return collect_eigen();
      case DenseRoutine::gesdd:
      case DenseRoutine::gesvd:
        return collect_svd();
      case DenseRoutine::ungqr:
        add_rewritten(DenseSlot::A, p.m, p.n).read_cols = p.k;
        add(DenseSlot::tau, p.k, 1).reads = true;
        return;
      case DenseRoutine::unmqr:
      case DenseRoutine::unmlq:
      case DenseRoutine::unmtr:
      case DenseRoutine::larfb:
        return collect_product();
      case DenseRoutine::gels:
      case DenseRoutine::gelsd:
        return collect_least_squares();
      case DenseRoutine::geev:
        add(DenseSlot::A, p.n, p.n).reads = true;
        add(DenseSlot::values, p.n, 1).writes = true;
        if (!is_complex(p.type)) add(DenseSlot::imaginary, p.n, 1).writes = true;
        if (p.vectors) add(DenseSlot::U, p.n, p.n).writes = true;
        return;
      case DenseRoutine::trtrs:
        add_triangle(DenseSlot::A);
        add_rewritten(DenseSlot::B, p.n, p.k);
        return;
      case DenseRoutine::trtri:
      case DenseRoutine::lauum:
      case DenseRoutine::potri:
        add_triangle(DenseSlot::A).writes = true;
        return;
      case DenseRoutine::getri:
        add_rewritten(DenseSlot::A, p.n, p.n);
        add(DenseSlot::ipiv, p.n, 1, p.ipiv_bits / 8).reads = true;
        return;
    }
  }

  DenseOperand& add_rewritten(DenseSlot slot, index_t rows, index_t cols) {
    DenseOperand& operand = add(slot, rows, cols);
    operand.reads = operand.writes = true;
    return operand;
  }

  void collect_product() {
    const DenseProblem& p = problem_;
    const index_t reflected = reflected_of(p);
    const bool in_rows =
        p.routine == DenseRoutine::unmlq || (p.routine == DenseRoutine::larfb && p.storage == ReflectorStorage::rows);
    if (p.routine == DenseRoutine::unmtr) {
      DenseOperand& A = add(DenseSlot::A, reflected, reflected);
      A.reads = true;
      A.read_part = part_of(p.uplo);
    } else {
      add(DenseSlot::A, in_rows ? p.k : reflected, in_rows ? reflected : p.k).reads = true;
    }
    if (p.routine == DenseRoutine::larfb) {
      DenseOperand& T = add(DenseSlot::T, p.k, p.k);
      T.reads = true;
      T.read_part = p.order == ReflectorOrder::forward ? Part::upper : Part::lower;
    } else {
      add(DenseSlot::tau, p.routine == DenseRoutine::unmtr ? reflected - 1 : p.k, 1).reads = true;
    }
    add_rewritten(DenseSlot::B, p.m, p.n);
  }

  void collect_least_squares() {
    const DenseProblem& p = problem_;
    add_rewritten(DenseSlot::A, p.m, p.n).writes = p.routine == DenseRoutine::gels;
    add_rewritten(DenseSlot::B, std::max(p.m, p.n), p.k).read_rows = p.op == Op::no_trans ? p.m : p.n;
    if (p.routine == DenseRoutine::gelsd) add_values(std::min(p.m, p.n));
  }

  void collect_eigen() {
    const DenseProblem& p = problem_;
    const bool finds_some = p.routine == DenseRoutine::heevr;
    DenseOperand& A = add_triangle(DenseSlot::A);
    A.writes = p.vectors && !finds_some;
    A.written_part = Part::full;
    if (p.routine == DenseRoutine::hegvd) add_triangle(DenseSlot::B).writes = true;
    add_values(p.n);  // of heevr's the first ones
    if (finds_some && p.vectors) add(DenseSlot::U, p.n, most_found(p)).writes = true;
  }

  void collect_svd() {
    const DenseProblem& p = problem_;
    const index_t least = std::min(p.m, p.n);
    const DenseOperand A = add(DenseSlot::A, p.m, p.n);
    operands_[count_ - 1].reads = true;
    add_values(least);
    const auto add_vectors = [&](DenseSlot slot, VectorJob job, index_t rows, index_t cols) {
      if (job == VectorJob::none) return;
      DenseOperand& vectors = add(slot, rows, cols);
      vectors.writes = true;
      if (job != VectorJob::overwrite) return;
      vectors.address = A.address;
      vectors.ld = A.ld;
    };
    add_vectors(DenseSlot::U, p.u, p.m, p.u == VectorJob::all ? p.m : least);
    add_vectors(DenseSlot::VT, p.vt, p.vt == VectorJob::all ? p.n : least, p.n);
  }

  DenseProblem problem_;
  std::array<DenseOperand, 5> operands_{};
  std::size_t count_ = 0;
};

/// Floating-point operations, as far as they can be told; complex ones count four times. Sources: LAPACK Working Note 41
/// for Q and inverses; Golub and Van Loan, Matrix Computations, 4th ed., sections 8.3 to 8.7 (divide and conquer without
/// deflation), 8.6 for singular values, 7.5 for geev.
constexpr double dense_flops(const DenseProblem& p) {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double n3 = n * n * n;
  double real = 0;
  switch (p.routine) {
    case DenseRoutine::heevd:
    case DenseRoutine::heevr:
      real = (p.vectors ? 14.0 / 3 : 4.0 / 3) * n3;
      break;
    case DenseRoutine::hegvd:
      real = (p.vectors ? 14.0 / 3 + 7.0 / 3 : 4.0 / 3 + 4.0 / 3) * n3;
      break;
    case DenseRoutine::gesdd:
    case DenseRoutine::gesvd: {
      const double most = m > n ? m : n, least = m > n ? n : m;
      const bool has_vectors = p.u != VectorJob::none || p.vt != VectorJob::none;
      const bool has_all = (m > n ? p.u : p.vt) == VectorJob::all;
      real = 4 * most * least * least - 4.0 / 3 * least * least * least;
      if (has_vectors) real = 14 * most * least * least - 2 * least * least * least;
      if (has_vectors && has_all) real = 4 * most * most * least + 8 * most * least * least + 9 * least * least * least;
      break;
    }
    case DenseRoutine::ungqr:
      real = 4 * m * n * k - 2 * (m + n) * k * k + 4.0 / 3 * k * k * k;
      break;
    case DenseRoutine::unmqr:
    case DenseRoutine::unmlq:
      real = 4 * m * n * k - 2 * (p.side == Side::left ? n : m) * k * k;
      break;
    case DenseRoutine::unmtr:
      real = 2 * m * n * (p.side == Side::left ? m : n);
      break;
    case DenseRoutine::larfb:
      real = 4 * m * n * k;
      break;
    case DenseRoutine::gels:
    case DenseRoutine::gelsd: {
      const double most = m > n ? m : n, least = m > n ? n : m;
      const double factors = 2 * most * least * least - 2.0 / 3 * least * least * least;
      real = factors + 4 * most * least * k - least * least * k;
      if (p.routine == DenseRoutine::gelsd) real += 8.0 / 3 * least * least * least + least * least * k;
      break;
    }
    case DenseRoutine::trtrs:
      real = n * n * k;
      break;
    case DenseRoutine::geev:
      real = (p.vectors ? 25 : 10) * n3;
      break;
    case DenseRoutine::trtri:
    case DenseRoutine::lauum:
      real = n3 / 3;
      break;
    case DenseRoutine::getri:
      real = 4 * n3 / 3;
      break;
    case DenseRoutine::potri:
      real = 2 * n3 / 3;
      break;
  }
  return (is_complex(p.type) ? 4 : 1) * real;
}

/// What crosses the link.
struct DenseTraffic {
  index_t up = 0, down = 0;
};
inline DenseTraffic traffic_of(const DenseProblem& problem) {
  DenseTraffic traffic;
  for (const DenseOperand& operand : DenseOperands(problem)) {
    traffic.up += operand.read_bytes();
    traffic.down += operand.written_bytes();
  }
  return traffic;
}

}  // namespace tessera
