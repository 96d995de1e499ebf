#include "kernels/cuda/cuda_tile_ops.hpp"

#include <string>

#include "core/error.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "kernels/batch_of_one.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/plan/cholesky_blocks.hpp"

namespace tessera::kernels::cuda {
namespace {

using device::cuda::CurrentContext;

/// The BLAS has no complex symmetric update by the conjugate transpose and no Hermitian one by the transpose.
bool has_legal_transpose(const Level3& call) {
  if (!call.is_rank_update() || !is_complex(call.type)) return true;
  return call.op_a != (call.is_hermitian() ? Op::trans : Op::conj_trans);
}

/// So small a product is computed as a batch of one. A stack of small matrices then has the results, to the last bit,
/// that its matrices have alone. The last step of a large product's corner, which adds to C, is not worth loading the
/// kernels of batches.
bool is_one_of_a_batch(const Level3& call) {
  constexpr index_t most = 32;
  return call.routine == Routine::gemm && call.beta == AnyScalar(0) && call.m > 0 && call.m <= most && call.n > 0 &&
         call.n <= most && call.k <= most;
}

}  // namespace

CudaTileOps::CudaTileOps(device::cuda::CudaDevice& device) : device_(device) {
  const CurrentContext current(device_.context());
  check("loading the kernels of the plugin", kernels_.load(device_.ordinal(), device_.info().profile));
  try {
    check("cudaMalloc", cudaMalloc(reinterpret_cast<void**>(&info_), device::compute_streams * sizeof(int)));
    for (int index = 0; index < device::compute_streams; ++index) {
      cublasHandle_t& handle = handles_[static_cast<std::size_t>(index)];
      const cublasStatus_t created = cublas().Create(&handle);
      if (created != CUBLAS_STATUS_SUCCESS) handle = nullptr;
      check("cublasCreate", created);
      check("cublasSetStream", cublas().SetStream(handle, device_.stream({device::StreamKind::compute, index})));
      check("cublasSetPointerMode", cublas().SetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
      check("cublasSetMathMode", cublas().SetMathMode(handle, CUBLAS_DEFAULT_MATH));
    }
  } catch (...) {
    destroy();
    throw;
  }
}

CudaTileOps::~CudaTileOps() {
  // As in ~CudaDevice: if CUDA cannot be called any more, the handles are left to the end of the process. Once the
  // runtime shuts down all of its calls fail, and cuBLAS must not be called.
  if (!device_.owned_by_this_process() || device_.lost()) return;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    device::cuda::forget_error();
    return;
  }
  destroy();
}

void CudaTileOps::destroy() noexcept {
  const CurrentContext current(device_.context());
  panels_.reset();
  for (cublasHandle_t& handle : handles_) {
    if (handle != nullptr) static_cast<void>(cublas().Destroy(handle));
    handle = nullptr;
  }
  for (void* const memory : {static_cast<void*>(info_), static_cast<void*>(chain_memory_)}) {
    if (memory != nullptr && cudaFree(memory) != cudaSuccess) device::cuda::forget_error();
  }
  info_ = nullptr;
  chain_memory_ = nullptr;
}

void CudaTileOps::check(const char* what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const cudaError_t error = cudaGetLastError();  // it is success if cuBLAS itself refuses
  const std::string text = describe_status(device_.ordinal(), what, status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
  device_.fail(error, text);
}

void CudaTileOps::check(const char* what, cudaError_t error) {
  if (error != cudaSuccess) device_.fail(error, device::cuda::describe_error(device_.ordinal(), what, error));
}

void CudaTileOps::run(int compute_stream, const Level3& call) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const char* const name = name_of(call.routine);
  if (!has_legal_transpose(call)) throw InternalError(std::string(name) + " of this type has no such transpose");
  if (is_one_of_a_batch(call)) return run_batch(compute_stream, batch_of_one(call), 0);
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range(name);
  const CurrentContext current(device_.context());
  if (call.routine == Routine::trsm && Level3Kernels::takes_chain(call)) provide_chains();
  const Outcome outcome = kernels_.submit(call, submission(compute_stream));
  check(name, outcome.cublas);
  check(name, outcome.cuda);
}

void CudaTileOps::add(int compute_stream, const Addition& addition) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range("add");
  const CurrentContext current(device_.context());
  check("add", cuda::add(addition, device_.stream(stream)));
}

void CudaTileOps::mirror(int compute_stream, const Mirroring& tile) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range("mirror");
  const CurrentContext current(device_.context());
  check("mirror", cuda::mirror(tile, device_.stream(stream)));
}

void CudaTileOps::factor(int compute_stream, const TileFactorization& tile) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range("potrf");
  const CurrentContext current(device_.context());
  if (!has_cholesky_) {
    check("loading the kernels of factorizations", LapackKernels::load_cholesky());
    has_cholesky_ = true;
  }
  const Submission to = submission(compute_stream);
  const auto check_all = [this](const Outcome& outcome) {
    check("potrf", outcome.cublas);
    check("potrf", outcome.cuda);
  };
  // Each block is a problem of its own for the kernels. It ends at the block, so the info of earlier columns stays.
  LapackBatch blocks;
  blocks.routine = Routine::potrf;
  blocks.type = tile.type;
  blocks.uplo = tile.uplo;
  blocks.count = 1;
  blocks.lda.of_all = tile.lda;
  blocks.A.first = tile.A;
  blocks.info = info_ + compute_stream;
  const auto factor_block = [&](index_t first, index_t size) {
    blocks.n.of_all = blocks.max_n = first + size;
    check_all({.cuda = LapackKernels::submit_cholesky_from(blocks, first, to.stream)});
    return true;
  };
  plan::factor_in_blocks(tile, plan::cholesky_block, factor_block,
                         [&](const Level3& call) { check_all(kernels_.submit(call, to)); });
  check("potrf", cudaMemcpyAsync(tile.info, blocks.info, sizeof(int), cudaMemcpyDeviceToHost, to.stream));
}

Submission CudaTileOps::submission(int compute_stream) {
  return {handles_[static_cast<std::size_t>(compute_stream)],
          device_.stream({device::StreamKind::compute, compute_stream}),
          nullptr,
          0,
          true,
          chain_memory_ != nullptr ? chain_memory_ + static_cast<std::size_t>(compute_stream) * chain_memory_pitch
                                   : nullptr};
}

// Without the memory solves are leaves and products.
void CudaTileOps::provide_chains() {
  if (has_chains_) return;
  has_chains_ = true;
  constexpr std::size_t bytes = device::compute_streams * chain_memory_pitch;
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) return device::cuda::forget_error();
  auto* const chains = static_cast<std::byte*>(memory);
  cudaError_t error = kernels_.load_chains();
  for (int index = 0; index < device::compute_streams && error == cudaSuccess; ++index)
    error = cudaMemsetAsync(chains + static_cast<std::size_t>(index) * chain_memory_pitch, 0, chain_memory_bytes,
                            submission(index).stream);
  if (error == cudaSuccess) {
    chain_memory_ = chains;
    return;
  }
  if (cudaFree(memory) != cudaSuccess) device::cuda::forget_error();
  check("loading the kernels of solves", error);
}

void CudaTileOps::run_batch(int compute_stream, const Level3Batch& batch, double /*flops*/) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  if (batch.common.routine != Routine::gemm) throw InternalError("a batch of another routine than gemm");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const device::cuda::NvtxRange range("gemm_batch");
  const CurrentContext current(device_.context());
  if (!has_products_) {
    check("loading the kernels of batches", products_.load(device_.ordinal()));
    has_products_ = true;
  }
  check("gemm_batch", products_.submit(batch, {.stream = device_.stream(stream)}));
}

void CudaTileOps::run_lapack_batch(int compute_stream, const LapackBatch& batch, const Workspace& workspace,
                                   double /*flops*/) {
  if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
  const device::StreamId stream{device::StreamKind::compute, compute_stream};
  if (!device_.accepts_work(stream)) return;
  const char* const name = name_of(batch.routine);
  const device::cuda::NvtxRange range(name);
  const CurrentContext current(device_.context());
  if (!has_lapack_) {
    check("loading the kernels of batches", batches_.load(device_.ordinal()));
    check("loading the kernels of batches", lapack_.load());
    has_lapack_ = true;
  }
  const Outcome outcome = lapack_.submit(
      batch, {.stream = device_.stream(stream), .workspace = workspace.memory, .workspace_bytes = workspace.bytes});
  check(name, outcome.cublas);
  check(name, outcome.cuda);
}

}  // namespace tessera::kernels::cuda
