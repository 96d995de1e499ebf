// Operations that cuBLAS does not have, or not reliably:
//   - Level-3 calls with alpha == 0: C or its triangle is multiplied by beta, or set to zero;
//   - zeroing the imaginary parts of a Hermitian C's diagonal, which count as zero for any stored value;
//   - the addition of one tile to another;
//   - filling the other triangle of a symmetric tile.
#pragma once

#include <cuda_runtime_api.h>

#include "calls/level3.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::cuda {

/// Submits the scaling to the stream. beta == 0 does not read C, and beta == 1 does nothing. trmm and trsm set C to
/// zero; herk and her2k make the diagonal real. @pre alpha == 0; the stream's GPU is current
cudaError_t scale(const Level3& call, cudaStream_t stream);

/// Sets the imaginary parts of C's diagonal to zero. cuBLAS's her2k reads them, and a NaN there spoils the real part
/// (seen in 13.1). @pre call is a complex herk or her2k; the stream's GPU is current
cudaError_t make_diagonal_real(const Level3& call, cudaStream_t stream);

/// C += factor * X. @pre the stream's GPU is current
cudaError_t add(const Addition& addition, cudaStream_t stream);

/// Fills the other triangle. @pre the stream's GPU is current
cudaError_t mirror(const Mirroring& tile, cudaStream_t stream);

/// Copies the m x n matrix C without padding between columns.
/// @param to aligned to 16 bytes; does not overlap C
/// @pre the stream's GPU is current
cudaError_t copy_to(void* to, const Level3& call, cudaStream_t stream);

/// Loads the kernels for the current GPU, so that no worker waits for that. @return an error if there are none for it
cudaError_t load_elementwise_kernels();

}  // namespace tessera::kernels::cuda
