// The numbers that depend on the machine: on a device's architecture and its link. They were measured (docs/adr),
// derived from published data, or taken over for lack of better ones. There is one table, by compute capability. A
// device gets its profile when it is described (DeviceInfo::profile). Planning, copies, launches and estimates read the
// numbers there.
//
// Other numbers are elsewhere. Shapes of kernels are compiled, and their files give the reasons. Limits of instructions
// and of data types, and numbers of the algorithms (tasks per lane, margins of an estimate), are the same on every
// machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/rates_by_type.hpp"
#include "core/scalar.hpp"

namespace tessera::device {

/// Sizes at which tiles and tasks repay their costs, in elements (docs/adr/0003-tall-tiles.md).
struct TileSizes {
  index_t largest = 2048;                ///< side beyond which kernels gain little or nothing
  index_t smallest = 256;                ///< side below which a kernel is shorter than its submission
  index_t smallest_tied = 500;           ///< side, in rank updates, of tiles of C with short columns in both directions
  index_t smallest_halved = 1500;        ///< columns of A on the right, if they are divided to get more tasks
  index_t narrowest = 128;               ///< columns of a tile whose columns are whole
  index_t task = index_t{1} << 20;       ///< of B and C together: a task costs some 40 us besides its transfers
  index_t lone_task = index_t{1} << 21;  ///< likewise, if there are few tasks because columns are long
  // A solve is a chain of launches, two per leaf, for any number of columns: with few columns submitting takes longer
  // than computing.
  index_t fewest_solve_columns = 512;  ///< columns that a tile of a small triangle should have
  index_t most_solve_columns = 1024;   ///< columns that suffice for a tile of a large triangle
  index_t solve = index_t{1} << 18;    ///< size of a tile, if the triangle is so small that a task's own cost matters
  index_t lone_solve = index_t{1} << 19;  ///< likewise, if there are fewer lines of tiles than streams
};

/// The division of triangles between copy engines, which move rectangles, and a kernel (triangle_runs.hpp).
struct TriangleCut {
  index_t strip_columns = 256;            ///< per rectangle; a power of two
  index_t least_rectangle_bytes = 16384;  ///< column length of a rectangle; engines take as long for shorter columns
};

/// Columns of page-locked memory that copy threads pack, because the copy engine is slower with them. They are shorter
/// than so many bytes, and their distance is at least so many times their length. Measured: 20 to 40 GB/s instead of 55
/// (docs/adr/0003-tall-tiles.md).
struct ScatteredColumns {
  index_t column_bytes = 20480;
  index_t pitches = 6;
  index_t least_bytes = index_t{1} << 20;  ///< of a copy: a smaller one does not repay waking the threads
};

/// Thread blocks of the kernel that copies triangles. Each occupies a multiprocessor, which products then lack.
struct TriangleBlocks {
  int up = 6;
  int down = 2;
  int down_beside = 1;  ///< beside the copy engine
  int peer = 16;
};

/// The rings of page-locked memory for pageable memory, and their threads (docs/adr/0006-staging.md).
struct Staging {
  index_t slot_bytes = index_t{4} << 20;
  int slots = 8;                           ///< in each direction
  index_t share_bytes = index_t{1} << 19;  ///< part of a slot that one thread carries at a time
  int most_threads = 12;                   ///< of one device, both directions together: they keep its link busy
  int fewest_threads = 4;                  ///< with fewer, page-locking is as fast, and leaves the processors alone
  double most_up = 0.75;                   ///< part of the threads at a time
  double most_down = 0.5;                  ///< likewise; fewer suffice, because the host writes past the cache
  double most_alone = 0.67;                ///< likewise, while the other direction has no work
  double thread_bytes_per_s = 4e9;         ///< the rate of one thread, averaged over both directions
  /// For small problems that are packed together. A copy of this size takes several times as long as its submission.
  /// Most of the packed data is still in the last-level cache when the device reads it.
  index_t chunk_bytes = index_t{4} << 20;
};

/// Products that a kernel of our own computes instead of the vendor's (dgemm_choice.hpp).
struct ProductCrossover {
  /// part of the multiprocessors' time that the result takes; below it smaller blocks are faster
  double least_fill = 0.8;
  index_t least_sum = 1024;  ///< elements: shorter products should share multiprocessors
};

struct DeviceProfile {
  const char* architecture = "unknown";
  int compute_capability = 0;  ///< 90 for 9.0; 0: none, or not in the table
  /// all numbers; otherwise only the arithmetic belongs to this architecture, by published data
  bool measured = false;

  // Arithmetic.
  RatesByType flops_per_clock;  ///< per multiprocessor, tensor cores of that precision included; 0: unknown
  double attained_part = 0.9;   ///< part of that which large products attain

  // Host link.
  double link_part = 0.85;  ///< part of the signalling rate that is data; the rest is protocol
  /// copies of shorter column segments do not reach the link's rate; 0: any length does
  index_t segment_bytes = 32768;
  index_t page_bytes = 65536;  ///< of host memory, as the copy engine sees it: it is slow with parts of a page
  /// Bytes that a job should bring to each device, or take home from it: three quarters of a millisecond on the link.
  /// With less, fewer devices are faster. 0: any amount will do.
  index_t share_bytes = index_t{40} << 20;
  /// Bytes that wait behind the current tile before no more are requested: about half a millisecond.
  index_t link_queue_bytes = index_t{32} << 20;
  /// The rate of page-locking pages of 4 KiB (20 GB/s) and unlocking them (55 GB/s); 0: pageable memory is used as it
  /// is.
  double page_lock_bytes_per_s = 1 / (1 / 20e9 + 1 / 55e9);
  TriangleCut triangle_cut;
  TriangleBlocks triangle_blocks;
  ScatteredColumns scattered;
  Staging staging;

  // The device's own memory.
  /// Bytes that are mapped at once, which takes 0.06 ms. Smaller chunks cost more in all (32 GiB of these take 8 ms to
  /// map and 14 ms to unmap). Larger chunks exceed the needs of small calls.
  std::size_t memory_chunk_bytes = std::size_t{256} << 20;

  // Time.
  double start_up_s = 0.25;         ///< opening the first device: driver 0.1 s, context 0.1 s, kernels, first copies
  double further_start_up_s = 0.1;  ///< each further one, since the driver serialises a part of it
  double call_overhead_s = 600e-6;  ///< from a call to its first copy, and from the last one to the return
  double backlog_s = 2e-3;          ///< of launched kernels, by the rough rate: enough until a worker checks again
  double short_kernel_s = 1e-4;     ///< a few times the delay until a worker sees that a tile has arrived
  double ranked_kernel_s = 2e-4;    ///< with shorter kernels more tasks are in progress than streams have priorities

  // Sizes.
  TileSizes tiles;
  ProductCrossover dgemm;
  /// Right-hand sides up to which a leaf of a solve uses narrow strips. These end sooner, on twice as many
  /// multiprocessors.
  index_t most_narrow_solve_columns = 1024;
};

/// The architectures in the table.
std::span<const DeviceProfile> known_gpu_profiles();

/// The profile of a compute capability. If it is not in the table: the default, with the arithmetic of most GPUs in
/// single precision.
/// @param single_per_double the driver's ratio of the rates in single and in double precision
DeviceProfile gpu_profile(int major, int minor, double single_per_double = 64);

/// The profile of a device made of threads: without the numbers of a link or a driver.
DeviceProfile host_profile();

/// Matrix rates of a GPU in flops per second, rough figures; 0 where unknown.
RatesByType matrix_rates(const DeviceProfile& profile, int multiprocessors, double clock_hz);

/// The numbers by name, for display.
std::vector<std::pair<std::string, double>> numbers_of(const DeviceProfile& profile);

}  // namespace tessera::device
