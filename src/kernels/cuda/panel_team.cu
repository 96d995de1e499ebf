#include "kernels/cuda/panel_team.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "core/ceil_div.hpp"
#include "device/cuda/cuda_context.hpp"
#include "kernels/block/qr_team.hpp"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/plan/lapack_choice.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::ElementOf;
using block::PartOf;
using block::parts_of;

/// A thread block of a team.
struct GpuTeam : MeetingWarps {
  explicit __device__ GpuTeam(block::TeamMeetings& meetings) : meetings_(&meetings) {}
  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ int blocks() const { return static_cast<int>(gridDim.x); }
  template <class Offer>
  __device__ Offer* offers() const {
    return meetings_->offers<Offer>();
  }
  __device__ void meet_first_warps() { meetings_->meet(*this); }
  __device__ void meet_blocks() {
    meet();
    if (warp() == 0) meetings_->meet(*this);
    meet();
  }

 private:
  block::TeamMeetings* meetings_;
};

template <Scalar T>
struct Setup {
  using R = PartOf<T>;
  using E = ElementOf<T>;
  static constexpr int most = int{most_columns_of_qr_team};
  static constexpr int columns = plan::leaf_columns(scalar_type_of<T>());
  static constexpr int threads = 384;  // with registers for what a step needs beside two rows
  using Leaf = block::PanelShape<R, parts_of<T>, columns, 2, threads, 1>;
  using Columns = block::QrTeam<Leaf, GpuTeam, most>;
  using Products = block::QrProducts<E, threads, most, GpuTeam>;
  union Memory {
    typename Columns::Memory columns;
    typename Products::Memory products;
  };
  union Sums {
    typename Columns::Sums columns;
    typename Products::Sums products;
  };
};

/// So few rows take little time column by column, and keep all digits.
constexpr index_t rows_without_products = 2 * most_columns_of_qr_team;

template <class Setup>
__global__ void __launch_bounds__(Setup::threads, 1)
    team_qr(typename Setup::E* A, index_t lda, index_t m, int n, typename Setup::E* tau, typename Setup::Sums* sums,
            block::TeamBoard* board, block::Mark before) {
  extern __shared__ __align__(16) unsigned char bytes[];
  block::TeamMeetings meetings(board, before);
  auto& memory = *reinterpret_cast<typename Setup::Memory*>(bytes);
  if (m > rows_without_products &&
      typename Setup::Products(memory.products, sums->products, GpuTeam(meetings)).run(A, lda, m, n, tau))
    return;
  typename Setup::Columns(memory.columns, sums->columns, GpuTeam(meetings)).run(A, lda, m, n, tau);
}

template <Scalar T>
const void* qr_kernel() {
  return reinterpret_cast<const void*>(team_qr<Setup<T>>);
}

index_t most_blocks(const PanelTeam& team) { return std::min(team.most_blocks, block::most_blocks_of_team); }

}  // namespace

std::size_t bytes_of_sums() {
  std::size_t most = 0;
  for (const ScalarType type : scalar_types)
    most = std::max(most, dispatch(type, []<Scalar T>(T) { return sizeof(typename Setup<T>::Sums); }));
  return most;
}

bool fits(const PanelTeam& team, const Panel& panel) {
  return dispatch(panel.type, [&]<Scalar T>(T) {
    using Of = Setup<T>;
    return panel.n <= most_columns_of_qr_team && panel.m <= most_blocks(team) * Of::Leaf::rows &&
           sizeof(typename Of::Memory) <= team.shared_bytes;
  });
}

cudaError_t factor_qr_by_team(const Panel& panel, void* tau, PanelTeam& team, cudaStream_t stream) {
  if (!fits(team, panel)) return cudaErrorInvalidValue;
  return dispatch(panel.type, [&]<Scalar T>(T) {
    using Of = Setup<T>;
    auto *A = static_cast<typename Of::E*>(panel.A), *coefficients = static_cast<typename Of::E*>(tau);
    index_t lda = panel.lda, m = panel.m;
    int n = static_cast<int>(panel.n);
    auto* sums = static_cast<typename Of::Sums*>(team.sums);
    block::TeamBoard* board = team.board;
    block::Mark before = team.marks;
    // Meetings: of the products; of each column, which may be scaled anew; of each leaf.
    team.marks += static_cast<block::Mark>(2 + 3 * n + 3 * ceil_div(n, Of::columns));
    void* arguments[] = {&A, &lda, &m, &n, &coefficients, &sums, &board, &before};
    const index_t wanted = std::min(ceil_div(m, index_t{Of::threads}), most_blocks(team));
    const auto blocks = static_cast<unsigned>(std::max(wanted, ceil_div(m, index_t{Of::Leaf::rows})));
    // Blocks wait for each other, so all must be there: a cooperative launch makes sure of that.
    return cudaLaunchCooperativeKernel(qr_kernel<T>(), dim3(blocks), dim3(Of::threads), arguments,
                                       sizeof(typename Of::Memory), stream);
  });
}

cudaError_t load_panel_team(const PanelTeam& team) {
  cudaError_t error = cudaSuccess;
  for (const ScalarType type : scalar_types) {
    if (error != cudaSuccess) return error;
    error = dispatch(type, [&]<Scalar T>(T) {
      constexpr std::size_t bytes = sizeof(typename Setup<T>::Memory);
      return bytes <= team.shared_bytes ? device::cuda::load_kernel(qr_kernel<T>(), bytes) : cudaSuccess;
    });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
