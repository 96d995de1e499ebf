// What problems that a GPU solves whole take beside calls of cuSOLVER: their largest elements, conjugate transposes, matrices
// with zeros beside a triangle, quotients by singular values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "core/scalar.hpp"

namespace tessera::kernels::cuda {

/// A column-major matrix in the GPU's memory.
struct DenseMatrix {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;
};

/// *largest becomes the larger of itself and the largest absolute value of a real or imaginary part in the matrix, or of
/// the triangle, which then is square; NaN if there is one. @pre *largest is not negative; the stream's GPU is current,
/// here and below
cudaError_t find_largest(const DenseMatrix& matrix, Part part, double* largest, cudaStream_t stream);

/// to, n x m, is the conjugate transpose. @pre they lie apart
cudaError_t transpose(const DenseMatrix& from, const DenseMatrix& to, cudaStream_t stream);

/// What of a matrix is on one side of its diagonal, where row - column == shift; a diagonal of ones is not stored.
struct Trapezoid {
  Part part = Part::lower;
  index_t shift = 0;
  Diag diag = Diag::non_unit;
};
/// to, of the same size, is that part of the matrix, with its ones, and zero elsewhere. @pre they are the same or lie apart
cudaError_t copy_trapezoid(const DenseMatrix& from, const Trapezoid& trapezoid, const DenseMatrix& to,
                           cudaStream_t stream);

/// Row i of B is divided by values[i], which descend and are real numbers of B's type; where values[i] <= rcond * values[0], it
/// becomes zero. rcond outside of (0, 1) is taken for the rounding unit, as gelsd does.
/// @param rank is increased by the number of those that are larger
cudaError_t divide_by_values(const DenseMatrix& B, const void* values, double rcond, std::int64_t* rank,
                             cudaStream_t stream);
/// What gelsd takes rcond for. @tparam Real of the values
template <class Real>
Real effective_rcond(double rcond) {
  const auto given = static_cast<Real>(rcond);
  return given <= 0 || given >= 1 ? std::numeric_limits<Real>::epsilon() / 2 : given;
}

/// Loads the kernels for the current GPU now, and tells if there are none for it.
cudaError_t load_dense_kernels();

}  // namespace tessera::kernels::cuda
