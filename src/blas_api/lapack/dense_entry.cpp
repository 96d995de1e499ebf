#include "blas_api/lapack/dense_entry.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include "blas_api/bridge.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"

namespace tessera::lapack {
namespace {

/// The LAPACK behind, with the arguments of one call.
struct Next : api::NextDense {
  Next(const DenseSymbol& symbol, void* function, std::span<void* const> arguments,
       std::span<const std::size_t> lengths, const DenseCall& call, int bits)
      : NextDense{[](const NextDense& self) noexcept {
          const Next& next = static_cast<const Next&>(self);
          next.symbol_.pass_on(next.function_, next.arguments_, next.lengths_);
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
  if (!call) return symbol.pass_on(next, arguments, lengths);
  const Next on_cpu(symbol, next, arguments, lengths, *call, bits);
  index_t info = 0, found = 0;
  if (!tessera_private_run_dense(call->problem, info, found, symbol.face.blas, on_cpu)) return;
  bits == 64 ? hand_out<std::int64_t>(*call, info, found) : hand_out<std::int32_t>(*call, info, found);
}

}  // namespace tessera::lapack
