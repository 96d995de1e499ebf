// Small products on a GPU have the same bits alone and in a batch, however their operands are stored. Programs compare
// stacks of matrices with the matrices one by one.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/scalar.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace small_products_conformance {

using device::StreamKind;

class SmallProducts : public ::testing::TestWithParam<test::BackendParam> {};

/// Square matrices one behind the other, stored by columns and by rows.
template <Scalar T>
struct Stack {
  std::vector<T> by_columns, by_rows;
};

template <Scalar T>
Stack<T> random_stack(index_t n, index_t count, unsigned seed) {
  Stack<T> stack;
  std::mt19937_64 random(seed);
  stack.by_columns = test::random_matrix<T>(n, n * count, n, random);
  stack.by_rows = stack.by_columns;
  for (index_t e = 0; e < n * n * count; ++e) {
    const index_t i = e % n, j = e / n % n, first = e / (n * n) * n * n;
    stack.by_rows[static_cast<std::size_t>(first + j + i * n)] = stack.by_columns[static_cast<std::size_t>(e)];
  }
  return stack;
}

template <Scalar T>
void expect_same_bits(test::OpenedDevices& opened, std::byte* slab, index_t n, index_t count) {
  device::Device& device = opened.device(0);
  const index_t size = static_cast<index_t>(sizeof(T)), bytes = n * n * count * size;
  Stack<T> A = random_stack<T>(n, count, 1), B = random_stack<T>(n, count, 2);
  std::byte* const in_slab[] = {slab, slab + bytes, slab + 2 * bytes, slab + 3 * bytes};
  std::vector<T>* const sources[] = {&A.by_columns, &A.by_rows, &B.by_columns, &B.by_rows};
  for (int at = 0; at < 4; ++at)
    device.copy_up({in_slab[at], bytes}, {reinterpret_cast<std::byte*>(sources[at]->data()), bytes}, {bytes, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::up}), device::EventStatus::complete);
  std::byte* const C = slab + 4 * bytes;
  const auto result = [&] {
    std::vector<T> values(static_cast<std::size_t>(n * n * count));
    EXPECT_EQ(test::finish(device, {StreamKind::compute, 0}), device::EventStatus::complete);
    device.copy_down({reinterpret_cast<std::byte*>(values.data()), bytes}, {C, bytes}, {bytes, 1});
    EXPECT_EQ(test::finish(device, {StreamKind::down}), device::EventStatus::complete);
    return values;
  };
  std::vector<T> expected;
  for (const Op op_a : {Op::no_trans, Op::trans}) {
    for (const Op op_b : {Op::no_trans, Op::trans}) {
      Level3 call{.type = scalar_type_of<T>(),
                  .op_a = op_a,
                  .op_b = op_b,
                  .m = n,
                  .n = n,
                  .k = n,
                  .A = in_slab[op_a == Op::no_trans ? 0 : 1],
                  .lda = n,
                  .B = in_slab[op_b == Op::no_trans ? 2 : 3],
                  .ldb = n,
                  .C = C,
                  .ldc = n};
      kernels::Level3Batch batch;
      batch.common = call;
      batch.count = count;
      for (kernels::NumberOfEach* number : {&batch.m, &batch.n, &batch.k, &batch.lda, &batch.ldb, &batch.ldc})
        number->of_all = n;
      batch.A = {nullptr, call.A, n * n};
      batch.B = {nullptr, call.B, n * n};
      batch.C = {nullptr, call.C, n * n};
      opened.ops(0).run_batch(0, batch, 0);
      const std::vector<T> together = result();
      for (index_t e = 0; e < count; ++e) {
        opened.ops(0).run(0, call);
        for (const void** matrix : {&call.A, &call.B}) *matrix = static_cast<const std::byte*>(*matrix) + n * n * size;
        call.C = static_cast<std::byte*>(call.C) + n * n * size;
      }
      const std::vector<T> alone = result();
      if (expected.empty()) expected = together;
      const std::string what = std::string(1, letter(call.type)) + " of " + std::to_string(n);
      EXPECT_EQ(std::memcmp(together.data(), expected.data(), static_cast<std::size_t>(bytes)), 0)
          << what << " in a batch";
      EXPECT_EQ(std::memcmp(alone.data(), expected.data(), static_cast<std::size_t>(bytes)), 0) << what << " alone";
    }
  }
}

TEST_P(SmallProducts, HaveTheSameBitsAloneAndInABatch) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  for (const ScalarType type : test::all_types) {
    for (const index_t n : {1, 4, 7, 19, 32})
      dispatch(type, [&]<Scalar T>(T) { expect_same_bits<T>(opened, slab, n, 5); });
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, SmallProducts, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });

}  // namespace small_products_conformance
}  // namespace tessera
