// The positions of arguments in the Fortran interface. A problem of a batch reports its bad argument by position.
#pragma once

#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

/// 0: the routine has no such argument.
struct ArgumentPositions {
  int m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
};

constexpr ArgumentPositions argument_positions(Routine routine) {
  const auto of = [&](Parameter parameter) { return position_of(routine, parameter); };
  return {of(Parameter::m),   of(Parameter::n),   of(Parameter::k),
          of(Parameter::lda), of(Parameter::ldb), of(Parameter::ldc)};
}

/// Whether a leading dimension is smaller than the rows that are stored, or than 1.
constexpr TESSERA_HOST_DEVICE bool is_short_run(index_t ld, index_t rows) { return ld < (rows > 1 ? rows : 1); }

}  // namespace tessera::kernels::block
