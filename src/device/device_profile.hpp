// What belongs to a machine: the numbers that a device's architecture and its link decide, as they were measured
// (docs/adr), derived from published data, or taken over for want of better. One table, by compute capability; a
// device is given its profile when it is described (DeviceInfo::profile), and who plans, copies, launches or estimates
// for it reads the number there.
//
// What is not here: shapes of kernels, which are compiled (their files say why they are as they are), limits of
// instructions and of data types, and numbers of the algorithms (how many tasks a lane has, margins of an estimate),
// which are the same on every machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/rates_by_type.hpp"
#include "core/scalar.hpp"

namespace tessera::device {

/// Sizes at which tiles and tasks are worth what they cost, in elements (docs/adr/0003-tall-tiles.md).
struct TileSizes {
  index_t largest = 2048;                ///< side beyond which kernels gain nothing, or little
  index_t smallest = 256;                ///< side below which a kernel is shorter than its submission
  index_t smallest_tied = 500;           ///< side, of rank updates, whose tiles of C have short columns both ways
  index_t smallest_halved = 1500;        ///< columns of A on the right, where they are cut to have more tasks
  index_t narrowest = 128;               ///< columns of a tile whose columns are whole
  index_t task = index_t{1} << 20;       ///< of B and C together: a task costs some 40 us beside what it moves
  index_t lone_task = index_t{1} << 21;  ///< likewise, where tasks are few because columns are long
  // A solve is a chain of launches, two per leaf, whatever its columns: few of them take longer to submit than to
  // compute.
  index_t fewest_solve_columns = 512;     ///< that a tile of a small triangle should have
  index_t most_solve_columns = 1024;      ///< that a tile of a large one needs
  index_t solve = index_t{1} << 18;       ///< of a tile, where the triangle is so small that a task's own cost counts
  index_t lone_solve = index_t{1} << 19;  ///< likewise, where there are fewer lines of tiles than streams
};

/// How triangles are divided between copy engines, which move rectangles, and a kernel (triangle_runs.hpp).
struct TriangleCut {
  index_t strip_columns = 256;            ///< of a rectangle; a power of two
  index_t least_rectangle_bytes = 16384;  ///< columns of a rectangle; engines take as long for shorter ones
};

/// Columns of page-locked memory that copy threads pack, because the copy engine is slower with them: shorter than so many bytes, and
/// so many times their length or more from one to the next. Measured: 20 to 40 GB/s instead of 55 (docs/adr/0003-tall-tiles.md).
struct ScatteredColumns {
  index_t column_bytes = 20480;
  index_t pitches = 6;
  index_t least_bytes = index_t{1} << 20;  ///< of a copy: less is not worth what waking the threads costs
};

/// Thread blocks of the kernel that copies triangles, each on a multiprocessor that products do without.
struct TriangleBlocks {
  int up = 6;
  int down = 2;
  int down_beside = 1;  ///< beside the copy engine
  int peer = 16;
};

/// The rings of page-locked memory that pageable memory goes through, and their threads (docs/adr/0006-staging.md).
struct Staging {
  index_t slot_bytes = index_t{4} << 20;
  int slots = 8;                           ///< in each direction
  index_t share_bytes = index_t{1} << 19;  ///< of a slot, what one thread carries at a time
  int most_threads = 12;                   ///< of one device, both directions together: they keep its link busy
  int fewest_threads = 4;                  ///< with less page-locking is as quick, and leaves the processors alone
  double most_up = 0.75;                   ///< of the threads at a time
  double most_down = 0.5;                  ///< likewise: the host writes past the cache, for which fewer do
  double most_alone = 0.67;                ///< likewise, while there is nothing to carry the other way
  double thread_bytes_per_s = 4e9;         ///< what one carries, between both directions
  /// Of small problems that are packed together: a copy of them takes some times what its submission takes, and most of
  /// what threads have packed is still in the last-level cache when the device reads it.
  index_t chunk_bytes = index_t{4} << 20;
};

/// Products that a kernel of our own computes instead of the vendor's (dgemm_choice.hpp).
struct ProductCrossover {
  double least_fill = 0.8;   ///< multiprocessors' time that goes into the result: with less smaller blocks do better
  index_t least_sum = 1024;  ///< elements: shorter products had better share multiprocessors
};

struct DeviceProfile {
  const char* architecture = "unknown";
  int compute_capability = 0;  ///< 90 for 9.0; 0: none, or one that the table does not know
  bool measured = false;       ///< all of it; else only the arithmetic is of this architecture, by published data

  // Arithmetic.
  RatesByType flops_per_clock;  ///< of one multiprocessor, tensor cores of that precision included; 0: unknown
  double attained_part = 0.9;   ///< of that, by large products

  // Host link.
  double link_part = 0.85;        ///< of its signalling rate; the rest is protocol
  index_t segment_bytes = 32768;  ///< copies of shorter column segments do not reach the link's rate; 0: any will do
  index_t page_bytes = 65536;     ///< of host memory, as the copy engine sees it: it is slow with halves of a page
  /// That a job should bring to each device, or take home from it, three quarters of a millisecond on the link: with
  /// less, fewer devices are sooner done. 0: any will do.
  index_t share_bytes = index_t{40} << 20;
  /// That wait behind the tile under way before no more are asked for: about half a millisecond.
  index_t link_queue_bytes = index_t{32} << 20;
  /// Page-locking pages of 4 KiB (20 GB/s) and undoing it (55 GB/s); 0: pageable memory is used as it is.
  double page_lock_bytes_per_s = 1 / (1 / 20e9 + 1 / 55e9);
  TriangleCut triangle_cut;
  TriangleBlocks triangle_blocks;
  ScatteredColumns scattered;
  Staging staging;

  // Its own memory.
  /// That are mapped at once, which takes 0.06 ms. Smaller chunks cost more in all (of these 32 GiB take 8 ms to map
  /// and 14 ms to give back), larger ones are more than small calls need.
  std::size_t memory_chunk_bytes = std::size_t{256} << 20;

  // Time.
  double start_up_s = 0.25;         ///< opening the first device: driver 0.1 s, context 0.1 s, kernels, first copies
  double further_start_up_s = 0.1;  ///< each further one, since the driver does some of it one after the other
  double call_overhead_s = 600e-6;  ///< from a call to its first copy, and from the last one to the return
  double backlog_s = 2e-3;          ///< of launched kernels, by the rough rate: enough until a worker looks again
  double short_kernel_s = 1e-4;     ///< a few times what it takes a worker to see that a tile has come
  double ranked_kernel_s = 2e-4;    ///< of shorter kernels more tasks are under way than there are ranks of streams

  // Sizes.
  TileSizes tiles;
  ProductCrossover dgemm;
  /// Right-hand sides up to which a leaf of a solve takes narrow strips: these end sooner, on twice as many
  /// multiprocessors.
  index_t most_narrow_solve_columns = 1024;
};

/// Architectures that are known.
std::span<const DeviceProfile> known_gpu_profiles();

/// That of a compute capability. Of one that is not in the table: the default, with the arithmetic of most GPUs in
/// single precision.
/// @param single_per_double what the driver says of such a GPU: how many times quicker single precision is
DeviceProfile gpu_profile(int major, int minor, double single_per_double = 64);

/// Of a device that is made of threads: nothing that only a link or a driver has.
DeviceProfile host_profile();

/// Matrix rates of a GPU in flops per second, rough figures; 0 where unknown.
RatesByType matrix_rates(const DeviceProfile& profile, int multiprocessors, double clock_hz);

/// The numbers by name, for people.
std::vector<std::pair<std::string, double>> numbers_of(const DeviceProfile& profile);

}  // namespace tessera::device
