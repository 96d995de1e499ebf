// The choice of the tile sizes of a call, and of the order that its tasks follow on a given machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "calls/level3.hpp"
#include "core/ceil_div.hpp"
#include "routines/grouping.hpp"
#include "runtime/performance_model.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::routines {

/// Two dimensions that are one: the rows and columns of a symmetric or triangular operand, cut at the same places.
enum class Tie : std::uint8_t { none, mn, mk, nk };

/// A call as a product of an m x k and a k x n matrix, and which of its dimensions run down the columns of some operand
/// as it is stored.
struct ProductShape {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0, k = 0;
  bool n_is_strided = false;  ///< m always is, by C
  bool k_is_strided = true;
  bool m_runs_down_a = false;   ///< C is a triangle, and blocks of A and of B are rows of their stored columns
  bool solves_columns = false;  ///< trsm with A on the left
  bool sweeps_forward = false;  ///< trmm or trsm on the left, whose first tile of a line of B is computed first
  bool k_runs_down_b = false;   ///< gemm, and blocks of B, not of A, are cut along stored columns by k
  bool masked = false;          ///< gemmt: the rows and columns of a triangle of C are made of different operands
  bool adds_products = false;   ///< all that is done along k, so that parts of the sum may be added up apart
  Tie tie = Tie::none;
  Work work = {};  ///< of the call
};

ProductShape shape_of(const Level3& call);

/// Rows of the tiles of operands where these are taller than the blocks that steps read: multiples of the tiling's m
/// and k, and these themselves where tiles come in pairs.
struct Panels {
  index_t rows = 0;   ///< of the operands of a triangle of C
  index_t depth = 0;  ///< of gemm's B
  bool operator==(const Panels&) const = default;
};

/// Bytes of the largest of the three tiles.
std::size_t slot_bytes(ScalarType type, const runtime::Tiling& tiling, const Panels& panels = {});

/// Slots for the tiles of all operands, and of C with its old values, beside what streams hold.
/// @param ranges see choose_ranges()
index_t slots_for_all(const ProductShape& shape, const runtime::Tiling& tiling, index_t ranges = 1);
inline bool all_fits(const ProductShape& shape, const runtime::Tiling& tiling, index_t slots) {
  return slots_for_all(shape, tiling) <= slots;
}

/// Where tasks or steps want blocks with shorter columns than the copy engine does, and there is room, several of them
/// read parts of one taller tile.
Panels choose_panels(const ProductShape& shape, const runtime::Tiling& tiling, const runtime::Machine& machine);

/// Large tiles keep the kernels at full rate; small ones start and end sooner and share better. The largest size is
/// taken that gives every stream of every device several tasks. Each device must hold an output and one step's inputs
/// per stream. Where copy engines are slow on short column segments (Machine::segment_bytes), tiles are tall, and steps
/// of long products deep. Columns that such segments cut into halves of pages come in pairs of tiles instead, where
/// everything fits.
/// @param forced tile size to use for all three dimensions, without pairs, 0: choose. It too shrinks if the memory is
/// too small for it.
/// @throws OutOfDeviceMemory if even the smallest tile does not fit
runtime::Tiling choose_tiling(const ProductShape& shape, const runtime::Machine& machine, index_t forced);

/// Whether links, and the host's memory that many devices share, are what a rank update waits for. Then devices read few lines of
/// tiles. Else all devices read the same lines, which come first.
bool triangle_waits_for_links(const ProductShape& shape, const runtime::Machine& machine);

/// The number of ranges of k, cut at multiples of `depth`, for a long k and a C of fewer tiles than lanes. Products of
/// a range are added up apart, by devices that fetch no others. More than one range only if everything fits, and the
/// partial results, each as large as C, are little beside A and B; then a multiple of the devices.
/// @param least elements of A and B in a range
index_t choose_ranges(const ProductShape& shape, const runtime::Tiling& tiling, index_t depth, index_t least,
                      const runtime::Machine& machine);

constexpr index_t tiles_per_lane = 3;  ///< an output and one step's inputs
/// The size, halved until a device can hold tiles_per_lane of its tiles per stream.
/// @param bytes of such a tile @throws OutOfDeviceMemory if even those of size 1 do not fit
index_t halved_to_fit(index_t size, const runtime::Machine& machine, const std::function<std::size_t(index_t)>& bytes);

/// Slots of the smallest device.
index_t slots_of(const ProductShape& shape, const runtime::Tiling& tiling, const runtime::Machine& machine);
/// Those left for tiles of A and B beside the outputs that are being computed and written back.
index_t room_for_inputs(const ProductShape& shape, const runtime::Tiling& tiling, const runtime::Machine& machine);
/// Whether these hold all of A and B. Where they do not, tasks run in groups.
bool holds_operands(const ProductShape& shape, const runtime::Tiling& tiling, const runtime::Machine& machine);

struct TileIndex {
  std::int32_t i = 0;
  std::int32_t j = 0;
  bool operator==(const TileIndex&) const = default;
};

/// All mt x nt tiles of tile_m x tile_n elements as growing squares of elements: shell by shell, within a shell the new
/// row and the new column in turns. With r rows of A and c columns of B on a device, r * c elements of C can be computed.
std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n);

/// Tiles of C in the order in which their tasks start, and where their groups end if they are to run in groups.
struct TaskOrder {
  std::vector<TileIndex> tiles;
  std::vector<runtime::TaskId> group_ends;
};

/// Growing squares where A and B fit the smallest device, groups where they do not.
/// @param uplo of which triangle of C there are tasks, if the shape ties m to n
/// @param products of pairs of operands that make up C: 2 for a rank-2k update
TaskOrder choose_order(const ProductShape& shape, const runtime::Tiling& tiling, const runtime::Machine& machine,
                       Uplo uplo = Uplo::lower, index_t products = 1);

}  // namespace tessera::routines
