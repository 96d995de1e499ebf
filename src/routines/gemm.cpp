#include "routines/gemm.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "core/level3.hpp"
#include "routines/matrix_view.hpp"
#include "routines/tiling.hpp"

namespace tessera::routines {
namespace {

// C_ij = beta * C_ij + sum_l alpha * op(A)_il * op(B)_lj: one task per tile of C, one step per l.
class GemmGraph final : public runtime::TaskGraph {
 public:
  GemmGraph(const Level3& problem, const runtime::Machine& machine, index_t forced_tile)
      : problem_(problem),
        tiling_(choose_tiling(shape_of(problem), machine, forced_tile)),
        order_(choose_order(shape_of(problem), tiling_, machine)),
        A_(problem.A, problem.m, problem.k, problem.lda, problem.op_a, problem.type),
        B_(problem.B, problem.k, problem.n, problem.ldb, problem.op_b, problem.type),
        C_(problem.C, problem.m, problem.n, problem.ldc, Op::no_trans, problem.type) {}

  std::string routine() const override { return std::string(1, letter(problem_.type)) + "gemm"; }
  ScalarType type() const override { return problem_.type; }
  runtime::Tiling tiling() const override { return tiling_; }
  index_t m() const override { return problem_.m; }
  index_t n() const override { return problem_.n; }
  index_t k() const override { return problem_.k; }

  index_t task_count() const override { return static_cast<index_t>(order_.size()); }

  runtime::HostTile output(runtime::TaskId task) const override {
    const Block block = block_of(task);
    return C_.tile(block.i, block.j, block.rows, block.cols).tile;
  }
  AnyScalar beta() const override { return problem_.beta; }
  index_t step_count(runtime::TaskId) const override { return ceil_div(problem_.k, tiling_.k); }

  runtime::Step step(runtime::TaskId task, index_t l) const override {
    const Block block = block_of(task);
    const index_t first = l * tiling_.k;
    const index_t depth = std::min(tiling_.k, problem_.k - first);
    return {problem_.alpha, A_.tile(block.i, first, block.rows, depth), B_.tile(first, block.j, depth, block.cols)};
  }

  double task_flops(runtime::TaskId task) const override {
    const Block block = block_of(task);
    return flops_of({.type = problem_.type, .m = block.rows, .n = block.cols, .k = problem_.k});
  }

  std::size_t slot_bytes() const override { return routines::slot_bytes(problem_.type, tiling_); }
  double flops() const override { return flops_of(problem_); }
  index_t compulsory_up_bytes() const override {
    return A_.bytes() + (A_.same_storage(B_) ? 0 : B_.bytes()) + (problem_.beta == AnyScalar(0) ? 0 : C_.bytes());
  }
  index_t compulsory_down_bytes() const override { return C_.bytes(); }
  std::vector<device::HostRange> host_ranges() const override {
    std::vector<device::HostRange> ranges;
    for (const MatrixView* view : {&A_, &B_, &C_}) {
      if (view->is_dense()) ranges.push_back(view->range());
    }
    return ranges;
  }

 private:
  static ProductShape shape_of(const Level3& p) {
    return {.type = p.type,
            .m = p.m,
            .n = p.n,
            .k = p.k,
            .n_is_strided = p.op_b != Op::no_trans,
            .k_is_strided = p.op_a != Op::no_trans || p.op_b == Op::no_trans};
  }

  struct Block {  // of C, in elements
    index_t i, j, rows, cols;
  };
  Block block_of(runtime::TaskId task) const {
    const runtime::TileIndex tile = order_[static_cast<std::size_t>(task)];
    const index_t i = tile.i * tiling_.m;
    const index_t j = tile.j * tiling_.n;
    return {i, j, std::min(tiling_.m, problem_.m - i), std::min(tiling_.n, problem_.n - j)};
  }

  Level3 problem_;
  runtime::Tiling tiling_;
  std::vector<runtime::TileIndex> order_;
  MatrixView A_;
  MatrixView B_;
  MatrixView C_;
};

}  // namespace

runtime::JobStatistics run_gemm(runtime::Runtime& runtime, const Level3& problem, index_t tile) {
  if (problem.m < 1 || problem.n < 1 || problem.only_scales()) {
    throw InternalError("gemm: nothing to multiply");
  }
  return runtime.run(GemmGraph(problem, runtime.machine(), tile));
}

}  // namespace tessera::routines
