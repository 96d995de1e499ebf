// libtessera_bench_cuda.so: page-locked memory, machine rates and cublasXt for `tessera bench`. See cuda_peers.h.
// Exceptions stay inside: every entry goes through guarded(), which keeps the text for last_error().
#include "cuda_peers.h"

#include <cuComplex.h>
#include <cublasXt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/dgemm.hpp"

struct tessera_bench_xt_struct {
  cublasXtHandle_t handle = nullptr;
};

namespace {

std::string& error_text() {
  thread_local std::string text;
  return text;
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call starts clean
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasGetStatusString(status));
}

template <class F>
int guarded(F&& f) noexcept {
  try {
    f();
    return 0;
  } catch (const std::exception& error) {
    error_text() = error.what();
    return -1;
  }
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t element_bytes(char type) { return type == 's' ? 4 : type == 'z' ? 16 : 8; }

// Owners of what the measurements allocate, so that an error half way leaves nothing behind on the GPUs.
struct DeviceFree {
  void operator()(std::byte* address) const { cudaFree(address); }
};
struct PinnedFree {
  void operator()(std::byte* address) const { cudaFreeHost(address); }
};
struct StreamDestroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct CublasDestroy {
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceFree>;
using PinnedMemory = std::unique_ptr<std::byte, PinnedFree>;
using Stream = std::unique_ptr<CUstream_st, StreamDestroy>;
using CudaEvent = std::unique_ptr<CUevent_st, EventDestroy>;
using Cublas = std::unique_ptr<cublasContext, CublasDestroy>;

DeviceMemory device_memory(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMalloc(&address, bytes), "cudaMalloc");
  return DeviceMemory(static_cast<std::byte*>(address));
}

PinnedMemory pinned_memory(std::size_t bytes) {
  void* address = nullptr;
  check(cudaHostAlloc(&address, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  return PinnedMemory(static_cast<std::byte*>(address));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return Stream(stream);
}

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent(event);
}

// Writes numbers in (-0.5, 0.5) as the type wants them: the rate of a gemm depends on its data through the power drawn.
void fill_random(std::byte* to, std::size_t bytes, char type) {
  std::uint64_t state = 0x9e3779b97f4a7c15ull;
  const auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
  };
  if (type == 's' || type == 'c') {
    for (std::size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
      const float value = static_cast<float>(next());
      std::memcpy(to + i, &value, sizeof value);
    }
  } else {
    for (std::size_t i = 0; i + sizeof(double) <= bytes; i += sizeof(double)) {
      const double value = next();
      std::memcpy(to + i, &value, sizeof value);
    }
  }
}

void in_core_gemm(cublasHandle_t handle, char type, int n, std::byte* A, std::byte* B, std::byte* C) {
  const auto call = [&](auto gemm, auto one, auto tag) {
    using T = decltype(tag);
    const T alpha = one, beta = one;
    check(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, reinterpret_cast<const T*>(A), n,
               reinterpret_cast<const T*>(B), n, &beta, reinterpret_cast<T*>(C), n),
          "cublas gemm");
  };
  switch (type) {
    case 's':
      return call(cublasSgemm, 1.0f, float{});
    case 'd':
      return call(cublasDgemm, 1.0, double{});
    case 'c':
      return call(cublasCgemm, make_cuComplex(1, 0), cuComplex{});
    default:
      return call(cublasZgemm, make_cuDoubleComplex(1, 0), cuDoubleComplex{});
  }
}

// One GPU's gemm on matrices in its memory.
class Products {
 public:
  static constexpr int n = 4096;
  enum class Kernel {
    blas,  // the kernel of cuBLAS
    ours,  // Tessera's own kernel, for types that have one
  };

  // `random`: host memory with numbers of the type.
  Products(int ordinal, char type, const std::byte* random, std::size_t random_bytes) : ordinal_(ordinal), type_(type) {
    const std::size_t bytes = std::size_t{n} * n * element_bytes(type);
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    check(dgemm_.load(ordinal, tessera::device::gpu_profile(9, 0).dgemm), "loading the kernels of dgemm");
    for (DeviceMemory* matrix : {&A_, &B_, &C_}) *matrix = device_memory(bytes);
    for (std::byte* matrix : {A_.get(), B_.get()}) {
      for (std::size_t offset = 0; offset < bytes; offset += random_bytes)
        check(cudaMemcpy(matrix + offset, random, std::min(random_bytes, bytes - offset), cudaMemcpyHostToDevice),
              "cudaMemcpy");
    }
    check(cudaMemset(C_.get(), 0, bytes), "cudaMemset");
    stream_ = make_stream();
    cublasHandle_t raw = nullptr;
    check(cublasCreate(&raw), "cublasCreate");
    handle_.reset(raw);
    check(cublasSetStream(raw, stream_.get()), "cublasSetStream");
    begin_ = make_event();
    end_ = make_event();
  }

  // Whether Tessera's products of the type may run on another kernel than cuBLAS's gemm.
  bool has_two_kernels() const { return type_ == 'd'; }

  double flops() const { return (type_ == 'c' || type_ == 'z' ? 8.0 : 2.0) * n * n * n; }

  void begin(int count, Kernel kernel) {
    check(cudaSetDevice(ordinal_), "cudaSetDevice");
    check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    for (int i = 0; i < count; ++i) {
      if (kernel == Kernel::blas || !multiply_as_tessera())
        in_core_gemm(handle_.get(), type_, n, A_.get(), B_.get(), C_.get());
    }
    check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
  }

  // @return seconds since begin()
  double end() const {
    check(cudaSetDevice(ordinal_), "cudaSetDevice");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  bool multiply_as_tessera() {
    const tessera::Level3 call{
        .m = n, .n = n, .k = n, .A = A_.get(), .lda = n, .B = B_.get(), .ldb = n, .beta = 1, .C = C_.get(), .ldc = n};
    if (!has_two_kernels()) return false;
    const auto taken = dgemm_.submit_if_taken(call, stream_.get());
    if (taken) check(*taken, "dgemm");
    return taken.has_value();
  }

  int ordinal_;
  char type_;
  tessera::kernels::cuda::HopperDgemm dgemm_;
  DeviceMemory A_, B_, C_;
  Stream stream_;
  Cublas handle_;
  CudaEvent begin_, end_;
};

double measure_in_core(int ordinal, char type, const std::byte* random, std::size_t random_bytes) {
  constexpr int calls = 6;
  Products products(ordinal, type, random, random_bytes);
  double best = 0;
  for (int round = 0; round < 3; ++round) {  // the first round warms up
    for (const Products::Kernel kernel : {Products::Kernel::blas, Products::Kernel::ours}) {
      if (kernel == Products::Kernel::ours && !products.has_two_kernels()) continue;
      products.begin(calls, kernel);
      const double seconds = products.end();
      if (round > 0) best = std::max(best, calls * products.flops() / seconds);
    }
  }
  return best;
}

// One GPU's end of the link measurement.
struct Link {
  int ordinal = 0;
  PinnedMemory host_up, host_down;
  DeviceMemory dev_up, dev_down;
  Stream up, down;
};

double measure_links(const std::vector<Link>& links, std::size_t bytes, bool up, bool down) {
  constexpr int copies = 8;
  double best = 0;
  for (int round = 0; round < 4; ++round) {  // the first round warms up
    const double begin = now_seconds();
    for (int copy = 0; copy < copies; ++copy) {
      for (const Link& link : links) {
        check(cudaSetDevice(link.ordinal), "cudaSetDevice");
        if (up)
          check(cudaMemcpyAsync(link.dev_up.get(), link.host_up.get(), bytes, cudaMemcpyHostToDevice, link.up.get()),
                "cudaMemcpyAsync");
        if (down)
          check(cudaMemcpyAsync(link.host_down.get(), link.dev_down.get(), bytes, cudaMemcpyDeviceToHost,
                                link.down.get()),
                "cudaMemcpyAsync");
      }
    }
    for (const Link& link : links) {
      check(cudaSetDevice(link.ordinal), "cudaSetDevice");
      check(cudaStreamSynchronize(link.up.get()), "cudaStreamSynchronize");
      check(cudaStreamSynchronize(link.down.get()), "cudaStreamSynchronize");
    }
    const double seconds = now_seconds() - begin;
    const double moved =
        static_cast<double>(bytes) * copies * static_cast<double>(links.size()) * (int{up} + int{down});
    if (round > 0) best = std::max(best, moved / seconds);
  }
  return best;
}

const char* last_error() { return error_text().c_str(); }

int device_count() {
  int count = -1;
  return guarded([&] { check(cudaGetDeviceCount(&count), "cudaGetDeviceCount"); }) == 0 ? count : -1;
}

int cublas_version() { return CUBLAS_VERSION; }

void* pinned_alloc(std::size_t bytes) {
  void* address = nullptr;
  guarded([&] { address = pinned_memory(bytes).release(); });
  return address;
}

void pinned_free(void* address) { cudaFreeHost(address); }

int measure_rates(const int* ordinals, int count, char type, tessera_bench_rates* rates) {
  return guarded([&] {
    if (count < 1) throw std::invalid_argument("no GPU given");
    constexpr std::size_t bytes = std::size_t{64} << 20;
    std::vector<Link> links;
    for (int i = 0; i < count; ++i) {
      check(cudaSetDevice(ordinals[i]), "cudaSetDevice");
      Link link;
      link.ordinal = ordinals[i];
      link.host_up = pinned_memory(bytes);
      link.host_down = pinned_memory(bytes);
      link.dev_up = device_memory(bytes);
      link.dev_down = device_memory(bytes);
      link.up = make_stream();
      link.down = make_stream();
      links.push_back(std::move(link));
    }
    fill_random(links.front().host_up.get(), bytes, type);
    rates->up_bytes_per_s = measure_links(links, bytes, true, false);
    rates->down_bytes_per_s = measure_links(links, bytes, false, true);
    rates->both_bytes_per_s = measure_links(links, bytes, true, true);
    rates->flops_per_s = measure_in_core(ordinals[0], type, links.front().host_up.get(), bytes);
  });
}

int xt_create(const int* ordinals, int count, int block_size, int pin, tessera_bench_xt* xt) {
  *xt = nullptr;
  auto made = std::make_unique<tessera_bench_xt_struct>();
  const int status = guarded([&] {
    check(cublasXtCreate(&made->handle), "cublasXtCreate");
    std::vector<int> devices(ordinals, ordinals + count);
    check(cublasXtDeviceSelect(made->handle, count, devices.data()), "cublasXtDeviceSelect");
    check(cublasXtSetBlockDim(made->handle, block_size), "cublasXtSetBlockDim");
    check(cublasXtSetPinningMemMode(made->handle, pin ? CUBLASXT_PINNING_ENABLED : CUBLASXT_PINNING_DISABLED),
          "cublasXtSetPinningMemMode");
  });
  if (status == 0) {
    *xt = made.release();
  } else if (made->handle != nullptr) {
    cublasXtDestroy(made->handle);
  }
  return status;
}

// cublasXt's functions of one scalar type under one name for all. The letters sy or he choose what the Hermitian routines
// are: for real types they are the symmetric ones, and the signatures agree then.
template <char type>
struct Xt;

#define TESSERA_XT_FUNCTIONS(type, CudaType, CudaReal, letter, he) \
  template <>                                                      \
  struct Xt<type> {                                                \
    using Value = CudaType;                                        \
    using Real = CudaReal;                                         \
    static constexpr auto gemm = cublasXt##letter##gemm;           \
    static constexpr auto symm = cublasXt##letter##symm;           \
    static constexpr auto hemm = cublasXt##letter##he##mm;         \
    static constexpr auto syrk = cublasXt##letter##syrk;           \
    static constexpr auto herk = cublasXt##letter##he##rk;         \
    static constexpr auto syr2k = cublasXt##letter##syr2k;         \
    static constexpr auto her2k = cublasXt##letter##he##r2k;       \
    static constexpr auto trmm = cublasXt##letter##trmm;           \
    static constexpr auto trsm = cublasXt##letter##trsm;           \
  }

TESSERA_XT_FUNCTIONS('s', float, float, S, sy);
TESSERA_XT_FUNCTIONS('d', double, double, D, sy);
TESSERA_XT_FUNCTIONS('c', cuComplex, float, C, he);
TESSERA_XT_FUNCTIONS('z', cuDoubleComplex, double, Z, he);

#undef TESSERA_XT_FUNCTIONS

template <class Value, class Real>
Value scalar_of(const double (&parts)[2]) {
  // A variable of cuComplex.h's type, because cublasXt loads complex scalars as one aligned word.
  if constexpr (sizeof(Value) == sizeof(Real)) {
    return static_cast<Real>(parts[0]);
  } else {
    return Value{static_cast<Real>(parts[0]), static_cast<Real>(parts[1])};
  }
}

template <char type>
cublasStatus_t run_level3(cublasXtHandle_t handle, const tessera_bench_level3& call) {
  using Functions = Xt<type>;
  using Value = typename Functions::Value;
  using Real = typename Functions::Real;
  const auto alpha = scalar_of<Value, Real>(call.alpha);
  const auto beta = scalar_of<Value, Real>(call.beta);
  const auto real_alpha = static_cast<Real>(call.alpha[0]);
  const auto real_beta = static_cast<Real>(call.beta[0]);
  const auto* const A = static_cast<const Value*>(call.A);
  const auto* const B = static_cast<const Value*>(call.B);
  auto* const C = static_cast<Value*>(call.C);
  const auto m = static_cast<std::size_t>(call.m);
  const auto n = static_cast<std::size_t>(call.n);
  const auto k = static_cast<std::size_t>(call.k);
  const auto lda = static_cast<std::size_t>(call.lda);
  const auto ldb = static_cast<std::size_t>(call.ldb);
  const auto ldc = static_cast<std::size_t>(call.ldc);
  const cublasSideMode_t side = call.side == 0 ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  const cublasFillMode_t fill = call.uplo == 0 ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cublasDiagType_t diag = call.diag == 0 ? CUBLAS_DIAG_NON_UNIT : CUBLAS_DIAG_UNIT;
  const auto operation = [](int op) {
    // For real types the conjugate transpose is the transpose, which not all functions know.
    constexpr bool complex = sizeof(Value) != sizeof(Real);
    return op == 0 ? CUBLAS_OP_N : op == 2 && complex ? CUBLAS_OP_C : CUBLAS_OP_T;
  };
  const cublasOperation_t op_a = operation(call.op_a), op_b = operation(call.op_b);
  switch (call.routine) {
    case 0:
      return Functions::gemm(handle, op_a, op_b, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case 1:
      return Functions::symm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case 2:
      return Functions::hemm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case 3:
      return Functions::syrk(handle, fill, op_a, n, k, &alpha, A, lda, &beta, C, ldc);
    case 4:
      return Functions::herk(handle, fill, op_a, n, k, &real_alpha, A, lda, &real_beta, C, ldc);
    case 5:
      return Functions::syr2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case 6:
      return Functions::her2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &real_beta, C, ldc);
    case 7:
      // Out of place; B == C is the BLAS routine, as cuBLAS documents it.
      return Functions::trmm(handle, side, fill, op_a, diag, m, n, &alpha, A, lda, B, ldb, C, ldc);
    case 8:
      return Functions::trsm(handle, side, fill, op_a, diag, m, n, &alpha, A, lda, C, ldc);
    default:
      throw std::invalid_argument("no such Level-3 routine: " + std::to_string(call.routine));
  }
}

cublasStatus_t run_level3(cublasXtHandle_t handle, const tessera_bench_level3& call) {
  switch (call.type) {
    case 's':
      return run_level3<'s'>(handle, call);
    case 'd':
      return run_level3<'d'>(handle, call);
    case 'c':
      return run_level3<'c'>(handle, call);
    case 'z':
      return run_level3<'z'>(handle, call);
    default:
      throw std::invalid_argument("no such scalar type");
  }
}

int xt_level3(tessera_bench_xt xt, const tessera_bench_level3* call) {
  return guarded([&] { check(run_level3(xt->handle, *call), "cublasXt"); });
}

void xt_destroy(tessera_bench_xt xt) {
  if (xt == nullptr) return;
  cublasXtDestroy(xt->handle);
  delete xt;
}

}  // namespace

struct tessera_bench_products_struct {
  std::vector<Products> gpus;
};

namespace {

int products_create(const int* ordinals, int count, char type, tessera_bench_products* products) {
  *products = nullptr;
  return guarded([&] {
    if (count < 1) throw std::invalid_argument("no GPU given");
    std::vector<std::byte> random(std::size_t{64} << 20);
    fill_random(random.data(), random.size(), type);
    auto made = std::make_unique<tessera_bench_products_struct>();
    for (int i = 0; i < count; ++i) made->gpus.emplace_back(ordinals[i], type, random.data(), random.size());
    *products = made.release();
  });
}

int products_run(tessera_bench_products products, double flops, double* seconds) {
  return guarded([&] {
    const double share = flops / static_cast<double>(products->gpus.size());
    const double one = products->gpus.front().flops();
    const int count = std::max(1, static_cast<int>(std::lround(share / one)));
    for (Products& gpu : products->gpus) gpu.begin(count, Products::Kernel::ours);
    double longest = 0;
    for (const Products& gpu : products->gpus) longest = std::max(longest, gpu.end());
    *seconds = longest * share / (count * one);
  });
}

void products_destroy(tessera_bench_products products) { delete products; }

constexpr tessera_bench_cuda table = {TESSERA_BENCH_ABI, last_error,    device_count,    cublas_version, pinned_alloc,
                                      pinned_free,       measure_rates, xt_create,       xt_level3,      xt_destroy,
                                      products_create,   products_run,  products_destroy};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tessera_bench_cuda* tessera_bench_cuda_entry(void) {
  return &table;
}
