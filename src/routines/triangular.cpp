// trmm and trsm in place: B := alpha op(A) B, or the solution X of op(A) X = alpha B; or with A on the right. With T =
// op(A), lower or upper after the op, and p the index along which a line of B's tiles lies beside T (the row on the
// left, the column on the right):
//
//   trsm  for lines of B, for p from the corner where T has one tile        task: B_p
//           for l before p: B_p = (l first: alpha) B_p - T_pl X_l             reads T_pl, the result X_l
//           B_p = T_pp^-1 B_p                                                 reads T_pp
//   trmm  for lines of B, for p from the other corner                       task: B_p
//           B_p = alpha T_pp B_p                                              reads T_pp, the old B_p
//           for l before p: B_p = B_p + alpha T_pl B_l                        reads T_pl, the old B_l
//
// alpha enters once, in the first step. trsm reads results from the devices that made them. A result of trmm waits on its
// device until the task before it in the sweep, the last other reader, is done. The first lines of trmm, which share the
// triangle while it arrives, take T_pp last on devices and sweep like trsm within a row. Source: BLASX, Eq. 1c and 1d;
// KBLAS for the direction of the sweeps.
#include <memory>

#include "routines/level3.hpp"
#include "routines/tiled_graph.hpp"

namespace tessera::routines {
namespace {

using runtime::Output;
using runtime::Step;
using runtime::TaskId;

// With room for everything, a few lines at a time: their tasks advance side by side and wait for each other's results.
constexpr index_t lines_together = 4;
// Lines per device from which trmm begins with some of them all at once.
constexpr index_t fewest_wide_lines = 6;
// Elements of the triangle to those of B from which B is narrow.
constexpr index_t narrow_part = 2;
// Tiles of a line.
constexpr index_t short_line = 4;

class Triangular final : public TiledGraph {
 public:
  Triangular(const Level3& call, const ProductShape& shape, const runtime::Machine& machine, index_t tile)
      : TiledGraph(name_of(call.routine, call.type), outline_of(shape, machine, tile), shape.n, shape.k),
        call_(call),
        A_(call.A, k, k, call.lda, call.op_a, type),
        B_(call.C, m, n, call.ldc, Op::no_trans, type) {
    const bool lower = (call.uplo == Uplo::lower) == (call.op_a == Op::no_trans);
    inputs_precede_ = lower == left();
    touch({&A_});
    touched.push_back({B_.host(), Use::written});
    working_slots = slots_for_all(shape, tiling);
    make_order(shape, machine);
    derive();
  }

  Output output(TaskId task) const override {
    return {.tile = tile_of(index_of(task)).tile,
            .reads_old = solves(),
            .slices = left() ? device::SliceKind::columns : device::SliceKind::rows};
  }

  index_t step_count(TaskId task) const override { return inputs(position(index_of(task))) + 1; }

  Step step(TaskId task, index_t s) const override {
    const TileIndex t = index_of(task);
    const index_t p = position(t);
    const index_t products = inputs(p);
    if (s == (solves() ? products : 0)) return diagonal_step(t, p, products == 0 || !solves());
    const index_t first = inputs_precede_ ? 0 : p + 1;
    // trsm takes results in the order in which they are made; trmm goes away from the diagonal, so that tasks of a line which go on side
    // by side come to an old value at the same time.
    const index_t s_product = solves() ? s : s - 1;
    const bool outwards = !solves() && task >= first_steps_last;
    const index_t l = inputs_precede_ != outwards ? first + s_product : first + products - 1 - s_product;
    const Block T = left() ? A_.tile(rows(t.i), depth(l)) : A_.tile(depth(l), cols(t.j));
    const Block B_l = tile_of(moved(t, l));
    const AnyScalar factor = solves() ? AnyScalar(-1) : call_.alpha;
    const AnyScalar beta = solves() && s == 0 ? call_.alpha : AnyScalar(1);
    return left() ? product_step(factor, T, B_l, beta) : product_step(factor, B_l, T, beta);
  }

  // The tile of B that is read, but for diagonal tiles of lines that begin together. Lines that go one after the other come later than
  // these: until the triangle is here, only these use the link well.
  index_t wave(TaskId task, index_t nth) const override {
    if (solves()) return nth;
    const index_t products = inputs(position(index_of(task)));
    if (task >= first_steps_last) return line_length() + nth + line_length() - 1 - products;
    // Short lines are held up by the link: what the last row waits for comes before the other rows' diagonal tiles.
    const bool on_diagonal = nth == products;
    return on_diagonal && line_length() <= short_line ? std::max<index_t>(line_length() - 2, 0) : nth;
  }

  // Tasks of a line wait for each other, those of different lines do not. But few lines that cannot be dealt evenly are
  // dealt by the tile.
  index_t home(TaskId task, index_t devices) const override {
    const TileIndex t = index_of(task);
    const auto [position, line] = left() ? std::pair{t.i, t.j} : std::pair{t.j, t.i};
    const bool uneven = lines() % devices != 0 && task_count <= index_t{device::compute_streams} * devices;
    return (lines() < devices || uneven ? line + lines() * position : line) % devices;
  }

 private:
  bool left() const { return call_.side == Side::left; }
  bool solves() const { return call_.routine == Routine::trsm; }
  index_t position(const TileIndex& t) const { return left() ? t.i : t.j; }
  index_t lines() const { return left() ? nt() : mt(); }
  index_t line_length() const { return kt(); }
  TileIndex moved(TileIndex t, index_t p) const {
    (left() ? t.i : t.j) = static_cast<std::int32_t>(p);
    return t;
  }
  /// How many other tiles of its line a result at p is made of.
  index_t inputs(index_t p) const { return inputs_precede_ ? p : line_length() - 1 - p; }

  // trsm goes from the tiles without inputs to those with most, trmm the other way. Lines are independent. trsm sweeps as many lines
  // together as fit the device beside a row of A, trmm takes one line after the other while the triangle stays, after some first ones
  // together. Where that moves much more than groups of a few rows and lines do, groups: they move less, but their rows wait for
  // each other.
  void make_order(const ProductShape& shape, const runtime::Machine& machine) {
    const index_t lines = this->lines();
    const index_t length = line_length();
    task_count = lines * length;
    const index_t room = room_for_inputs(shape, tiling, machine);
    const bool triangle_stays = room >= triangle_elements(length) + 2 * length;
    const index_t slots = slots_of(shape, tiling, machine);
    const bool all_stay = fits(slots);
    const index_t together = !solves()  ? 1
                             : all_stay ? std::min(lines, lines_together)
                                        : std::clamp<index_t>(room / length - 1, 1, lines);
    // trmm waits for the triangle first. Meanwhile some lines use each tile of it as it comes, from the one that all rows need, and their
    // results go down while the other lines are computed.
    const index_t wide_lines = !solves() && all_stay ? lines_that_begin_wide(machine.devices) : 0;
    first_steps_last = wide_lines * length;
    const index_t passes = !all_stay && (solves() || !triangle_stays) ? ceil_div(lines, together) : 1;
    const GroupedProduct product{GroupForm::sweep, length, lines, length,
                                 solves() ? index_t{device::compute_streams} : 1};
    const auto grouping = passes == 1 ? Grouping{} : choose_grouping(product, slots, machine.devices);
    const index_t swept = passes * triangle_elements(length) + lines * length;
    if (passes == 1 || 3 * swept <= 4 * up_tiles(product, grouping, slots)) {
      for (index_t first = 0, width = wide_lines > 0 ? wide_lines : together; first < lines;
           first += width, width = together) {
        append_group({0, first, length, std::min(width, lines - first)});
      }
      return;
    }
    std::vector<TileGroup> groups = groups_of(product, grouping);
    // trmm goes from the row with most inputs to the one with none: the mirror image.
    if (!solves()) std::reverse(groups.begin(), groups.end());
    for (const TileGroup& group : groups) {
      append_group(group);
      end_group();
    }
  }

  // Of trmm, if everything fits. Of few lines none: their results would all come late. But where B is narrow, the triangle
  // is next to all that comes over the link, and results are small: then all lines should compute with it as it comes.
  // A triangle of hardly more rows of tiles than devices leaves some of these without a row.
  index_t lines_that_begin_wide(index_t devices) const {
    if (lines() >= fewest_wide_lines * devices) return std::min(lines_together * devices, lines() / 2);
    const bool is_narrow = left() && triangle_elements(k) >= narrow_part * m * n;
    return is_narrow && line_length() > devices ? lines() : 0;
  }

  // Row r of a group is the position with r inputs.
  void append_group(const TileGroup& group) {
    for (index_t r = 0; r < group.rows; ++r) {
      const index_t inputs = solves() ? group.row + r : group.row + group.rows - 1 - r;
      const index_t p = inputs_precede_ ? inputs : line_length() - 1 - inputs;
      for (index_t line = group.col; line < group.col + group.cols; ++line) {
        append(left() ? p : line, left() ? line : p);
      }
    }
  }

  Step diagonal_step(const TileIndex& t, index_t p, bool with_alpha) const {
    Level3 call = tile_call(call_.routine, rows(t.i).size, cols(t.j).size, 0);
    call.side = call_.side;
    call.uplo = call_.uplo;
    call.op_a = call_.op_a;
    call.diag = call_.diag;
    call.alpha = with_alpha ? call_.alpha : AnyScalar(1);
    return {
        .kernel = call, .a = {.tile = A_.diagonal_tile(depth(p), call_.uplo)}, .b = solves() ? Block{} : tile_of(t)};
  }

  /// Of B.
  Block tile_of(const TileIndex& t) const {
    Block tile = B_.tile(rows(t.i), cols(t.j));
    tile.writer = task_of(t.i, t.j);
    return tile;
  }

  const Level3 call_;
  const MatrixView A_;  // op(A), of which one triangle exists
  const MatrixView B_;
  bool inputs_precede_ = true;  // along a line, the tiles that a result is made of come before it
};

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_triangular(const Level3& call, const runtime::Machine& machine, index_t tile) {
  return std::make_unique<Triangular>(call, shape_of(call), machine, tile);
}

}  // namespace tessera::routines
