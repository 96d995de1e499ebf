// Batches by each of those that are measured: Tessera's functions, cuBLAS's batched and grouped ones, and loops of cuBLAS
// calls over several streams.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/batch_problems.hpp"
#include "bench/frame/device_libraries.hpp"
#include "bench/frame/device_timer.hpp"
#include "calls/level3.hpp"
#include "tessera/device_blas.h"

namespace tessera::bench {

/// Tessera's functions of one type: for problems of one size, and of different sizes.
template <Routine routine, class T>
constexpr auto own_batch = nullptr;
#define TESSERA_BATCH(routine, list, letter, T)          \
  template <>                                            \
  inline constexpr auto own_batch<Routine::routine, T> = \
      std::pair(&tessera_device_##letter##routine##_batched, &tessera_device_##letter##routine##_vbatched);
#include "device_api/routines.def"

/// The arguments in which Tessera's functions for problems of one size and of different sizes are not alike.
struct OneSize {
  template <class Functions>
  static auto function(const Functions& functions) {
    return functions.first;
  }
  template <std::size_t... Which>
  auto sizes() const {
    return std::tuple(of.bounds[Which]...);
  }
  index_t ld(Operand operand) const {
    const Level3& call = of.common();
    return operand == in_a ? call.lda : operand == in_b ? call.ldb : call.ldc;
  }
  auto last() const { return std::tuple(of.count()); }

  const Problems& of;
};
struct DifferentSizes {
  template <class Functions>
  static auto function(const Functions& functions) {
    return functions.second;
  }
  template <std::size_t... Which>
  auto sizes() const {
    return std::tuple((are_bounded ? of.bounds[Which] : 0)..., static_cast<const int*>(of.sizes[Which].get())...);
  }
  const int* ld(Operand operand) const { return of.lds[operand].get(); }
  auto last() const { return std::tuple(of.count(), of.info.get()); }

  const Problems& of;
  bool are_bounded;
};

template <Scalar T, class Form>
void call_own(tessera_device_handle handle, const Form& form) {
  constexpr bool is_real = std::floating_point<T>;
  using Read = std::conditional_t<is_real, const T*, const void*>;
  using Written = std::conditional_t<is_real, T*, void*>;
  const Level3& c = form.of.common();
  const T alpha_value = scalar_cast<T>(c.alpha), beta_value = scalar_cast<T>(c.beta);
  const auto scalar = [](const T& value) {
    if constexpr (is_real)
      return std::tuple(value);
    else
      return std::tuple(static_cast<const void*>(&value));
  };
  const auto read = [&](Operand operand) {
    return std::tuple(reinterpret_cast<const Read*>(form.of.matrices[operand].get()), form.ld(operand));
  };
  const auto alpha = scalar(alpha_value), beta = scalar(beta_value);
  const auto A = read(in_a), B = read(in_b);
  const auto C = std::tuple(reinterpret_cast<const Written*>(form.of.matrices[in_c].get()), form.ld(in_c));
  const auto mnk = form.template sizes<0, 1, 2>();
  const auto mn = form.template sizes<0, 1>();
  const auto nk = form.template sizes<1, 2>();
  const auto side = std::tuple(own(c.side));
  const auto uplo = std::tuple(own(c.uplo));
  const auto op_a = std::tuple(own(c.op_a)), op_b = std::tuple(own(c.op_b));
  const auto diag = std::tuple(own(c.diag));
  const auto run = [&](const auto& functions, const auto&... arguments) {
    check(std::apply(Form::function(functions), std::tuple_cat(std::tuple(handle), arguments..., form.last())),
          "tessera");
  };
  switch (c.routine) {
    case Routine::gemm:
      return run(own_batch<Routine::gemm, T>, op_a, op_b, mnk, alpha, A, B, beta, C);
    case Routine::gemmt:
      return run(own_batch<Routine::gemmt, T>, uplo, op_a, op_b, nk, alpha, A, B, beta, C);
    case Routine::symm:
      return run(own_batch<Routine::symm, T>, side, uplo, mn, alpha, A, B, beta, C);
    case Routine::syrk:
      return run(own_batch<Routine::syrk, T>, uplo, op_a, nk, alpha, A, beta, C);
    case Routine::syr2k:
      return run(own_batch<Routine::syr2k, T>, uplo, op_a, nk, alpha, A, B, beta, C);
    case Routine::trmm:
      return run(own_batch<Routine::trmm, T>, side, uplo, op_a, diag, mn, alpha, A, C);
    case Routine::trsm:
      return run(own_batch<Routine::trsm, T>, side, uplo, op_a, diag, mn, alpha, A, C);
    default:
      break;
  }
  if constexpr (!is_real) {
    const std::tuple real_alpha(alpha_value.real()), real_beta(beta_value.real());
    if (c.routine == Routine::hemm) return run(own_batch<Routine::hemm, T>, side, uplo, mn, alpha, A, B, beta, C);
    if (c.routine == Routine::herk)
      return run(own_batch<Routine::herk, T>, uplo, op_a, nk, real_alpha, A, real_beta, C);
    return run(own_batch<Routine::her2k, T>, uplo, op_a, nk, alpha, A, B, real_beta, C);
  }
  throw std::runtime_error("there is no " + name_of(c));
}

/// gemm and trsm of one size by cuBLAS.
template <Scalar T>
void call_vendor_batched(cublasHandle_t handle, const Problems& of) {
  using Value = typename Vendor<T>::Value;
  const Level3& c = of.common();
  const T alpha = scalar_cast<T>(c.alpha), beta = scalar_cast<T>(c.beta);
  const auto* const A = reinterpret_cast<const Value* const*>(of.matrices[in_a].get());
  const auto* const B = reinterpret_cast<const Value* const*>(of.matrices[in_b].get());
  auto* const C = reinterpret_cast<Value* const*>(of.matrices[in_c].get());
  if (c.routine == Routine::gemm) {
    check(Vendor<T>::gemm_batched(handle, vendor(c.op_a), vendor(c.op_b), c.m, c.n, c.k, vendor_elements(&alpha), A,
                                  c.lda, B, c.ldb, vendor_elements(&beta), C, c.ldc, of.count()),
          "cublas gemmBatched");
  } else if (c.routine == Routine::trsm) {
    check(Vendor<T>::trsm_batched(handle, vendor(c.side), vendor(c.uplo), vendor(c.op_a), vendor(c.diag), c.m, c.n,
                                  vendor_elements(&alpha), A, c.lda, C, c.ldc, of.count()),
          "cublas trsmBatched");
  } else {
    throw std::runtime_error("cuBLAS has no batched " + name_of(c));
  }
}

/// The grouped product, of real types, with a group per problem; its arrays of sizes and factors lie in host memory.
template <class T>
class Grouped {
 public:
  explicit Grouped(const Problems& of)
      : matrices_(&of.matrices),
        op_a_(of.calls.size(), vendor(of.common().op_a)),
        op_b_(of.calls.size(), vendor(of.common().op_b)),
        ones_(of.calls.size(), 1),
        alpha_(of.calls.size(), scalar_cast<T>(of.common().alpha)),
        beta_(of.calls.size(), scalar_cast<T>(of.common().beta)) {
    for (const Level3& call : of.calls) {
      const std::array<index_t, 6> numbers = {call.m, call.n, call.k, call.lda, call.ldb, call.ldc};
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers_[i].push_back(numbers[i]);
    }
  }

  void call(cublasHandle_t handle) const {
    const auto& [m, n, k, lda, ldb, ldc] = numbers_;
    const auto pointers = [&](Operand operand) { return (*matrices_)[operand].get(); };
    constexpr auto grouped = [] {
      if constexpr (sizeof(T) == 4)
        return cublasSgemmGroupedBatched_64;
      else
        return cublasDgemmGroupedBatched_64;
    }();
    check(grouped(handle, op_a_.data(), op_b_.data(), m.data(), n.data(), k.data(), alpha_.data(),
                  reinterpret_cast<const T* const*>(pointers(in_a)), lda.data(),
                  reinterpret_cast<const T* const*>(pointers(in_b)), ldb.data(), beta_.data(),
                  reinterpret_cast<T* const*>(pointers(in_c)), ldc.data(), static_cast<index_t>(ones_.size()),
                  ones_.data()),
          "cublas gemmGroupedBatched");
  }

 private:
  const std::array<DeviceArray<void*>, 3>* matrices_;
  std::vector<cublasOperation_t> op_a_, op_b_;
  std::vector<index_t> ones_;
  std::vector<T> alpha_, beta_;
  std::array<std::vector<index_t>, 6> numbers_;
};

/// cuBLAS handles with a stream each, and memory to work with, so that calls can be captured. They live as long as the
/// process.
class Streams {
 public:
  explicit Streams(std::size_t count) {
    constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // as cuBLAS asks for on compute capability 9.0
    workspace_ = DeviceArray<char>(count * workspace_bytes);
    check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "event");
    for (std::size_t i = 0; i < count; ++i) {
      Lane lane;
      check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "stream");
      check(cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming), "event");
      check(cublasCreate(&lane.handle), "cublasCreate");
      check(cublasSetStream(lane.handle, lane.stream), "cublasSetStream");
      check(cublasSetWorkspace(lane.handle, workspace_.get() + i * workspace_bytes, workspace_bytes), "workspace");
      lanes_.push_back(lane);
    }
  }

  /// Problem i by the stream i modulo `streams`. Nothing orders this after other work.
  template <Scalar T>
  void loop(const std::vector<Level3>& calls, std::size_t streams) const {
    for (std::size_t i = 0; i < calls.size(); ++i) call_vendor<T>(lanes_[i % streams].handle, calls[i]);
  }

  /// The loop as a graph, to be launched in `origin`.
  template <Scalar T>
  cudaGraphExec_t captured(cudaStream_t origin, const std::vector<Level3>& calls, std::size_t streams) const {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed), "capture");
    try {
      check(cudaEventRecord(fork_, origin), "fork");
      for (std::size_t i = 0; i < streams; ++i) check(cudaStreamWaitEvent(lanes_[i].stream, fork_, 0), "fork");
      loop<T>(calls, streams);
      for (std::size_t i = 0; i < streams; ++i) {
        check(cudaEventRecord(lanes_[i].done, lanes_[i].stream), "join");
        check(cudaStreamWaitEvent(origin, lanes_[i].done, 0), "join");
      }
    } catch (...) {  // the streams must be usable again
      if (cudaStreamEndCapture(origin, &graph) == cudaSuccess && graph != nullptr)
        static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    check(cudaStreamEndCapture(origin, &graph), "capture");
    cudaGraphExec_t launchable = nullptr;
    const cudaError_t status = cudaGraphInstantiateWithFlags(&launchable, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(status, "graph");
    return launchable;
  }

 private:
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
    cublasHandle_t handle = nullptr;
  };
  DeviceArray<char> workspace_;
  cudaEvent_t fork_ = nullptr;
  std::vector<Lane> lanes_;
};

}  // namespace tessera::bench
