#include "kernels/host/dense_lapack.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {
namespace {

/// As in cpu_lapack.cpp: a library reads the same value whether its integers have 32 or 64 bits.
using BlasInt = std::int64_t;
static_assert(std::endian::native == std::endian::little);

/// A routine's workspaces. Sizes of -1 query the needed sizes.
struct Spaces {
  void* work = nullptr;
  BlasInt lwork = -1;
  void* rwork = nullptr;
  BlasInt lrwork = -1;
  void* iwork = nullptr;
  BlasInt liwork = -1;
};

/// All arguments of Fortran are addresses, and the lengths of strings come last.
template <class... Arguments>
void call(void* function, Arguments... arguments) {
  reinterpret_cast<void (*)(Arguments...)>(function)(arguments...);
}

const char* letter_of(VectorJob job) {
  constexpr const char* letters[] = {"N", "S", "A", "O"};
  return letters[static_cast<int>(job)];
}
const char* letter_of(EigenRange range) {
  constexpr const char* letters[] = {"A", "V", "I"};
  return letters[static_cast<int>(range)];
}

class OneDenseProblem {
 public:
  OneDenseProblem(const LapackCall& problem, void* function, int integer_bits)
      : p_(problem), function_(function), integer_bits_(integer_bits) {
    Spaces query;
    AnyScalar work = 0;
    double rwork = 0;
    BlasInt iwork = 0;
    query.work = &work;
    query.rwork = &rwork;
    query.iwork = &iwork;
    DenseOutcome ignored;
    if (has_workspace()) run(query, ignored);
    const double first = real_at(&work), first_real = real_at(&rwork);
    const index_t least = is_svd(p_.routine) ? 5 * std::min(p_.m, p_.n) : 2 * p_.n;
    lwork_ = p_.routine == Routine::larfb ? unreflected() * p_.k : rounded(first);
    lrwork_ = std::max<BlasInt>(rounded(first_real), least);
    liwork_ = std::max<BlasInt>(iwork, 1);
    work_.resize(static_cast<std::size_t>(lwork_));
    rwork_.resize(static_cast<std::size_t>(lrwork_));
    iwork_.resize(static_cast<std::size_t>(liwork_));
    support_.resize(static_cast<std::size_t>(2 * p_.n));
    if (p_.routine == Routine::getri) pivots_.resize(static_cast<std::size_t>(p_.n));
  }

  /// Accesses the problem's memory here for the first time.
  int operator()(DenseOutcome& outcome) {
    if (p_.routine == Routine::getri) take_pivots();
    return run({work_.data(), lwork_, rwork_.data(), lrwork_, iwork_.data(), liwork_}, outcome);
  }

 private:
  double real_at(const void* number) const {
    float narrow = 0;
    double wide = 0;
    if (is_double())
      std::memcpy(&wide, number, sizeof(wide));
    else
      std::memcpy(&narrow, number, sizeof(narrow));
    return is_double() ? wide : static_cast<double>(narrow);
  }
  bool is_double() const { return real_bytes(p_.type) == sizeof(double); }
  /// Whether the routine takes a workspace, and reports the size that it needs.
  bool has_workspace() const {
    switch (p_.routine) {
      case Routine::larfb:
      case Routine::trtrs:
      case Routine::trtri:
      case Routine::lauum:
      case Routine::potri:
        return false;
      default:
        return true;
    }
  }
  BlasInt unreflected() const { return p_.side == Side::left ? p_.n : p_.m; }
  void take_pivots() {
    for (index_t i = 0; i < p_.n; ++i) {
      const BlasInt pivot = p_.ipiv_bits == 64 ? static_cast<const std::int64_t*>(p_.ipiv)[i]
                                               : static_cast<const std::int32_t*>(p_.ipiv)[i];
      if (integer_bits_ == 64)
        pivots_[static_cast<std::size_t>(i)] = pivot;
      else
        reinterpret_cast<std::int32_t*>(pivots_.data())[i] = static_cast<std::int32_t>(pivot);
    }
  }
  // Single precision does not hold large sizes exactly.
  static BlasInt rounded(double size) { return static_cast<BlasInt>(std::ceil(size * (1 + 1e-6))) + 1; }

  int run(const Spaces& spaces, DenseOutcome& outcome) {
    BlasInt info = 0;
    switch (p_.routine) {
      case Routine::heevd:
      case Routine::hegvd:
        run_eigen(spaces, &info);
        break;
      case Routine::heevr:
        run_some(spaces, &info, outcome);
        break;
      case Routine::gesdd:
      case Routine::gesvd:
        run_svd(spaces, &info);
        break;
      case Routine::ungqr:
        call(function_, &p_.m, &p_.n, &p_.k, p_.A, &p_.lda, p_.tau, spaces.work, &spaces.lwork, &info);
        break;
      case Routine::unmqr:
      case Routine::unmlq:
        call(function_, side(), op(), &p_.m, &p_.n, &p_.k, p_.A, &p_.lda, p_.tau, p_.B, &p_.ldb, spaces.work,
             &spaces.lwork, &info, std::size_t{1}, std::size_t{1});
        break;
      case Routine::unmtr:
        call(function_, side(), uplo(), op(), &p_.m, &p_.n, p_.A, &p_.lda, p_.tau, p_.B, &p_.ldb, spaces.work,
             &spaces.lwork, &info, std::size_t{1}, std::size_t{1}, std::size_t{1});
        break;
      case Routine::larfb: {
        const BlasInt ldwork = unreflected();
        call(function_, side(), op(), p_.order == ReflectorOrder::forward ? "F" : "B",
             p_.storage == ReflectorStorage::columns ? "C" : "R", &p_.m, &p_.n, &p_.k, p_.A, &p_.lda, p_.T, &p_.ldt,
             p_.B, &p_.ldb, spaces.work, &ldwork, std::size_t{1}, std::size_t{1}, std::size_t{1}, std::size_t{1});
        break;
      }
      case Routine::gels:
        call(function_, op(), &p_.m, &p_.n, &p_.k, p_.A, &p_.lda, p_.B, &p_.ldb, spaces.work, &spaces.lwork, &info,
             std::size_t{1});
        break;
      case Routine::gelsd:
        run_gelsd(spaces, &info, outcome);
        break;
      case Routine::trtrs:
        call(function_, uplo(), op(), diag(), &p_.n, &p_.k, p_.A, &p_.lda, p_.B, &p_.ldb, &info, std::size_t{1},
             std::size_t{1}, std::size_t{1});
        break;
      case Routine::geev:
        run_geev(spaces, &info);
        break;
      case Routine::trtri:
        call(function_, uplo(), diag(), &p_.n, p_.A, &p_.lda, &info, std::size_t{1}, std::size_t{1});
        break;
      case Routine::getri:
        call(function_, &p_.n, p_.A, &p_.lda, static_cast<void*>(pivots_.data()), spaces.work, &spaces.lwork, &info);
        break;
      case Routine::lauum:
      case Routine::potri:
        call(function_, uplo(), &p_.n, p_.A, &p_.lda, &info, std::size_t{1});
        break;
      default:
        throw InternalError(name_of(p_) + " is not solved whole");
    }
    return static_cast<std::int32_t>(info);
  }

  void run_eigen(const Spaces& s, BlasInt* info) {
    const auto with = [&](auto... first) {
      if (is_complex(p_.type))
        call(function_, first..., p_.values, s.work, &s.lwork, s.rwork, &s.lrwork, s.iwork, &s.liwork, info,
             std::size_t{1}, std::size_t{1});
      else
        call(function_, first..., p_.values, s.work, &s.lwork, s.iwork, &s.liwork, info, std::size_t{1},
             std::size_t{1});
    };
    const BlasInt itype = p_.itype;
    if (p_.routine == Routine::hegvd)
      with(&itype, vectors(), uplo(), &p_.n, p_.A, &p_.lda, p_.B, &p_.ldb);
    else
      with(vectors(), uplo(), &p_.n, p_.A, &p_.lda);
  }

  void run_some(const Spaces& s, BlasInt* info, DenseOutcome& outcome) {
    const float narrow[] = {static_cast<float>(p_.vl), static_cast<float>(p_.vu), 0.0F};
    const double wide[] = {p_.vl, p_.vu, 0.0};
    const auto bound = [&](int i) {
      return is_double() ? static_cast<const void*>(wide + i) : static_cast<const void*>(narrow + i);
    };
    BlasInt found = 0;
    const BlasInt one = 1;
    const BlasInt* const ldz = p_.vectors ? &p_.ldu : &one;
    const auto with = [&](auto... last) {
      call(function_, vectors(), letter_of(p_.range), uplo(), &p_.n, p_.A, &p_.lda, bound(0), bound(1), &p_.il, &p_.iu,
           bound(2), &found, p_.values, p_.U, ldz, static_cast<void*>(support_.data()), s.work, &s.lwork, last...,
           s.iwork, &s.liwork, info, std::size_t{1}, std::size_t{1}, std::size_t{1});
    };
    if (is_complex(p_.type))
      with(s.rwork, &s.lrwork);
    else
      with();
    outcome.found = found;
  }

  void run_svd(const Spaces& s, BlasInt* info) {
    const BlasInt one = 1;
    const BlasInt* const ldu = p_.u == VectorJob::none ? &one : &p_.ldu;
    const BlasInt* const ldvt = p_.vt == VectorJob::none ? &one : &p_.ldvt;
    const auto with = [&](auto... last) {
      call(function_, letter_of(p_.u), letter_of(p_.vt), &p_.m, &p_.n, p_.A, &p_.lda, p_.values, p_.U, ldu, p_.VT, ldvt,
           s.work, &s.lwork, last..., info, std::size_t{1}, std::size_t{1});
    };
    if (is_complex(p_.type))
      with(s.rwork);
    else
      with();
  }

  void run_geev(const Spaces& s, BlasInt* info) {
    const BlasInt one = 1;
    const BlasInt* const ldu = p_.vectors ? &p_.ldu : &one;
    void* const none = nullptr;
    if (is_complex(p_.type))
      call(function_, "N", vectors(), &p_.n, p_.A, &p_.lda, p_.values, none, &one, p_.U, ldu, s.work, &s.lwork, s.rwork,
           info, std::size_t{1}, std::size_t{1});
    else
      call(function_, "N", vectors(), &p_.n, p_.A, &p_.lda, p_.values, p_.imaginary, none, &one, p_.U, ldu, s.work,
           &s.lwork, info, std::size_t{1}, std::size_t{1});
  }

  void run_gelsd(const Spaces& s, BlasInt* info, DenseOutcome& outcome) {
    const auto narrow = static_cast<float>(p_.rcond);
    const void* const rcond = is_double() ? static_cast<const void*>(&p_.rcond) : &narrow;
    BlasInt rank = 0;
    const auto with = [&](auto... real) {
      call(function_, &p_.m, &p_.n, &p_.k, p_.A, &p_.lda, p_.B, &p_.ldb, p_.values, rcond, &rank, s.work, &s.lwork,
           real..., s.iwork, info);
    };
    if (is_complex(p_.type))
      with(s.rwork);
    else
      with();
    outcome.found = static_cast<std::int32_t>(rank);
  }

  const char* side() const { return p_.side == Side::left ? "L" : "R"; }
  const char* diag() const { return p_.diag == Diag::unit ? "U" : "N"; }
  /// The conjugate transpose of a real matrix is called T, too. Of a complex matrix only trtrs knows the plain
  /// transpose.
  const char* op() const {
    if (p_.op == Op::no_trans) return "N";
    return is_complex(p_.type) && p_.op == Op::conj_trans ? "C" : "T";
  }
  const char* uplo() const { return p_.uplo == Uplo::lower ? "L" : "U"; }
  const char* vectors() const { return p_.vectors ? "V" : "N"; }

  LapackCall p_;
  void* function_;
  int integer_bits_;
  BlasInt lwork_ = 1, lrwork_ = 1, liwork_ = 1;
  std::vector<AnyScalar> work_;  // of the largest element type, so that it is aligned for all types
  std::vector<double> rwork_;
  std::vector<BlasInt> iwork_, support_, pivots_;
};

void* function_of(const DenseLapack::Find& find, Routine routine, ScalarType type) {
  // gesvd replaces gesdd, because its jobs are more general.
  const Routine called = routine == Routine::gesdd ? Routine::gesvd : routine;
  const std::string name = letter(type) + std::string(name_of(called, type));
  void* const function = find(name.c_str());
  if (function == nullptr) throw NotAvailable("the CPU BLAS has no " + name);
  return function;
}

}  // namespace

DenseLapack::DenseLapack(const Find& find, int integer_bits) : integer_bits_(integer_bits) {
  for (const Routine routine : routines_of<Way::whole>) {
    for (const ScalarType type : scalar_types) {
      functions_[number_of(routine)][static_cast<std::size_t>(type)] = function_of(find, routine, type);
    }
  }
}

std::function<int(DenseOutcome&)> DenseLapack::prepare(const LapackCall& problem) const {
  const auto one = std::make_shared<OneDenseProblem>(problem, function(problem), integer_bits_);
  return [one](DenseOutcome& outcome) { return (*one)(outcome); };
}

int DenseLapack::compute(const Find& find, int integer_bits, const LapackCall& problem, DenseOutcome& outcome) {
  return OneDenseProblem(problem, function_of(find, problem.routine, problem.type), integer_bits)(outcome);
}

double largest_element(ScalarType type, const LapackOperand& operand) {
  return dispatch(type, [&]<Scalar T>(T) {
    double largest = 0;
    const auto look_at = [&](double value) {
      if (std::isnan(value) || std::abs(value) > largest) largest = std::abs(value);
    };
    const T* const A = reinterpret_cast<const T*>(operand.address);
    for (index_t j = 0; j < operand.read_cols; ++j) {
      const index_t first = operand.read_part == Part::lower ? j : 0;
      const index_t last = operand.read_part == Part::upper ? j + 1 : operand.read_rows;
      for (index_t i = first; i < last && !std::isnan(largest); ++i) {
        const AnyScalar value = A[i + j * operand.ld];
        look_at(value.real());
        // Imaginary parts on a Hermitian diagonal are ignored.
        if (!std::isnan(largest) && (operand.read_part == Part::full || i != j)) look_at(value.imag());
      }
    }
    return largest;
  });
}

void measure_here(const LapackCall& problem, DenseTelling& telling) {
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (operand.reads && operand.slot <= LapackSlot::B)
      telling.largest[static_cast<int>(operand.slot)] = largest_element(problem.type, operand);
  }
}

}  // namespace tessera::kernels
