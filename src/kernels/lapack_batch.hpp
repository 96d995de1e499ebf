// Many calls of one of LAPACK's routines that factor, solve and invert, in one type and variant, on matrices in the
// memory of one device. As in level3_batch.hpp, arrays in that memory hold the arguments that differ.
#pragma once

#include <cstddef>

#include "calls/lapack.hpp"
#include "core/scalar.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

/// Memory of the device that a launch may use until it is done.
struct Workspace {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

/// Bytes of workspace that an inverse (potri, getri) of order n can use. Rounded up, so that the next one is aligned.
constexpr index_t inverse_bytes(ScalarType type, index_t n) {
  return (n * n * static_cast<index_t>(element_bytes(type)) + 255) / 256 * 256;
}

struct LapackBatch {
  Routine routine = Routine::getrf;
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;  ///< of Cholesky factors
  Op op = Op::no_trans;     ///< getrs
  index_t count = 0;
  /// The common sizes, or upper bounds of the sizes in arrays. A bound of 0 means that there is none; getri and potri
  /// need one. A is max_m x max_n in getrf and getrf_nopiv, max_n x max_n in the others, and has max_n columns in
  /// laswp.
  index_t max_m = 0, max_n = 0, max_nrhs = 0;
  NumberOfEach m, n, nrhs, lda, ldb;  ///< m: of getrf and getrf_nopiv
  /// laswp: rows k1 to k2, from 1, are interchanged by the pivots k1, k1 + |incx|, ...; incx < 0: in reverse order.
  NumberOfEach k1, k2;
  index_t incx = 1;
  UntypedMatrixOfEach A, B;  ///< none if the common sizes leave nothing to do in them
  /// Numbers from 1, with 64 bits if `is_wide`, else int. If both addresses are null, rows are not interchanged.
  UntypedMatrixOfEach ipiv;
  /// getrf_nopiv: replaces pivots of smaller magnitude, and takes over their sign (0: positive). Complex: the magnitude
  /// is |re| + |im|, and the direction stays. 0: no pivot is replaced.
  double tiny = 0;
  /// Per problem 0; -p: argument p of the Fortran interface is bad, and the problem is left out; > 0: as LAPACK reports
  /// it. As wide as the pivots. nullptr only if nothing but arguments can be wrong; they are not checked then.
  void* info = nullptr;
  bool is_wide = false;

  bool has_sizes_of_each() const { return n.of_each != nullptr; }
};

}  // namespace tessera::kernels
