#include "kernels/reference/reference_lapack.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>
#include <vector>

#include "calls/arguments.hpp"

namespace tessera::kernels {
namespace {

template <Scalar T>
using Real = typename RealOf<T>::type;

template <Scalar T>
T conjugate(T value) {
  if constexpr (std::floating_point<T>)
    return value;
  else
    return std::conj(value);
}

/// The size by which pivots are compared, as in BLAS's iamax.
template <Scalar T>
Real<T> magnitude(T value) {
  return std::abs(std::real(value)) + std::abs(std::imag(value));
}

/// The caller's pivots, numbers from 1 with 32 or 64 bits. Rows and pivots count from 0 here.
struct Pivots {
  void* numbers = nullptr;
  bool is_wide = false;

  bool are_there() const { return numbers != nullptr; }
  index_t operator[](index_t i) const {
    return (is_wide ? static_cast<index_t>(static_cast<const std::int64_t*>(numbers)[i])
                    : static_cast<const int*>(numbers)[i]) -
           1;
  }
  void set(index_t i, index_t row) const {
    if (is_wide)
      static_cast<std::int64_t*>(numbers)[i] = row + 1;
    else
      static_cast<int*>(numbers)[i] = static_cast<int>(row + 1);
  }
};

template <Scalar T>
struct Columns {
  T* elements = nullptr;
  index_t ld = 0;
  T& operator()(index_t i, index_t j) const { return elements[i + j * ld]; }
};

/// The lower triangular L of A = L L^H. The upper triangle may store its conjugate transpose instead: U = L^H.
template <Scalar T>
class Lower {
 public:
  Lower(Columns<T> stored, Uplo uplo) : stored_(stored), is_upper_(uplo == Uplo::upper) {}
  T operator()(index_t i, index_t j) const { return is_upper_ ? conjugate(stored_(j, i)) : stored_(i, j); }
  void set(index_t i, index_t j, T value) const {
    (is_upper_ ? stored_(j, i) : stored_(i, j)) = is_upper_ ? conjugate(value) : value;
  }

 private:
  Columns<T> stored_;
  bool is_upper_;
};

/// One problem. Each routine returns LAPACK's info, but does not check arguments.
template <Scalar T>
struct Problem {
  index_t m = 0, n = 0, nrhs = 0;
  Columns<T> A, B;
  Pivots ipiv;
  Uplo uplo = Uplo::lower;
  Op op = Op::no_trans;
  Real<T> tiny = 0;

  Lower<T> L() const { return {A, uplo}; }

  /// A = L L^H, column by column. Imaginary parts of the diagonal are taken as 0.
  index_t potrf() const {
    const Lower<T> L = this->L();
    for (index_t j = 0; j < n; ++j) {
      Real<T> square = std::real(L(j, j));
      for (index_t l = 0; l < j; ++l) square -= std::real(L(j, l) * conjugate(L(j, l)));
      if (!(square > 0)) {  // also true for a NaN
        L.set(j, j, T(square));
        return j + 1;
      }
      const Real<T> diagonal = std::sqrt(square);
      L.set(j, j, T(diagonal));
      for (index_t i = j + 1; i < n; ++i) {
        T rest = L(i, j);
        for (index_t l = 0; l < j; ++l) rest -= L(i, l) * conjugate(L(j, l));
        L.set(i, j, rest / diagonal);
      }
    }
    return 0;
  }

  /// Solves L Y = B, then L^H X = Y.
  index_t potrs() const {
    const Lower<T> L = this->L();
    for (index_t v = 0; v < nrhs; ++v) {
      for (index_t i = 0; i < n; ++i) {
        for (index_t l = 0; l < i; ++l) B(i, v) -= L(i, l) * B(l, v);
        B(i, v) /= L(i, i);
      }
      for (index_t i = n - 1; i >= 0; --i) {
        for (index_t l = i + 1; l < n; ++l) B(i, v) -= conjugate(L(l, i)) * B(l, v);
        B(i, v) /= conjugate(L(i, i));
      }
    }
    return 0;
  }

  /// The position, from 1, of the first zero on the diagonal; 0: there is none.
  index_t zero_on_diagonal() const {
    for (index_t j = 0; j < n; ++j) {
      if (A(j, j) == T(0)) return j + 1;
    }
    return 0;
  }

  /// Computes the inverse M of L in place, last column first, and then M^H M, first row first.
  index_t potri() const {
    if (const index_t zero = zero_on_diagonal(); zero != 0) return zero;
    const Lower<T> L = this->L();
    for (index_t j = n - 1; j >= 0; --j) {
      const T inverse = T(1) / L(j, j);
      L.set(j, j, inverse);
      for (index_t i = n - 1; i > j; --i) {  // row i of M times the column that still holds L
        T sum(0);
        for (index_t l = j + 1; l <= i; ++l) sum += L(i, l) * L(l, j);
        L.set(i, j, -sum * inverse);
      }
    }
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j <= i; ++j) {
        T sum(0);
        for (index_t l = i; l < n; ++l) sum += conjugate(L(l, i)) * L(l, j);
        L.set(i, j, i == j ? T(std::real(sum)) : sum);
      }
    }
    return 0;
  }

  void swap_rows(const Columns<T>& matrix, index_t columns, index_t one, index_t other) const {
    if (one == other) return;
    for (index_t j = 0; j < columns; ++j) std::swap(matrix(one, j), matrix(other, j));
  }

  /// The first of the largest elements of column j, on and below the diagonal. No comparison with a NaN is true: it is
  /// chosen only as the first element.
  index_t pivot_row(index_t j) const {
    index_t row = j;
    for (index_t i = j + 1; i < m; ++i) {
      if (magnitude(A(i, j)) > magnitude(A(row, j))) row = i;
    }
    return row;
  }

  /// Updates column j and the columns right of it, once the pivot is on the diagonal. @return whether the pivot is not
  /// 0
  bool eliminate(index_t j) const {
    const T pivot = A(j, j);
    if (pivot != T(0)) {
      for (index_t i = j + 1; i < m; ++i) A(i, j) /= pivot;
    }
    for (index_t c = j + 1; c < n; ++c) {
      for (index_t i = j + 1; i < m; ++i) A(i, c) -= A(i, j) * A(j, c);
    }
    return pivot != T(0);
  }

  index_t getrf() const {
    index_t info = 0;
    for (index_t j = 0; j < std::min(m, n); ++j) {
      const index_t row = pivot_row(j);
      ipiv.set(j, row);
      swap_rows(A, n, j, row);
      if (!eliminate(j) && info == 0) info = j + 1;
    }
    return info;
  }

  /// A number of magnitude `tiny` in the direction of the pivot. It is computed by parts, so that nothing overflows.
  T in_direction_of(T pivot) const {
    const Real<T> size = magnitude(pivot);
    if (size == 0) return T(tiny);
    if constexpr (std::floating_point<T>)
      return pivot / size * tiny;
    else
      return T(std::real(pivot) / size * tiny, std::imag(pivot) / size * tiny);
  }

  index_t getrf_nopiv() const {
    index_t info = 0;
    for (index_t j = 0; j < std::min(m, n); ++j) {
      if (magnitude(A(j, j)) < tiny) A(j, j) = in_direction_of(A(j, j));
      if (!eliminate(j) && info == 0) info = j + 1;
    }
    return info;
  }

  /// Interchanges rows of `matrix` by the pivots, starting with the first or with the last one.
  void interchange(const Columns<T>& matrix, index_t columns, bool first_first) const {
    if (!ipiv.are_there()) return;
    for (index_t t = 0; t < n; ++t) {
      const index_t i = first_first ? t : n - 1 - t;
      swap_rows(matrix, columns, i, ipiv[i]);
    }
  }

  /// Solves L U X = P B; or op(U) Y = B, op(L) Z = Y, X = P^T Z.
  index_t getrs() const {
    if (op == Op::no_trans) {
      interchange(B, nrhs, true);
      for (index_t v = 0; v < nrhs; ++v) {
        for (index_t i = 0; i < n; ++i) {
          for (index_t l = 0; l < i; ++l) B(i, v) -= A(i, l) * B(l, v);
        }
        for (index_t i = n - 1; i >= 0; --i) {
          for (index_t l = i + 1; l < n; ++l) B(i, v) -= A(i, l) * B(l, v);
          B(i, v) /= A(i, i);
        }
      }
      return 0;
    }
    const auto transposed = [&](index_t i, index_t j) { return op == Op::trans ? A(j, i) : conjugate(A(j, i)); };
    for (index_t v = 0; v < nrhs; ++v) {
      for (index_t i = 0; i < n; ++i) {
        for (index_t l = 0; l < i; ++l) B(i, v) -= transposed(i, l) * B(l, v);
        B(i, v) /= transposed(i, i);
      }
      for (index_t i = n - 1; i >= 0; --i) {
        for (index_t l = i + 1; l < n; ++l) B(i, v) -= transposed(i, l) * B(l, v);
      }
    }
    interchange(B, nrhs, false);
    return 0;
  }

  /// Computes the inverse V of U in place, first column first, then X L = V, last column first. Last it permutes the
  /// columns of X as P permutes rows.
  index_t getri() const {
    if (const index_t zero = zero_on_diagonal(); zero != 0) return zero;
    for (index_t j = 0; j < n; ++j) {
      const T inverse = T(1) / A(j, j);
      A(j, j) = inverse;
      for (index_t i = 0; i < j; ++i) {  // row i of V times the column that still holds U
        T sum(0);
        for (index_t l = i; l < j; ++l) sum += A(i, l) * A(l, j);
        A(i, j) = -sum * inverse;
      }
    }
    std::vector<T> below(static_cast<std::size_t>(n));
    for (index_t j = n - 1; j >= 0; --j) {
      for (index_t l = j + 1; l < n; ++l) below[static_cast<std::size_t>(l)] = std::exchange(A(l, j), T(0));
      for (index_t i = 0; i < n; ++i) {
        for (index_t l = j + 1; l < n; ++l) A(i, j) -= A(i, l) * below[static_cast<std::size_t>(l)];
      }
    }
    if (!ipiv.are_there()) return 0;
    for (index_t j = n - 1; j >= 0; --j) {
      if (ipiv[j] == j) continue;
      for (index_t i = 0; i < n; ++i) std::swap(A(i, j), A(i, ipiv[j]));
    }
    return 0;
  }

  /// Interchanges rows k1 to k2, from 1. Row i has the pivot k1 + (i - k1) |incx|, from 1.
  void laswp(index_t k1, index_t k2, index_t incx) const {
    if (incx == 0) return;
    for (index_t t = k1; t <= k2; ++t) {
      const index_t i = incx > 0 ? t : k1 + k2 - t;
      swap_rows(A, n, i - 1, ipiv[k1 + (i - k1) * std::abs(incx) - 1]);
    }
  }

  index_t posv() const {
    const index_t info = potrf();
    return info != 0 ? info : potrs();
  }
  index_t gesv() const {
    const index_t info = getrf();
    return info != 0 ? info : getrs();
  }

  void begin_inverse() const {
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = 0; i < n; ++i) B(i, j) = T(i == j ? 1 : 0);
    }
  }
  void end_inverse(bool is_hermitian) const {
    const Lower<T> from(B, uplo), to(A, uplo);
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = is_hermitian ? j : 0; i < n; ++i) {
        if (is_hermitian)
          to.set(i, j, i == j ? T(std::real(from(i, j))) : from(i, j));
        else
          A(i, j) = B(i, j);
      }
    }
  }

  index_t factor(Routine routine) const {
    if (is_hermitian(routine)) return potrf();
    return routine == Routine::getrf_nopiv ? getrf_nopiv() : getrf();
  }

  index_t run(Routine routine) const {
    switch (routine) {
      case Routine::potrf:
        return potrf();
      case Routine::potrs:
        return potrs();
      case Routine::posv:
        return posv();
      case Routine::potri:
        return potri();
      case Routine::getrf:
        return getrf();
      case Routine::getrf_nopiv:
        return getrf_nopiv();
      case Routine::getrs:
        return getrs();
      case Routine::gesv:
        return gesv();
      case Routine::getri:
        return getri();
      default:
        return 0;
    }
  }
};

/// Minus the position of the first bad argument of a problem; 0: there is none.
int complaint(const LapackBatch& batch, index_t problem) {
  const LapackPositions positions = lapack_positions(batch.routine);
  const index_t n = batch.n.of(problem);
  const index_t rows = positions.m != 0 ? batch.m.of(problem) : n;
  constexpr index_t most = std::numeric_limits<int>::max();
  if (positions.m != 0 && (rows < 0 || rows > most)) return -positions.m;
  if (n < 0 || n > most) return -positions.n;
  if (positions.nrhs != 0 && batch.nrhs.of(problem) < 0) return -positions.nrhs;
  if (batch.lda.of(problem) < std::max<index_t>(rows, 1)) return -positions.lda;
  if (positions.ldb != 0 && batch.ldb.of(problem) < std::max<index_t>(n, 1)) return -positions.ldb;
  return 0;
}

void set_info(const LapackBatch& batch, index_t problem, index_t value) {
  if (batch.is_wide)
    static_cast<std::int64_t*>(batch.info)[problem] = value;
  else
    static_cast<int*>(batch.info)[problem] = static_cast<int>(value);
}

template <Scalar T>
Problem<T> problem_of(const LapackBatch& batch, index_t i) {
  Problem<T> problem;
  problem.n = batch.n.of(i);
  problem.m = has_m(batch.routine) ? batch.m.of(i) : problem.n;
  problem.nrhs = batch.nrhs.of(i);
  problem.A = {batch.A.as<T>().of(i), batch.lda.of(i)};
  if (batch.B.of_each != nullptr || batch.B.first != nullptr) problem.B = {batch.B.as<T>().of(i), batch.ldb.of(i)};
  problem.ipiv.is_wide = batch.is_wide;
  problem.ipiv.numbers = batch.is_wide ? static_cast<void*>(batch.ipiv.as<std::int64_t>().of(i))
                                       : static_cast<void*>(batch.ipiv.as<int>().of(i));
  problem.uplo = batch.uplo;
  problem.op = batch.op;
  problem.tiny = static_cast<Real<T>>(batch.tiny);
  return problem;
}

index_t info_of(const LapackBatch& batch, index_t problem) {
  if (batch.info == nullptr) return 0;
  return batch.is_wide ? static_cast<const std::int64_t*>(batch.info)[problem]
                       : static_cast<const int*>(batch.info)[problem];
}

template <Scalar T>
void run_step(const LapackBatch& batch, LapackStep step) {
  const bool is_first = step == LapackStep::check || step == LapackStep::factor || step == LapackStep::begin_inverse;
  for (index_t i = 0; i < batch.count; ++i) {
    index_t info = is_first && batch.info != nullptr ? complaint(batch, i) : info_of(batch, i);
    if (info == 0) {
      const Problem<T> problem = problem_of<T>(batch, i);
      switch (step) {
        case LapackStep::check:
          break;
        case LapackStep::factor:
          info = problem.factor(batch.routine);
          break;
        case LapackStep::solve:
          is_hermitian(batch.routine) ? problem.potrs() : problem.getrs();
          break;
        case LapackStep::interchange:
          problem.interchange(problem.B, problem.nrhs, problem.op == Op::no_trans);
          break;
        case LapackStep::begin_inverse:
          info = problem.zero_on_diagonal();
          if (info == 0) problem.begin_inverse();
          break;
        case LapackStep::end_inverse:
          problem.end_inverse(is_hermitian(batch.routine));
          break;
      }
    }
    if (batch.info != nullptr) set_info(batch, i, info);
  }
}

template <Scalar T>
void run(const LapackBatch& batch) {
  for (index_t i = 0; i < batch.count; ++i) {
    index_t info = batch.info != nullptr ? complaint(batch, i) : 0;
    if (info == 0) {
      const Problem<T> problem = problem_of<T>(batch, i);
      if (batch.routine == Routine::laswp)
        problem.laswp(batch.k1.of(i), batch.k2.of(i), batch.incx);
      else
        info = problem.run(batch.routine);
    }
    if (batch.info != nullptr) set_info(batch, i, info);
  }
}

}  // namespace

void reference_lapack_batch(const LapackBatch& batch) {
  dispatch(batch.type, [&]<Scalar T>(T) { run<T>(batch); });
}

void reference_lapack_step(const LapackBatch& batch, LapackStep step) {
  dispatch(batch.type, [&]<Scalar T>(T) { run_step<T>(batch, step); });
}

}  // namespace tessera::kernels
