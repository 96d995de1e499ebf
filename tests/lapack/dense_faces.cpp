// The symbols of iterative routines and of indefinite systems of libtessera_lapack.so, which is preloaded before a LAPACK. Inputs on which LAPACK
// would iterate without end return, huge and tiny numbers are scaled, and the workspace sizes that it returns are
// enough. The environment selects where problems are computed.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "blas_api/lapack/lapack_entry.hpp"
#include "calls/nonfinite_problem.hpp"
#include "tests/dense_fixture.hpp"

namespace {
std::optional<int> complained_position;
}  // namespace

/// LAPACK's own stops the program.
extern "C" __attribute__((visibility("default"))) void xerbla_(const char* /*name*/, const std::int32_t* position,
                                                               std::size_t /*length*/) {
  complained_position = *position;
}

namespace tessera::test {
namespace {

using enum VectorJob;

struct Symbol {
  Routine entry;
  ScalarType type;
  const char* name;
  void (*call)(void* function, std::span<void* const> arguments, std::span<const std::size_t> lengths);
};
constexpr Symbol symbols[] = {
#define TESSERA_CALL(routine, name, letter, T, arguments, letters) \
  {Routine::routine, scalar_type_of<T>(), #letter #name "_", pass_on<arguments, letters>},
#include "calls/lapack_symbols.def"
#undef TESSERA_CALL
};

/// The arguments of an interface beside the problem.
struct Form {
  Routine entry;
  LapackCall problem;
  bool has_left = false;
};

/// One call with the arguments of Fortran, whose integers have 32 bits.
class FortranCall {
 public:
  FortranCall(const Symbol& symbol, const Form& form, const LapackCall& problem)
      : symbol_(symbol), parameters_(parameters_of(symbol.entry, is_complex(symbol.type))), p_(problem) {
    using enum Parameter;
    const auto order = static_cast<std::size_t>(p_.n);
    if (p_.m == 0) p_.m = p_.n;
    // Enough for all problems of this test.
    const index_t spaces = std::min<index_t>(12 * p_.n * p_.n + 100 * p_.n + 3000, 300000);
    work_.resize(static_cast<std::size_t>(spaces));
    rwork_.resize(static_cast<std::size_t>(spaces));
    iwork_.resize(static_cast<std::size_t>(spaces));
    support_.assign(2 * order, untouched);
    ifail_.assign(order, untouched);
    if (has(Parameter::left) && p_.n < 1000) left_.assign(order * (order + 1), AnyScalar(1, 1));
    for (const auto& [parameter, value] : std::map<Parameter, index_t>{{itype, p_.itype},
                                                                       {m, p_.m},
                                                                       {Parameter::n, p_.n},
                                                                       {k, p_.k},
                                                                       {nrhs, p_.k},
                                                                       {lda, p_.lda},
                                                                       {ldb, p_.ldb},
                                                                       {ldu, p_.ldu},
                                                                       {ldvt, p_.ldvt},
                                                                       {ldleft, p_.n + 1},
                                                                       {il, p_.il},
                                                                       {iu, p_.iu},
                                                                       {found, untouched},
                                                                       {info, untouched}})
      set(parameter, std::max<index_t>(value, parameter == ldu || parameter == ldvt ? 1 : value));
    for (const Parameter size : {lwork, lrwork, liwork}) set(size, spaces);
    const VectorJob of_gesdd = p_.vt == overwrite ? overwrite : p_.u;
    const char of_others = p_.vectors ? 'V' : 'N';
    letters_ = {{jobz, symbol.entry == Routine::gesdd ? job_of(of_gesdd) : of_others},
                {jobu, job_of(p_.u)},
                {jobvt, job_of(p_.vt)},
                {jobvl, form.has_left ? 'V' : 'N'},
                {jobvr, of_others},
                {range, "AVI"[static_cast<int>(p_.range)]},
                {uplo, p_.uplo == Uplo::lower ? 'L' : 'U'},
                {side, 'L'},
                {trans, 'N'},
                {diag, 'N'},
                {vect, 'Q'},
                {direct, 'F'},
                {storev, 'C'}};
    for (const auto& [parameter, value] :
         std::map<Parameter, double>{{vl, p_.vl}, {vu, p_.vu}, {rcond, p_.rcond}, {abstol, 0.0}}) {
      wide_[parameter] = value;
      narrow_[parameter] = static_cast<float>(value);
    }
  }
  void set_letter(Parameter parameter, char value) { letters_[parameter] = value; }
  void set(Parameter parameter, index_t value) { integers_[parameter] = static_cast<std::int32_t>(value); }
  void ask_for_sizes() {
    for (const Parameter size : {Parameter::lwork, Parameter::lrwork, Parameter::liwork}) set(size, -1);
  }

  /// @return info
  index_t run() {
    void* const function = dlsym(RTLD_DEFAULT, symbol_.name);
    EXPECT_NE(function, nullptr) << symbol_.name;
    std::vector<void*> arguments;
    std::vector<std::size_t> lengths(letters_of(symbol_.entry), 1);
    for (const Parameter parameter : parameters_) {
      if (parameter == Parameter::none) break;
      arguments.push_back(address(parameter));
    }
    symbol_.call(function, arguments, lengths);
    return integers_.at(Parameter::info);
  }
  index_t found() const { return integers_.at(Parameter::found); }
  bool has(Parameter parameter) const {
    return std::find(parameters_.begin(), parameters_.end(), parameter) != parameters_.end();
  }
  int position_of(Parameter parameter) const {
    return static_cast<int>(std::find(parameters_.begin(), parameters_.end(), parameter) - parameters_.begin()) + 1;
  }
  double told(const void* space) const {
    return real_bytes(symbol_.type) == sizeof(float) ? static_cast<double>(*static_cast<const float*>(space))
                                                     : *static_cast<const double*>(space);
  }
  double told_work() const { return told(work_.data()); }
  double told_rwork() const { return told(rwork_.data()); }
  const std::vector<std::int32_t>& ifail() const { return ifail_; }
  /// Memory for left eigenvectors, n x n with one row of padding.
  template <Scalar T>
  const T& left(index_t i, index_t j) const {
    return reinterpret_cast<const T*>(left_.data())[i + j * (p_.n + 1)];
  }

  static constexpr std::int32_t untouched = 4711;

 private:
  static char job_of(VectorJob job) { return "NSAO"[static_cast<int>(job)]; }

  void* address(Parameter parameter) {
    using enum Parameter;
    if (integers_.contains(parameter)) return &integers_[parameter];
    if (letters_.contains(parameter)) return &letters_[parameter];
    if (wide_.contains(parameter))
      return real_bytes(symbol_.type) == sizeof(float) ? static_cast<void*>(&narrow_[parameter]) : &wide_[parameter];
    switch (parameter) {
      case A:
        return p_.A;
      case B:
        return p_.B;
      case U:
        return p_.U;
      case VT:
        return p_.VT;
      case values:
        return p_.values;
      case imaginary:
        return p_.imaginary;
      case ipiv:
        return p_.ipiv;
      case Parameter::left:
        return left_.data();
      case support:
        return support_.data();
      case Parameter::ifail:
        return ifail_.data();
      case work:
        return work_.data();
      case rwork:
        return rwork_.data();
      case iwork:
        return iwork_.data();
      default:
        return nullptr;
    }
  }

  Symbol symbol_;
  Parameters parameters_;
  LapackCall p_;
  std::map<Parameter, std::int32_t> integers_;
  std::map<Parameter, char> letters_;
  std::map<Parameter, double> wide_;
  std::map<Parameter, float> narrow_;
  std::vector<AnyScalar> work_, left_;
  std::vector<double> rwork_;
  std::vector<std::int32_t> iwork_, support_, ifail_;
};

/// The workspaces of an iterative routine, for one size.
std::vector<Form> forms_of(Routine entry, index_t n) {
  const Routine routine = row_of(entry).computed_as;
  std::vector<Form> forms;
  const auto add = [&](LapackCall problem, bool has_left = false) {
    problem.routine = routine;
    problem.n = n;
    forms.push_back({entry, problem, has_left});
  };
  if (is_hermitian(routine)) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      for (const bool vectors : {false, true}) add({.vectors = vectors, .uplo = uplo});
    }
    if (routine == Routine::heevr) {
      add({.vectors = true, .range = EigenRange::indices, .il = 2, .iu = n - 1});
      add({.range = EigenRange::values, .vl = -1, .vu = 1});
      add({.vectors = true, .range = EigenRange::values, .vl = -1, .vu = 1});
    }
  } else if (is_svd(routine)) {
    for (const index_t m : {n, n + 4, 2 * n}) {
      for (const VectorJob job : {none, thin, all}) add({.u = job, .vt = job, .m = m});
      add({.u = overwrite, .vt = entry == Routine::gesdd ? all : none, .m = m});
    }
    add({.u = all, .vt = overwrite, .m = n - 1});
  } else if (routine == Routine::geev) {
    for (const bool has_left : {false, true}) {
      for (const bool vectors : {false, true}) add({.vectors = vectors}, has_left);
    }
  } else {
    for (const index_t m : {n, n + 4, n - 1}) add({.m = m, .k = 2, .rcond = -1});
  }
  return forms;
}

/// @param check gets the symbol, the form, and a scalar of its type
template <class Check>
void for_each_form(const std::vector<index_t>& orders, const Check& check) {
  for (const Symbol& symbol : symbols) {
    if (!iterates(row_of(symbol.entry).computed_as)) continue;
    SCOPED_TRACE(symbol.name);
    for (const index_t n : orders) {
      for (const Form& form : forms_of(symbol.entry, n))
        dispatch(symbol.type, [&]<Scalar T>(T type) { check(symbol, form, type); });
    }
  }
}

class DenseFaces : public testing::Test {
 protected:
  void SetUp() override { alarm(120); }  // ends a hang
  void TearDown() override { alarm(0); }
};

TEST_F(DenseFaces, AnswerMatricesThatAreNotFinite) {
  for_each_form({3, 40, 130}, []<Scalar T>(const Symbol& symbol, const Form& form, T) {
    using Real = decltype(std::abs(T{}));
    for (const Real number : {std::numeric_limits<Real>::quiet_NaN(), -std::numeric_limits<Real>::infinity()}) {
      DenseFixture<T> fixture(form.problem, 5);
      fixture.at(LapackSlot::A, 1, 1) = T(number);
      fixture.begin_with_ones();
      const LapackCall& p = fixture.problem();
      FortranCall call(symbol, form, p);
      const bool tells_nan = p.routine == Routine::gesdd || p.routine == Routine::geev;
      const bool some = p.range == EigenRange::indices;
      const index_t not_converged = finds_singular_values(p.routine) ? std::min(p.m, p.n)
                                    : some                           ? p.iu - p.il + 1
                                                                     : p.n;
      index_t info = tells_nan && std::isnan(number) ? -4 : not_converged;
      if (p.routine == Routine::heevd || p.routine == Routine::hegvd) {
        // Vectors of large matrices come from divide and conquer, which tells nothing; heev and hegv iterate.
        const bool divides = symbol.entry == p.routine && p.vectors && p.n > 25;
        info = divides ? 0 : p.n - 1;
      }
      EXPECT_EQ(call.run(), info) << p;
      const bool finds_some = p.routine == Routine::heevr;
      if (finds_some) {
        EXPECT_EQ(call.found(), p.range == EigenRange::values ? 0 : not_converged) << p;
      } else if (p.routine == Routine::gelsd) {
        EXPECT_EQ(call.found(), 0) << p;
      }
      EXPECT_TRUE(fixture.results_are_nan(finds_some ? call.found() : 0));
      if (call.has(Parameter::ifail) && p.vectors) {
        EXPECT_EQ(call.ifail()[0], 1);
        EXPECT_EQ(call.ifail()[static_cast<std::size_t>(not_converged) - 1], not_converged);
      }
      if (call.has(Parameter::left)) {
        for (const index_t j : {index_t{0}, p.n - 1}) {
          EXPECT_EQ(std::isnan(std::abs(call.left<T>(0, j))), form.has_left) << p;
          EXPECT_EQ(std::isnan(std::abs(call.left<T>(p.n - 1, j))), form.has_left) << p;
          EXPECT_FALSE(std::isnan(std::abs(call.left<T>(p.n, j)))) << "padding";
        }
      }
    }
  });
}

TEST_F(DenseFaces, ComplainOfArgumentsAndTellSizesFirst) {
  for_each_form({3}, []<Scalar T>(const Symbol& symbol, const Form& form, T) {
    DenseFixture<T> fixture(form.problem, 5);
    fixture.at(LapackSlot::A, 1, 1) = T(std::numeric_limits<decltype(std::abs(T{}))>::quiet_NaN());
    fixture.begin_with_ones();
    FortranCall wrong(symbol, form, fixture.problem());
    wrong.set(Parameter::lda, 1);
    complained_position.reset();
    const int position = wrong.position_of(Parameter::lda);
    EXPECT_EQ(wrong.run(), -position) << fixture.problem();
    FortranCall short_of(symbol, form, fixture.problem());
    short_of.set(Parameter::lwork, 1);
    EXPECT_EQ(short_of.run(), -short_of.position_of(Parameter::lwork)) << fixture.problem();
    FortranCall question(symbol, form, fixture.problem());
    question.ask_for_sizes();
    EXPECT_EQ(question.run(), 0) << fixture.problem();
    EXPECT_GE(question.told_work(), 1);
    EXPECT_TRUE(fixture.inputs_are_intact());
    for (const LapackOperand& operand : LapackOperands(fixture.problem())) {
      if (operand.slot == LapackSlot::values) {
        EXPECT_FALSE(std::isnan(*reinterpret_cast<const decltype(std::abs(T{}))*>(operand.address)));
      }
    }
  });
}

// The values are those of the plain problem, scaled.
TEST_F(DenseFaces, ScaleHugeAndTinyNumbers) {
  for_each_form({3, 40}, []<Scalar T>(const Symbol& symbol, const Form& form, T) {
    using Real = decltype(std::abs(T{}));
    // Eigenvalues of general matrices have no defined order, and a range selects others after scaling.
    if (form.problem.routine == Routine::geev || form.problem.range == EigenRange::values) return;
    const Real huge = sizeof(Real) == sizeof(float) ? Real(1e35) : Real(1e300);
    const auto run = [&](DenseFixture<T>& fixture, Real scale) {
      const LapackOperand A = *LapackOperands(fixture.problem()).begin();
      for (index_t j = 0; j < A.cols; ++j) {
        for (index_t i = 0; i < A.rows; ++i) {
          T& element = fixture.at(LapackSlot::A, i, j);
          if (A.read_part != Part::full && i == j) element = T(std::real(element));
          element *= scale;
        }
      }
      fixture.begin_with_ones();
      FortranCall call(symbol, form, fixture.problem());
      EXPECT_EQ(call.run(), 0) << fixture.problem();
    };
    DenseFixture<T> plain(form.problem, 5);
    run(plain, 1);
    const LapackCall& p = plain.problem();
    const index_t count = finds_singular_values(p.routine) ? std::min(p.m, p.n) : most_found(p);
    const auto* const expected = static_cast<const Real*>(p.values);
    const Real largest = std::max(std::abs(expected[0]), std::abs(expected[count - 1]));
    for (const Real scale : {huge, 1 / huge}) {
      DenseFixture<T> fixture(form.problem, 5);
      run(fixture, scale);
      const auto* const values = static_cast<const Real*>(fixture.problem().values);
      for (index_t i = 0; i < count; ++i)
        EXPECT_LE(std::abs(values[i] / scale - expected[i]), largest * 1000 * std::numeric_limits<Real>::epsilon())
            << p;
    }
  });
}

TEST_F(DenseFaces, SolveIndefiniteSystems) {
  for (const Symbol& symbol : symbols) {
    if (!pivots_diagonally(symbol.entry)) continue;
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      for (const index_t n : {1, 3, 40, 130}) {
        const Form form{symbol.entry, {.routine = symbol.entry, .uplo = uplo, .n = n, .k = 3, .ipiv_bits = 32}};
        dispatch(symbol.type, [&]<Scalar T>(T) {
          DenseFixture<T> fixture(form.problem, 5);
          EXPECT_TRUE(fixture.check(FortranCall(symbol, form, fixture.problem()).run()));
        });
      }
    }
  }
}

// In the order of the interface, by LAPACK's own error exit.
TEST_F(DenseFaces, ComplainOfArgumentsOfIndefiniteSystems) {
  using enum Parameter;
  for (const Symbol& symbol : symbols) {
    if (!pivots_diagonally(symbol.entry)) continue;
    const Form form{symbol.entry, {.routine = symbol.entry, .n = 20, .k = 3, .ipiv_bits = 32}};
    dispatch(symbol.type, [&]<Scalar T>(T) {
      DenseFixture<T> fixture(form.problem, 5);
      const auto expect_complaint = [&](Parameter parameter, index_t value) {
        FortranCall call(symbol, form, fixture.problem());
        if (!call.has(parameter)) return;
        parameter == uplo ? call.set_letter(parameter, 'X') : call.set(parameter, value);
        complained_position.reset();
        EXPECT_EQ(call.run(), -call.position_of(parameter)) << symbol.name;
        EXPECT_EQ(complained_position, call.position_of(parameter)) << symbol.name;
        EXPECT_TRUE(fixture.inputs_are_intact());
      };
      expect_complaint(uplo, 0);
      for (const Parameter size : {n, nrhs}) expect_complaint(size, -1);
      for (const Parameter ld : {lda, ldb}) expect_complaint(ld, 19);
      expect_complaint(lwork, 0);
    });
  }
}

// For ssyevd LAPACK 3.11 returns 16837400, but requires 16837401. Nothing is computed here.
TEST_F(DenseFaces, TellSizesThatAreEnough) {
  for (const Symbol& symbol : symbols) {
    for (const index_t n : {2900, 3333, 4097, 5001}) {
      Form form{symbol.entry, {.routine = row_of(symbol.entry).computed_as, .type = symbol.type, .vectors = true}};
      form.problem.u = form.problem.vt = all;
      form.problem.m = form.problem.n = form.problem.k = n;
      form.problem.lda = form.problem.ldb = form.problem.ldu = form.problem.ldvt = n;
      FortranCall call(symbol, form, form.problem);
      if (!call.has(Parameter::lwork)) continue;
      call.ask_for_sizes();
      EXPECT_EQ(call.run(), 0) << symbol.name;
      const auto least = lapack_fortran::least_workspace(symbol.entry, form.problem);
      EXPECT_GE(call.told_work(), static_cast<double>(least.work)) << symbol.name << ' ' << n;
      if (call.has(Parameter::lrwork)) {
        EXPECT_GE(call.told_rwork(), static_cast<double>(least.rwork)) << symbol.name << ' ' << n;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test
