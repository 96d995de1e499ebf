// One problem of LAPACK that a device solves whole, in its own memory: eigenvalues, singular values, Q of QR, inverses of
// triangles. As data: what the faces check and hand down, and what a device's library is called with. Column-major.
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
enum class DenseRoutine : std::uint8_t { heevd, heevr, hegvd, gesdd, gesvd, ungqr, unmqr, geev, trtri, potri };
inline constexpr int dense_routine_count = 10;

/// Singular vectors on one side: none, the first min(m, n), all, or the first min(m, n) in place of A.
enum class VectorJob : std::uint8_t { none, thin, all, overwrite };

/// Which eigenvalues: all, those in (vl, vu], those with the numbers il .. iu, from 1.
enum class EigenRange : std::uint8_t { all, values, indices };

/// By routine. Real means the type that absolute values have.
///
///   heevd   A n x n Hermitian, its `uplo` triangle is read; values: n reals, ascending; vectors take the place of A, all of it
///   heevr   A likewise, stays as it is; values: as many reals as are found; vectors in U, n x found
///   hegvd   A x = lambda B x (itype 1), A B x = lambda x (2), B A x = lambda x (3); B's triangle gets the Cholesky factor
///   gesdd, gesvd   A m x n = U diag(values) VT; jobs `u` and `vt`, of which one may be overwrite. gesdd's O overwrites U and
///           wants all of VT where m >= n, else overwrites VT and wants all of U
///   ungqr   A m x n becomes the first n columns of the Q of the k reflectors in its first columns and tau
///   unmqr   B m x n becomes op(Q) B or B op(Q); A has the k reflectors, of m or n rows
///   geev    A n x n, stays as it is; values, and right vectors in U. Real types: values has the real parts, imaginary
///           the others, and U pairs of columns as LAPACK packs them; complex types: values are complex
///   trtri   the `uplo` triangle of A becomes its inverse; diag == unit: the diagonal is not looked at
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
  int itype = 1;
  index_t m = 0, n = 0, k = 0;
  double vl = 0, vu = 0;
  index_t il = 0, iu = 0;
  void* A = nullptr;
  index_t lda = 0;  ///< elements, as are the others
  void* B = nullptr;
  index_t ldb = 0;
  void* U = nullptr;
  index_t ldu = 0;
  void* VT = nullptr;
  index_t ldvt = 0;
  void* values = nullptr;
  void* imaginary = nullptr;
  void* tau = nullptr;
  index_t* found = nullptr;  ///< heevr: how many eigenvalues there are; may be nullptr
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
/// Iterates until it converges, and so looks at norms first.
constexpr bool iterates(DenseRoutine routine) {
  return is_hermitian(routine) || is_svd(routine) || routine == DenseRoutine::geev;
}

/// Without the type: "syevd" or "heevd".
constexpr const char* name_of(DenseRoutine routine, ScalarType type) {
  constexpr const char* real[dense_routine_count] = {"syevd", "syevr", "sygvd", "gesdd", "gesvd",
                                                     "orgqr", "ormqr", "geev",  "trtri", "potri"};
  constexpr const char* complex[dense_routine_count] = {"heevd", "heevr", "hegvd", "gesdd", "gesvd",
                                                        "ungqr", "unmqr", "geev",  "trtri", "potri"};
  return (is_complex(type) ? complex : real)[static_cast<int>(routine)];
}
inline std::string name_of(const DenseProblem& problem) {
  return letter(problem.type) + std::string(name_of(problem.routine, problem.type));
}

constexpr index_t real_bytes(ScalarType type) {
  return type == ScalarType::s || type == ScalarType::c ? index_t{sizeof(float)} : index_t{sizeof(double)};
}
constexpr Part part_of(Uplo uplo) { return uplo == Uplo::lower ? Part::lower : Part::upper; }

enum class DenseSlot : std::uint8_t { A, B, U, VT, values, imaginary, tau };

inline void*& address_of(DenseProblem& problem, DenseSlot slot) {
  void** const addresses[] = {&problem.A,      &problem.B,         &problem.U,  &problem.VT,
                              &problem.values, &problem.imaginary, &problem.tau};
  return *addresses[static_cast<int>(slot)];
}
/// @pre the slot has one
inline index_t& ld_of(DenseProblem& problem, DenseSlot slot) {
  index_t* const lds[] = {&problem.lda, &problem.ldb, &problem.ldu, &problem.ldvt};
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
  index_t read_cols = 0;
  Part read_part = Part::full, written_part = Part::full;

  bool has_ld() const { return slot <= DenseSlot::VT; }
  index_t bytes() const { return rows * cols * element_bytes; }
  /// Of what moves.
  index_t read_bytes() const { return reads ? bytes_of(read_part, read_cols) : 0; }
  index_t written_bytes() const { return writes ? bytes_of(written_part, cols) : 0; }

 private:
  index_t bytes_of(Part part, index_t columns) const {
    return (part == Part::full ? rows * columns : columns * (columns + 1) / 2) * element_bytes;
  }
};

/// Eigenvalues that heevr may find at most.
constexpr index_t most_found(const DenseProblem& p) { return p.range == EigenRange::indices ? p.iu - p.il + 1 : p.n; }

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
    operand.rows = rows;
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
      case DenseRoutine::ungqr: {
        DenseOperand& A = add(DenseSlot::A, p.m, p.n);
        A.reads = A.writes = true;
        A.read_cols = p.k;
        add(DenseSlot::tau, p.k, 1).reads = true;
        return;
      }
      case DenseRoutine::unmqr: {
        add(DenseSlot::A, p.side == Side::left ? p.m : p.n, p.k).reads = true;
        add(DenseSlot::tau, p.k, 1).reads = true;
        DenseOperand& B = add(DenseSlot::B, p.m, p.n);
        B.reads = B.writes = true;
        return;
      }
      case DenseRoutine::geev:
        add(DenseSlot::A, p.n, p.n).reads = true;
        add(DenseSlot::values, p.n, 1).writes = true;
        if (!is_complex(p.type)) add(DenseSlot::imaginary, p.n, 1).writes = true;
        if (p.vectors) add(DenseSlot::U, p.n, p.n).writes = true;
        return;
      case DenseRoutine::trtri:
      case DenseRoutine::potri:
        add_triangle(DenseSlot::A).writes = true;
        return;
    }
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
  std::array<DenseOperand, 7> operands_{};
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
      real = 4 * m * n * k - 2 * (p.side == Side::left ? n : m) * k * k;
      break;
    case DenseRoutine::geev:
      real = (p.vectors ? 25 : 10) * n3;
      break;
    case DenseRoutine::trtri:
      real = n3 / 3;
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
/// What the matrices take on a device, without what its library needs beside them.
inline index_t device_bytes_of(const DenseProblem& problem) {
  index_t bytes = 0;
  for (const DenseOperand& operand : DenseOperands(problem)) bytes += operand.bytes();
  return bytes;
}

}  // namespace tessera
