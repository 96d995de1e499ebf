// How batches of LAPACK's problems are cut and packed: that chunks, computed where they lie, give what the reference gives, and
// that nothing beside the results is written.
#include "runtime/batches/lapack_chunks.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/reference/reference_lapack.hpp"
#include "tests/lapack_systems.hpp"

namespace tessera::runtime {
namespace lapack_chunk_test {

const kernels::LapackBatch& problems_of(const PackedChunk& packed) {
  return std::get<kernels::LapackBatch>(packed.batch);
}

class LapackChunk : public ::testing::TestWithParam<Routine> {};

TEST_P(LapackChunk, PackedProblemsAreThoseOfTheCaller) {
  for (const ScalarType type : scalar_types) {
    dispatch(type, [&]<Scalar T>(T) {
      test::Systems<T> systems(GetParam(), 3), expected(GetParam(), 3);
      for (test::Systems<T>* const each : {&systems, &expected}) each->add_some(150, 12);
      expected.compute();
      const LapackProblems batch = systems.batch();
      const std::unique_ptr<PackableBatch> packed_batch = packable(batch);
      constexpr index_t most_bytes = 8192;
      std::vector<std::byte> memory(most_bytes, std::byte{0xff});
      index_t next = 0;
      for (const Chunk& chunk : packed_batch->cut(most_bytes)) {
        ASSERT_TRUE(chunk.fits);
        EXPECT_EQ(chunk.first, next);
        next = chunk.last;
        const PackedChunk packed = packed_batch->pack(chunk, memory.data(), memory.data());
        EXPECT_LE(packed.results_first + packed.results_bytes, most_bytes);
        EXPECT_EQ(packed.workspace.bytes > 0, inverts(GetParam()));
        kernels::reference_lapack_batch(problems_of(packed));
        packed_batch->unpack(chunk, packed, memory.data());
      }
      EXPECT_EQ(next, batch.size());
      systems.expect_same(expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Routines, LapackChunk, ::testing::ValuesIn(test::host_lapack_routines),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(LapackChunks, MoveWhatIsReadUpAndWhatIsWrittenDown) {
  const auto packed_of = [](Routine routine) {
    test::Systems<double> systems(routine, 1);
    systems.add(8, 8, 2);
    const LapackProblems batch = systems.batch();
    std::vector<std::byte> memory(1 << 16);
    return packable(batch)->pack({0, 1}, memory.data(), memory.data());
  };
  constexpr index_t header = 256, A = 8 * 8 * 8, B = 8 * 8 * 2, pivots = 8 * 4, info = 4;
  // Each part of a chunk begins at a multiple of 256.
  const PackedChunk solve = packed_of(Routine::getrs);
  EXPECT_EQ(solve.results_first, header + A + 256) << "factors and pivots are only read";
  EXPECT_EQ(solve.results_bytes, 256 + info) << "B comes home";
  EXPECT_EQ(solve.up_bytes, header + A + 256 + 256);
  const PackedChunk both = packed_of(Routine::gesv);
  EXPECT_EQ(both.results_first, header) << "all comes home";
  EXPECT_EQ(both.up_bytes, header + A + 256);
  EXPECT_EQ(both.results_bytes, A + 256 + pivots + info) << "pivots are only written";
  static_assert(B <= 256);
  const PackedChunk factors = packed_of(Routine::getrf);
  EXPECT_EQ(factors.up_bytes, header + A);
  EXPECT_EQ(factors.results_bytes, A + pivots + info);
  const PackedChunk inverse = packed_of(Routine::getri);
  EXPECT_EQ(inverse.workspace.bytes, std::size_t{A});
}

TEST(LapackChunks, NeighboursShareFactors) {
  std::vector<double> A(64, 1), B(80);
  std::vector<int> ipiv(8, 1), info(10);
  LapackProblemsBuilder builder(Routine::getrs, ScalarType::d);
  LapackGroup group;
  group.form.has_pivots = true;
  group.common = {.m = 8, .n = 8, .nrhs = 1, .lda = 8, .ldb = 8};
  group.A.first = A.data();
  group.B = {.first = B.data(), .distance_bytes = 64};
  group.ipiv.first = ipiv.data();
  group.info = info.data();
  group.count = 10;
  builder.add(group);
  const LapackProblems batch = builder.take();
  std::vector<std::byte> memory(1 << 16);
  const PackedChunk packed = packable(batch)->pack({0, 10}, memory.data(), memory.data());
  const auto* const each = static_cast<std::byte* const*>(problems_of(packed).A.of_each);
  const auto* const pivots = static_cast<std::byte* const*>(problems_of(packed).ipiv.of_each);
  for (int i = 1; i < 10; ++i) {
    EXPECT_EQ(each[i], each[0]);
    EXPECT_EQ(pivots[i], pivots[0]);
  }
  EXPECT_EQ(problems_of(packed).lda.of_all, 8);
}

}  // namespace lapack_chunk_test
}  // namespace tessera::runtime
