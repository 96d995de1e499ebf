#include "blas_api/lapack/dense_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "blas_api/bridge.hpp"
#include "blas_api/lapack/in_lapack.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/nonfinite_problem.hpp"

namespace tessera::lapack {
namespace {

void hand_out(const DenseCall& call, int bits, index_t info, index_t found) {
  bits == 64 ? hand_out<std::int64_t>(call, info, found) : hand_out<std::int32_t>(call, info, found);
}

/// @return info; nothing if LAPACK can compute the call
std::optional<index_t> answer_nonfinite(const DenseCall& call, int bits) {
  index_t found = 0;
  const std::optional<index_t> info = tessera::answer_nonfinite(call.problem, found);
  if (!info) return std::nullopt;
  if (call.left != nullptr) {
    DenseOperand left;
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
void go_on_to(void* function, const DenseSymbol& symbol, std::span<void* const> arguments,
              std::span<const std::size_t> lengths) {
  const InLapack inside(symbol.face.blas);
  symbol.pass_on(function, arguments, lengths);
}

/// The LAPACK behind, with the arguments of one call. It never gets numbers that it would iterate on without end.
struct Next : api::NextDense {
  Next(const DenseSymbol& symbol, void* function, std::span<void* const> arguments,
       std::span<const std::size_t> lengths, const DenseCall& call, int bits)
      : NextDense{[](const NextDense& self) noexcept {
          const Next& next = static_cast<const Next&>(self);
          if (const auto info = answer_nonfinite(next.call_, next.bits_)) return *info;
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
  const DenseSymbol& symbol_;
  void* function_;
  std::span<void* const> arguments_;
  std::span<const std::size_t> lengths_;
  const DenseCall& call_;
  int bits_;
};

/// There is no LAPACK behind us: the program has been linked with nothing but this library.
void tell_of_none(const DenseSymbol& symbol) {
  const ErrnoKept stays;
  try {
    log_line(std::string("no LAPACK is loaded that has ") + symbol.name + ": nothing is computed");
  } catch (const std::exception&) {  // no memory for the line
  }
}

}  // namespace

void enter(DenseSymbol& symbol, std::span<void* const> arguments, std::span<const std::size_t> lengths, void* caller) {
  const double begin_s = entered_s(symbol.next);
  void* const next = next_of(symbol.face, symbol.name, symbol.next, caller);
  const int bits = bits_of(symbol.face, next);
  if (next == nullptr) {
    tell_of_none(symbol);
    // Where there is one, info stands last.
    if (!has_info(symbol.entry)) return;
    return write_integer(arguments.back(), bits, -static_cast<index_t>(arguments.size()));
  }
  const std::optional<DenseCall> call = bits == 64 ? dense_call_of<std::int64_t>(symbol.entry, symbol.type, arguments)
                                                   : dense_call_of<std::int32_t>(symbol.entry, symbol.type, arguments);
  if (!call) return go_on_to(next, symbol, arguments, lengths);
  if (call->asks_for_sizes) {
    go_on_to(next, symbol, arguments, lengths);
    if (read_integer(call->info, bits) == 0) raise_sizes(*call);
    return;
  }
  const Next on_cpu(symbol, next, arguments, lengths, *call, bits);
  if (!call->is_for_devices) {
    on_cpu.compute(on_cpu);
    return;
  }
  index_t info = 0, found = 0;
  if (!tessera_private_run_dense(call->problem, info, found, symbol.face.blas, on_cpu, begin_s)) return;
  hand_out(*call, bits, info, found);
}

}  // namespace tessera::lapack
