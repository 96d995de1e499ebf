// Problems that cuSOLVER has no routine for. They are composed of its other routines, of products (TileOps) and of the
// kernels of dense_kernels.hpp. The functions are members of CudaDenseSolver.
//
//   unglq, unmlq   the Q of LQ is the adjoint of the Q of QR whose reflectors are the columns of A^H
//   larfb   B -= V (op(T) (V^H B)), or B -= ((B V) op(T)) V^H, V with its ones and zeros
//   lauum   one triangle of A = W W^H or W^H W; W is the factor, with zeros in its other triangle
//   getri   A X = I by the factors in A
//   gels    S is the tall one of A and A^H, S = Q R. For S X = B: B = Q^H B, R X = B. For S^H X = B: R^H X = B, zeros
//           below, X = Q X. If R has a zero on its diagonal X is not finite; the end of the computation checks for that
//   gelsd   likewise, with the singular values of R in place of R
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/cuda_dense_solver.hpp"
#include "kernels/cuda/dense_kernels.hpp"
#include "kernels/plan/panel_steps.hpp"

namespace tessera::kernels::cuda {
namespace {

constexpr Op adjoint(Op op) { return op == Op::no_trans ? Op::conj_trans : Op::no_trans; }

/// Consecutive parts of the workspace.
class Parts {
 public:
  explicit Parts(std::byte* workspace) : begin_(workspace), next_(workspace) {}
  template <class T = std::byte>
  T* take(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    std::byte* const at = next_;
    next_ += (bytes + alignment - 1) / alignment * alignment;
    return reinterpret_cast<T*>(at);
  }
  DenseMatrix matrix(ScalarType type, index_t m, index_t n) {
    return {type, m, n, take<void>(static_cast<std::size_t>(m * n) * element_bytes(type)), m};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(next_ - begin_); }
  DenseWorkspace behind(const DenseWorkspace& all) const {
    DenseWorkspace rest = all;
    rest.on_device += bytes();
    rest.space.device_bytes -= bytes();
    return rest;
  }

 private:
  std::byte *begin_, *next_;
};

/// C = alpha op_a(A) op_b(B) + beta C.
Level3 product(Op op_a, const DenseMatrix& A, Op op_b, const DenseMatrix& B, const DenseMatrix& C, double alpha = 1,
               double beta = 0) {
  return {.routine = Routine::gemm,
          .type = C.type,
          .op_a = op_a,
          .op_b = op_b,
          .m = C.m,
          .n = C.n,
          .k = op_a == Op::no_trans ? A.n : A.m,
          .alpha = alpha,
          .A = A.A,
          .lda = A.lda,
          .B = B.A,
          .ldb = B.lda,
          .beta = beta,
          .C = C.A,
          .ldc = C.lda};
}
/// C = 0. C is not read.
Level3 zero(const DenseMatrix& C) {
  return {.routine = Routine::gemm, .type = C.type, .m = C.m, .n = C.n, .k = 1, .alpha = 0, .C = C.A, .ldc = C.lda};
}

DenseMatrix matrix_of_a(const LapackCall& p, index_t m, index_t n) { return {p.type, m, n, p.A, p.lda}; }
DenseMatrix rows_of_b(const LapackCall& p, index_t first, index_t rows, index_t cols) {
  auto* const B = static_cast<std::byte*>(p.B) + first * static_cast<index_t>(element_bytes(p.type));
  return {p.type, rows, cols, B, p.ldb};
}

/// An unglq or unmlq problem as an ungqr or unmqr problem whose reflectors are the columns of A^H.
struct LqPlan {
  LqPlan(const LapackCall& p, std::byte* workspace) : is_result(forms_q(p.routine)), parts(workspace), of_qr(p) {
    reflectors = is_result ? parts.matrix(p.type, p.n, p.m) : parts.matrix(p.type, reflected_of(p), p.k);
    of_qr.routine = is_result ? Routine::ungqr : Routine::unmqr;
    of_qr.op = adjoint(p.op);
    if (is_result) std::swap(of_qr.m, of_qr.n);
    of_qr.A = reflectors.A;
    of_qr.lda = reflectors.lda;
  }
  bool is_result;  ///< the adjoint of Q takes the place of the reflectors
  Parts parts;
  DenseMatrix reflectors;
  LapackCall of_qr;
};

struct BlockPlan {
  BlockPlan(const LapackCall& p, std::byte* workspace) : parts(workspace) {
    const index_t length = reflected_of(p);
    const bool in_columns = p.storage == ReflectorStorage::columns, is_forward = p.order == ReflectorOrder::forward;
    V = in_columns ? parts.matrix(p.type, length, p.k) : parts.matrix(p.type, p.k, length);
    const bool is_left = p.side == Side::left;
    for (DenseMatrix* const each : {&W, &TW}) *each = parts.matrix(p.type, is_left ? p.k : p.m, is_left ? p.n : p.k);
    ones.part = in_columns == is_forward ? Part::lower : Part::upper;
    if (!is_forward) ones.shift = in_columns ? length - p.k : p.k - length;
    ones.diag = Diag::unit;
  }
  Parts parts;
  DenseMatrix V, W, TW;
  Trapezoid ones;  ///< V as a trapezoid with ones on its diagonal
};

}  // namespace

/// A least-squares problem: the tall one of A and A^H, and the parts of the workspace.
struct CudaDenseSolver::LeastSquaresPlan {
  LeastSquaresPlan(const LapackCall& p, SvdAlgorithm algorithm, std::byte* workspace)
      : is_flipped(p.m < p.n), is_polar(algorithm == SvdAlgorithm::polar), parts(workspace) {
    op = is_flipped ? adjoint(p.op) : p.op;
    const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n);
    tall = is_flipped ? parts.matrix(p.type, most, least) : matrix_of_a(p, most, least);
    info = parts.take<int>(sizeof(int));
    product = p;
    product.routine = Routine::unmqr;
    product.side = Side::left;
    product.op = adjoint(op);
    product.m = most, product.n = p.k, product.k = least;
    product.A = tall.A, product.lda = tall.lda;
    product.tau = parts.take<void>(static_cast<std::size_t>(least) * element_bytes(p.type));
    tail = parts.take(static_cast<std::size_t>(tail_bytes(PanelKind::qr, p.type, panel_columns)));
    if (p.routine != Routine::gelsd) return;
    rank = parts.take<std::int64_t>(sizeof(std::int64_t));
    R = parts.matrix(p.type, least, least);
    U = parts.matrix(p.type, least, least);
    V = parts.matrix(p.type, least, least);
    W = parts.matrix(p.type, least, p.k);
    svd = {.type = p.type, .m = least, .n = least, .A = R.A, .lda = least, .values = p.values};
    svd.left = svd.right = VectorJob::thin;
    svd.U = U.A, svd.V = V.A;
    svd.ldu = svd.ldv = least;
  }
  /// The first panel of the tall matrix.
  Panel first_panel() const { return {PanelKind::qr, tall.type, tall.m, panel_columns, tall.A, tall.lda, tail}; }
  /// The operation that yields the adjoint of V from the stored matrix.
  Op adjoint_of_v() const { return is_polar ? Op::conj_trans : Op::no_trans; }

  static constexpr index_t panel_columns = 512;

  bool is_flipped, is_polar;
  Op op;  ///< the problem's operation, relative to `tall`
  Parts parts;
  DenseMatrix tall, R, U, V, W;  ///< V of QR iteration is its adjoint
  TallSvd svd;
  LapackCall product;         ///< the product with Q
  std::byte* tail = nullptr;  ///< of the current panel
  int* info = nullptr;        ///< info of the parts that report nothing but wrong arguments
  std::int64_t* rank = nullptr;
};

DenseSpace CudaDenseSolver::composed_space(const LapackCall& p, SvdAlgorithm algorithm) {
  // The memory is neither read nor written, so any address serves.
  auto* const any = static_cast<std::byte*>(p.A);
  const char* const name = name_of(p.routine, p.type);
  DenseSpace space;
  std::size_t own_bytes = 0;
  const auto add = [&](cusolverStatus_t status, const DenseSpace& part) {
    require_taken(name, status);
    space = {std::max(space.device_bytes, part.device_bytes), std::max(space.host_bytes, part.host_bytes)};
  };
  const auto add_problem = [&](const LapackCall& problem) {
    DenseSpace part;
    const cusolverStatus_t status = problem_space(dn_, problem, &part);
    add(status, part);
  };
  switch (p.routine) {
    case Routine::unglq:
    case Routine::unmlq: {
      const LqPlan plan(p, any);
      own_bytes = plan.parts.bytes();
      add_problem(plan.of_qr);
      break;
    }
    case Routine::larfb:
      own_bytes = BlockPlan(p, any).parts.bytes();
      break;
    case Routine::gels:
    case Routine::gelsd: {
      const LeastSquaresPlan plan(p, algorithm, any);
      own_bytes = plan.parts.bytes();
      if (plan.op != Op::no_trans) add_problem(plan.product);
      if (p.routine == Routine::gels) break;
      DenseSpace part;
      const cusolverStatus_t of_svd = svd_space(dn_, plan.svd, algorithm, &part);
      add(of_svd, part);
      break;
    }
    default: {  // lauum, getri: a copy, and getri's pivots and info
      Parts parts(any);
      parts.matrix(p.type, p.n, p.n);
      parts.take(static_cast<std::size_t>(p.n) * sizeof(std::int64_t));
      parts.take(sizeof(int));
      own_bytes = parts.bytes();
    }
  }
  space.device_bytes += own_bytes;
  return space;
}

void CudaDenseSolver::run_composed(const LapackCall& p, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                                   DenseTelling* telling, DenseOutcome* outcome) {
  require("cudaMemsetAsync", cudaMemsetAsync(&telling->info, 0, sizeof(telling->info), stream_));
  switch (p.routine) {
    case Routine::unglq:
    case Routine::unmlq: {
      const LqPlan plan(p, workspace.on_device);
      const char* const name = name_of(p.routine, p.type);
      require("transpose", transpose(matrix_of_a(p, p.k, plan.reflectors.m), plan.reflectors, stream_));
      require(name, solve_problem(dn_, plan.of_qr, plan.parts.behind(workspace), &telling->info, nullptr));
      if (plan.is_result) require("transpose", transpose(plan.reflectors, matrix_of_a(p, p.m, p.n), stream_));
      return;
    }
    case Routine::larfb:
      return reflect_block(p, workspace);
    case Routine::lauum:
      return multiply_triangles(p, workspace);
    case Routine::getri:
      return invert_by_factors(p, workspace);
    default:
      return solve_least_squares(p, algorithm, workspace, telling, outcome);
  }
}

void CudaDenseSolver::reflect_block(const LapackCall& p, const DenseWorkspace& workspace) {
  const BlockPlan plan(p, workspace.on_device);
  const bool is_left = p.side == Side::left;
  const Op upright = p.storage == ReflectorStorage::columns ? Op::no_trans : Op::conj_trans;
  const DenseMatrix B = rows_of_b(p, 0, p.m, p.n);
  require("larfb", copy_trapezoid(matrix_of_a(p, plan.V.m, plan.V.n), plan.ones, plan.V, stream_));
  multiply(is_left ? product(adjoint(upright), plan.V, Op::no_trans, B, plan.W)
                   : product(Op::no_trans, B, upright, plan.V, plan.W));
  multiply({.routine = Routine::trmm,
            .type = p.type,
            .side = p.side,
            .uplo = p.order == ReflectorOrder::forward ? Uplo::upper : Uplo::lower,
            .op_a = p.op,
            .m = plan.W.m,
            .n = plan.W.n,
            .A = p.T,
            .lda = p.ldt,
            .B = plan.W.A,
            .ldb = plan.W.lda,
            .C = plan.TW.A,
            .ldc = plan.TW.lda});
  multiply(is_left ? product(upright, plan.V, Op::no_trans, plan.TW, B, -1, 1)
                   : product(Op::no_trans, plan.TW, adjoint(upright), plan.V, B, -1, 1));
}

void CudaDenseSolver::multiply_triangles(const LapackCall& p, const DenseWorkspace& workspace) {
  Parts parts(workspace.on_device);
  const DenseMatrix W = parts.matrix(p.type, p.n, p.n);
  const bool complex = is_complex(p.type), upper = p.uplo == Uplo::upper;
  require("lauum", copy_trapezoid(matrix_of_a(p, p.n, p.n), {.part = part_of(p.uplo)}, W, stream_));
  multiply({.routine = complex ? Routine::herk : Routine::syrk,
            .type = p.type,
            .uplo = p.uplo,
            .op_a = upper     ? Op::no_trans
                    : complex ? Op::conj_trans
                              : Op::trans,
            .m = p.n,
            .n = p.n,
            .k = p.n,
            .A = W.A,
            .lda = W.lda,
            .C = p.A,
            .ldc = p.lda});
}

void CudaDenseSolver::invert_by_factors(const LapackCall& p, const DenseWorkspace& workspace) {
  Parts parts(workspace.on_device);
  const DenseMatrix X = parts.matrix(p.type, p.n, p.n);
  auto* const pivots = parts.take<std::int64_t>(static_cast<std::size_t>(p.n) * sizeof(std::int64_t));
  int* const info = parts.take<int>(sizeof(int));
  multiply(zero(X));
  require("getri", copy_trapezoid(X, {.diag = Diag::unit}, X, stream_));
  require("getri", solve_by_lu(dn_, p, X.A, X.lda, p.n, pivots, info));
  const auto bytes = [&](index_t elements) { return static_cast<std::size_t>(elements) * element_bytes(p.type); };
  require("cudaMemcpy2DAsync", cudaMemcpy2DAsync(p.A, bytes(p.lda), X.A, bytes(X.lda), bytes(p.n),
                                                 static_cast<std::size_t>(p.n), cudaMemcpyDeviceToDevice, stream_));
}

void CudaDenseSolver::solve_least_squares(const LapackCall& p, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                                          DenseTelling* telling, DenseOutcome* outcome) {
  const LeastSquaresPlan plan(p, algorithm, workspace.on_device);
  const DenseWorkspace rest = plan.parts.behind(workspace);
  const index_t most = plan.tall.m, least = plan.tall.n;
  const DenseMatrix A = matrix_of_a(p, p.m, p.n), X = rows_of_b(p, 0, least, p.k);
  if (plan.is_flipped) require("transpose", transpose(A, plan.tall, stream_));
  factor_tall(p, plan);
  if (p.routine == Routine::gelsd) {
    divide_by_triangle(p, algorithm, plan, rest, telling, outcome);
  } else {
    multiply({.routine = Routine::trsm,
              .type = p.type,
              .uplo = Uplo::upper,
              .op_a = plan.op,
              .m = least,
              .n = p.k,
              .A = plan.tall.A,
              .lda = plan.tall.lda,
              .C = X.A,
              .ldc = X.lda});
  }
  if (plan.op != Op::no_trans) {
    if (most > least) multiply(zero(rows_of_b(p, least, most - least, p.k)));
    require(name_of(p.routine, p.type), solve_problem(dn_, plan.product, rest, plan.info, nullptr));
  }
  if (plan.is_flipped && p.routine == Routine::gels) require("transpose", transpose(plan.tall, A, stream_));
  require("norms", find_largest(rows_of_b(p, 0, most, p.k), Part::full, false, telling->largest + 1, stream_));
}

void CudaDenseSolver::factor_tall(const LapackCall& p, const LeastSquaresPlan& plan) {
  const auto element = static_cast<index_t>(element_bytes(p.type));
  const auto apply = [&](const PanelUpdate& all) {
    // W of an application to some columns is small enough for the memory that panels have.
    constexpr index_t most_columns = 2048;
    for (index_t at = 0; at < all.n; at += most_columns) {
      PanelUpdate part = all;
      part.n = std::min(most_columns, all.n - at);
      part.C = plan::element_at(all.C, all.ldc, p.type, 0, at);
      products_.apply_panel(compute_stream_, part);
    }
  };
  const auto factor = [&](const Panel& panel, index_t first) {
    for (index_t at = 0; at < panel.n; at += columns_of_part)
      products_.factor_panel(compute_stream_, panel, at, std::min(columns_of_part, panel.n - at));
    auto* const tau = static_cast<std::byte*>(plan.product.tau) + first * element;
    require("cudaMemcpyAsync", cudaMemcpyAsync(tau, tau_of(panel), static_cast<std::size_t>(panel.n * element),
                                               cudaMemcpyDeviceToDevice, stream_));
    if (plan.op == Op::no_trans) apply({panel, p.k, rows_of_b(p, first, panel.m, p.k).A, p.ldb});
  };
  plan::factor_qr_matrix(plan.first_panel(), plan.tall.n, factor, apply);
}

// With R = U S V^H: X = V (S^+ (U^H B)). With R^H, whose U is V: X = U (S^+ (V^H B)).
void CudaDenseSolver::divide_by_triangle(const LapackCall& p, SvdAlgorithm algorithm, const LeastSquaresPlan& plan,
                                         const DenseWorkspace& rest, DenseTelling* telling, DenseOutcome* outcome) {
  const index_t least = plan.R.n;
  const DenseMatrix X = rows_of_b(p, 0, least, p.k);
  const DenseMatrix triangle{p.type, least, least, plan.tall.A, plan.tall.lda};
  require("gelsd", copy_trapezoid(triangle, {.part = Part::upper}, plan.R, stream_));
  require("gelsd", solve_svd(dn_, plan.svd, algorithm, rest, &telling->info, &outcome->perturbation));
  const bool of_adjoint = plan.op != Op::no_trans;
  const Op of_v = plan.adjoint_of_v();
  multiply(of_adjoint ? product(of_v, plan.V, Op::no_trans, X, plan.W)
                      : product(Op::conj_trans, plan.U, Op::no_trans, X, plan.W));
  require("cudaMemsetAsync", cudaMemsetAsync(plan.rank, 0, sizeof(*plan.rank), stream_));
  require("gelsd", divide_by_values(plan.W, p.values, p.rcond, plan.rank, stream_));
  require("cudaMemcpyAsync",
          cudaMemcpyAsync(&outcome->found, plan.rank, sizeof(*plan.rank), cudaMemcpyDeviceToHost, stream_));
  multiply(of_adjoint ? product(Op::no_trans, plan.U, Op::no_trans, plan.W, X)
                      : product(adjoint(of_v), plan.V, Op::no_trans, plan.W, X));
}

void CudaDenseSolver::multiply(const Level3& call) { products_.run(compute_stream_, call); }

}  // namespace tessera::kernels::cuda
