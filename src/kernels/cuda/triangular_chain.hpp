// Triangular solves with few right-hand sides: one launch for many rows of the triangle. Its thread blocks pass on
// solved rows to each other (block/trsm_chain.hpp). Solves are backward stable like substitution; no block is inverted.
// Nothing is allocated, and the host does not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "calls/level3.hpp"
#include "kernels/plan/solve_choice.hpp"

namespace tessera::kernels::cuda {

/// Device memory for the communication of a launch's thread blocks. One launch at a time may use it, so it belongs to a
/// stream. It must hold zeros at first; each launch leaves it ready for the next one.
inline constexpr std::size_t chain_memory_bytes =
    sizeof(unsigned long long) * (8 + static_cast<std::size_t>(plan::most_chain_marks));

/// The distance of the memories of several streams that lie in one piece.
inline constexpr std::size_t chain_memory_pitch = (chain_memory_bytes + 255) / 256 * 256;

/// Columns of strips, from plan::chain_strips, for which the GPU's thread blocks have enough shared memory, by type.
using ChainStrips = std::array<std::vector<int>, std::size(scalar_types)>;

/// Submits a trsm to the stream.
/// @pre m, n >= 1; plan::fits_chain(); the stream's GPU is current
/// @param strip_columns of plan::chain_strips, among those that the GPU has memory for
/// @param memory of chain_memory_bytes, for this stream
cudaError_t submit_chain(const Level3& call, cudaStream_t stream, int strip_columns, void* memory);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_chain_kernels(ChainStrips& strips);

}  // namespace tessera::kernels::cuda
