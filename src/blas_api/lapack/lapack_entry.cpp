#include "blas_api/lapack/lapack_entry.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>

#include "blas_api/bridge.hpp"
#include "blas_api/drop_in/error_exit.hpp"
#include "blas_api/lapack/in_lapack.hpp"
#include "blas_api/lapack/next_symbol.hpp"
#include "core/arguments.hpp"
#include "core/dense_results.hpp"
#include "core/environment.hpp"

namespace tessera::lapack {
namespace {

/// Calls the next definition with these arguments.
void pass_on(LapackCallRoutine routine, void* next, const Arguments& a) {
  const auto call = [next](auto... arguments) {
    reinterpret_cast<void (*)(decltype(arguments)...)>(next)(arguments...);
  };
  switch (routine) {
    case LapackCallRoutine::potrf:
      return call(a.option, a.n, a.A, a.lda, a.info, a.length);
    case LapackCallRoutine::potrs:
    case LapackCallRoutine::posv:
      return call(a.option, a.n, a.nrhs, a.A, a.lda, a.B, a.ldb, a.info, a.length);
    case LapackCallRoutine::getrf:
      return call(a.m, a.n, a.A, a.lda, a.ipiv, a.info);
    case LapackCallRoutine::getrs:
      return call(a.option, a.n, a.nrhs, a.A, a.lda, a.ipiv, a.B, a.ldb, a.info, a.length);
    case LapackCallRoutine::gesv:
      return call(a.n, a.nrhs, a.A, a.lda, a.ipiv, a.B, a.ldb, a.info);
    case LapackCallRoutine::geqrf:
      return call(a.m, a.n, a.A, a.lda, a.tau, a.work, a.lwork, a.info);
  }
}

/// A call, or what LAPACK complains of.
struct Parsed {
  LapackCall call;
  int bad_position = 0;
  bool asks_for_workspace = false;
};

Parsed parse(const Symbol& symbol, const Arguments& a, int bits) {
  Parsed parsed;
  LapackCall& call = parsed.call;
  call.routine = symbol.routine;
  call.type = symbol.type;
  call.n = read_integer(a.n, bits);
  call.m = has_m(symbol.routine) ? read_integer(a.m, bits) : call.n;
  call.nrhs = read_integer(a.nrhs, bits);
  call.lda = read_integer(a.lda, bits);
  call.ldb = read_integer(a.ldb, bits);
  call.A = a.A;
  call.B = a.B;
  call.ipiv = a.ipiv;
  call.ipiv_bits = bits;
  call.tau = a.tau;
  parsed.bad_position = first_bad_size(call);
  if (a.option != nullptr) {
    const std::optional<Uplo> uplo = uplo_from_letter(*a.option);
    const std::optional<Op> op = op_from_letter(*a.option);
    const bool has_uplo = is_hermitian(symbol.routine);
    if (has_uplo ? !uplo : !op) parsed.bad_position = 1;
    call.uplo = uplo.value_or(Uplo::lower);
    call.op = op.value_or(Op::no_trans);
  }
  if (symbol.routine == LapackCallRoutine::geqrf) {
    constexpr int position_of_lwork = 7;
    const index_t lwork = read_integer(a.lwork, bits);
    parsed.asks_for_workspace = lwork == -1;
    if (parsed.bad_position == 0 && lwork < std::max<index_t>(call.n, 1) && !parsed.asks_for_workspace)
      parsed.bad_position = position_of_lwork;
  }
  return parsed;
}

/// The size of geqrf's workspace that suits it, in its first element, as the next definition tells it.
void tell_workspace(const Symbol& symbol, const Arguments& a, void* next, const LapackCall& call) {
  constexpr std::int64_t asks = -1;
  std::int64_t info = 0;
  if (next != nullptr) {
    Arguments question = a;
    question.lwork = &asks;
    question.info = &info;
    return pass_on(symbol.routine, next, question);
  }
  constexpr index_t block = 64;
  dispatch(symbol.type,
           [&]<Scalar T>(T) { *static_cast<T*>(a.work) = T(rounded_up<decltype(std::abs(T{}))>(call.n * block)); });
}

/// Without a LAPACK behind us: its error exit, its answer to a question, or nothing.
void answer_alone(Symbol& symbol, const Arguments& a, const Parsed& parsed, int bits) {
  write_integer(a.info, bits, -parsed.bad_position);
  if (parsed.bad_position != 0) {
    api::report_fortran(symbol.face.blas, {letter(symbol.type), name_of(symbol.routine)}, parsed.bad_position);
  } else if (symbol.routine == LapackCallRoutine::geqrf) {
    tell_workspace(symbol, a, nullptr, parsed.call);
  }
}

struct Next : api::NextLapack {
  Next(Symbol& symbol, void* function, const Arguments& arguments, int bits)
      : NextLapack{[](const NextLapack& self, LapackCall& call) noexcept {
          const Next& next = static_cast<const Next&>(self);
          const InLapack inside(next.symbol_.face.blas);
          pass_on(next.symbol_.routine, next.function_, next.arguments_);
          call.info = read_integer(next.arguments_.info, next.bits_);
        }},
        symbol_(symbol),
        function_(function),
        arguments_(arguments),
        bits_(bits) {}

 private:
  Symbol& symbol_;
  void* function_;
  const Arguments& arguments_;
  int bits_;
};

}  // namespace

void enter(Symbol& symbol, const Arguments& arguments, void* caller) {
  const double begin_s = entered_s(symbol.next);
  void* const next = next_of(symbol.face, symbol.name, symbol.next, caller);
  const int bits = bits_of(symbol.face, next);
  Parsed parsed = parse(symbol, arguments, bits);
  // Pivots and info of devices have 32 bits.
  const bool is_too_large = std::max(parsed.call.m, parsed.call.n) > std::numeric_limits<std::int32_t>::max();
  if (is_too_large && next == nullptr) parsed.bad_position = position_of(symbol.routine, LapackParameter::n);
  if (parsed.bad_position != 0 || parsed.asks_for_workspace || does_nothing(parsed.call)) {
    if (next != nullptr) return pass_on(symbol.routine, next, arguments);
    return answer_alone(symbol, arguments, parsed, bits);
  }
  const Next on_cpu(symbol, next, arguments, bits);
  if (is_too_large) return on_cpu.compute(on_cpu, parsed.call);
  if (!tessera_private_run_lapack(parsed.call, symbol.face.blas, next != nullptr ? &on_cpu : nullptr, begin_s)) return;
  write_integer(arguments.info, bits, parsed.call.info);
  if (symbol.routine == LapackCallRoutine::geqrf) tell_workspace(symbol, arguments, next, parsed.call);
}

}  // namespace tessera::lapack
