// How batches are cut and packed: that a chunk, computed where it lies, gives what the loop gives, and that nothing
// beside the matrices is read or written.
#include "runtime/batches/gemm_chunks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <variant>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_batch.hpp"
#include "runtime/batches/batch_pipeline.hpp"

namespace tessera::runtime {
namespace batch_chunk_test {

/// Products on matrices in one vector, padding poisoned.
class Problem {
 public:
  static constexpr index_t space = 4096;

  explicit Problem(ScalarType type = ScalarType::d) : builder_(type) {}

  Product add(index_t m, index_t n, index_t k, AnyScalar beta = 0, Op op_a = Op::no_trans, const double* A = nullptr) {
    const bool plain = op_a == Op::no_trans;
    const index_t lda = (plain ? m : k) + 1, ldb = k + 2, ldc = m + 3;
    if (A == nullptr) A = matrix(plain ? m : k, plain ? k : m, lda);
    const double* const B = matrix(k, n, ldb);
    double* const C = matrix(m, n, ldc);
    const void* const a = A;
    const void* const b = B;
    const void* const c = C;
    builder_.add(
        {.arguments = {.op_a = op_a, .op_b = Op::no_trans, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc},
         .alpha = 2,
         .beta = beta,
         .A = {.first = a},
         .B = {.first = b},
         .C = {.first = c},
         .count = 1});
    return {.m = m, .n = n, .k = k, .A = A, .lda = lda, .B = B, .ldb = ldb, .C = C, .ldc = ldc};
  }
  GemmBatch take() { return builder_.take(); }
  std::vector<double>& values() { return values_; }

 private:
  double* matrix(index_t rows, index_t cols, index_t ld) {
    double* const begin = values_.data() + used_;
    used_ += static_cast<std::size_t>(ld * cols);
    std::uniform_real_distribution<double> value(-1, 1);
    for (index_t j = 0; j < cols; ++j) {
      for (index_t i = 0; i < rows; ++i) begin[i + j * ld] = value(random_);
    }
    return begin;
  }

  GemmBatchBuilder builder_;
  std::mt19937 random_{1};
  std::size_t used_ = 0;
  std::vector<double> values_ = std::vector<double>(std::size_t{1} << 20, std::nan("7"));
};

const kernels::Level3Batch& products_of(const PackedChunk& packed) {
  return std::get<kernels::Level3Batch>(packed.batch);
}

/// Packs, computes and unpacks chunk by chunk. @return chunks
std::size_t compute_in_chunks(const GemmBatch& batch, index_t most_bytes) {
  const std::vector<Chunk> chunks = packable(batch)->cut(most_bytes);
  std::vector<std::byte> memory(static_cast<std::size_t>(most_bytes), std::byte{0xff});
  index_t next = 0;
  for (const Chunk& chunk : chunks) {
    EXPECT_EQ(chunk.first, next);
    EXPECT_GT(chunk.last, chunk.first);
    next = chunk.last;
    if (!chunk.fits) continue;
    const PackedChunk packed = packable(batch)->pack(chunk, memory.data(), memory.data());
    EXPECT_LE(packed.results_first + packed.results_bytes, most_bytes);
    kernels::reference_level3_batch(products_of(packed));
    packable(batch)->unpack(chunk, packed, memory.data());
  }
  EXPECT_EQ(next, batch.size());
  return chunks.size();
}

TEST(BatchChunk, PackedProductsAreThoseOfTheCaller) {
  Problem problem, same;
  for (Problem* const each : {&problem, &same}) {
    std::mt19937 random(5);
    const auto size = [&] { return static_cast<index_t>(1 + random() % 9); };
    for (int i = 0; i < 300; ++i) {
      const index_t m = size(), n = size(), k = size();
      each->add(m, n, k, i % 7 == 0 ? 1 : 0, i % 3 == 0 ? Op::trans : Op::no_trans);
    }
  }
  const GemmBatch batch = problem.take(), expected = same.take();
  EXPECT_EQ(batch.forms.size(), 4u);
  EXPECT_GT(compute_in_chunks(batch, Problem::space), 20u);
  for (const Product& product : expected.problems) kernels::reference_level3(expected.call(product));
  // Padding is poison in both: compared as bytes.
  EXPECT_EQ(std::memcmp(problem.values().data(), same.values().data(), problem.values().size() * sizeof(double)), 0);
}

TEST(BatchChunk, ASharedMatrixIsPackedOnce) {
  Problem problem;
  const Product first = problem.add(8, 2, 8);
  for (int i = 0; i < 9; ++i) problem.add(8, 2, 8, 0, Op::no_trans, static_cast<const double*>(first.A));
  const GemmBatch batch = problem.take();
  std::vector<std::byte> memory(1 << 16);
  const PackedChunk packed = packable(batch)->pack({0, 10}, memory.data(), memory.data());
  EXPECT_EQ(products_of(packed).count, 10);
  const auto* const A = static_cast<std::byte* const*>(products_of(packed).A.of_each);
  for (int i = 1; i < 10; ++i) EXPECT_EQ(A[i], A[0]);
  // One A of 512 bytes, ten B of 128, and what the device has to know.
  EXPECT_EQ(packed.results_first, 512 + 512 + 1280);
  EXPECT_EQ(packed.results_bytes, 10 * 128);
  EXPECT_EQ(packed.up_bytes, packed.results_first) << "C is not read";
}

TEST(BatchChunk, SizesOfAllAreNoArrays) {
  Problem problem;
  for (int i = 0; i < 3; ++i) problem.add(5, 6, 1 + i, 1);
  const GemmBatch batch = problem.take();
  std::vector<std::byte> memory(1 << 16), device(16);
  const PackedChunk packed = packable(batch)->pack({0, 3}, memory.data(), device.data());
  EXPECT_EQ(products_of(packed).m.of_each, nullptr);
  EXPECT_EQ(products_of(packed).m.of_all, 5);
  EXPECT_EQ(products_of(packed).ldc.of_all, 5) << "packed tight";
  EXPECT_NE(products_of(packed).k.of_each, nullptr);
  EXPECT_EQ(products_of(packed).common.k, 3) << "the bound";
  EXPECT_GE(static_cast<const std::byte*>(products_of(packed).k.of_each), device.data())
      << "addresses are the device's";
  EXPECT_LT(static_cast<const std::byte*>(products_of(packed).k.of_each), device.data() + packed.up_bytes);
  EXPECT_EQ(packed.up_bytes, packed.results_first + packed.results_bytes) << "C is read";
  EXPECT_EQ(packed.flops, 2.0 * 5 * 6 * (1 + 2 + 3));
}

TEST(BatchChunk, WhatIsTooLargeIsAChunkByItselfThatDoesNotFit) {
  Problem problem;
  problem.add(4, 4, 4);
  problem.add(64, 64, 1);
  problem.add(4, 4, 4);
  const GemmBatch batch = problem.take();
  const std::vector<Chunk> chunks = packable(batch)->cut(1024);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_TRUE(chunks[0].fits);
  EXPECT_FALSE(chunks[1].fits);
  EXPECT_TRUE(chunks[2].fits);
  EXPECT_GT(packed_bytes(batch.type, batch.forms[0], batch.problem(1)), 1024);
  EXPECT_TRUE(packable(GemmBatch())->cut(1024).empty());
}

TEST(BatchChunk, GroupsOfOneFormAreMergedInTheirOrder) {
  Problem problem;
  for (int i = 0; i < 10; ++i) problem.add(1 + i, 1, 1, i % 2);
  const GemmBatch batch = problem.take();
  ASSERT_EQ(batch.forms.size(), 2u);
  const std::vector<index_t> order = {1, 3, 5, 7, 9, 2, 4, 6, 8, 10};
  for (index_t i = 0; i < 10; ++i) {
    EXPECT_EQ(batch.problem(i).m, order[static_cast<std::size_t>(i)]);
    EXPECT_EQ(batch.problem(i).form, i / 5);
  }
}

TEST(BatchChunk, ProductsWithoutEffectAreLeftOut) {
  Problem problem;
  problem.add(0, 3, 3);
  problem.add(3, 0, 3);
  problem.add(3, 3, 0, 1);
  problem.add(3, 3, 0, 2);
  const GemmBatch batch = problem.take();
  ASSERT_EQ(batch.size(), 1);
  EXPECT_EQ(batch.form_of(batch.problem(0)).beta, AnyScalar(2));
}

TEST(BatchPlan, LanesAreLargeEnoughForTheLargestProduct) {
  constexpr index_t mib = index_t{1} << 20;
  const PackingCapacity capacities[] = {{1024 * mib, 8}, {1024 * mib, 8}};
  const BatchPlan large = plan_batch(capacities, 10000 * mib, 1 * mib);
  EXPECT_EQ(large.slot_bytes, 4 * mib) << "what the profile says";
  EXPECT_EQ(large.shares[1].threads, 8);
  EXPECT_EQ(large.shares[1].lanes, 16);
  EXPECT_EQ(plan_batch(capacities, 20000 * mib, 10 * mib).slot_bytes, 10 * mib);
  EXPECT_EQ(plan_batch(capacities, 1 * mib, 1).slot_bytes, mib / 4) << "the least";
  EXPECT_EQ(plan_batch(capacities, 64 * mib, 1).slot_bytes, mib) << "two turns for each of 32 lanes";
}

TEST(BatchPlan, ADeviceWithLittleMemoryHasFewerLanesOrNone) {
  constexpr index_t mib = index_t{1} << 20;
  const PackingCapacity capacities[] = {{100 * mib, 1}, {3 * mib, 4}, {mib / 8, 4}, {0, 4}};
  const BatchPlan plan = plan_batch(capacities, 40 * mib, mib);
  EXPECT_EQ(plan.slot_bytes, 40 * mib / 2 / 20 / 4096 * 4096);
  EXPECT_EQ(plan.shares[0].lanes, 4) << "one for each compute stream";
  EXPECT_EQ(plan.shares[0].threads, 1);
  EXPECT_EQ(plan.shares[1].lanes, 3);
  EXPECT_EQ(plan.shares[1].threads, 3);
  EXPECT_EQ(plan.shares[2].lanes, 0);
  EXPECT_EQ(plan.shares[3].lanes, 0);
  // Where none has as much as wanted, lanes are what one of them has.
  const BatchPlan small = plan_batch(std::span(capacities).subspan(2), 40 * mib, mib);
  EXPECT_EQ(small.slot_bytes, mib / 8);
  EXPECT_EQ(small.shares[0].lanes, 1);
  EXPECT_EQ(plan_batch(std::span(capacities).subspan(3), mib, mib).shares[0].lanes, 0);
}

TEST(BatchPlan, LanesTakeNoMoreOfTheHostThanTheyMay) {
  constexpr index_t mib = index_t{1} << 20;
  const PackingCapacity capacities[] = {{1024 * mib, 8}, {1024 * mib, 4}, {0, 8}};
  const auto plan = [&](index_t most) { return plan_batch(capacities, 10000 * mib, mib, most); };
  EXPECT_EQ(plan(96 * mib).shares[0].lanes, 16);
  EXPECT_EQ(plan(96 * mib).shares[1].lanes, 8);
  EXPECT_EQ(plan(48 * mib).slot_bytes, 4 * mib) << "fewer, not smaller ones";
  EXPECT_EQ(plan(48 * mib).shares[0].lanes, 8);
  EXPECT_EQ(plan(48 * mib).shares[0].threads, 8);
  EXPECT_EQ(plan(48 * mib).shares[1].lanes, 4);
  EXPECT_EQ(plan(1).shares[0].lanes, 1);
  EXPECT_EQ(plan(1).shares[0].threads, 1);
  EXPECT_EQ(plan(1).shares[1].lanes, 1);
  EXPECT_EQ(plan(1).shares[2].lanes, 0);
}

TEST(BatchPlan, LanesOfFormerBatchesAreFreed) {
  constexpr index_t page = 4096;
  // A lane of so many pages each; 0: none.
  const auto memories = [](const std::vector<std::vector<int>>& pages) {
    std::vector<LaneMemory> all(pages.size());
    for (std::size_t d = 0; d < pages.size(); ++d) {
      for (const int each : pages[d])
        all[d].push_back(each > 0 ? std::make_unique<device::HostMemory>(each * page) : nullptr);
    }
    return all;
  };
  const auto left = [&](std::vector<LaneMemory> all, index_t most_pages) {
    const BatchPlan plan{.slot_bytes = 2 * page, .shares = {{1, 2}, {1, 1}}};
    free_lanes(all, plan, most_pages * page);
    std::vector<std::vector<int>> pages(all.size());
    for (std::size_t d = 0; d < all.size(); ++d) {
      for (const auto& memory : all[d])
        pages[d].push_back(memory ? static_cast<int>(static_cast<index_t>(memory->bytes()) / page) : 0);
    }
    return pages;
  };
  using Pages = std::vector<std::vector<int>>;
  EXPECT_EQ(left(memories({{}, {}}), 6), (Pages{{}, {}}));
  EXPECT_EQ(left(memories({{4, 1, 4, 2}, {2}}), 100), (Pages{{4, 1, 0, 2}, {2}})) << "unused, and larger than needed";
  EXPECT_EQ(left(memories({{4, 1, 4, 2}, {2}}), 9), (Pages{{0, 1, 0, 2}, {2}}));
  EXPECT_EQ(left(memories({{4, 1, 4, 2}, {2}}), 7), (Pages{{0, 1, 0, 0}, {2}}));
}

TEST(BatchPlan, ThreadsThatPackAreThoseThatCarryPageableMemory) {
  device::DeviceInfo info;
  EXPECT_EQ(packing_threads(info, 1, 2), 2);
  EXPECT_EQ(packing_threads(info, 2, 2), 1);
  EXPECT_EQ(packing_threads(info, 4, 2), 1);
  EXPECT_EQ(packing_threads(info, 1, 64), info.profile.staging.most_threads);
  info.copy_threads = 7;
  EXPECT_EQ(packing_threads(info, 2, 2), 7);
}

}  // namespace batch_chunk_test
}  // namespace tessera::runtime
