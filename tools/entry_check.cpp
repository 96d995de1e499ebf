#include "entry_check.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "host_matrix.hpp"

namespace tessera::tools {
namespace {

using Value = std::complex<long double>;

Value load(ScalarType type, const void* base, std::int64_t index) {
  return dispatch(type, [&](auto tag) -> Value { return Value(static_cast<const decltype(tag)*>(base)[index]); });
}

/// The matrix that stored elements represent: its entries at any position, wherever they are stored.
struct Operand {
  enum class Kind { full, symmetric, hermitian, triangular };

  ScalarType type = ScalarType::d;
  const void* data = nullptr;
  index_t ld = 0;
  Op op = Op::no_trans;
  Kind kind = Kind::full;
  Uplo uplo = Uplo::lower;
  Diag diag = Diag::non_unit;

  Value at(index_t i, index_t j) const {
    if (op != Op::no_trans) std::swap(i, j);
    const bool stored = kind == Kind::full || (uplo == Uplo::lower ? i >= j : i <= j);
    bool conjugate = op == Op::conj_trans;
    if (!stored) {
      if (kind == Kind::triangular) return 0;
      std::swap(i, j);
      conjugate = kind == Kind::hermitian;
    }
    if (kind == Kind::triangular && diag == Diag::unit && i == j) return 1;
    const Value value = load(type, data, i + j * ld);
    if (kind == Kind::hermitian && i == j) return value.real();
    return conjugate ? std::conj(value) : value;
  }
};

/// One inner product: factor * sum over l of X(i, l) Y(l, j).
struct Term {
  Value factor;
  Operand X, Y;
};

std::vector<Term> terms_of(const Level3& call) {
  const Value alpha(call.alpha);
  Operand A{.type = call.type, .data = call.A, .ld = call.lda, .op = call.op_a, .uplo = call.uplo, .diag = call.diag};
  Operand B{.type = call.type, .data = call.B, .ld = call.ldb};
  const auto in_order = [&call, &alpha](const Operand& special, const Operand& other) -> std::vector<Term> {
    if (call.side == Side::left) return {{alpha, special, other}};
    return {{alpha, other, special}};
  };
  const auto transposed = [&call](Operand operand) {
    operand.op = operand.op != Op::no_trans ? Op::no_trans : call.is_hermitian() ? Op::conj_trans : Op::trans;
    return operand;
  };
  switch (call.routine) {
    case Routine::gemm:
    case Routine::gemmt:
      B.op = call.op_b;
      return {{alpha, A, B}};
    case Routine::symm:
    case Routine::hemm:
      A.kind = call.is_hermitian() ? Operand::Kind::hermitian : Operand::Kind::symmetric;
      return in_order(A, B);
    case Routine::syrk:
    case Routine::herk:
      return {{alpha, A, transposed(A)}};
    case Routine::syr2k:
    case Routine::her2k:
      B.op = call.op_a;
      return {{alpha, A, transposed(B)}, {call.is_hermitian() ? std::conj(alpha) : alpha, B, transposed(A)}};
    case Routine::trmm:
      A.kind = Operand::Kind::triangular;
      return in_order(A, B);
    default:
      break;
  }
  A.kind = Operand::Kind::triangular;
  std::vector<Term> residual = in_order(A, {.type = call.type, .data = call.C, .ld = call.ldc});
  residual[0].factor = 1;
  return residual;
}

// Omits std::complex's special cases for infinities.
Value multiply(Value x, Value y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

}  // namespace

EntryCheck::EntryCheck(const Level3& call, int entries) : call_(call) {
  inner_ = call.has_k() ? call.k : call.side == Side::left ? call.m : call.n;
  for (const std::int64_t i : {std::int64_t{0}, call.m - 1}) {
    for (const std::int64_t j : {std::int64_t{0}, call.n - 1}) entries_.push_back({i, j, {}, 0, {}});
  }
  std::mt19937_64 generator(20160401);
  std::uniform_int_distribution<std::int64_t> row(0, call.m - 1), column(0, call.n - 1);
  while (entries_.size() < static_cast<std::size_t>(entries)) {
    const std::int64_t i = row(generator);
    entries_.push_back({i, column(generator), {}, 0, {}});
  }
  if (call_.routine != Routine::trsm) compute_products();
}

bool EntryCheck::written(const Entry& entry) const {
  if (!call_.updates_triangle()) return true;
  return call_.uplo == Uplo::lower ? entry.i >= entry.j : entry.i <= entry.j;
}

void EntryCheck::compute_products() {
  const std::vector<Term> terms = terms_of(call_);
  for_each_part(static_cast<std::int64_t>(entries_.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      Entry& chosen = entries_[static_cast<std::size_t>(e)];
      chosen.product = 0;
      chosen.magnitude = 0;
      if (!written(chosen)) continue;
      for (const Term& term : terms) {
        Value sum = 0;
        long double magnitude = 0;
        for (std::int64_t l = 0; l < inner_; ++l) {
          const Value x = term.X.at(chosen.i, l), y = term.Y.at(l, chosen.j);
          sum += multiply(x, y);
          magnitude += std::sqrt(std::norm(x) * std::norm(y));
        }
        chosen.product += multiply(term.factor, sum);
        chosen.magnitude += std::abs(term.factor) * magnitude;
      }
    }
  });
}

void EntryCheck::remember() {
  const bool solves = call_.routine == Routine::trsm;
  for (Entry& chosen : entries_) {
    chosen.old = solves ? load(call_.type, call_.B, chosen.i + chosen.j * call_.ldb)
                        : load(call_.type, call_.C, chosen.i + chosen.j * call_.ldc);
  }
}

double EntryCheck::worst_error() {
  const bool single = call_.type == ScalarType::s || call_.type == ScalarType::c;
  const long double unit = single ? 0x1p-24L : 0x1p-53L;
  const long double products =
      static_cast<long double>(inner_) * (call_.routine == Routine::syr2k || call_.routine == Routine::her2k ? 2 : 1);
  const long double factor = 8 * std::sqrt(products + 2) * unit * (is_complex(call_.type) ? 2 * std::sqrt(2.0L) : 1);
  const bool solves = call_.routine == Routine::trsm;
  const bool real_diagonal = call_.is_hermitian() && call_.is_rank_update();
  const bool returns_at_once = call_.only_scales() && call_.beta == AnyScalar(1);
  if (solves) compute_products();  // of the solution X of this run
  // The term that is added to the inner product: beta C, or the right-hand side of the residual.
  const Value beta = solves ? Value(call_.alpha) : call_.is_triangular() ? Value(0) : Value(call_.beta);
  long double worst = 0;
  for (const Entry& chosen : entries_) {
    const Value value = load(call_.type, call_.C, chosen.i + chosen.j * call_.ldc);
    if (!written(chosen)) {
      if (value != chosen.old) return std::numeric_limits<double>::infinity();
      continue;
    }
    Value old = beta == Value(0) ? Value(0) : chosen.old;
    if (real_diagonal && chosen.i == chosen.j && !returns_at_once) old = old.real();
    const Value scaled = multiply(beta, old);
    const long double error = solves ? std::abs(chosen.product - scaled) : std::abs(value - chosen.product - scaled);
    const long double bound = factor * (chosen.magnitude + std::abs(scaled));
    if (!(error <= std::numeric_limits<long double>::max())) return std::numeric_limits<double>::infinity();
    if (error > 0) worst = std::max(worst, error / bound);
  }
  return static_cast<double>(worst);
}

}  // namespace tessera::tools
