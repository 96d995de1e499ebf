#include "routines/tiling.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace tessera::routines {

using runtime::Machine;
using runtime::Tiling;

namespace {

constexpr index_t tasks_per_lane = 8;      // enough for the lanes to end at about the same time
constexpr index_t fewest_per_lane = 2;     // for the sake of long segments
constexpr int devices_that_share = 4;      // the host's memory, so that their links are slow
constexpr double waiting_for_links = 0.6;  // the time of links over that of products
constexpr double fed_part = 16;            // a result so much smaller than the operands is soon in host memory
constexpr index_t deep_per_lane = 24;      // from so many tasks on a first product that comes late does not matter
constexpr double partial_result_cost = 8;  // bytes of A and B that are worth one of a partial result
constexpr index_t largest_granule = 64;    // kernels and copies like multiples of powers of two

// `size` cut into `count` nearly equal parts, multiples of a granule that is as large as it can be without leaving a
// sliver at the edge.
index_t part_of(index_t size, index_t count) {
  if (count <= 1) return size;
  const index_t part = ceil_div(size, count);
  for (index_t granule = largest_granule; granule > 1; granule /= 2) {
    const index_t rounded = ceil_div(part, granule) * granule;
    const index_t last = size - (count - 1) * rounded;
    if (2 * last >= rounded) return rounded;
  }
  return part;
}

index_t at_most(index_t size, index_t tile) { return part_of(size, ceil_div(size, tile)); }

Tiling square_tiles(const ProductShape& shape, const Machine& machine) {
  const index_t wanted = tasks_per_lane * device::compute_streams * machine.devices;
  index_t tile = machine.tiles.largest;
  while (tile > machine.tiles.smallest && ceil_div(shape.m, tile) * ceil_div(shape.n, tile) < wanted) tile /= 2;
  return {at_most(shape.m, tile), at_most(shape.n, tile), at_most(shape.k, tile)};
}

// Whether dgemm takes A and B as they are stored, and both have columns of up to two segments. Then columns are not cut
// for their length alone: a tile of whole columns is one piece of memory, which copy engines are quickest with. Such a
// product takes longest on the link whatever its n is. The other types have at least twice the operations per byte, and
// there smaller tiles are worth more.
bool has_short_columns(const ProductShape& shape, const Machine& machine) {
  return shape.k_runs_down_b && shape.type == ScalarType::d &&
         std::max(shape.m, shape.k) * static_cast<index_t>(sizeof(double)) <= 2 * machine.segment_bytes;
}

// A dimension on which segments should be long, and the parts that it is cut into.
struct Cut {
  index_t size;
  index_t parts;
  index_t part() const { return part_of(size, parts); }
};

// Columns of whole pages of the copy engine fill them where the matrix begins with one, and it is slow with halves of a
// page: 43 GB/s beside kernels on the way down, with three and five eighths 52. Elsewhere these are no slower than
// halves (docs/adr/0003-tall-tiles.md). In single precision copies matter least, and kernels prefer tiles of one size.
bool is_in_pages(const ProductShape& shape, index_t size, index_t page) {
  return shape.type != ScalarType::s && size % page == 0;
}

// The least columns of a tile of whole columns. `wanted`, for tasks worth their cost, holds while tasks are too few for
// all lanes to end together. `fewest`, for any task at all, holds while lanes have none.
struct Widths {
  index_t wanted;
  index_t fewest;
};

// The data of one task alone are its columns of B and C. `rows`: of a tile.
Widths widths_of_products(const device::TileSizes& tiles, index_t rows, index_t depth, index_t devices) {
  return {tiles.smallest, std::clamp(tiles.task / (devices * (rows + depth)), tiles.narrowest, tiles.smallest)};
}

// However many right-hand sides a tile has, its solve is a chain of launches (docs/adr/0009-trsm-kernel.md). Where the
// triangle is small, what every task costs counts instead.
Widths widths_of_solves(const device::TileSizes& tiles, index_t rows, index_t devices) {
  const index_t by_rows = std::clamp(rows / (index_t{device::compute_streams} * devices), tiles.fewest_solve_columns,
                                     tiles.most_solve_columns);
  const index_t wanted = std::max(by_rows, tiles.solve / rows);
  return {wanted, std::clamp(tiles.lone_solve / rows, tiles.narrowest, wanted)};
}

// How many times as long the link takes as the products, by rough rates; 0: unknown.
double link_to_products(const Work& work, const Machine& machine) {
  if (machine.flops_per_s <= 0 || machine.link_bytes_per_s <= 0 || work.flops <= 0) return 0;
  return (work.up + work.down) / machine.link_bytes_per_s / (work.flops / machine.flops_per_s);
}

// Tiles of C that its rows and columns of tiles have.
index_t tasks_of(const ProductShape& shape, index_t mt, index_t nt) {
  return shape.tie == Tie::mn ? mt * (mt + 1) / 2 : mt * nt;
}
index_t tasks_of(const ProductShape& shape, const Tiling& tiling) {
  return tasks_of(shape, ceil_div(shape.m, tiling.m), ceil_div(shape.n, tiling.n));
}

// Whether C has too few tasks even with small tiles, or small tiles would be cut out of columns of A and B
// (m_runs_down_a): copies of short columns are slow. One device then gains by larger tiles alone, several also by
// fetching ranges of their own. Otherwise smaller tiles are better, whose tasks do not all end together.
bool prefers_ranges(const ProductShape& shape, const Tiling& tiling, const Machine& machine) {
  const index_t least = machine.tiles.smallest_tied;
  if (machine.devices == 1 && std::max(shape.m, shape.n) < 2 * least) return false;
  const index_t mt = std::max(shape.m / least, ceil_div(shape.m, tiling.m));
  const index_t nt = std::max(shape.n / least, ceil_div(shape.n, tiling.n));
  return shape.m_runs_down_a || tasks_of(shape, mt, nt) <= device::compute_streams;
}

// The number of ranges without regard to memory; see choose_ranges().
index_t ranges_wanted(const ProductShape& shape, const Tiling& tiling, index_t depth, index_t least,
                      const Machine& machine) {
  const index_t streams = index_t{device::compute_streams} * machine.devices;
  const index_t tasks = tasks_of(shape, tiling);
  if (!shape.adds_products || tasks >= streams || shape.work.down <= 0) return 1;
  if (!prefers_ranges(shape, tiling, machine)) return 1;
  const auto of_cost = static_cast<index_t>(shape.work.up / (partial_result_cost * shape.work.down)) + 1;
  const auto of_size = static_cast<index_t>(shape.work.up / static_cast<double>(element_bytes(shape.type))) / least;
  const index_t most = std::min({ceil_div(streams, tasks), of_cost, of_size, ceil_div(shape.k, depth) / 2});
  return std::max<index_t>(most - most % std::max(machine.devices, 1), 1);
}

// Tiles whose columns are long segments of memory. `whole`: columns are not cut for their length. `roomy`: tiles of two sizes replace
// halves of pages, and tiles of A on the right may be halved.
class TallTiles {
 public:
  TallTiles(const ProductShape& shape, const Machine& machine, bool whole, bool roomy)
      : shape_(shape), machine_(machine), whole_(whole), roomy_(roomy) {
    m_ = segments(shape.m);
    const device::TileSizes& sizes = machine.tiles;
    widths_ = shape.solves_columns ? widths_of_solves(sizes, m_.part(), machine.devices)
                                   : widths_of_products(sizes, m_.part(), shape.k, machine.devices);
    const auto tiles = [&](index_t size) { return Cut{size, ceil_div(size, std::max(sizes.largest, widths_.wanted))}; };
    n_ = shape.n_is_strided ? segments(shape.n) : tiles(shape.n);
    k_ = shape.k_is_strided ? segments(shape.k) : tiles(shape.k);
  }

  // `deep`: in long jobs, steps of dgemm are as deep as A's and B's tiles are tall. A kernel that adds up twice as many products
  // accesses C half as often, which saves 2 % of an H200's limited power.
  Tiling choose(bool deep) {
    if (!shape_.n_is_strided) narrow_columns();
    if (roomy_ && shape_.tie == Tie::nk) halve_columns_of_a();
    if (!shape_.solves_columns) {
      halve_work();
      deal_evenly();
      if (shape_.m_runs_down_a && ranges() == 1 && triangle_waits_for_links(shape_, machine_)) lengthen_triangle();
    }
    cut_depth(deep);
    return with_pairs();
  }

 private:
  index_t elements(index_t bytes) const {
    return std::max<index_t>(bytes / static_cast<index_t>(element_bytes(shape_.type)), 2);
  }
  // Rounded, so that a part is never much shorter than the segment.
  Cut segments(index_t size) const {
    return {size, whole_ ? 1 : std::max<index_t>(1, (size + segment_ / 2) / segment_)};
  }
  index_t tasks() const { return tasks_of(shape_, m_.parts, n_.parts); }
  index_t fewest_tasks() const { return (is_fed_ ? 1 : fewest_per_lane) * streams_; }
  // Where k is cut into ranges, lanes have work without more tiles.
  index_t ranges() const {
    return ranges_wanted(shape_, {m_.part(), n_.part(), k_.part()}, k_.part(), machine_.tiles.task, machine_);
  }

  // Columns of C that nothing but their tasks' cost keeps wide.
  void narrow_columns() {
    while (tasks() < (is_fed_ ? 1 : tasks_per_lane) * streams_ && n_.part() >= 2 * widths_.wanted) n_.parts *= 2;
    // The tiles of a line of solves wait for each other, so that it is work for one stream, however many they are.
    const auto has_few = [&] { return shape_.solves_columns ? n_.parts < streams_ : tasks() < fewest_tasks(); };
    while (has_few() && n_.part() >= 2 * widths_.fewest) n_.parts *= 2;
  }

  // With A on the right, this shortens only the columns of A's tiles, not those of B and C.
  void halve_columns_of_a() {
    while (tasks() < fewest_tasks() && n_.part() >= 2 * machine_.tiles.smallest_halved && !scatters(n_, true))
      n_.parts *= 2;
  }

  // Streams without work cost nothing where the link takes longest, but copies of short columns are slow. They are if
  // the columns lie far from each other (ScatteredColumns); others count only if there is next to nothing to compute.
  // But several devices must all have work, and lines with A on the right are better off with more tiles.
  bool shortens(const Cut& halved, bool strided) const {
    return strided && halved.part() / 2 < elements(machine_.scattered.column_bytes);
  }
  bool scatters(const Cut& halved, bool strided) const {
    return link_bound_ > 2 && shortens(halved, strided) && 2 * halved.parts >= machine_.scattered.pitches;
  }

  bool lacks_tasks() const { return ranges() > 1 ? ranges() * tasks() < streams_ : tasks() < fewest_tasks(); }
  bool halves_are_worth_it() const {
    if (shape_.tie == Tie::mn) return m_.part() >= 2 * machine_.tiles.smallest_tied;
    const auto [shorter, longer] = std::minmax({m_.part(), n_.part()});
    return longer >= 2 * machine_.tiles.smallest &&
           longer / 2 * (shape_.k + shorter) * machine_.devices >= machine_.tiles.lone_task;
  }
  // Short segments cost less than streams without work, if there is work enough. But more tiles in a line of solves
  // give no work to another stream.
  void halve_work() {
    const bool wants_whole = link_bound_ > 10 && machine_.devices == 1 && shape_.tie != Tie::nk;
    while (lacks_tasks() && halves_are_worth_it()) {
      if (shape_.tie == Tie::mn) {
        n_.parts = ++m_.parts;
        continue;
      }
      const bool cuts_m = m_.part() >= n_.part();
      Cut& halved = cuts_m ? m_ : n_;
      const bool strided = cuts_m || shape_.n_is_strided;
      if (scatters(halved, strided) || (wants_whole && shortens(halved, strided))) break;
      halved.parts *= 2;
    }
  }

  // Few tasks are dealt evenly: two of three on one device take as long as two of four.
  void deal_evenly() {
    while (ranges() == 1 && tasks() > machine_.devices && tasks() < index_t{2} * machine_.devices) {
      Cut& cut = m_.part() >= n_.part() || shape_.tie == Tie::mn ? m_ : n_;
      ++cut.parts;
      if (shape_.tie == Tie::mn) n_.parts = m_.parts;
    }
  }

  // Copies of short columns cost more than lanes without work. Four devices share four rows of tiles without a rest, and six
  // rows can be shared by any number of devices.
  void lengthen_triangle() {
    if (4 * m_.size < 11 * longest_) return;  // smaller triangles lose more by lanes without work
    const index_t rows = (m_.size + longest_ / 2) / longest_;
    const index_t wanted = machine_.devices != 4 ? std::max<index_t>(rows, 6) : rows <= 5 ? 4 : ceil_div(rows, 4) * 4;
    m_.parts = n_.parts = std::min(wanted, m_.parts);
  }

  void cut_depth(bool deep) {
    const bool is_deep = deep && !whole_ && shape_.type == ScalarType::d && tasks() >= deep_per_lane * streams_;
    if (shape_.k_runs_down_b && !is_deep && !is_fed_) {  // see choose_panels
      k_.parts *= 2;
      // Blocks of A are as large as where columns are cut.
      const index_t block = segment_ * machine_.tiles.largest;
      if (whole_) k_.parts = std::max(k_.parts, (m_.part() * shape_.k + block / 2) / block);
    }
    if (shape_.tie == Tie::mk) k_.parts = m_.parts;
    if (shape_.tie == Tie::nk) k_.parts = n_.parts;
  }

  // Tiles of C have two sizes in one dimension only, except in rank updates. Two sizes in both leave more
  // multiprocessors without work at the tiles' ends, of an H200's one in eight, not one in thirty.
  Tiling with_pairs() const {
    const auto skew_of = [&](const Cut& cut) {
      return pairs_ && cut.part() == longest_ && is_in_pages(shape_, cut.size, page_) ? longest_ / 4 : 0;
    };
    // A sweep begins with the longer tile of a pair.
    const index_t direction = shape_.sweeps_forward ? -1 : 1;
    // Steps of gemm read parts of B's tiles; with A on the right n is cut as k is.
    const bool k_has_pairs = shape_.k_is_strided && !shape_.k_runs_down_b && shape_.tie != Tie::nk;
    return {.m = m_.part(),
            .n = n_.part(),
            .k = k_.part(),
            .skew_m = direction * skew_of(m_),
            .skew_n = shape_.tie == Tie::mn ? skew_of(n_) : 0,
            .skew_k = k_has_pairs ? direction * skew_of(k_) : 0};
  }

  // A triangle of tiles has half as many tasks, but slightly shorter tiles make enough of them. Where there are few
  // even so, the link takes longest.
  index_t segment_of_tiles() const {
    const bool is_small = pairs_ && shape_.m <= 4 * longest_ && is_in_pages(shape_, shape_.m, page_);
    return shape_.tie == Tie::mn && !is_small ? longest_ * 3 / 4 : longest_;
  }

  const ProductShape& shape_;
  const Machine& machine_;
  const bool whole_, roomy_;
  // Several devices wait for each other's tiles, and did better with tiles of one size.
  const bool pairs_ = roomy_ && machine_.devices == 1;
  const index_t longest_ = elements(machine_.segment_bytes), page_ = elements(machine_.page_bytes);
  const index_t segment_ = segment_of_tiles();
  const index_t streams_ = index_t{device::compute_streams} * machine_.devices;
  const double link_bound_ = link_to_products(shape_.work, machine_);
  // Nothing is waited for on a link, neither at the beginning nor at the end: what a task costs counts alone.
  const bool is_fed_ = machine_.has_inputs && fed_part * shape_.work.down < shape_.work.up;
  Widths widths_{};
  Cut m_{}, n_{}, k_{};
};

// Tied dimensions have the same size, so the smaller of the two tiles serves both.
void apply(Tie tie, Tiling& tiling) {
  const auto equal = [](index_t& a, index_t& b) { a = b = std::min(a, b); };
  if (tie == Tie::mn) equal(tiling.m, tiling.n);
  if (tie == Tie::mk) equal(tiling.m, tiling.k);
  if (tie == Tie::nk) equal(tiling.n, tiling.k);
}

bool fits_streams(const Machine& machine, std::size_t tile_bytes) {
  return machine.slots(tile_bytes) >= tiles_per_lane * device::compute_streams;
}

index_t half_of(index_t size, const Machine& machine) {
  if (size > 1) return ceil_div(size, 2);
  throw OutOfDeviceMemory("a device memory of " + std::to_string(machine.heap_bytes) +
                          " bytes cannot hold one tile per stream");
}

}  // namespace

bool triangle_waits_for_links(const ProductShape& shape, const Machine& machine) {
  // Of fewer segments, devices fetch several rows of tiles as one, so that few lines are no fewer bytes.
  const index_t column_bytes = shape.m * static_cast<index_t>(element_bytes(shape.type));
  return shape.tie == Tie::mn && !shape.masked && machine.devices >= devices_that_share &&
         4 * column_bytes >= 9 * machine.segment_bytes && link_to_products(shape.work, machine) >= waiting_for_links;
}

ProductShape shape_of(const Level3& c) {
  const bool a_plain = c.op_a == Op::no_trans;
  const bool left = c.side == Side::left;
  ProductShape shape{.type = c.type, .m = c.m, .n = c.n, .k = c.k, .work = work_of(c)};
  if (c.updates_triangle()) {
    // B's rows run as A's do in a rank update; in gemmt op(B) says how the columns of its n x k transpose do.
    const bool b_plain = c.has_op_b() ? c.op_b != Op::no_trans : a_plain;
    shape.m = c.n;
    shape.m_runs_down_a = a_plain && b_plain;
    shape.n_is_strided = true;
    shape.k_is_strided = !a_plain || !b_plain;
    shape.tie = Tie::mn;
    shape.masked = c.has_op_b();
    shape.adds_products = true;
  } else if (c.routine == Routine::gemm) {
    shape.n_is_strided = c.op_b != Op::no_trans;
    shape.k_is_strided = !a_plain || c.op_b == Op::no_trans;
    shape.adds_products = true;
    shape.k_runs_down_b = a_plain && c.op_b == Op::no_trans;
  } else {
    shape.k = left ? c.m : c.n;
    shape.n_is_strided = !left;
    shape.tie = left ? Tie::mk : Tie::nk;
    shape.solves_columns = left && c.routine == Routine::trsm;
    // The first tile is the one that all others need, or that needs all others (triangular.cpp).
    const bool lower = (c.uplo == Uplo::lower) == a_plain;
    shape.sweeps_forward = left && c.is_triangular() && lower == shape.solves_columns;
  }
  return shape;
}

std::size_t slot_bytes(ScalarType type, const Tiling& tiling, const Panels& panels) {
  const index_t m = tiling.m + std::abs(tiling.skew_m);
  const index_t n = tiling.n + std::abs(tiling.skew_n);
  const index_t k = tiling.k + std::abs(tiling.skew_k);
  const index_t elements = std::max({m * n, std::max(m, panels.rows) * k, std::max(k, panels.depth) * n});
  return static_cast<std::size_t>(elements) * element_bytes(type);
}

index_t halved_to_fit(index_t size, const Machine& machine, const std::function<std::size_t(index_t)>& bytes) {
  while (!fits_streams(machine, bytes(size))) size = half_of(size, machine);
  return size;
}

Tiling choose_tiling(const ProductShape& shape, const Machine& machine, index_t forced) {
  Tiling tiling;
  if (forced > 0) {
    tiling = {std::min(shape.m, forced), std::min(shape.n, forced), std::min(shape.k, forced)};
  } else {
    if (machine.segment_bytes > 0) {
      const auto tall = [&](bool whole, bool deep) {
        // The longer tile of each pair makes all slots larger, and halves of A's leave more of them to small tiles.
        const Tiling t = TallTiles(shape, machine, whole, true).choose(deep);
        return all_fits(shape, t, slots_of(shape, t, machine)) ? t
                                                               : TallTiles(shape, machine, whole, false).choose(deep);
      };
      tiling = tall(has_short_columns(shape, machine), true);
      // Whole columns make more and narrower tiles of B, and deep steps larger tiles of A: each tile is in a slot for
      // the largest one.
      if (!holds_operands(shape, tiling, machine)) tiling = tall(false, false);
    }
    // Where memory is short, slots that all tiles fill are worth more than long segments.
    if (machine.segment_bytes == 0 || !holds_operands(shape, tiling, machine)) tiling = square_tiles(shape, machine);
  }
  apply(shape.tie, tiling);
  while (
      !fits_streams(machine, slot_bytes(shape.type, tiling))) {  // never so with pairs, which are only where all fits
    index_t& longest = std::max({std::ref(tiling.m), std::ref(tiling.n), std::ref(tiling.k)},
                                [](const auto& a, const auto& b) { return a.get() < b.get(); });
    longest = half_of(longest, machine);
    apply(shape.tie, tiling);
  }
  return tiling;
}

index_t slots_for_all(const ProductShape& shape, const Tiling& tiling, index_t ranges) {
  const index_t mt = ceil_div(shape.m, tiling.m);
  const index_t nt = ceil_div(shape.n, tiling.n);
  const index_t kt = ceil_div(shape.k, tiling.k);
  const index_t with_inputs = mt * kt + kt * nt + 2 * mt * nt + index_t{2} * device::compute_streams;
  // A device may hold all partial results at once, and takes no more outputs than leave room for inputs.
  return ranges > 1 ? std::max(with_inputs, ranges * tasks_of(shape, tiling) * tiles_per_lane) : with_inputs;
}

Panels choose_panels(const ProductShape& shape, const Tiling& tiling, const Machine& machine) {
  const auto taller = [&](index_t part, index_t size) {
    const index_t column_bytes = part * static_cast<index_t>(element_bytes(shape.type));
    const index_t wanted = (machine.segment_bytes + column_bytes / 2) / column_bytes;
    return std::clamp<index_t>(wanted, 1, ceil_div(size, part)) * part;
  };
  // All slots are as large as the largest tile.
  const auto fits = [&](const Panels& panels) {
    return all_fits(shape, tiling, machine.slots(slot_bytes(shape.type, tiling, panels)));
  };
  const Panels whole{tiling.m, ceil_div(shape.k, tiling.k) * tiling.k};
  if (has_short_columns(shape, machine) && fits(whole)) return whole;
  const Panels tall{shape.m_runs_down_a ? taller(tiling.m, shape.m) : tiling.m,
                    shape.k_runs_down_b ? taller(tiling.k, shape.k) : tiling.k};
  return fits(tall) ? tall : Panels{tiling.m, tiling.k};
}

index_t choose_ranges(const ProductShape& shape, const Tiling& tiling, index_t depth, index_t least,
                      const Machine& machine) {
  const index_t ranges = ranges_wanted(shape, tiling, depth, least, machine);
  return slots_for_all(shape, tiling, ranges) <= slots_of(shape, tiling, machine) ? ranges : 1;
}

index_t slots_of(const ProductShape& shape, const Tiling& tiling, const Machine& machine) {
  return machine.slots(slot_bytes(shape.type, tiling));
}

index_t room_for_inputs(const ProductShape& shape, const Tiling& tiling, const Machine& machine) {
  return slots_of(shape, tiling, machine) - index_t{2} * device::compute_streams;
}

bool holds_operands(const ProductShape& shape, const Tiling& tiling, const Machine& machine) {
  const index_t panels = ceil_div(shape.m, tiling.m) + ceil_div(shape.n, tiling.n);
  return panels * ceil_div(shape.k, tiling.k) <= room_for_inputs(shape, tiling, machine);
}

std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n) {
  std::vector<TileIndex> order;
  order.reserve(static_cast<std::size_t>(mt * nt));
  for (index_t j = 0; j < nt; ++j) {
    for (index_t i = 0; i < mt; ++i) order.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
  }
  const auto position = [&](const TileIndex& tile) {
    const index_t row = tile.i * tile_m;
    const index_t column = tile.j * tile_n;
    return std::tuple(std::max(row, column), std::min(row, column), row);
  };
  std::sort(order.begin(), order.end(),
            [&](const TileIndex& a, const TileIndex& b) { return position(a) < position(b); });
  return order;
}

TaskOrder choose_order(const ProductShape& shape, const Tiling& tiling, const Machine& machine, Uplo uplo,
                       index_t products) {
  const bool triangle = shape.tie == Tie::mn;
  const index_t mt = ceil_div(shape.m, tiling.m);
  const index_t nt = ceil_div(shape.n, tiling.n);
  const auto is_stored = [&](const TileIndex& t) {
    return !triangle || (uplo == Uplo::lower ? t.i >= t.j : t.i <= t.j);
  };
  TaskOrder order;
  if (holds_operands(shape, tiling, machine)) {
    order.tiles = square_order(mt, nt, tiling.m, tiling.n);
    std::erase_if(order.tiles, [&](const TileIndex& t) { return !is_stored(t); });
    return order;
  }
  const auto form = shape.masked ? GroupForm::masked : triangle ? GroupForm::triangle : GroupForm::rectangle;
  const GroupedProduct product{.form = form, .mt = mt, .nt = nt, .kt = products * ceil_div(shape.k, tiling.k)};
  const auto grouping = choose_grouping(product, slots_of(shape, tiling, machine), machine.devices);
  for (const TileGroup& group : groups_of(product, grouping)) {
    for (index_t col = group.col; col < group.col + group.cols; ++col) {
      for (index_t row = group.row; row < group.row + group.rows; ++row) {
        TileIndex t{static_cast<std::int32_t>(row), static_cast<std::int32_t>(col)};
        // Groups lie on the lower triangle: the upper one is its mirror image.
        if (triangle && uplo == Uplo::upper) std::swap(t.i, t.j);
        if (is_stored(t)) order.tiles.push_back(t);
      }
    }
    const auto end = static_cast<runtime::TaskId>(order.tiles.size());
    if (order.group_ends.empty() || order.group_ends.back() < end) order.group_ends.push_back(end);
  }
  return order;
}

}  // namespace tessera::routines
