#include "kernels/host/dense_lapack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calls/fortran_function.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/parameters.hpp"

namespace tessera::kernels {
namespace {

/// As in cpu_lapack.cpp: a library reads the same value whether its integers have 32 or 64 bits.
using BlasInt = std::int64_t;
static_assert(std::endian::native == std::endian::little);

/// gesvd takes the place of gesdd, because its jobs are more general.
constexpr Routine called_for(Routine routine) { return routine == Routine::gesdd ? Routine::gesvd : routine; }

using PassOnByRoutine = std::array<std::array<PassOn, 2>, routine_count>;
template <Way way>
constexpr void add_routines_of(PassOnByRoutine& by_routine) {
  constexpr const auto& routines = routines_of<way>;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((by_routine[number_of(routines[i])] = {pass_on_of<routines[i], false>, pass_on_of<routines[i], true>}), ...);
  }
  (std::make_index_sequence<routines.size()>());
}
/// How the interface of each routine is called, in real types and in complex ones.
constexpr PassOnByRoutine pass_on_by_routine = [] {
  PassOnByRoutine by_routine{};
  add_routines_of<Way::whole>(by_routine);
  add_routines_of<Way::factors>(by_routine);
  return by_routine;
}();

const char* letter_of(VectorJob job) {
  constexpr const char* letters[] = {"N", "S", "A", "O"};
  return letters[static_cast<int>(job)];
}
const char* letter_of(EigenRange range) {
  constexpr const char* letters[] = {"A", "V", "I"};
  return letters[static_cast<int>(range)];
}

/// A real number in the precision of a type.
struct RealArgument {
  explicit RealArgument(double value) : wide(value), narrow(static_cast<float>(value)) {}
  double wide;
  float narrow;
};

/// A problem as a call of its routine's interface: an address for each parameter.
class OneDenseProblem {
 public:
  OneDenseProblem(const LapackCall& problem, void* function, int integer_bits)
      : p_(problem),
        called_(called_for(problem.routine)),
        function_(function),
        integer_bits_(integer_bits),
        vl_(problem.vl),
        vu_(problem.vu),
        rcond_(problem.rcond) {
    if (has(called_, Parameter::lwork)) ask_for_sizes();
    if (called_ == Routine::larfb) lwork_ = ldwork_ * p_.k;
    work_.resize(static_cast<std::size_t>(lwork_));
    if (is_passed(Parameter::rwork)) rwork_.resize(static_cast<std::size_t>(lrwork_));
    iwork_.resize(static_cast<std::size_t>(liwork_));
    if (is_passed(Parameter::support)) support_.resize(static_cast<std::size_t>(2 * p_.n));
    if (has_own_pivots()) pivots_.resize(static_cast<std::size_t>(p_.n));
  }

  /// Accesses the problem's memory here for the first time.
  int operator()(DenseOutcome& outcome) {
    if (has_own_pivots()) take_pivots();
    call(work_.data(), rwork_.data(), iwork_.data());
    if (has_own_pivots()) give_pivots();
    outcome.found = static_cast<std::int32_t>(found_);
    return static_cast<std::int32_t>(info_);
  }

 private:
  bool is_double() const { return real_bytes(p_.type) == sizeof(double); }
  double real_at(const void* number) const {
    float narrow = 0;
    double wide = 0;
    if (is_double())
      std::memcpy(&wide, number, sizeof(wide));
    else
      std::memcpy(&narrow, number, sizeof(narrow));
    return is_double() ? wide : static_cast<double>(narrow);
  }
  bool is_passed(Parameter parameter) const {
    return position_in(parameters_of(called_, is_complex(p_.type)), parameter) != 0;
  }
  /// Single precision does not hold large sizes exactly, and narrow integers not all of them: then LAPACK tells a negative
  /// one. A smaller workspace only makes smaller blocks.
  BlasInt rounded(double size, BlasInt least) const {
    const double most = integer_bits_ == 64 ? 0x1p62 : std::numeric_limits<std::int32_t>::max();
    return std::max(static_cast<BlasInt>(std::min(std::ceil(size * (1 + 1e-6)) + 1, most)), least);
  }

  void ask_for_sizes() {
    AnyScalar work = 0;
    double rwork = 0;
    BlasInt iwork = 0;
    lwork_ = lrwork_ = liwork_ = -1;
    call(&work, &rwork, &iwork);
    const index_t least = is_svd(p_.routine) ? 5 * std::min(p_.m, p_.n) : 2 * p_.n;
    lwork_ = rounded(real_at(&work), !makes_reflectors(called_) ? 1 : is(called_, in_rows) ? p_.m : p_.n);
    lrwork_ = rounded(real_at(&rwork), least);
    liwork_ = std::max<BlasInt>(iwork, 1);
  }

  /// The library's integers differ from the problem's.
  bool has_own_pivots() const { return has(called_, Parameter::ipiv) && integer_bits_ != p_.ipiv_bits; }
  template <class F>
  void with_own_pivots(F f) {
    integer_bits_ == 64 ? f(pivots_.data()) : f(reinterpret_cast<std::int32_t*>(pivots_.data()));
  }
  void take_pivots() {
    for (const LapackOperand& operand : LapackOperands(p_)) {
      if (operand.slot == LapackSlot::ipiv && operand.reads) copy_pivots(true);
    }
  }
  void give_pivots() {
    for (const LapackOperand& operand : LapackOperands(p_)) {
      if (operand.slot == LapackSlot::ipiv && operand.writes) copy_pivots(false);
    }
  }
  /// @param to_own else from there
  void copy_pivots(bool to_own) {
    dispatch_pivots(p_, [&]<class Theirs>(Theirs* theirs) {
      with_own_pivots([&]<class Own>(Own* own) {
        for (index_t i = 0; i < std::min(rows_of(p_), p_.n); ++i) {
          if (to_own)
            own[i] = static_cast<Own>(theirs[i]);
          else
            theirs[i] = static_cast<Theirs>(own[i]);
        }
      });
    });
  }

  void call(void* work, void* rwork, void* iwork) {
    space_ = {work, rwork, iwork};
    const bool complex = is_complex(p_.type);
    std::array<void*, most_parameters> arguments{};
    std::size_t count = 0;
    for (const Parameter parameter : parameters_of(called_, complex)) {
      if (parameter != Parameter::none) arguments[count++] = const_cast<void*>(address_of(parameter));
    }
    constexpr std::array<std::size_t, 4> lengths = {1, 1, 1, 1};
    const PassOn pass_on = pass_on_by_routine[number_of(called_)][complex ? 1 : 0];
    if (pass_on == nullptr) throw InternalError(name_of(p_) + " is no routine of LAPACK");
    pass_on(function_, std::span(arguments.data(), count), std::span(lengths.data(), letters_of(called_)));
  }

  const void* address_of(Parameter parameter) {
    if (is_letter(parameter)) return letter_of(parameter);
    if (const std::optional<LapackSlot> slot = slot_of(parameter))
      return is_leading_dimension(parameter) ? ld_of(*slot) : address_of(*slot);
    switch (parameter) {
      case Parameter::itype:
        return &itype_;
      case Parameter::m:
        return &p_.m;
      case Parameter::n:
        return &p_.n;
      case Parameter::k:
      case Parameter::nrhs:
        return &p_.k;
      case Parameter::vl:
        return real(vl_);
      case Parameter::vu:
        return real(vu_);
      case Parameter::abstol:
        return real(zero_);
      case Parameter::rcond:
        return real(rcond_);
      case Parameter::il:
        return &p_.il;
      case Parameter::iu:
        return &p_.iu;
      case Parameter::found:
        return &found_;
      case Parameter::left:  // which no problem has
        return nullptr;
      case Parameter::ldleft:
        return &one_;
      case Parameter::support:
        return support_.data();
      case Parameter::ldwork:
        return &ldwork_;
      case Parameter::info:
        return &info_;
      default:
        return workspace(parameter);
    }
  }
  const void* workspace(Parameter parameter) const {
    switch (parameter) {
      case Parameter::work:
        return space_.work;
      case Parameter::lwork:
        return &lwork_;
      case Parameter::rwork:
        return space_.rwork;
      case Parameter::lrwork:
        return &lrwork_;
      case Parameter::iwork:
        return space_.iwork;
      case Parameter::liwork:
        return &liwork_;
      default:
        throw InternalError(name_of(p_) + std::string(" is called without ") + name_of(parameter));
    }
  }
  void* address_of(LapackSlot slot) {
    if (slot == LapackSlot::ipiv && has_own_pivots()) return pivots_.data();
    return tessera::address_of(p_, slot);
  }
  /// LAPACK wants a leading dimension even of what is not asked for.
  const BlasInt* ld_of(LapackSlot slot) {
    const BlasInt& ld = tessera::ld_of(p_, slot);
    return ld > 0 ? &ld : &one_;
  }
  const void* real(const RealArgument& number) const {
    return is_double() ? static_cast<const void*>(&number.wide) : &number.narrow;
  }

  const char* letter_of(Parameter parameter) const {
    using kernels::letter_of;
    switch (parameter) {
      case Parameter::jobu:
        return letter_of(p_.u);
      case Parameter::jobvt:
        return letter_of(p_.vt);
      case Parameter::range:
        return letter_of(p_.range);
      case Parameter::uplo:
        return p_.uplo == Uplo::lower ? "L" : "U";
      case Parameter::side:
        return p_.side == Side::left ? "L" : "R";
      case Parameter::trans:
        return op();
      case Parameter::diag:
        return p_.diag == Diag::unit ? "U" : "N";
      case Parameter::direct:
        return p_.order == ReflectorOrder::forward ? "F" : "B";
      case Parameter::storev:
        return p_.storage == ReflectorStorage::columns ? "C" : "R";
      case Parameter::jobz:
      case Parameter::jobvr:
        return p_.vectors ? "V" : "N";
      default:
        return "N";  // jobvl
    }
  }
  /// The conjugate transpose of a real matrix is called T, too. Of a complex matrix only trtrs knows the plain
  /// transpose.
  const char* op() const {
    if (p_.op == Op::no_trans) return "N";
    return is_complex(p_.type) && p_.op == Op::conj_trans ? "C" : "T";
  }

  LapackCall p_;
  Routine called_;
  void* function_;
  int integer_bits_;
  RealArgument vl_, vu_, rcond_, zero_{0};
  BlasInt itype_ = p_.itype, ldwork_ = p_.side == Side::left ? p_.n : p_.m, one_ = 1, found_ = 0, info_ = 0;
  BlasInt lwork_ = 1, lrwork_ = 1, liwork_ = 1;
  /// Of the current call.
  struct Space {
    void *work = nullptr, *rwork = nullptr, *iwork = nullptr;
  } space_;
  std::vector<AnyScalar> work_;  // of the largest element type, so that it is aligned for all types
  std::vector<double> rwork_;
  std::vector<BlasInt> iwork_, support_, pivots_;
};

void* function_of(const DenseLapack::Find& find, Routine routine, ScalarType type) {
  const std::string name = letter(type) + std::string(name_of(called_for(routine), type));
  void* const function = find(name.c_str());
  if (function == nullptr) throw NotAvailable("the CPU BLAS has no " + name);
  return function;
}

}  // namespace

DenseLapack::DenseLapack(const Find& find, int integer_bits) : integer_bits_(integer_bits) {
  for (const Routine routine : routines_of<Way::whole>) {
    for (const ScalarType type : scalar_types) {
      if (exists(routine, type))
        functions_[number_of(routine)][static_cast<std::size_t>(type)] = function_of(find, routine, type);
    }
  }
}

std::function<int(DenseOutcome&)> DenseLapack::prepare(const LapackCall& problem) const {
  if (function(problem) == nullptr) throw NotAvailable(name_of(problem) + " is not solved whole");
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
        if (!std::isnan(largest) && !(operand.real_diagonal && i == j)) look_at(value.imag());
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
