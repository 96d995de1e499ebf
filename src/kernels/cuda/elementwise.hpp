// What cuBLAS leaves to us: a Level-3 call with alpha == 0 (C or its triangle is multiplied by beta, or set to zero),
// the imaginary part of a Hermitian C's diagonal, which counts as zero whatever is stored there, the addition of one
// tile to another, and the other triangle of a symmetric one.
#pragma once

#include <cuda_runtime_api.h>

#include "core/level3.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::cuda {

/// Submits it to the stream. beta == 0 does not read C, beta == 1 does nothing; trmm and trsm set C to zero; herk and her2k make
/// the diagonal real. @pre alpha == 0; the stream's GPU is current
cudaError_t scale(const Level3& call, cudaStream_t stream);

/// Sets the imaginary parts of C's diagonal to zero. cuBLAS's her2k reads them (a NaN there spoils the real part; seen in 13.1).
/// @pre call is a complex herk or her2k; the stream's GPU is current
cudaError_t make_diagonal_real(const Level3& call, cudaStream_t stream);

/// C += factor * X. @pre the stream's GPU is current
cudaError_t add(const Addition& addition, cudaStream_t stream);

/// Fills the other triangle. @pre the stream's GPU is current
cudaError_t mirror(const Mirroring& tile, cudaStream_t stream);

/// The m x n matrix C, with its columns one behind the other. @param to 16 bytes aligned, apart from C @pre the
/// stream's GPU is current
cudaError_t copy_to(void* to, const Level3& call, cudaStream_t stream);

/// Loads the kernels for the current GPU now, so that no worker waits for it, and tells if there are none for it.
cudaError_t load_elementwise_kernels();

}  // namespace tessera::kernels::cuda
