// The routines that add products to C:
//
//   for tiles (i, j) of C, for ranges of l             task: C_ij, or a partial result of it
//     C_ij = beta C_ij
//     for terms t, for l of the range                    reads X_il, Y_lj
//       C_ij = C_ij + alpha_t X_il Y_lj
//     with the last range: for partial results P         reads P
//       C_ij = C_ij + P
//
//   gemm          one term, op(A) op(B)
//   gemmt         the same; only tiles of the stored triangle of C, the diagonal ones by the gemmt kernel
//   symm, hemm    one term; one factor is symmetric: of its tiles the stored ones are read, the others as transposes of those, and
//                 the diagonal ones by the symm kernel from their stored triangle
//   syrk, herk    one term, op(A) op(A)^T; only tiles of the stored triangle of C, the diagonal ones by the syrk kernel
//   syr2k, her2k  two terms in one task, so that C moves once; diagonal tiles by the syr2k kernel, which takes both at once
//
// There is one range, and no partial result, unless choose_ranges() finds that several are better. Source: BLASX, Eq. 1.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "routines/level3.hpp"
#include "routines/tiled_graph.hpp"
#include "routines/triangle_homes.hpp"

namespace tessera::routines {
namespace {

using runtime::Output;
using runtime::Step;
using runtime::TaskId;

/// Of C: alpha X Y.
struct Term {
  AnyScalar alpha;
  MatrixView X, Y;
};

bool is_symmetric_product(const Level3& c) { return c.routine == Routine::symm || c.routine == Routine::hemm; }

/// @param panels, tiling where they differ, operands lie in taller tiles than steps read
std::vector<Term> terms_of(const Level3& c, const Panels& panels, const runtime::Tiling& tiling) {
  const bool hermitian = c.is_hermitian();
  if (is_symmetric_product(c)) {
    const index_t order = c.side == Side::left ? c.m : c.n;
    const MatrixView A = MatrixView(c.A, order, order, c.lda, Op::no_trans, c.type).mirrored(c.uplo, hermitian);
    const MatrixView B(c.B, c.m, c.n, c.ldb, Op::no_trans, c.type);
    return {c.side == Side::left ? Term{c.alpha, A, B} : Term{c.alpha, B, A}};
  }
  const index_t tall = panels.rows == tiling.m ? 0 : panels.rows;
  const index_t deep = panels.depth == tiling.k ? 0 : panels.depth;
  const index_t rows = c.routine == Routine::gemm ? c.m : c.n;
  const MatrixView A = MatrixView(c.A, rows, c.k, c.lda, c.op_a, c.type).in_tiles(tall);
  if (c.has_op_b()) {
    const MatrixView B(c.B, c.k, c.n, c.ldb, c.op_b, c.type);
    return {{c.alpha, A, B.in_tiles(c.routine == Routine::gemm ? deep : tall)}};
  }
  if (shape_of_b(c).rows == 0) return {{c.alpha, A, A.transpose(hermitian)}};
  const MatrixView B = MatrixView(c.B, rows, c.k, c.ldb, c.op_a, c.type).in_tiles(tall);
  return {{c.alpha, A, B.transpose(hermitian)}, {hermitian ? std::conj(c.alpha) : c.alpha, B, A.transpose(hermitian)}};
}

class Accumulation final : public TiledGraph {
 public:
  Accumulation(const Level3& call, const ProductShape& shape, const runtime::Machine& machine, index_t tile)
      : TiledGraph(name_of(call.routine, call.type), outline_of(shape, machine, tile), shape.n, shape.k),
        call_(call),
        panels_(choose_panels(shape, tiling, machine)),
        terms_(terms_of(call, panels_, tiling)),
        C_(call.C, m, n, call.ldc, Op::no_trans, type),
        devices_(machine.devices) {
    TaskOrder order = choose_order(shape, tiling, machine, call.uplo, static_cast<index_t>(terms_.size()));
    order_ = std::move(order.tiles);
    group_ends = std::move(order.group_ends);
    const index_t depth = std::max(panels_.depth, tiling.k);
    const index_t least = tile > 0 ? 1 : machine.tiles.task;
    set_ranges(grouped() ? 1 : choose_ranges(shape, tiling, depth, least, machine), depth);
    task_count = tiles() * ranges_;
    slot_bytes = routines::slot_bytes(type, tiling, panels_);
    working_slots = slots_for_all(shape, tiling, ranges_);
    hermitian = call_.is_rank_update() && call_.is_hermitian();
    const auto& [alpha, X, Y] = terms_.front();
    const bool is_one = X.same_storage(Y);
    if (is_one && !has_no_b()) work.up -= static_cast<double>(Y.bytes());
    touch(is_one ? std::vector{&X} : std::vector{&X, &Y});
    touched.push_back({C_.host(), call.updates_triangle() ? Use::written_in_part : Use::written});
    if (call.beta == AnyScalar(0)) {
      const Span all_rows = {0, m}, all_cols = {0, n};
      only_written = {call.updates_triangle() ? C_.diagonal_tile(all_rows, call.uplo)
                                              : C_.tile(all_rows, all_cols).tile};
    }
    if (!grouped() && ranges_ == 1 && triangle_waits_for_links(shape, machine))
      homes_ = homes_of_triangle(order_, panels_.rows / tiling.m, devices_);
    derive();
  }

  Output output(TaskId task) const override {
    const TileIndex t = tile_index(task);
    const runtime::HostTile tile =
        on_diagonal(t) ? C_.diagonal_tile(rows(t.i), call_.uplo) : C_.tile(rows(t.i), cols(t.j)).tile;
    if (is_partial(task)) return {.tile = partial(task, tile), .intermediate = true};
    return {.tile = tile, .reads_old = call_.beta != AnyScalar(0), .slices = device::SliceKind::columns};
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
    Step step = product(t, l);
    step.call().beta = s > 0 ? AnyScalar(1) : is_partial(task) ? AnyScalar(0) : call_.beta;
    return step;
  }

  // The diagonal tiles of a rank-2k update take A_l and B_l in one step, the others in two.
  index_t wave(TaskId task, index_t s) const override {
    return s * static_cast<index_t>(terms_.size()) / terms(tile_index(task));
  }

  // Ranges of k have homes, so that no two devices fetch the same tiles. A grid of devices would deal a triangle
  // unevenly.
  index_t home(TaskId task, index_t devices) const override {
    if (ranges_ > 1) return range_of(task) * devices / ranges_;
    if (!call_.updates_triangle()) return TiledGraph::home(task, devices);
    // Without all of the devices that it was planned for, tiles are dealt in turns.
    const bool is_dealt = !homes_.empty() && devices == devices_;
    return is_dealt ? homes_[static_cast<std::size_t>(task)] : task % devices;
  }

 private:
  bool has_no_b() const { return call_.is_rank_update() && terms_.size() == 1; }
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
    const auto cut = [&](index_t i) { return std::min(ceil_div(k, depth_) * i / ranges_ * depth_ / tiling.k, kt()); };
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
    return (tiling.m + std::abs(tiling.skew_m)) * (tiling.n + std::abs(tiling.skew_n)) *
           static_cast<index_t>(element_bytes(type));
  }
  // The place of a partial result of C.
  runtime::HostTile partial(TaskId task, runtime::HostTile C) const {
    C.address = partial_results_.get() + task * tile_bytes();
    C.ld = C.rows;
    return C;
  }
  Step addition(TaskId task, index_t nth) const {
    const TaskId other = nth * tiles() + task % tiles();
    return runtime::addition_step(type, hermitian, output(task).tile, {.tile = output(other).tile, .writer = other}, 1);
  }

  // The large ones: of A, or of the operands of a triangle.
  index_t tiles_of_a_wave() const {
    return call_.updates_triangle() ? (has_no_b() ? 1 : 2) * ceil_div(m, panels_.rows) : mt();
  }
  bool on_diagonal(const TileIndex& t) const { return call_.updates_triangle() && t.i == t.j; }
  // Of which each takes a step: the kernels of diagonal tiles take all at once.
  index_t terms(const TileIndex& t) const { return on_diagonal(t) ? 1 : static_cast<index_t>(terms_.size()); }

  // Terms by turns, because the tasks of a group share what these read.
  Step product(const TileIndex& t, index_t s) const {
    const Span d = depth(s / terms(t));
    const auto& [alpha, x, y] = terms_[static_cast<std::size_t>(s % terms(t))];
    const Block X = x.tile(rows(t.i), d), Y = y.tile(d, cols(t.j));
    if (on_diagonal(t)) return routine_step(X, has_no_b() ? Block{} : Y, X.rows, X.rows, d.size);
    if (X.tile.part != Part::full) return routine_step(X, Y, X.rows, Y.cols, 0);
    if (Y.tile.part != Part::full) return routine_step(Y, X, X.rows, Y.cols, 0);
    return product_step(alpha, X, Y);
  }
  // Where a triangle is read or written: the routine itself.
  Step routine_step(const Block& a, const Block& b, index_t rows, index_t cols, index_t depth) const {
    Level3 call = tile_call(call_.routine, rows, cols, depth);
    call.side = call_.side;
    call.uplo = call_.uplo;
    call.alpha = call_.alpha;
    if (call.has_k()) {
      call.op_a = call_.op_a;
      call.op_b = call_.op_b;
    }
    return {.kernel = call, .a = a, .b = b};
  }

  const Level3 call_;
  const Panels panels_;
  const std::vector<Term> terms_;  // one, or two of a rank-2k update
  const MatrixView C_;
  const index_t devices_;
  std::vector<std::int32_t> homes_;  // of a triangle's tiles, unless they are dealt in turns
  index_t ranges_ = 1;               // of k
  index_t depth_ = 0;                // at whose multiples they begin
  std::unique_ptr<std::byte[]> partial_results_;
};

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_accumulation(const Level3& call, const runtime::Machine& machine,
                                                      index_t tile) {
  return std::make_unique<Accumulation>(call, shape_of(call), machine, tile);
}

}  // namespace tessera::routines
