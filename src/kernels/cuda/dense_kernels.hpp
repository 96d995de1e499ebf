// The kernels that a GPU needs for whole problems beside calls of cuSOLVER: largest elements, conjugate transposes,
// matrices with zeros beside a triangle, quotients by singular values, pivots.
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

/// Raises *largest to the largest absolute value of a real or imaginary part in the matrix, or in the triangle of a
/// square matrix. The result is NaN if the matrix has one.
/// @param real_diagonal imaginary parts on the diagonal do not count
/// @pre *largest is not negative; the stream's GPU is current, here and below
cudaError_t find_largest(const DenseMatrix& matrix, Part part, bool real_diagonal, double* largest,
                         cudaStream_t stream);

/// Writes the conjugate transpose to `to`, which is n x m. @pre the matrices do not overlap
cudaError_t transpose(const DenseMatrix& from, const DenseMatrix& to, cudaStream_t stream);

/// The part of a matrix on one side of its diagonal row - column == shift. A diagonal of ones is not stored.
struct Trapezoid {
  Part part = Part::lower;
  index_t shift = 0;
  Diag diag = Diag::non_unit;
};
/// Copies that part of the matrix, with its ones, to `to` of the same size, and sets the rest of `to` to zero.
/// @pre the matrices are the same or do not overlap
cudaError_t copy_trapezoid(const DenseMatrix& from, const Trapezoid& trapezoid, const DenseMatrix& to,
                           cudaStream_t stream);

/// Divides row i of B by values[i]. The values descend, and are real numbers of B's type. Rows with values[i] <= rcond
/// * values[0] become zero. If rcond is outside (0, 1) the rounding unit replaces it, as in gelsd.
/// @param rank is increased by the number of larger values
cudaError_t divide_by_values(const DenseMatrix& B, const void* values, double rcond, std::int64_t* rank,
                             cudaStream_t stream);
/// The value of rcond that gelsd uses. @tparam Real type of the values
template <class Real>
Real effective_rcond(double rcond) {
  const auto given = static_cast<Real>(rcond);
  return given <= 0 || given >= 1 ? std::numeric_limits<Real>::epsilon() / 2 : given;
}

/// Copies the pivots of A's factors, which are integers of `bits`, in 64 bits. A positive pivot belongs to one element of the
/// diagonal. If such an element is zero, *info becomes the place of one of them, from 1.
cudaError_t read_pivots(const DenseMatrix& A, const void* ipiv, int bits, std::int64_t* wide, int* info,
                        cudaStream_t stream);

/// Loads the kernels for the current GPU. @return an error if there are none for it
cudaError_t load_dense_kernels();
/// Loads transpose() and copy_trapezoid() alone, which panels need, too.
cudaError_t load_copy_kernels();

}  // namespace tessera::kernels::cuda
