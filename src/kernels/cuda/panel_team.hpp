// Parts of QR panels on one GPU, each factored by a team of thread blocks in one launch (kernels/block/block_team.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/block/block_team.hpp"
#include "kernels/panel.hpp"

namespace tessera::kernels::cuda {

/// A team's place to meet, in the GPU's memory. One launch at a time uses it.
struct PanelTeam {
  block::TeamBoard* board = nullptr;  ///< zeros before the first launch
  void* sums = nullptr;               ///< bytes_of_sums() of memory
  block::Mark marks = 0;              ///< that earlier launches have used
  std::size_t shared_bytes = 0;       ///< that a thread block can have
  int most_blocks = 0;                ///< that the GPU runs at the same time, one per multiprocessor; 0: it cannot
};
std::size_t bytes_of_sums();

/// Columns of a QR panel that a team factors at once.
inline constexpr index_t most_columns_of_qr_team = 64;

/// Whether a team has room for the panel: for its columns in shared memory, and for its rows in registers.
bool fits(const PanelTeam& team, const Panel& panel);

/// Factors the panel as LAPACK's geqr2 does, numbers that are not finite included. Its tail stays as it is.
/// @param tau receives the coefficients @pre fits(); the stream's GPU is current
cudaError_t factor_qr_by_team(const Panel& panel, void* tau, PanelTeam& team, cudaStream_t stream);

/// Loads the kernels of the types that the current GPU has shared memory for. @return an error if there are none for it
cudaError_t load_panel_team(const PanelTeam& team);

}  // namespace tessera::kernels::cuda
