// The Machine of src/kernels/block made of host threads: one per thread of the block. They exchange values as a warp
// does. Also a leaf of a triangular call on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "calls/level3.hpp"
#include "kernels/block/block_team.hpp"
#include "kernels/block/trmm_strip.hpp"
#include "kernels/block/trsm_chain.hpp"
#include "kernels/block/trsm_strip.hpp"
#include "kernels/block/trsv_chain.hpp"

namespace tessera::test {

/// A barrier that receives its number of threads with each use, as those of a thread block do.
class CountedBarrier {
 public:
  void arrive(int threads) {
    const std::lock_guard lock(mutex_);
    count(threads);
  }
  void await(int threads) {
    std::unique_lock lock(mutex_);
    const int phase = phase_;
    count(threads);
    next_phase_.wait(lock, [&] { return phase_ != phase; });
  }

 private:
  void count(int threads) {
    if (++arrived_ < threads) return;
    arrived_ = 0;
    ++phase_;
    next_phase_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable next_phase_;
  int arrived_ = 0, phase_ = 0;
};

/// The shared data of the threads of one thread block.
template <int warps>
struct HostBlock {
  struct Warp {
    std::barrier<> all_lanes{32};
    // Two copies in turns: a lane that writes to one has passed a barrier after which all lanes have read it.
    std::array<std::array<std::array<double, 12>, 32>, 2> exchange{};
  };
  std::array<Warp, warps> of_warp;
  std::barrier<> all_threads{32 * warps};
  std::array<CountedBarrier, 2> barriers;
};

/// A warp of a block, by itself.
template <class Warps>
class HostWarp : public Warps {
 public:
  explicit HostWarp(const Warps& block) : Warps(block) {}
  int warp() const { return 0; }
  int thread() const { return this->lane(); }
  void meet() { this->sync_warp(); }
};

/// @tparam meets warps wait for each other only by meeting all, as those of batches do
template <int warps, bool meets = false>
class HostWarps {
 public:
  static constexpr bool all_meet = meets;
  using OneWarp = HostWarp<HostWarps>;
  HostWarps(HostBlock<warps>& block, int thread) : block_(&block), thread_(thread) {}

  int thread() const { return thread_; }
  int lane() const { return thread_ % 32; }
  int warp() const { return thread_ / 32; }
  void sync_warp() { mine().all_lanes.arrive_and_wait(); }
  void arrive(int barrier, int count) {
    if constexpr (all_meet) return meet();
    block_->barriers[static_cast<std::size_t>(barrier)].arrive(32 * count);
  }
  void await(int barrier, int count) {
    if constexpr (all_meet) return meet();
    block_->barriers[static_cast<std::size_t>(barrier)].await(32 * count);
  }

  void meet() { block_->all_threads.arrive_and_wait(); }

  template <class R>
  R shuffle(R value, int from) {
    return static_cast<R>(exchange({static_cast<double>(value)})[static_cast<std::size_t>(from)][0]);
  }

  template <class E>
  E* in_global(E* pointer) const {
    return pointer;
  }

  template <class Number>
  Number made_anew(Number value) const {
    return value;
  }

  int first_lane(bool value) {
    const auto& values = exchange({value ? 1.0 : 0.0});
    const auto at = std::find_if(values.begin(), values.end(), [](const auto& of_lane) { return of_lane[0] != 0; });
    return at == values.end() ? -1 : static_cast<int>(at - values.begin());
  }
  template <class Key>
  int place_of_largest(Key key, int place) {
    const auto& values = exchange({std::bit_cast<double>(std::uint64_t{key}), static_cast<double>(place)});
    const auto key_of = [](const auto& of_lane) { return std::bit_cast<std::uint64_t>(of_lane[0]); };
    std::uint64_t largest = 0;
    for (const auto& of_lane : values) largest = std::max(largest, key_of(of_lane));
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& of_lane : values) {
      if (key_of(of_lane) == largest) lowest = std::min(lowest, of_lane[1]);
    }
    return static_cast<int>(lowest);
  }

  bool any(bool value) {
    const auto& values = exchange({value ? 1.0 : 0.0});
    return std::any_of(values.begin(), values.end(), [](const auto& of_lane) { return of_lane[0] != 0; });
  }

  // Thread blocks run one after the other.
  int marks_set(const kernels::block::Mark* marks, int most, kernels::block::Mark value) {
    int set = 0;
    while (set < most && marks[set] == value) ++set;
    EXPECT_GT(set, 0) << "nobody will set it any more";
    sync_warp();
    return set;
  }
  void set_mark(kernels::block::Mark* mark, kernels::block::Mark value) {
    sync_warp();
    if (lane() == 0) *mark = value;
  }

  template <int most, class E>
  void copy_async(E* to, const E* from, int count) {
    for (int i = 0; i < most; ++i) to[i] = i < count ? from[i] : E{};
  }
  void end_of_batch() {}
  template <int batches>
  void await_batches() {}

  void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4], const double (&b)[4]) {
    const auto& values =
        exchange({a[0][0], a[0][1], a[0][2], a[0][3], a[1][0], a[1][1], a[1][2], a[1][3], b[0], b[1], b[2], b[3]});
    const std::size_t group = static_cast<std::size_t>(lane()) / 4;
    const std::size_t member = static_cast<std::size_t>(lane()) % 4;
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t q = 0; q < 4; ++q) {
        for (std::size_t c = 0; c < 2; ++c) {
          const double x = values[4 * (2 * member + c) + q][8 + s];
          upper[c] += values[4 * group + q][s] * x;
          lower[c] += values[4 * group + q][4 + s] * x;
        }
      }
    }
  }

 protected:
  typename HostBlock<warps>::Warp& mine() { return block_->of_warp[static_cast<std::size_t>(warp())]; }

  const std::array<std::array<double, 12>, 32>& exchange(const std::array<double, 12>& values) {
    auto& lanes = mine().exchange[turn_];
    turn_ = 1 - turn_;
    lanes[static_cast<std::size_t>(lane())] = values;
    mine().all_lanes.arrive_and_wait();
    return lanes;
  }

 private:
  HostBlock<warps>* block_;
  int thread_;
  std::size_t turn_ = 0;
};

/// A thread block of a team, whose blocks run at the same time.
template <int warps>
class HostTeam : public HostWarps<warps, true> {
 public:
  HostTeam(HostBlock<warps>& threads, int thread, int block, int blocks, kernels::block::TeamMeetings& meetings)
      : HostWarps<warps, true>(threads, thread), block_(block), blocks_(blocks), meetings_(&meetings) {}
  int block() const { return block_; }
  int blocks() const { return blocks_; }
  template <class Offer>
  Offer* offers() const {
    return meetings_->template offers<Offer>();
  }
  void meet_first_warps() { meetings_->meet(*this); }
  void meet_blocks() {
    this->meet();
    if (this->warp() == 0) meetings_->meet(*this);
    this->meet();
  }
  int marks_set(kernels::block::Mark* marks, int most, kernels::block::Mark value) {
    for (int i = 0; i < most; ++i) {
      while (std::atomic_ref(marks[i]).load(std::memory_order_acquire) != value) std::this_thread::yield();
    }
    return most;
  }
  void set_mark(kernels::block::Mark* mark, kernels::block::Mark value) {
    this->sync_warp();
    if (this->lane() == 0) std::atomic_ref(*mark).store(value, std::memory_order_release);
  }

 private:
  int block_, blocks_;
  kernels::block::TeamMeetings* meetings_;
};

/// Calls run(machine) on all threads of all blocks of a team.
template <int warps, class Run>
void run_team(int blocks, kernels::block::TeamBoard& board, kernels::block::Mark before, Run run) {
  std::vector<std::unique_ptr<HostBlock<warps>>> shared;
  for (int block = 0; block < blocks; ++block) shared.push_back(std::make_unique<HostBlock<warps>>());
  std::vector<std::thread> threads;
  for (int block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < 32 * warps; ++thread) {
      threads.emplace_back([&, block, thread] {
        kernels::block::TeamMeetings meetings(&board, before);
        run(HostTeam<warps>(*shared[static_cast<std::size_t>(block)], thread, block, blocks, meetings));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

template <Scalar T, int columns>
using SmallStrip = kernels::block::StripShape<decltype(std::abs(T{})), std::floating_point<T> ? 1 : 2, 4, columns>;

/// Calls run(machine) on all threads of a block.
template <class Shape, class Machine = HostWarps<Shape::warps>, class Run>
void run_block(Run run) {
  HostBlock<Shape::warps> block;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < Shape::threads; ++thread) {
    threads.emplace_back([&, thread] { run(Machine(block, thread)); });
  }
  for (std::thread& thread : threads) thread.join();
}

/// One strip of a trsm, or of a trmm in place.
template <class Shape>
void run_strip(const kernels::block::TriangularSystem<typename Shape::E>& system, Routine routine,
               index_t first_column) {
  const auto memory = std::make_unique<kernels::block::StripMemory<Shape>>();
  run_block<Shape>([&]<class Machine>(const Machine& machine) {
    if (routine == Routine::trsm)
      kernels::block::StripSolver<Shape, Machine>(system, *memory, first_column, machine).run();
    else
      kernels::block::StripMultiplier<Shape, Machine>(system, *memory, first_column, machine).run();
  });
}

/// A trsm, or a trmm in place, with at most 64 rows of the triangle, as the kernel computes it, one block after the
/// other.
template <Scalar T, int columns>
void run_by_strips(const Level3& call) {
  using Shape = SmallStrip<T, columns>;
  const auto system = kernels::block::system_of<typename Shape::R, Shape::parts>(call);
  ASSERT_LE(system.order, Shape::rows);
  for (index_t column = 0; column < system.columns; column += Shape::columns)
    run_strip<Shape>(system, call.routine, column);
}

/// A trsm by a chain, one link after the other. @tparam Link StripLink or VectorLink
template <template <class, class> class Link, class Shape>
void run_by_links(const Level3& call) {
  constexpr kernels::block::Mark solved = 7;
  const auto system = kernels::block::system_of<typename Shape::R, Shape::parts>(call);
  const auto links = static_cast<int>((system.order + Shape::rows - 1) / Shape::rows);
  for (index_t column = 0; column < system.columns; column += Shape::columns) {
    std::vector<kernels::block::Mark> marks(static_cast<std::size_t>(links) * Shape::warps);
    for (int link = 0; link < links; ++link) {
      using Machine = HostWarps<Shape::warps>;
      const auto of_link = kernels::block::system_of_link<Shape>(system, link);
      const auto memory = std::make_unique<typename Link<Shape, Machine>::Memory>();
      run_block<Shape>([&](const Machine& machine) {
        Link<Shape, Machine>(of_link, *memory, link, column, {marks.data(), solved}, machine).run();
      });
    }
  }
}

/// The same with links of 64 rows, and strips of 8 columns or of one.
template <Scalar T, int columns>
void run_by_chain(const Level3& call) {
  using R = decltype(std::abs(T{}));
  constexpr int parts = std::floating_point<T> ? 1 : 2;
  if constexpr (columns == 1)
    run_by_links<kernels::block::VectorLink, kernels::block::VectorShape<R, parts, 2, 3>>(call);
  else
    run_by_links<kernels::block::StripLink, SmallStrip<T, columns>>(call);
}

}  // namespace tessera::test
