// Batches on the CPU: threads, and the share of each.
#include "kernels/host/cpu_batch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <vector>

#include "tests/offload/batches.hpp"

namespace tessera::kernels {
namespace cpu_batch_test {

using test::cubes;

TEST(CpuBatch, HasNoMoreThreadsThanTheProgramLetsItHave) {
  EXPECT_EQ(most_threads(16, {.own = 32}), 16);
  EXPECT_EQ(most_threads(16, {.own = 4}), 4);
  EXPECT_EQ(most_threads(16, {}), 1) << "a BLAS whose small products may have teams";
  EXPECT_EQ(most_threads(16, {.own = 16, .openmp = 2}), 2);
  EXPECT_EQ(most_threads(16, {.own = 4, .openmp = 8}), 4);
  EXPECT_EQ(most_threads(16, {.own = 16, .openmp = 16, .in_team = true}), 1);
  EXPECT_EQ(most_threads(0, {.own = 0}), 1);
  EXPECT_EQ(most_threads_of_call(16, 0), 16);
  EXPECT_EQ(most_threads_of_call(16, 1), 16);
  EXPECT_EQ(most_threads_of_call(16, 3), 5);
  EXPECT_EQ(most_threads_of_call(16, 40), 1);
  EXPECT_EQ(threads_in("4,2"), 4);
  for (const char* const nothing : {static_cast<const char*>(nullptr), "", "0", "-3", "many", "99999999999"})
    EXPECT_EQ(threads_in(nothing), std::numeric_limits<int>::max());
}

TEST(CpuBatch, ComputesEachProductOnce) {
  EXPECT_EQ(threads_for(0, 8), 1);
  EXPECT_EQ(threads_for(index_t{1} << 19, 8), 1) << "less than a thread takes to start";
  EXPECT_EQ(threads_for(index_t{1} << 21, 8), 2);
  EXPECT_EQ(threads_for(index_t{1} << 40, 8), 8);
  GemmBatch batch = cubes(50, 200);
  for (std::size_t i = 0; i < batch.problems.size(); i += 5) batch.problems[i].m = 200;  // for the threads of the BLAS
  EXPECT_EQ(shared_volume(batch, 0, 10), 8 * 50 * 50 * 50) << "not the larger ones";
  std::vector<std::atomic<int>> computed(200);
  const auto* const first = static_cast<const double*>(batch.problem(0).C);
  compute_on_cpu(batch, 10, 110, 4, [&](const Level3& call) {
    ++computed[static_cast<std::size_t>(static_cast<const double*>(call.C) - first)];
  });
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(computed[i], i >= 10 && i < 110 ? 1 : 0) << i;
}

TEST(CpuBatch, CutsLargerProductsWhereThereAreMany) {
  GemmBatch batch = cubes(50, 200);
  for (std::size_t i = 0; i < batch.problems.size(); i += 5) batch.problems[i].m = 200;
  index_t all = 0;
  for (index_t i = 0; i < 200; ++i) all += batch.problem(i).m * 50 * 50;
  EXPECT_EQ(shared_volume(batch, 0, 200), all);
  for (const int threads : {1, 4}) {
    std::atomic<index_t> computed = 0, largest = 0;
    compute_on_cpu(batch, 0, 200, threads, [&](const Level3& call) {
      const index_t volume = call.m * call.n * call.k;
      computed += volume;
      index_t known = largest;
      while (known < volume && !largest.compare_exchange_weak(known, volume)) {
      }
    });
    EXPECT_EQ(computed, all);
    EXPECT_EQ(largest > one_thread_volume, threads == 1) << "one thread leaves them whole";
  }
}

}  // namespace cpu_batch_test
}  // namespace tessera::kernels
