// trmm and trsm in place: B := alpha op(A) B, or the solution X of op(A) X = alpha B; or with A on the right. One task per tile of B.
//
// Let T = op(A), lower or upper after the op, and p the index along which a task's tiles of B lie beside T: the row i on the left, the
// column j on the right. Row (column) p of the result is made of T_pp and those T_pl whose l precede p in the sweep:
//   trsm  B_p = T_pp^-1 (alpha B_p - sum_l T_pl X_l)    sweeps from the corner where T has one tile; reads results, published by
//                                                       their tasks, from the devices that made them
//   trmm  B_p = alpha (T_pp B_p + sum_l T_pl B_l)       sweeps the other way; reads old values, so a result waits on its device until
//                                                       the task before it in the sweep, the last other reader, is done
// alpha enters once, in the first step. The first lines of trmm, which share the triangle while it arrives, take T_pp last on devices and
// sweep like trsm within a row. Source: BLASX, Eq. 1c and 1d; KBLAS for the direction of the sweeps.
#include <memory>

#include "routines/call_graph.hpp"
#include "routines/level3.hpp"

namespace tessera::routines {
namespace {

using runtime::no_task;
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

class Triangular final : public CallGraph {
 public:
  Triangular(const Level3& call, const runtime::Machine& machine, index_t tile)
      : CallGraph(call, machine, tile),
        A_(call.A, shape_.k, shape_.k, call.lda, call.op_a, call.type),
        B_(call.C, call.m, call.n, call.ldc, Op::no_trans, call.type) {
    const bool lower = (call.uplo == Uplo::lower) == (call.op_a == Op::no_trans);
    inputs_precede_ = lower == left();
    make_order(machine);
  }

  Output output(TaskId task) const override {
    const TileIndex t = index_of(task);
    return {.tile = B_.tile(rows(t.i).first, cols(t.j).first, rows(t.i).size, cols(t.j).size).tile,
            .fetch = solves(),
            .adding_steps = solves() ? inputs(position(t)) : 0,
            .needs_old = true,
            .slices = left() ? device::SliceKind::columns : device::SliceKind::rows,
            .publish = solves()};
  }

  index_t step_count(TaskId task) const override { return inputs(position(index_of(task))) + 1; }

  Step step(TaskId task, index_t s) const override {
    const TileIndex t = index_of(task);
    const index_t p = position(t);
    const index_t products = inputs(p);
    // trsm ends with the diagonal tile, trmm begins with it.
    if (s == (solves() ? products : 0)) return diagonal_step(t, p, products == 0 || !solves());
    const index_t first = inputs_precede_ ? 0 : p + 1;
    // trsm takes results in the order in which they are made; trmm goes away from the diagonal, so that tasks of a line which go on side
    // by side come to an old value at the same time.
    const index_t s_product = solves() ? s : s - 1;
    const bool outwards = !solves() && !first_step_last(task);
    const index_t l = inputs_precede_ != outwards ? first + s_product : first + products - 1 - s_product;
    return product_step(t, l, solves() && s == 0);
  }

  // Lines that begin together take the diagonal tile last: the first product sets the result, to which the others are
  // added, and what T_pp gives.
  Step nth_step(TaskId task, index_t n) const override {
    const index_t steps = step_count(task);
    if (steps == 1 || !first_step_last(task)) return step(task, n);
    Step taken = step(task, (n + 1) % steps);
    if (n == 0) taken.call.beta = 0;
    taken.apart = n == steps - 1;
    return taken;
  }
  bool has_steps_apart() const override { return first_steps_last_ > 0; }

  // Results of lines that begin together would come later.
  bool begins_more_when_starved() const override { return first_steps_last_ == 0; }

  // The tile of B that is read, but for diagonal tiles of lines that begin together. Lines that go one after the other come later than
  // these: until the triangle is here, only these use the link well.
  index_t wave(TaskId task, index_t nth) const override {
    if (solves()) return nth;
    const index_t products = inputs(position(index_of(task)));
    if (!first_step_last(task)) return line_length() + nth + line_length() - 1 - products;
    // Short lines are held up by the link: what the last row waits for comes before the other rows' diagonal tiles.
    const bool on_diagonal = nth == products;
    return on_diagonal && line_length() <= short_line ? std::max<index_t>(line_length() - 2, 0) : nth;
  }

  bool ordered() const override { return true; }

  // Tasks of a line wait for each other, those of different lines do not. But few lines that cannot be dealt evenly are
  // dealt by the tile.
  index_t home(TaskId task, index_t devices) const override {
    const TileIndex t = index_of(task);
    const auto [position, line] = left() ? std::pair{t.i, t.j} : std::pair{t.j, t.i};
    const bool uneven = lines() % devices != 0 && task_count() <= index_t{device::compute_streams} * devices;
    return (lines() < devices || uneven ? line + lines() * position : line) % devices;
  }

  TaskId write_after(TaskId task) const override {
    if (solves()) return no_task;
    const TileIndex t = index_of(task);
    // Readers of this tile lie further along the direction away from the inputs.
    const index_t next = position(t) + (inputs_precede_ ? 1 : -1);
    return next < 0 || next >= line_length() ? no_task : task_of(moved(t, next));
  }

  index_t compulsory_up_bytes() const override { return A_.triangle_bytes() + B_.bytes(); }
  index_t compulsory_down_bytes() const override { return B_.bytes(); }
  std::vector<device::HostRange> host_ranges() const override { return ranges_of({&A_, &B_}); }

 private:
  bool first_step_last(TaskId task) const { return task < first_steps_last_; }
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
  TaskId task_of(const TileIndex& t) const { return tasks_[static_cast<std::size_t>(t.i * nt() + t.j)]; }

  // trsm goes from the tiles without inputs to those with most, trmm the other way. Lines are independent. trsm sweeps as many lines
  // together as fit the device beside a row of A, trmm takes one line after the other while the triangle stays, after some first ones
  // together. Where that moves much more than groups of a few rows and lines do, groups: they move less, but their rows wait for
  // each other.
  void make_order(const runtime::Machine& machine) {
    const index_t lines = this->lines();
    const index_t length = line_length();
    order_.reserve(static_cast<std::size_t>(mt() * nt()));
    tasks_.resize(order_.capacity());
    const index_t room = room_for_inputs(shape_, tiling_, machine);
    const bool triangle_stays = room >= triangle_elements(length) + 2 * length;
    const bool all_stay = fits(slots_of(shape_, tiling_, machine));
    const index_t together = !solves()  ? 1
                             : all_stay ? std::min(lines, lines_together)
                                        : std::clamp<index_t>(room / length - 1, 1, lines);
    // trmm waits for the triangle first. Meanwhile some lines use each tile of it as it comes, from the one that all rows need, and their
    // results go down while the other lines are computed.
    const index_t wide_lines = !solves() && all_stay ? lines_that_begin_wide(machine.devices) : 0;
    first_steps_last_ = wide_lines * length;
    const index_t passes = !all_stay && (solves() || !triangle_stays) ? ceil_div(lines, together) : 1;
    const GroupedProduct product{GroupForm::sweep, length, lines, length,
                                 solves() ? index_t{device::compute_streams} : 1};
    const index_t slots = slots_of(shape_, tiling_, machine);
    const auto grouping = passes == 1 ? Grouping{} : choose_grouping(product, slots, machine.devices);
    const index_t swept = passes * triangle_elements(length) + lines * length;
    if (passes == 1 || 3 * swept <= 4 * up_tiles(product, grouping, slots)) {
      for (index_t first = 0, width = wide_lines > 0 ? wide_lines : together; first < lines;
           first += width, width = together) {
        append({0, first, length, std::min(width, lines - first)});
      }
      return;
    }
    std::vector<TileGroup> groups = groups_of(product, grouping);
    // trmm goes from the row with most inputs to the one with none: the mirror image.
    if (!solves()) std::reverse(groups.begin(), groups.end());
    for (const TileGroup& group : groups) {
      append(group);
      group_ends_.push_back(static_cast<TaskId>(order_.size()));
    }
  }

  // Of trmm, if everything fits. Of few lines none: their results would all come late. But where B is narrow, the triangle
  // is next to all that comes over the link, and results are small: then all lines should compute with it as it comes.
  // A triangle of hardly more rows of tiles than devices leaves some of these without a row.
  index_t lines_that_begin_wide(index_t devices) const {
    if (lines() >= fewest_wide_lines * devices) return std::min(lines_together * devices, lines() / 2);
    const bool is_narrow = left() && triangle_elements(shape_.k) >= narrow_part * shape_.m * shape_.n;
    return is_narrow && line_length() > devices ? lines() : 0;
  }

  // Row r of a group is the position with r inputs.
  void append(const TileGroup& group) {
    for (index_t r = 0; r < group.rows; ++r) {
      const index_t inputs = solves() ? group.row + r : group.row + group.rows - 1 - r;
      const index_t p = inputs_precede_ ? inputs : line_length() - 1 - inputs;
      for (index_t line = group.col; line < group.col + group.cols; ++line) {
        const auto i = static_cast<std::int32_t>(left() ? p : line);
        const auto j = static_cast<std::int32_t>(left() ? line : p);
        tasks_[static_cast<std::size_t>(i * nt() + j)] = static_cast<TaskId>(order_.size());
        order_.push_back({i, j});
      }
    }
  }

  Step diagonal_step(const TileIndex& t, index_t p, bool with_alpha) const {
    const Span i = rows(t.i);
    const Span j = cols(t.j);
    const Span d = depth(p);
    Step step{.call = tile_call(call_.routine, i.size, j.size, 0),
              .a = {A_.diagonal_tile(d.first, d.size, call_.uplo)},
              .b = {}};
    if (!solves()) step.b = {output_tile(t)};
    step.call.side = call_.side;
    step.call.uplo = call_.uplo;
    step.call.op_a = call_.op_a;
    step.call.diag = call_.diag;
    step.call.alpha = with_alpha ? call_.alpha : AnyScalar(1);
    return step;
  }

  Step product_step(const TileIndex& t, index_t l, bool first) const {
    const Span i = rows(t.i);
    const Span j = cols(t.j);
    const Span d = depth(l);
    const TileIndex other = moved(t, l);
    const runtime::Operand b{output_tile(other), solves() ? task_of(other) : no_task};
    const ViewTile a = left() ? A_.tile(i.first, d.first, i.size, d.size) : A_.tile(d.first, j.first, d.size, j.size);
    Step step{.call = tile_call(Routine::gemm, i.size, j.size, d.size), .a = {a.tile}, .b = b};
    (left() ? step.call.op_a : step.call.op_b) = a.op;
    if (!left()) std::swap(step.a, step.b);
    step.call.alpha = solves() ? AnyScalar(-1) : call_.alpha;
    step.call.beta = first ? call_.alpha : AnyScalar(1);
    return step;
  }

  runtime::HostTile output_tile(const TileIndex& t) const {
    return B_.tile(rows(t.i).first, cols(t.j).first, rows(t.i).size, cols(t.j).size).tile;
  }

  MatrixView A_;  // op(A), of which one triangle exists
  MatrixView B_;
  bool inputs_precede_ = true;   // along a line, the tiles that a result is made of come before it
  std::vector<TaskId> tasks_;    // by tile, row by row
  TaskId first_steps_last_ = 0;  // trmm: the tasks before this one take their diagonal tile last
};

}  // namespace

std::unique_ptr<runtime::TaskGraph> make_triangular(const Level3& call, const runtime::Machine& machine, index_t tile) {
  return std::make_unique<Triangular>(call, machine, tile);
}

}  // namespace tessera::routines
