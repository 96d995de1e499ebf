// One thread per element of a column, one block row per column in a grid-stride loop. Rare, so not tuned.
#include "kernels/cuda/elementwise.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_context.hpp"

namespace tessera::kernels::cuda {
namespace {

constexpr int threads_per_block = 256;

/// A number as the kernel sees it; a real one has no imaginary part.
template <class R, bool complex>
struct Number;
template <class R>
struct Number<R, false> {
  R re;
  __device__ Number times(Number b) const { return {re * b.re}; }
  __device__ Number times(R b) const { return {re * b}; }
  __device__ Number plus(Number b) const { return {re + b.re}; }
  __device__ void make_real() {}
};
template <class R>
struct alignas(2 * sizeof(R)) Number<R, true> {
  R re, im;
  __device__ Number times(Number b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
  /// An infinite part does not make the other one a NaN.
  __device__ Number times(R b) const { return {re * b, im * b}; }
  __device__ Number plus(Number b) const { return {re + b.re, im + b.im}; }
  __device__ void make_real() { im = 0; }
};

template <class T>
struct Matrix {
  T* elements;
  index_t ld, m, n;
  Part part;
  bool real_diagonal;  ///< and a real factor
};

template <class T>
__global__ void __launch_bounds__(threads_per_block) scale_elements(Matrix<T> matrix, T factor, bool to_zero) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t j = blockIdx.y; j < matrix.n; j += gridDim.y) {
    const index_t begin = matrix.part == Part::lower ? j : 0;
    const index_t end = matrix.part == Part::upper ? min(j + 1, matrix.m) : matrix.m;
    for (index_t i = begin + static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < end; i += step) {
      T& element = matrix.elements[i + j * matrix.ld];
      if (to_zero) {
        element = T{};
        continue;
      }
      T value = element;
      // An imaginary part that counts as zero must not spoil the real one, were it a NaN.
      if (matrix.real_diagonal && i == j) value.make_real();
      value = matrix.real_diagonal ? value.times(factor.re) : value.times(factor);
      if (matrix.real_diagonal && i == j) value.make_real();
      element = value;
    }
  }
}

// Columns are dealt to block rows, the elements of a column to the threads: coalesced, and enough blocks to fill the
// GPU.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    add_elements(Matrix<T> matrix, const T* __restrict__ X, index_t ldx, T factor) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t j = blockIdx.y; j < matrix.n; j += gridDim.y) {
    const index_t begin = matrix.part == Part::lower ? j : 0;
    const index_t end = matrix.part == Part::upper ? min(j + 1, matrix.m) : matrix.m;
    for (index_t i = begin + static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < end; i += step) {
      T x = X[i + j * ldx];
      if (matrix.real_diagonal && i == j) x.make_real();
      T& element = matrix.elements[i + j * matrix.ld];
      element = element.plus(x.times(factor));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block) clear_imaginary_diagonal(T* elements, index_t ld, index_t n) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads_per_block;
  for (index_t i = static_cast<index_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < n; i += step) {
    elements[i + i * ld].make_real();
  }
}

template <Scalar T>
struct NumberFor;
template <>
struct NumberFor<float> {
  using type = Number<float, false>;
};
template <>
struct NumberFor<double> {
  using type = Number<double, false>;
};
template <>
struct NumberFor<std::complex<float>> {
  using type = Number<float, true>;
};
template <>
struct NumberFor<std::complex<double>> {
  using type = Number<double, true>;
};

template <Scalar T>
const void* kernel_for() {
  return reinterpret_cast<const void*>(scale_elements<typename NumberFor<T>::type>);
}

unsigned blocks_for(index_t elements) {
  return static_cast<unsigned>(std::clamp<index_t>((elements + threads_per_block - 1) / threads_per_block, 1, 64));
}

template <Scalar T>
const void* diagonal_kernel_for() {
  return reinterpret_cast<const void*>(clear_imaginary_diagonal<typename NumberFor<T>::type>);
}

template <Scalar T>
const void* addition_kernel_for() {
  return reinterpret_cast<const void*>(add_elements<typename NumberFor<T>::type>);
}

template <class Value, Scalar T>
Value number_from(const T& value) {
  static_assert(sizeof(Value) == sizeof(T));
  Value number;
  __builtin_memcpy(&number, &value, sizeof number);
  return number;
}

dim3 grid_for(index_t m, index_t n) {
  return dim3(blocks_for(m), static_cast<unsigned>(std::clamp<index_t>(n, 1, 1024)));
}

template <Scalar T>
cudaError_t launch(const Level3& call, cudaStream_t stream) {
  using Value = typename NumberFor<T>::type;
  const T beta = scalar_cast<T>(call.beta);
  Matrix<Value> matrix{static_cast<Value*>(call.C), call.ldc, call.m, call.n, Part::full, false};
  if (call.updates_triangle()) {
    matrix.m = call.n;
    matrix.part = call.uplo == Uplo::lower ? Part::lower : Part::upper;
    matrix.real_diagonal = call.is_hermitian();
  }
  Value factor = number_from<Value>(beta);
  bool to_zero = call.is_triangular() || beta == T(0);
  void* arguments[] = {&matrix, &factor, &to_zero};
  return cudaLaunchKernel(kernel_for<T>(), grid_for(call.m, call.n), dim3(threads_per_block), arguments, 0, stream);
}

}  // namespace

cudaError_t scale(const Level3& call, cudaStream_t stream) {
  if (call.m <= 0 || call.n <= 0) return cudaSuccess;
  if (!call.is_triangular() && call.beta == AnyScalar(1)) return cudaSuccess;
  return dispatch(call.type, [&]<Scalar T>(T) { return launch<T>(call, stream); });
}

cudaError_t make_diagonal_real(const Level3& call, cudaStream_t stream) {
  return dispatch(call.type, [&]<Scalar T>(T) {
    auto* elements = static_cast<typename NumberFor<T>::type*>(call.C);
    index_t ld = call.ldc;
    index_t n = call.n;
    void* arguments[] = {&elements, &ld, &n};
    return cudaLaunchKernel(diagonal_kernel_for<T>(), dim3(blocks_for(n)), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t add(const Addition& a, cudaStream_t stream) {
  return dispatch(a.type, [&]<Scalar T>(T) {
    using Value = typename NumberFor<T>::type;
    Matrix<Value> matrix{static_cast<Value*>(a.C), a.ldc, a.m, a.n, a.part, a.hermitian};
    const Value* X = static_cast<const Value*>(a.X);
    index_t ldx = a.ldx;
    Value factor = number_from<Value>(scalar_cast<T>(a.factor));
    void* arguments[] = {&matrix, &X, &ldx, &factor};
    return cudaLaunchKernel(addition_kernel_for<T>(), grid_for(a.m, a.n), dim3(threads_per_block), arguments, 0,
                            stream);
  });
}

cudaError_t load_elementwise_kernels() {
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
    const cudaError_t error = dispatch(type, []<Scalar T>(T) {
      cudaError_t loaded = cudaSuccess;
      for (const void* kernel : {kernel_for<T>(), diagonal_kernel_for<T>(), addition_kernel_for<T>()}) {
        if (loaded == cudaSuccess) loaded = device::cuda::load_kernel(kernel);
      }
      return loaded;
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
