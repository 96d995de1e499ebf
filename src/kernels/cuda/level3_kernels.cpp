#include "kernels/cuda/level3_kernels.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/plan/strip_choice.hpp"
#include "kernels/plan/triangular_recursion.hpp"

namespace tessera::kernels::cuda {
namespace {

cublas_index narrow(index_t value) {
  if (value > std::numeric_limits<cublas_index>::max()) {
    throw InternalError("a tile of " + std::to_string(value) + " rows or columns is too large for this cuBLAS");
  }
  return static_cast<cublas_index>(value);
}

/// cuBLAS's functions of one scalar type under one name for all: `Cublas<T>::gemm`. The letters sy or he select the
/// function behind the Hermitian names. A real matrix is Hermitian if it is symmetric, and the signatures agree then.
template <Scalar T>
struct Cublas;

#define TESSERA_CUBLAS_FUNCTION(name, member)          \
  template <class... Arguments>                        \
  static cublasStatus_t name(Arguments... arguments) { \
    return cublas().member(arguments...);              \
  }
#define TESSERA_CUBLAS_FUNCTIONS(Type, CudaType, CudaReal, letter, he) \
  template <>                                                          \
  struct Cublas<Type> {                                                \
    using Value = CudaType;                                            \
    using Real = CudaReal;                                             \
    TESSERA_CUBLAS_FUNCTION(gemm, letter##gemm)                        \
    TESSERA_CUBLAS_FUNCTION(symm, letter##symm)                        \
    TESSERA_CUBLAS_FUNCTION(hemm, letter##he##mm)                      \
    TESSERA_CUBLAS_FUNCTION(syrk, letter##syrk)                        \
    TESSERA_CUBLAS_FUNCTION(herk, letter##he##rk)                      \
    TESSERA_CUBLAS_FUNCTION(syr2k, letter##syr2k)                      \
    TESSERA_CUBLAS_FUNCTION(her2k, letter##he##r2k)                    \
    TESSERA_CUBLAS_FUNCTION(trmm, letter##trmm)                        \
  }

TESSERA_CUBLAS_FUNCTIONS(float, float, float, S, sy);
TESSERA_CUBLAS_FUNCTIONS(double, double, double, D, sy);
TESSERA_CUBLAS_FUNCTIONS(std::complex<float>, cuComplex, float, C, he);
TESSERA_CUBLAS_FUNCTIONS(std::complex<double>, cuDoubleComplex, double, Z, he);

#undef TESSERA_CUBLAS_FUNCTIONS
#undef TESSERA_CUBLAS_FUNCTION

cublasSideMode_t side_of(Side side) { return side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT; }
cublasFillMode_t fill_of(Uplo uplo) { return uplo == Uplo::upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER; }
cublasDiagType_t diag_of(Diag diag) { return diag == Diag::unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT; }

/// Calls cuBLAS: every routine but trsm and gemmt, which are composed of others.
template <Scalar T>
cublasStatus_t call_cublas(cublasHandle_t handle, const Level3& call) {
  using Functions = Cublas<T>;
  using Value = typename Functions::Value;
  using Real = typename Functions::Real;
  // std::complex<Real> and the types of cuComplex.h both hold a real and an imaginary part, but the latter are aligned
  // to both. cuBLAS reads the scalars before the call returns (pointer mode host).
  const auto alpha = std::bit_cast<Value>(scalar_cast<T>(call.alpha));
  const auto beta = std::bit_cast<Value>(scalar_cast<T>(call.beta));
  const auto real_alpha = static_cast<Real>(call.alpha.real());
  const auto real_beta = static_cast<Real>(call.beta.real());
  const auto* const A = static_cast<const Value*>(call.A);
  const auto* const B = static_cast<const Value*>(call.B);
  auto* const C = static_cast<Value*>(call.C);
  const cublas_index m = narrow(call.m), n = narrow(call.n), k = narrow(call.k);
  const cublas_index lda = narrow(call.lda), ldb = narrow(call.ldb), ldc = narrow(call.ldc);
  const cublasSideMode_t side = side_of(call.side);
  const cublasFillMode_t fill = fill_of(call.uplo);
  const cublasDiagType_t diag = diag_of(call.diag);
  const cublasOperation_t op_a = operation_of(call.op_a, call.type);
  const cublasOperation_t op_b = operation_of(call.op_b, call.type);
  switch (call.routine) {
    case Routine::gemm:
      return Functions::gemm(handle, op_a, op_b, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::symm:
      return Functions::symm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::hemm:
      return Functions::hemm(handle, side, fill, m, n, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::syrk:
      return Functions::syrk(handle, fill, op_a, n, k, &alpha, A, lda, &beta, C, ldc);
    case Routine::herk:
      return Functions::herk(handle, fill, op_a, n, k, &real_alpha, A, lda, &real_beta, C, ldc);
    case Routine::syr2k:
      return Functions::syr2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
    case Routine::her2k:
      return Functions::her2k(handle, fill, op_a, n, k, &alpha, A, lda, B, ldb, &real_beta, C, ldc);
    case Routine::trmm:
      return Functions::trmm(handle, side, fill, op_a, diag, m, n, &alpha, A, lda, B, ldb, C, ldc);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

plan::SolveChoice solve_choice(const Level3& call) {
  return plan::choose_solve(call.type, plan::order_of(call), plan::columns_of(call));
}

plan::ProductChoice product_choice(const Level3& call) {
  return plan::choose_product(call.type, plan::order_of(call), plan::columns_of(call));
}

std::size_t bytes_of_result(const Level3& call) {
  return static_cast<std::size_t>(call.m * call.n) * element_bytes(call.type);
}

}  // namespace

cudaError_t Level3Kernels::load(int ordinal, const device::DeviceProfile& profile) {
  cudaError_t error = load_elementwise_kernels();
  if (error == cudaSuccess) error = load_leaf_kernels(widest_strips_);
  if (error == cudaSuccess) error = dgemm_.load(ordinal, profile.dgemm);
  int multiprocessors = 0;
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
  }
  multiprocessors_ = multiprocessors;
  most_narrow_columns_ = profile.most_narrow_solve_columns;
  return error;
}

Outcome Level3Kernels::submit(const Level3& call, const Submission& to) const {
  if (call.alpha == AnyScalar(0)) return {.cuda = scale(call, to.stream)};
  if (call.is_rank_update() && call.is_hermitian() && is_complex(call.type) && call.beta != AnyScalar(0)) {
    if (const cudaError_t error = make_diagonal_real(call, to.stream); error != cudaSuccess) return {.cuda = error};
  }
  if (call.routine == Routine::trsm) return solve_triangle(call, solve_choice(call), to);
  if (call.routine == Routine::trmm) return multiply_triangle(call, product_choice(call), to);
  if (call.routine == Routine::gemmt) {
    // The whole square, by the fastest kernel for it.
    Level3 square = call;
    square.routine = Routine::gemm;
    return multiply(square, to);
  }
  return multiply(call, to);
}

bool Level3Kernels::takes_chain(const Level3& call) { return solve_choice(call).chain_rows > 0; }

Outcome Level3Kernels::multiply(const Level3& call, const Submission& to) const {
  if (const auto taken = dgemm_.submit_if_taken(call, to.stream)) return {.cuda = *taken};
  return {.cublas = dispatch(call.type, [&]<Scalar T>(T) { return call_cublas<T>(to.handle, call); })};
}

// @param leaf leaf(part) submits a part that is not a gemm
template <class Leaf>
Outcome Level3Kernels::submit_in_parts(const Level3& call, index_t leaf_rows, const Submission& to, Leaf leaf) const {
  Outcome outcome;
  plan::run_in_parts(call, leaf_rows, [&](const Level3& part) {
    if (outcome.is_good()) outcome = part.routine == Routine::gemm ? multiply(part, to) : leaf(part);
  });
  return outcome;
}

Outcome Level3Kernels::solve_triangle(const Level3& call, const plan::SolveChoice& choice, const Submission& to) const {
  const index_t rows = std::min(choice.chain_rows, plan::order_of(call));
  const auto& strips = chain_strips_[static_cast<std::size_t>(call.type)];
  const auto strip =
      std::find_if(strips.begin(), strips.end(), [&](int columns) { return columns >= choice.chain_strip; });
  if (to.chain_memory == nullptr || rows == 0 || strip == strips.end() ||
      !plan::fits_chain(rows, plan::columns_of(call), *strip)) {
    return submit_in_place(call, to);
  }
  return submit_in_parts(call, rows, to, [&](const Level3& part) {
    return Outcome{.cuda = submit_chain(part, to.stream, *strip, to.chain_memory)};
  });
}

// Computes by our own leaves: trsm, and trmm in place.
Outcome Level3Kernels::submit_in_place(const Level3& call, const Submission& to) const {
  const index_t columns = plan::columns_of(call);
  const int widest = widest_strips_[static_cast<std::size_t>(call.type)];
  const int strip = to.has_neighbours ? plan::thriftiest_strip(columns, most_narrow_columns_, widest)
                                      : plan::quickest_strip(columns, multiprocessors_, widest);
  return submit_in_parts(call, triangular_leaf_rows(call.type, strip), to,
                         [&](const Level3& part) { return Outcome{.cuda = submit_leaf(part, to.stream, strip)}; });
}

std::size_t Level3Kernels::workspace_bytes(const Level3& call) {
  if (call.routine != Routine::trmm || product_choice(call).without_copy) return 0;
  return bytes_of_result(call);
}

Outcome Level3Kernels::multiply_triangle(const Level3& call, const plan::ProductChoice& choice,
                                         const Submission& to) const {
  Level3 apart = call;
  if (call.B == call.C) {
    if (choice.without_copy || bytes_of_result(call) > to.workspace_bytes) return submit_in_place(call, to);
    apart.B = to.workspace;
    apart.ldb = call.m;
    if (const cudaError_t error = copy_to(to.workspace, call, to.stream); error != cudaSuccess) return {.cuda = error};
  }
  const index_t leaf_rows = choice.leaf_rows > 0 ? choice.leaf_rows : plan::order_of(call);
  return submit_in_parts(apart, leaf_rows, to, [&](const Level3& part) { return multiply(part, to); });
}

}  // namespace tessera::kernels::cuda
