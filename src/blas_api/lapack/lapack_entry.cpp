#include "blas_api/lapack/lapack_entry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "blas_api/blas/error_exit.hpp"
#include "blas_api/lapack/in_lapack.hpp"
#include "calls/lapack_fortran.hpp"
#include "calls/nonfinite_problem.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "offload/bridge.hpp"

namespace tessera::lapack {
namespace {

void hand_out(const FortranCall& call, int bits, index_t info, index_t found) {
  bits == 64 ? tessera::hand_out<std::int64_t>(call, info, found) : tessera::hand_out<std::int32_t>(call, info, found);
}

/// @param called the routine by its name: heev and hegv iterate where heevd and hegvd hand NaN on
/// @return info; nothing if LAPACK can compute the call
std::optional<index_t> answer_nonfinite(const FortranCall& call, Routine called, int bits) {
  index_t found = 0;
  std::optional<index_t> info = tessera::answer_nonfinite(call.problem, found);
  if (!info) return std::nullopt;
  if (*info == 0 && called != call.problem.routine) info = info_of_iteration(call.problem);
  if (call.left != nullptr) {
    LapackOperand left;
    left.address = static_cast<std::byte*>(call.left);
    left.rows = left.cols = call.problem.n;
    left.ld = call.ldleft;
    left.element_bytes = static_cast<index_t>(element_bytes(call.problem.type));
    fill_with_nan(left, call.problem.type);
  }
  hand_out(call, bits, *info, found);
  return info;
}

/// To the LAPACK behind.
void go_on_to(void* function, const Symbol& symbol, std::span<void* const> arguments,
              std::span<const std::size_t> lengths) {
  const InLapack inside(symbol.face.blas);
  symbol.pass_on(function, arguments, lengths);
}

/// The LAPACK behind, with the arguments of one call. It never gets numbers that it would iterate on without end.
struct Next : offload::NextLapack {
  Next(const Symbol& symbol, void* function, std::span<void* const> arguments, std::span<const std::size_t> lengths,
       const FortranCall& call, int bits)
      : NextLapack{[](const NextLapack& self) noexcept {
          const Next& next = static_cast<const Next&>(self);
          if (const auto info = answer_nonfinite(next.call_, next.symbol_.routine, next.bits_)) return *info;
          go_on_to(next.function_, next.symbol_, next.arguments_, next.lengths_);
          return next.call_.info != nullptr ? read_integer(next.call_.info, next.bits_) : 0;
        }},
        symbol_(symbol),
        function_(function),
        arguments_(arguments),
        lengths_(lengths),
        call_(call),
        bits_(bits) {}

 private:
  const Symbol& symbol_;
  void* function_;
  std::span<void* const> arguments_;
  std::span<const std::size_t> lengths_;
  const FortranCall& call_;
  int bits_;
};

/// There is no LAPACK behind us: the program has been linked with nothing but this library.
void tell_of_none(const Symbol& symbol) {
  const ErrnoKept stays;
  try {
    log_line(std::string("no LAPACK is loaded that has ") + symbol.name + ": nothing is computed");
  } catch (const std::exception&) {  // no memory for the line
  }
}

/// Pivots and info of devices have 32 bits.
bool is_too_large(const FortranCall& call) {
  return std::max(call.problem.m, call.problem.n) > std::numeric_limits<std::int32_t>::max();
}

/// Without a LAPACK behind us: its error exit, its answer to a question, or nothing.
void answer_alone(const Symbol& symbol, FortranCall& call, int bits) {
  if (call.bad_position == 0 && is_too_large(call)) call.bad_position = position_of(symbol.routine, Parameter::n);
  if (call.asks_for_sizes) {
    constexpr index_t block = 64;
    call.lwork = std::max<index_t>(call.lwork, 1) * block;  // the least has been taken from the results
  }
  hand_out(call, bits, -call.bad_position, 0);
  if (call.bad_position != 0)
    blas::report_fortran(symbol.face.blas, {symbol.name[0], symbol.name + 1}, call.bad_position);
}

/// Sets the workspace's first element, after devices have computed a call, to the size that the LAPACK behind asks for.
void tell_workspace(void* next, const Symbol& symbol, std::span<void* const> arguments,
                    std::span<const std::size_t> lengths) {
  std::int64_t asks = -1, info = 0;
  std::vector<void*> question(arguments.begin(), arguments.end());
  question[static_cast<std::size_t>(position_of(symbol.routine, Parameter::lwork) - 1)] = &asks;
  question[static_cast<std::size_t>(position_of(symbol.routine, Parameter::info) - 1)] = &info;
  go_on_to(next, symbol, question, lengths);
}

/// @return whether the call was a small one, which the LAPACK behind has computed
bool compute_small(const Symbol& symbol, std::span<void* const> arguments, std::span<const std::size_t> lengths) {
  void* const next = symbol.next.found.load(std::memory_order_relaxed);
  const int bits = symbol.face.integer_bits.load(std::memory_order_relaxed);
  // A fork needs facts of the CPU BLAS, which are known once it has been opened.
  if (next == nullptr || bits == 0 || symbol.face.blas.cpu.load(std::memory_order_acquire) == nullptr) return false;
  const index_t size = small_size(symbol.small, symbol.type, arguments, bits);
  if (size == 0 || !tessera_private_enter_small(volume_of_small(symbol.small, size))) return false;
  const InLapack inside;
  symbol.pass_on(next, arguments, lengths);
  return true;
}

/// Routines that are computed even if there is no LAPACK behind us: by the CPU BLAS, and what comes with it.
bool needs_no_lapack(Routine routine) { return row_of(routine).way == Way::factors; }

}  // namespace

void enter(Symbol& symbol, std::span<void* const> arguments, std::span<const std::size_t> lengths, void* caller) {
  if (compute_small(symbol, arguments, lengths)) return;
  const double begin_s = entered_s(symbol.next);
  void* const next = next_of(symbol.face, symbol.name, symbol.next, caller);
  const int bits = bits_of(symbol.face, next);
  if (next == nullptr && !needs_no_lapack(symbol.routine)) {
    tell_of_none(symbol);
    // Where there is one, info stands last.
    if (!has_info(symbol.routine)) return;
    return write_integer(arguments.back(), bits, -static_cast<index_t>(arguments.size()));
  }
  FortranCall call = bits == 64 ? fortran_call_of<std::int64_t>(symbol.routine, symbol.type, arguments)
                                : fortran_call_of<std::int32_t>(symbol.routine, symbol.type, arguments);
  if (call.bad_position != 0 || call.asks_for_sizes || call.does_nothing || is_too_large(call)) {
    if (next == nullptr) return answer_alone(symbol, call, bits);
    go_on_to(next, symbol, arguments, lengths);
    if (call.asks_for_sizes && read_integer(call.info, bits) == 0) raise_sizes(call);
    return;
  }
  const Next on_cpu(symbol, next, arguments, lengths, call, bits);
  if (!call.is_for_devices) {
    on_cpu.compute(on_cpu);
    return;
  }
  index_t info = 0, found = 0;
  if (!tessera_private_run_lapack(call.problem, info, found, symbol.face.blas, next != nullptr ? &on_cpu : nullptr,
                                  begin_s))
    return;
  hand_out(call, bits, info, found);
  if (next != nullptr && makes_reflectors(symbol.routine)) tell_workspace(next, symbol, arguments, lengths);
}

}  // namespace tessera::lapack
