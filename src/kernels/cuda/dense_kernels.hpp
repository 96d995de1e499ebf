// What problems that a GPU solves whole take beside calls of cuSOLVER: their largest elements, and conjugate transposes.
#pragma once

#include <cuda_runtime_api.h>

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

/// Loads the kernels for the current GPU now, and tells if there are none for it.
cudaError_t load_dense_kernels();

}  // namespace tessera::kernels::cuda
