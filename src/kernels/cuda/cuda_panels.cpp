// Panels of LU, QR and LQ on a GPU. cuSOLVER factors those of LU, teams of thread blocks those of QR (panel_team.hpp),
// Level 3 applies them, and our own kernels do the rest (panel_kernels.hpp). Of an LQ panel the adjoint is factored.
// One object holds a handle of cuSOLVER, and for each compute stream memory for intermediate results. That memory grows
// with the widest panels. Earlier memory stays until the device is closed, because submitted work may still use it.
//
// cuSOLVER fails at some LU panels (PanelCopy). Those are factored once more, from a copy, by the kernel of batches,
// which pivots and divides as LAPACK does. The device decides which panels these are, so no host thread waits. For all
// other panels the kernel receives a size of zero. The panels of a device take turns with the memory of the copy.
//
// cuSOLVER factors QR panels that no team has room for. It may pass over a NaN in one; the columns that it would spoil
// are filled with NaN.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "kernels/cuda/cuda_tile_ops.hpp"
#include "kernels/cuda/cusolver_library.hpp"
#include "kernels/cuda/dense_kernels.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/panel_kernels.hpp"
#include "kernels/cuda/panel_team.hpp"
#include "kernels/plan/panel_steps.hpp"

namespace tessera::kernels::cuda {

using device::cuda::CurrentContext;

class CudaTileOps::Panels {
 public:
  /// @pre the GPU is current
  explicit Panels(CudaTileOps& ops) : ops_(ops) {
    ops_.check("loading the kernels of panels", load_panel_kernels());
    ops_.check("loading the kernels of panels", load_copy_kernels());
    ops_.check("loading the kernels of LU", LapackKernels::load_lu());
    cudaEvent_t event = nullptr;
    ops_.check("cudaEventCreate", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    state_is_free_.reset(event);
    state_ = allocate(sizeof(PanelCopy::State));
    const cudaStream_t any_stream = ops_.submission(0).stream;
    ops_.check("cudaMemsetAsync", cudaMemsetAsync(state_.get(), 0, sizeof(PanelCopy::State), any_stream));
    open_team(any_stream);
    ops_.check("cudaEventRecord", cudaEventRecord(event, any_stream));
    check("cusolverDnCreate", cusolver().Create(&handle_));
  }
  ~Panels() {
    if (handle_ != nullptr) static_cast<void>(cusolver().Destroy(handle_));
  }
  Panels(const Panels&) = delete;
  Panels& operator=(const Panels&) = delete;

  void factor(int compute_stream, const Panel& panel, index_t first, index_t columns) {
    Machine machine(*this, compute_stream);
    check("cusolverDnSetStream", cusolver().SetStream(handle_, machine.to.stream));
    if (panel.kind == PanelKind::lu) {
      if (first != 0 || columns != panel.n) throw InternalError("an LU panel in parts");
      return factor_lu(machine, panel);
    }
    plan::factor_qr(machine, panel, first, columns,
                    [&](const Panel& part, void* tau) { factor_qr(machine, part, tau); });
  }

  void apply(int compute_stream, const PanelUpdate& update) {
    Machine machine(*this, compute_stream);
    plan::apply_panel(machine, update);
  }

 private:
  static constexpr std::size_t info_bytes = 256;  // keeps the following memory aligned

  /// See plan/panel_steps.hpp.
  struct Machine {
    Machine(Panels& owner, int compute_stream)
        : panels(owner),
          stream_index(static_cast<std::size_t>(compute_stream)),
          to(owner.ops_.submission(compute_stream)) {}

    void compute(const Level3& call) const {
      const Outcome outcome = panels.ops_.kernels_.submit(call, to);
      panels.ops_.check(name_of(call.routine), outcome.cublas);
      panels.ops_.check(name_of(call.routine), outcome.cuda);
    }
    void add(const Addition& addition) const { panels.ops_.check("add", cuda::add(addition, to.stream)); }
    std::byte* workspace(std::size_t bytes) const { return panels.provide(panels.spaces_[stream_index], bytes); }
    void interchange(const PanelUpdate& update) const {
      panels.ops_.check("laswp", interchange_rows(update, to.stream));
    }
    void copy_unit_triangle(const Panel& panel, void* V) const {
      const Part part = is_in_rows(panel.kind) ? Part::upper : Part::lower;
      panels.ops_.check("larft", copy_trapezoid({panel.type, panel.n, panel.n, panel.A, panel.lda},
                                                {.part = part, .diag = Diag::unit},
                                                {panel.type, panel.n, panel.n, V, panel.n}, to.stream));
    }
    void prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* T) const {
      panels.ops_.check("larft", cuda::prepare_t(type, n, G, tau, T, to.stream));
    }

    Panels& panels;
    std::size_t stream_index;
    Submission to;
  };

  void open_team(cudaStream_t stream) {
    board_ = allocate(sizeof(block::TeamBoard));
    sums_ = allocate(bytes_of_sums());
    ops_.check("cudaMemsetAsync", cudaMemsetAsync(board_.get(), 0, sizeof(block::TeamBoard), stream));
    team_.board = static_cast<block::TeamBoard*>(board_.get());
    team_.sums = sums_.get();
    team_.shared_bytes = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    if (attribute(cudaDevAttrCooperativeLaunch) != 0) team_.most_blocks = attribute(cudaDevAttrMultiProcessorCount);
    ops_.check("loading the kernels of QR", load_panel_team(team_));
  }
  int attribute(cudaDeviceAttr which) {
    int value = 0;
    ops_.check("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, ops_.device_.ordinal()));
    return value;
  }

  void factor_lu(Machine& machine, const Panel& panel) {
    int elements = 0;
    const CusolverMatrix matrix = matrix_of(panel);
    check("getrf", getrf_workspace(handle_, matrix, &elements));
    const PivotTail tail = pivot_tail(panel);
    const cudaStream_t stream = machine.to.stream;
    std::byte* const workspace = machine.workspace(bytes_of(elements, panel.type));
    const PanelCopy copy{provide(copy_, static_cast<std::size_t>(panel.m * panel.n) * element_bytes(panel.type)),
                         take_state(stream)};
    ops_.check("getrf", copy_panel(panel, copy, stream));
    check("getrf", getrf(handle_, matrix, workspace, tail.pivots, tail.info));
    ops_.check("getrf", find_exceptional(panel, copy, stream));
    ops_.check("getrf", LapackKernels::submit_getrf_in_one_launch(factorization_of(panel, copy), stream));
    ops_.check("getrf", complete_pivots(panel, copy, stream));
    release_state(stream);
  }

  void factor_qr(Machine& machine, const Panel& panel, void* tau) {
    const bool by_rows = is_in_rows(panel.kind);
    Panel columns = panel;
    columns.kind = PanelKind::qr;
    if (by_rows) {
      columns.A = provide(copy_, static_cast<std::size_t>(panel.m * panel.n) * element_bytes(panel.type));
      columns.lda = panel.m;
    }
    const cudaStream_t stream = machine.to.stream;
    const DenseMatrix stored{panel.type, panel.n, panel.m, panel.A, panel.lda};
    const DenseMatrix adjoint{panel.type, panel.m, panel.n, columns.A, columns.lda};
    PanelCopy::State* const state = take_state(stream);
    if (by_rows) ops_.check("gelqf", transpose(stored, adjoint, stream));
    if (fits(team_, columns)) {
      ops_.check("geqrf", factor_qr_by_team(columns, tau, team_, stream));
      if (by_rows) ops_.check("gelqf", transpose(adjoint, stored, stream));
      return release_state(stream);
    }
    int elements = 0;
    const CusolverMatrix matrix = matrix_of(columns);
    check("geqrf", geqrf_workspace(handle_, matrix, &elements));
    std::byte* const info = machine.workspace(bytes_of(elements, columns.type) + info_bytes);
    ops_.check("geqrf", find_not_finite(columns, state, stream));
    check("geqrf", geqrf(handle_, matrix, tau, info + info_bytes, elements, reinterpret_cast<int*>(info)));
    ops_.check("geqrf", spread_not_finite(columns, tau, state, stream));
    if (by_rows) ops_.check("gelqf", transpose(adjoint, stored, stream));
    release_state(stream);
  }

  /// Takes the state and the memory of the copy. One panel has both at a time.
  PanelCopy::State* take_state(cudaStream_t stream) {
    ops_.check("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, state_is_free_.get()));
    return static_cast<PanelCopy::State*>(state_.get());
  }
  void release_state(cudaStream_t stream) {
    ops_.check("cudaEventRecord", cudaEventRecord(state_is_free_.get(), stream));
  }

  static LapackBatch factorization_of(const Panel& panel, const PanelCopy& copy) {
    LapackBatch one;
    one.routine = Routine::getrf;
    one.type = panel.type;
    one.count = 1;
    one.max_m = panel.m;
    one.max_n = panel.n;
    one.m.of_each = &copy.state->m;
    one.n.of_each = &copy.state->n;
    one.lda.of_all = panel.m;
    one.A.first = copy.A;
    one.ipiv.first = pivot_tail(panel).pivots;
    one.info = &copy.state->info;
    return one;
  }

  static CusolverMatrix matrix_of(const Panel& panel) {
    if (panel.lda > std::numeric_limits<int>::max()) throw InternalError("a panel with more rows than cuSOLVER counts");
    return {panel.type, static_cast<int>(panel.m), static_cast<int>(panel.n), panel.A, static_cast<int>(panel.lda)};
  }
  static std::size_t bytes_of(int elements, ScalarType type) {
    return static_cast<std::size_t>(std::max(elements, 1)) * element_bytes(type);
  }

  struct Free {
    void operator()(void* memory) const {
      if (cudaFree(memory) != cudaSuccess) device::cuda::forget_error();
    }
    void operator()(cudaEvent_t event) const {
      if (cudaEventDestroy(event) != cudaSuccess) device::cuda::forget_error();
    }
  };
  using Memory = std::unique_ptr<void, Free>;

  struct Space {
    std::vector<Memory> memories;  // the last one is in use
    std::size_t bytes = 0;         // of the last one
  };

  Memory allocate(std::size_t bytes) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
      device::cuda::forget_error();
      throw OutOfDeviceMemory("no memory for what panels need beside the matrix");
    }
    ops_.check("cudaMalloc", error);
    return Memory(memory);
  }

  std::byte* provide(Space& space, std::size_t bytes) {
    constexpr std::size_t least = std::size_t{16} << 20;
    if (space.bytes < bytes) {
      const std::size_t wanted = std::max({bytes, 2 * space.bytes, least});
      space.memories.push_back(allocate(wanted));
      space.bytes = wanted;
    }
    return static_cast<std::byte*>(space.memories.back().get());
  }

  void check(const char* what, cusolverStatus_t status) {
    if (status == CUSOLVER_STATUS_SUCCESS) return;
    const cudaError_t error = cudaGetLastError();  // it is success if cuSOLVER itself refuses
    const std::string text = "cuda:" + std::to_string(ops_.device_.ordinal()) + ": " + what + ": cuSOLVER status " +
                             std::to_string(static_cast<int>(status));
    if (status == CUSOLVER_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
    ops_.device_.fail(error, text);
  }

  CudaTileOps& ops_;
  cusolverDnHandle_t handle_ = nullptr;
  std::array<Space, device::compute_streams> spaces_;
  Space copy_;  // the copy of a panel; state_ is its state
  Memory state_;
  Memory board_, sums_;
  PanelTeam team_;
  std::unique_ptr<CUevent_st, Free> state_is_free_;
};

void CudaTileOps::PanelsDeleter::operator()(Panels* panels) const { delete panels; }

void CudaTileOps::load_panels() {
  const std::lock_guard lock(panels_mutex_);
  if (panels_) return;
  const CurrentContext current(device_.context());
  panels_.reset(new Panels(*this));
}

void CudaTileOps::factor_panel(int compute_stream, const Panel& panel, index_t first, index_t columns) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  if (!device_.accepts_work({device::StreamKind::compute, compute_stream})) return;
  const device::cuda::NvtxRange range(name_of(panel.kind));
  const CurrentContext current(device_.context());
  panels_->factor(compute_stream, panel, first, columns);
}

void CudaTileOps::apply_panel(int compute_stream, const PanelUpdate& update) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  if (!device_.accepts_work({device::StreamKind::compute, compute_stream})) return;
  const device::cuda::NvtxRange range("apply panel");
  const CurrentContext current(device_.context());
  panels_->apply(compute_stream, update);
}

}  // namespace tessera::kernels::cuda
