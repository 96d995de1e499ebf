#include "kernels/cuda/cuda_dense_solver.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "kernels/cuda/dense_kernels.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/plan/svd_choice.hpp"

namespace tessera::kernels::cuda {

using device::cuda::CurrentContext;

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool is_refusal(cusolverStatus_t status) {
  return status == CUSOLVER_STATUS_NOT_SUPPORTED || status == CUSOLVER_STATUS_INVALID_VALUE;
}

/// Whether the diagonal must be saved: LAPACK neither reads nor writes a diagonal of ones, but cuSOLVER writes it.
bool keeps_diagonal(const LapackCall& problem) {
  return problem.routine == Routine::trtri && problem.diag == Diag::unit;
}
bool is_composed(Routine routine) {
  using enum Routine;
  return is(routine, in_rows) || routine == larfb || routine == lauum || routine == getri || is_least_squares(routine);
}
std::size_t bytes_of_diagonal(const LapackCall& problem) {
  return aligned(static_cast<std::size_t>(problem.n) * element_bytes(problem.type));
}

}  // namespace

/// The arguments of cuSOLVER. Results that it does not write into the problem's matrices lie in the workspace, matrices
/// first.
struct CudaDenseSolver::SvdPlan {
  SvdPlan(const LapackCall& p, SvdAlgorithm algorithm, std::byte* workspace)
      : problem(p), is_flipped(p.m < p.n), is_polar(algorithm == SvdAlgorithm::polar), next_(workspace) {
    svd.type = p.type;
    svd.m = std::max(p.m, p.n);
    svd.n = std::min(p.m, p.n);
    svd.values = p.values;
    svd.A = is_flipped ? take(svd.m, svd.n) : p.A;
    svd.lda = is_flipped ? svd.m : p.lda;
    svd.left = is_flipped ? p.vt : p.u;
    svd.right = is_flipped ? p.u : p.vt;
    const index_t left_columns = svd.left == VectorJob::all ? svd.m : svd.n;
    if (svd.left != VectorJob::none && left_is_direct()) {
      svd.U = p.U, svd.ldu = p.ldu;
      // the polar algorithm uses it as workspace, with or without vectors
    } else if (svd.left != VectorJob::none || is_polar) {
      svd.U = take(svd.m, left_columns), svd.ldu = svd.m;
    }
    if (svd.right != VectorJob::none && right_is_direct()) {
      svd.V = is_flipped ? p.U : p.VT, svd.ldv = is_flipped ? p.ldu : p.ldvt;
    } else if (svd.right != VectorJob::none || is_polar) {
      svd.V = take(svd.n, svd.n), svd.ldv = svd.n;
    }
    bytes = static_cast<std::size_t>(next_ - workspace);
  }

  bool left_is_direct() const { return !is_flipped; }
  bool right_is_direct() const { return is_polar == is_flipped; }

  DenseMatrix tall() const { return {svd.type, svd.m, svd.n, svd.A, svd.lda}; }
  DenseMatrix left() const { return {svd.type, svd.m, svd.left == VectorJob::all ? svd.m : svd.n, svd.U, svd.ldu}; }
  DenseMatrix right() const { return {svd.type, svd.n, svd.n, svd.V, svd.ldv}; }

  const LapackCall& problem;
  const bool is_flipped, is_polar;
  TallSvd svd;
  std::size_t bytes = 0;  ///< bytes of the workspace, before cuSOLVER's own

 private:
  std::byte* take(index_t rows, index_t cols) {
    std::byte* const at = next_;
    next_ += aligned(static_cast<std::size_t>(rows * cols) * element_bytes(problem.type));
    return at;
  }
  std::byte* next_;
};

CudaDenseSolver::~CudaDenseSolver() {
  // As in ~CudaTileOps: if CUDA cannot be called any more, the handle is left to the end of the process.
  if (dn_.handle == nullptr || !device_.owned_by_this_process() || device_.lost()) return;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    device::cuda::forget_error();
    return;
  }
  const CurrentContext current(device_.context());
  if (dn_.params != nullptr) static_cast<void>(TESSERA_CUSOLVER_PROBLEM(DestroyParams)(dn_.params));
  static_cast<void>(cusolver().Destroy(dn_.handle));
}

void CudaDenseSolver::load(Routine routine) {
  if (is_least_squares(routine)) products_.load_panels();
  const std::lock_guard lock(mutex_);
  if (dn_.params != nullptr) return;
  const CusolverLibrary& library = cusolver();
  const auto create_params = TESSERA_CUSOLVER_PROBLEM(CreateParams);
  if (create_params == nullptr) throw NotAvailable("this version of cuSOLVER has no 64-bit interface");
  const CurrentContext current(device_.context());
  require("loading the kernels of problems", load_dense_kernels());
  if (dn_.handle == nullptr) require("cusolverDnCreate", library.Create(&dn_.handle));
  require("cusolverDnCreateParams", create_params(&dn_.params));
}

SvdAlgorithm CudaDenseSolver::choose_svd(const LapackCall& problem) const {
  if (TESSERA_CUSOLVER_PROBLEM(Xgesvdp) == nullptr) return SvdAlgorithm::qr_iteration;
  return plan::choose_svd(problem);
}

DenseSpace CudaDenseSolver::space(const LapackCall& problem, SvdAlgorithm algorithm) {
  const char* const name = name_of(problem.routine, problem.type);
  if (is(problem.routine, cpu_only)) throw NotAvailable(std::string("cuSOLVER has no ") + name);
  const CurrentContext current(device_.context());
  if (is_composed(problem.routine)) return composed_space(problem, algorithm);
  DenseSpace space;
  std::size_t own_bytes = 0;
  cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
  if (is_svd(problem.routine)) {
    // The memory is neither read nor written, so any address serves.
    const SvdPlan plan(problem, algorithm, static_cast<std::byte*>(problem.A));
    own_bytes = plan.bytes;
    status = svd_space(dn_, plan.svd, algorithm, &space);
  } else {
    if (keeps_diagonal(problem)) own_bytes = bytes_of_diagonal(problem);
    status = problem_space(dn_, problem, &space);
  }
  require_taken(name, status);
  space.device_bytes += own_bytes;
  return space;
}

bool CudaDenseSolver::begin(int compute_stream) {
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  if (dn_.params == nullptr) throw InternalError("a solver that was not loaded");
  if (!device_.accepts_work(stream)) return false;
  compute_stream_ = compute_stream;
  stream_ = dn_.stream = device_.stream(stream);
  return true;
}

void CudaDenseSolver::measure(int compute_stream, const LapackCall& problem, DenseTelling* telling) {
  if (!begin(compute_stream)) return;
  const CurrentContext current(device_.context());
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (!operand.reads || operand.slot > LapackSlot::B) continue;
    const DenseMatrix matrix{problem.type, operand.read_rows, operand.read_cols, operand.address, operand.ld};
    require("norms", find_largest(matrix, operand.read_part, operand.real_diagonal,
                                  telling->largest + static_cast<int>(operand.slot), stream_));
  }
}

void CudaDenseSolver::run(int compute_stream, const LapackCall& problem, SvdAlgorithm algorithm,
                          const DenseWorkspace& workspace, DenseTelling* telling, DenseOutcome* outcome) {
  if (!begin(compute_stream)) return;
  const char* const name = name_of(problem.routine, problem.type);
  const device::cuda::NvtxRange range(name);
  const CurrentContext current(device_.context());
  require("cusolverDnSetStream", cusolver().SetStream(dn_.handle, stream_));
  int* const info = &telling->info;
  if (is_svd(problem.routine)) return run_svd(problem, algorithm, workspace, info, outcome);
  if (is_composed(problem.routine)) return run_composed(problem, algorithm, workspace, telling, outcome);
  if (is_eigenproblem(problem.routine) && is_complex(problem.type)) make_diagonals_real(problem);
  DenseWorkspace rest = workspace;
  if (keeps_diagonal(problem)) {
    rest.on_device += bytes_of_diagonal(problem);
    rest.space.device_bytes -= bytes_of_diagonal(problem);
    copy_diagonal(problem, workspace.on_device, true);
  }
  require(name, solve_problem(dn_, problem, rest, info, &outcome->found));
  if (keeps_diagonal(problem)) copy_diagonal(problem, workspace.on_device, false);
  if (problem.routine != Routine::heevr || !problem.vectors) return;
  const auto element = static_cast<index_t>(element_bytes(problem.type));
  const auto bytes = [&](index_t elements) { return static_cast<std::size_t>(elements * element); };
  require("cudaMemcpy2DAsync",
          cudaMemcpy2DAsync(problem.U, bytes(problem.ldu), problem.A, bytes(problem.lda), bytes(problem.n),
                            static_cast<std::size_t>(most_found(problem)), cudaMemcpyDeviceToDevice, stream_));
}

void CudaDenseSolver::run_svd(const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                              int* info, DenseOutcome* outcome) {
  const SvdPlan plan(problem, algorithm, workspace.on_device);
  if (plan.is_flipped)
    require("transpose", transpose({problem.type, problem.m, problem.n, problem.A, problem.lda}, plan.tall(), stream_));
  DenseWorkspace rest = workspace;
  rest.on_device += plan.bytes;
  rest.space.device_bytes -= plan.bytes;
  require(name_of(problem.routine, problem.type),
          solve_svd(dn_, plan.svd, algorithm, rest, info, &outcome->perturbation));
  const DenseMatrix left = plan.left(), right = plan.right();
  // VT is the transpose of the computed left vectors or of V, and U that of the computed right vectors.
  if (plan.svd.left != VectorJob::none && !plan.left_is_direct())
    require("transpose", transpose(left, {problem.type, left.n, left.m, problem.VT, problem.ldvt}, stream_));
  if (plan.svd.right != VectorJob::none && !plan.right_is_direct()) {
    void* const to = plan.is_flipped ? problem.U : problem.VT;
    const index_t ld = plan.is_flipped ? problem.ldu : problem.ldvt;
    require("transpose", transpose(right, {problem.type, right.n, right.m, to, ld}, stream_));
  }
}

void CudaDenseSolver::copy_diagonal(const LapackCall& problem, std::byte* aside, bool away) {
  const std::size_t element = element_bytes(problem.type), pitch = static_cast<std::size_t>(problem.lda + 1) * element;
  auto* const A = static_cast<std::byte*>(problem.A);
  require("cudaMemcpy2DAsync",
          cudaMemcpy2DAsync(away ? aside : A, away ? element : pitch, away ? A : aside, away ? pitch : element, element,
                            static_cast<std::size_t>(problem.n), cudaMemcpyDeviceToDevice, stream_));
}

// LAPACK ignores the imaginary parts of these diagonals.
void CudaDenseSolver::make_diagonals_real(const LapackCall& problem) {
  Level3 diagonal{.routine = Routine::herk, .type = problem.type, .m = problem.n, .n = problem.n};
  diagonal.C = problem.A, diagonal.ldc = problem.lda;
  require("heevd", make_diagonal_real(diagonal, stream_));
  if (problem.routine != Routine::hegvd) return;
  diagonal.C = problem.B, diagonal.ldc = problem.ldb;
  require("hegvd", make_diagonal_real(diagonal, stream_));
}

void CudaDenseSolver::require(const char* what, cudaError_t error) {
  if (error != cudaSuccess) device_.fail(error, device::cuda::describe_error(device_.ordinal(), what, error));
}

void CudaDenseSolver::require_taken(const char* what, cusolverStatus_t status) {
  if (is_refusal(status)) throw NotAvailable(std::string("cuSOLVER does not take this ") + what);
  require(what, status);
}

void CudaDenseSolver::require(const char* what, cusolverStatus_t status) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  const cudaError_t error = cudaGetLastError();  // it is success if cuSOLVER itself refuses
  const std::string text = "cuda:" + std::to_string(device_.ordinal()) + ": " + what + ": cuSOLVER status " +
                           std::to_string(static_cast<int>(status));
  if (status == CUSOLVER_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
  device_.fail(error, text);
}

}  // namespace tessera::kernels::cuda
