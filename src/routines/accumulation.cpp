// The routines that add products to C: C_ij = beta C_ij + sum over terms and l of alpha_t X_il Y_lj, one task per tile
// of C, and where k is cut into ranges (choose_ranges) one for each range of each tile.
//
//   gemm          one term, op(A) op(B)
//   gemmt         the same; only tiles of the stored triangle of C, the diagonal ones by the gemmt kernel
//   symm, hemm    one term; one factor is symmetric: of its tiles the stored ones are read, the others as transposes of those, and
//                 the diagonal ones by the symm kernel from their stored triangle
//   syrk, herk    one term, op(A) op(A)^T; only tiles of the stored triangle of C, the diagonal ones by the syrk kernel
//   syr2k, her2k  two terms in one task, so that C moves once; diagonal tiles by the syr2k kernel, which takes both at once
// Source: BLASX, Eq. 1.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "routines/call_graph.hpp"
#include "routines/level3.hpp"

namespace tessera::routines {
namespace {

using runtime::Output;
using runtime::Step;
using runtime::StepKind;
using runtime::TaskId;

class Accumulation final : public CallGraph {
 public:
  Accumulation(const Level3& call, const runtime::Machine& machine, index_t tile)
      : CallGraph(call, machine, tile),
        A_(view_of_a(call)),
        B_(view_of_b(call)),
        C_(call.C, call.m, call.n, call.ldc, Op::no_trans, call.type),
        panels_(choose_panels(shape_, tiling_, machine)),
        devices_(machine.devices) {
    set_order(choose_order(shape_, tiling_, machine, call.uplo, products()));
    const index_t depth = std::max(panels_.depth, tiling_.k);
    const index_t least = tile > 0 ? 1 : machine.tiles.task;
    set_ranges(grouped() ? 1 : choose_ranges(shape_, tiling_, depth, least, machine), depth);
  }

  index_t task_count() const override { return tiles() * ranges_; }

  Output output(TaskId task) const override {
    const TileIndex t = tile_index(task);
    const runtime::HostTile tile = on_diagonal(t)
                                       ? C_.diagonal_tile(rows(t.i).first, rows(t.i).size, call_.uplo)
                                       : C_.tile(rows(t.i).first, cols(t.j).first, rows(t.i).size, cols(t.j).size).tile;
    if (is_partial(task)) return {.tile = partial(task, tile), .publish = true, .intermediate = true};
    const bool fetch = call_.beta != AnyScalar(0);
    return {.tile = tile,
            .fetch = fetch,
            .adding_steps = step_count(task),
            .needs_old = fetch,
            .slices = device::SliceKind::columns};
  }

  index_t step_count(TaskId task) const override { return product_count(task) + (is_partial(task) ? 0 : ranges_ - 1); }

  // Devices that begin with the same terms fetch a part of their tiles each, and have the rest from each other at once.
  // Where a wave has too few tiles for that, each home begins its sums somewhere else, and when it comes to others'
  // tiles these have arrived.
  Step step(TaskId task, index_t s) const override {
    const TileIndex t = tile_index(task);
    const index_t count = product_count(task);
    if (s >= count) return addition(task, s - count);
    const bool together = grouped() || ranges_ > 1 || tiles_of_a_wave() >= devices_;
    const index_t begin = together ? 0 : home(task, devices_) * count / devices_;
    const index_t l = terms(t) * range(task).first + (s + begin) % count;
    Step step = call_.updates_triangle() ? triangle_update(t, l) : product(t, l);
    step.call.beta = s > 0 ? AnyScalar(1) : is_partial(task) ? AnyScalar(0) : call_.beta;
    return step;
  }

  // The diagonal tiles of a rank-2k update take A_l and B_l in one step, the others in two.
  index_t wave(TaskId task, index_t s) const override { return on_diagonal(tile_index(task)) ? products() * s : s; }

  bool ordered() const override { return ranges_ > 1; }

  // Ranges of k have homes, so that no two devices fetch the same tiles. A grid of devices would deal a triangle
  // unevenly.
  index_t home(TaskId task, index_t devices) const override {
    if (ranges_ > 1) return range_of(task) * devices / ranges_;
    return call_.updates_triangle() ? task % devices : CallGraph::home(task, devices);
  }

  // What adds a partial result is its only reader.
  TaskId write_after(TaskId task) const override {
    return is_partial(task) ? (ranges_ - 1) * tiles() + task % tiles() : runtime::no_task;
  }

  index_t working_slots() const override { return slots_for_all(shape_, tiling_, ranges_); }
  std::size_t slot_bytes() const override { return routines::slot_bytes(call_.type, tiling_, panels_); }

  bool is_hermitian() const override { return call_.is_rank_update() && call_.is_hermitian(); }

  index_t compulsory_up_bytes() const override {
    const bool one_operand = has_no_b() || A_.same_storage(B_);
    const index_t a_bytes = is_symmetric_product() ? A_.triangle_bytes() : A_.bytes();
    return a_bytes + (one_operand ? 0 : B_.bytes()) + (call_.beta == AnyScalar(0) ? 0 : compulsory_down_bytes());
  }
  index_t compulsory_down_bytes() const override { return call_.updates_triangle() ? C_.triangle_bytes() : C_.bytes(); }
  std::vector<device::HostRange> host_ranges() const override {
    return has_no_b() ? ranges_of({&A_, &C_}) : ranges_of({&A_, &B_, &C_});
  }

 private:
  static MatrixView view_of_a(const Level3& c) {
    const index_t symmetric = c.side == Side::left ? c.m : c.n;
    if (c.routine == Routine::symm || c.routine == Routine::hemm) {
      return {c.A, symmetric, symmetric, c.lda, Op::no_trans, c.type};
    }
    return {c.A, c.m, c.k, c.lda, c.op_a, c.type};
  }
  static MatrixView view_of_b(const Level3& c) {
    if (c.routine == Routine::gemm) return {c.B, c.k, c.n, c.ldb, c.op_b, c.type};
    // Its transpose, whose rows are read as A's are; steps apply op_b to the stored blocks.
    if (c.routine == Routine::gemmt) return {c.B, c.n, c.k, c.ldb, transposed(c.op_b, false), c.type};
    if (c.is_rank_update()) return {c.B, c.n, c.k, c.ldb, c.op_a, c.type};
    return {c.B, c.m, c.n, c.ldb, Op::no_trans, c.type};
  }

  bool has_no_b() const { return call_.routine == Routine::syrk || call_.routine == Routine::herk; }
  index_t tiles() const { return static_cast<index_t>(order_.size()); }
  TileIndex tile_index(TaskId task) const { return index_of(task % tiles()); }

  // Tasks: for each tile of C those of all ranges but one, whose sums lie in memory of our own; then, for each tile, the
  // one of the last range, which adds them.
  bool is_partial(TaskId task) const { return task < (ranges_ - 1) * tiles(); }
  // The last ones are dealt to all devices.
  index_t last_range(index_t tile) const { return ranges_ > 1 ? (tile % devices_ + 1) * ranges_ / devices_ - 1 : 0; }
  index_t range_of(TaskId task) const {
    const index_t nth = task / tiles(), last = last_range(task % tiles());
    if (!is_partial(task)) return last;
    return nth < last ? nth : nth + 1;
  }
  // Tiles of k.
  Span range(TaskId task) const {
    const index_t r = range_of(task);
    const auto cut = [&](index_t i) {
      return std::min(ceil_div(shape_.k, depth_) * i / ranges_ * depth_ / tiling_.k, kt());
    };
    return {cut(r), cut(r + 1) - cut(r)};
  }
  index_t product_count(TaskId task) const { return terms(tile_index(task)) * range(task).size; }

  void set_ranges(index_t ranges, index_t depth) {
    depth_ = depth;
    const auto bytes = static_cast<std::size_t>((ranges - 1) * tiles() * tile_bytes());
    if (ranges > 1) partial_results_.reset(new (std::nothrow) std::byte[bytes]);
    ranges_ = partial_results_ ? ranges : 1;
  }
  // Of the largest tile of C.
  index_t tile_bytes() const {
    return (tiling_.m + std::abs(tiling_.skew_m)) * (tiling_.n + std::abs(tiling_.skew_n)) *
           static_cast<index_t>(element_bytes(call_.type));
  }
  // The place of a partial result of C.
  runtime::HostTile partial(TaskId task, runtime::HostTile C) const {
    C.address = partial_results_.get() + task * tile_bytes();
    C.ld = C.rows;
    return C;
  }
  Step addition(TaskId task, index_t nth) const {
    const TaskId other = nth * tiles() + task % tiles();
    Step step;
    step.kind = StepKind::addition;
    step.call = tile_call(Routine::gemm, 0, 0, 0);
    step.a = {.tile = output(other).tile, .after = other};
    return step;
  }

  // Of pairs of operands that make up C.
  index_t products() const { return call_.is_rank_update() && !has_no_b() ? 2 : 1; }
  // The large ones: of A, or of the operands of a triangle.
  index_t tiles_of_a_wave() const {
    return call_.updates_triangle() ? (has_no_b() ? 1 : 2) * ceil_div(shape_.m, panels_.rows) : mt();
  }
  bool is_symmetric_product() const { return call_.routine == Routine::symm || call_.routine == Routine::hemm; }
  bool on_diagonal(const TileIndex& t) const { return call_.updates_triangle() && t.i == t.j; }
  index_t terms(const TileIndex& t) const { return on_diagonal(t) ? 1 : products(); }

  // gemm, symm and hemm.
  Step product(const TileIndex& t, index_t l) const {
    const Span i = rows(t.i);
    const Span j = cols(t.j);
    const Span d = depth(l);
    if (!is_symmetric_product()) {
      return multiply(call_.alpha, A_.tile(i.first, d.first, i.size, d.size),
                      part_of_panel(B_, shape_.k, panels_.depth, tiling_.k, d, j), i, j, d);
    }
    const bool left = call_.side == Side::left;
    const index_t index = left ? t.i : t.j;
    const Span across = left ? i : j;
    const ViewTile other = left ? B_.tile(d.first, j.first, d.size, j.size) : B_.tile(i.first, d.first, i.size, d.size);
    if (index == l) {
      Step step{.call = tile_call(call_.routine, i.size, j.size, 0),
                .a = {A_.diagonal_tile(across.first, across.size, call_.uplo)},
                .b = {other.tile}};
      step.call.side = call_.side;
      step.call.uplo = call_.uplo;
      step.call.alpha = call_.alpha;
      return step;
    }
    const ViewTile symmetric = left ? symmetric_tile(t.i, l, i, d) : symmetric_tile(l, t.j, d, j);
    return left ? multiply(call_.alpha, symmetric, other, i, j, d) : multiply(call_.alpha, other, symmetric, i, j, d);
  }

  // Block (i, j) of the whole symmetric or Hermitian matrix, off the diagonal.
  ViewTile symmetric_tile(index_t ti, index_t tj, const Span& i, const Span& j) const {
    const bool stored = (ti > tj) == (call_.uplo == Uplo::lower);
    if (stored) return A_.tile(i.first, j.first, i.size, j.size);
    ViewTile mirrored = A_.tile(j.first, i.first, j.size, i.size);
    mirrored.op = transposed(mirrored.op, call_.is_hermitian());
    return mirrored;
  }

  // Rows i of columns j of X, which has `rows` rows: a tile of its own, or a part of a panel of several tiles of one
  // size.
  static ViewTile part_of_panel(const MatrixView& X, index_t rows, index_t panel, index_t tile, const Span& i,
                                const Span& j) {
    if (panel == tile) return X.tile(i.first, j.first, i.size, j.size);
    const index_t first = i.first / panel * panel;
    ViewTile block = X.tile(first, j.first, std::min(panel, rows - first), j.size);
    block.first_row = i.first - first;
    return block;
  }
  // Rows i of an operand of a triangle of C.
  ViewTile block_of_rows(const MatrixView& X, const Span& i, const Span& d) const {
    return part_of_panel(X, shape_.m, panels_.rows, tiling_.m, i, d);
  }

  Step triangle_update(const TileIndex& t, index_t step_index) const {
    // Both products of a rank-2k update by turns, because the tasks of a group share A_l and B_l.
    const index_t l = step_index / terms(t);
    const bool second = step_index % terms(t) == 1;
    const Span i = rows(t.i);
    const Span j = cols(t.j);
    const Span d = depth(l);
    if (on_diagonal(t)) {
      Step step{
          .call = tile_call(call_.routine, i.size, i.size, d.size), .a = block_of_rows(A_, i, d).operand(), .b = {}};
      if (!has_no_b()) step.b = block_of_rows(B_, i, d).operand();
      step.call.uplo = call_.uplo;
      step.call.op_a = call_.op_a;
      step.call.op_b = call_.op_b;
      step.call.alpha = call_.alpha;
      return step;
    }
    const MatrixView& X = second ? B_ : A_;
    const MatrixView& Y = has_no_b() || second ? A_ : B_;
    ViewTile y = block_of_rows(Y, j, d);
    y.op = call_.has_op_b() ? call_.op_b : transposed(y.op, call_.is_hermitian());
    const AnyScalar alpha = second && call_.is_hermitian() ? std::conj(call_.alpha) : call_.alpha;
    return multiply(alpha, block_of_rows(X, i, d), y, i, j, d);
  }

  Step multiply(AnyScalar alpha, const ViewTile& x, const ViewTile& y, const Span& i, const Span& j,
                const Span& d) const {
    Step step{.call = tile_call(Routine::gemm, i.size, j.size, d.size), .a = x.operand(), .b = y.operand()};
    step.call.op_a = x.op;
    step.call.op_b = y.op;
    step.call.alpha = alpha;
    return step;
  }

  MatrixView A_;
  MatrixView B_;  // unused by syrk and herk
  MatrixView C_;
  Panels panels_;
  index_t devices_;
  index_t ranges_ = 1;  // of k
  index_t depth_ = 0;   // at whose multiples they begin
  std::unique_ptr<std::byte[]> partial_results_;
};

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_accumulation(const Level3& call, const runtime::Machine& machine,
                                                      index_t tile) {
  return std::make_unique<Accumulation>(call, machine, tile);
}

}  // namespace tessera::routines
