// One Level-3 BLAS call as data: what the BLAS faces check and hand down, what a routine cuts into tiles, and what a
// tile kernel or the CPU BLAS executes. Column-major; row-major callers swap operands before they make one.
#pragma once

#include <string>

#include "calls/routine.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// By routine; T is A's transpose, or its conjugate transpose for the Hermitian routines.
///
///   gemm          C = alpha op_a(A) op_b(B) + beta C                 op_a(A) m x k, op_b(B) k x n, C m x n
///   symm, hemm    C = alpha A B + beta C, or alpha B A + beta C      side says where A is; A m x m or n x n, its `uplo` triangle is read
///   syrk, herk    C = alpha op_a(A) op_a(A)^T + beta C               op_a(A) n x k, C n x n (m == n), its `uplo` triangle is touched
///   syr2k, her2k  C = alpha op_a(A) op_a(B)^T + alpha' op_a(B) op_a(A)^T + beta C    alpha' is conj(alpha) for her2k, else alpha
///   trmm          C = alpha op_a(A) B, or alpha B op_a(A)            A triangular, m x m or n x n; B m x n may be C itself (the BLAS routine)
///   trsm          op_a(A) X = alpha C, or X op_a(A) = alpha C        X overwrites C; B is not used
///   gemmt         C = alpha op_a(A) op_b(B) + beta C                 as gemm, C n x n (m == n), its `uplo` triangle is touched
///
/// The Hermitian routines take A's (hemm) or C's (herk, her2k) diagonal as real, and leave C's real. herk has real
/// alpha and beta, her2k real beta. beta == 0 does not read C; alpha == 0 does not read A and B; diag == unit does not
/// read A's diagonal.
struct Level3 {
  Routine routine = Routine::gemm;  ///< one of level3_routines
  ScalarType type = ScalarType::d;
  Side side = Side::left;
  Uplo uplo = Uplo::lower;
  Op op_a = Op::no_trans;
  Op op_b = Op::no_trans;
  Diag diag = Diag::non_unit;
  index_t m = 0, n = 0, k = 0;
  AnyScalar alpha = 1;
  const void* A = nullptr;
  index_t lda = 0;  ///< elements, as are ldb and ldc
  const void* B = nullptr;
  index_t ldb = 0;
  AnyScalar beta = 0;
  void* C = nullptr;
  index_t ldc = 0;

  constexpr bool is_triangular() const { return tessera::is_triangular(routine); }
  constexpr bool is_rank_update() const { return tessera::is_rank_update(routine); }
  constexpr bool is_hermitian() const { return tessera::is_hermitian(routine); }
  /// gemm and gemmt: A and B each have an op.
  constexpr bool has_op_b() const { return tessera::has_op_b(routine); }
  /// C is square, and only its `uplo` triangle is read and written.
  constexpr bool updates_triangle() const { return tessera::updates_triangle(routine); }
  constexpr bool has_k() const { return has_op_b() || is_rank_update(); }

  /// Neither alpha nor k asks for a product: C is at most scaled, and A and B are not read.
  constexpr bool only_scales() const { return alpha == AnyScalar(0) || (has_k() && k == 0); }
};

/// "dgemm"
inline std::string name_of(const Level3& call) {
  return letter(call.type) + std::string(name_of(call.routine, call.type));
}

/// Rows and columns as stored.
struct StoredShape {
  index_t rows = 0;
  index_t cols = 0;
};
inline StoredShape shape_of_a(const Level3& call) {
  if (call.has_k()) {
    const index_t rows = call.routine == Routine::gemm ? call.m : call.n;
    return call.op_a == Op::no_trans ? StoredShape{rows, call.k} : StoredShape{call.k, rows};
  }
  const index_t order = call.side == Side::left ? call.m : call.n;
  return {order, order};
}
/// Nothing where the routine has no B.
inline StoredShape shape_of_b(const Level3& call) {
  switch (call.routine) {
    case Routine::gemm:
    case Routine::gemmt:
      return call.op_b == Op::no_trans ? StoredShape{call.k, call.n} : StoredShape{call.n, call.k};
    case Routine::symm:
    case Routine::hemm:
    case Routine::trmm:
      return {call.m, call.n};
    case Routine::syr2k:
    case Routine::her2k:
      return shape_of_a(call);
    default:
      break;
  }
  return {};
}

/// Floating-point operations as everybody reports them (LAPACK Working Note 41, leading terms; complex operations count
/// four times real ones). gemmt, which has no formula there, counts two for each product that goes into the triangle.
constexpr double flops_of(const Level3& call) {
  const double factor = is_complex(call.type) ? 4 : 1;
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  const double side = call.side == Side::left ? m : n;
  switch (call.routine) {
    case Routine::gemm:
      return factor * 2 * m * n * k;
    case Routine::gemmt:
      return factor * n * (n + 1) * k;
    case Routine::symm:
    case Routine::hemm:
      return factor * 2 * m * n * side;
    case Routine::syrk:
    case Routine::herk:
      return factor * n * n * k;
    case Routine::syr2k:
    case Routine::her2k:
      return factor * 2 * n * n * k;
    default:
      break;
  }
  return factor * m * n * side;
}

}  // namespace tessera
