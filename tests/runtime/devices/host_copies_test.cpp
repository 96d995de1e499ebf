// Copies of what tiles of C were.
#include "runtime/devices/host_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace tessera::runtime {
namespace host_copies_test {

constexpr index_t element = sizeof(double);

struct Matrix {
  Matrix(index_t rows, index_t cols, Part part = Part::full) : values(static_cast<std::size_t>((rows + 3) * cols)) {
    std::iota(values.begin(), values.end(), 1.0);
    tile = {reinterpret_cast<std::byte*>(values.data()), rows, cols, rows + 3, part};
  }
  std::vector<double> values;
  cache::HostTile tile;
};

using When = HostCopies::When;

void await(const HostCopies::CopyPtr& copy, Signal& signal) {
  for (std::uint64_t seen = signal.version(); !copy->is_whole(); seen = signal.version())
    signal.wait(seen, std::chrono::milliseconds(100));
}

// A caller that waits for room gets a signal. The thread that has copied may be the last to release the copy.
void await_room(HostCopies& old, const Matrix& matrix, Signal& signal) {
  for (std::uint64_t seen = signal.version(); !old.has_memory(matrix.tile, element, When::due, signal);
       seen = signal.version())
    signal.wait(seen, std::chrono::seconds(10));
}

constexpr int job = 0;  // whose address names it

TEST(HostCopies, BringBackATile) {
  Signal signal;
  HostCopies old(2, std::size_t{1} << 30);
  for (const auto& [rows, cols] : {std::pair<index_t, index_t>{1, 1}, {5, 7}, {700, 900}, {3000, 300}}) {
    Matrix matrix(rows, cols);
    const std::vector<double> before = matrix.values;
    const auto copy = old.copy(&job, matrix.tile, element, When::due, signal);
    ASSERT_TRUE(copy);
    await(copy, signal);
    // Every second column of the tile is overwritten; what lies between the columns is somebody else's, and stays as it is now.
    std::vector<double> expected = before;
    for (index_t j = 0; j < cols; ++j) {
      double* const column = matrix.values.data() + j * (rows + 3);
      if (j % 2 == 0) std::fill_n(column, rows, -1.0);
      column[rows] = -2;
      expected[static_cast<std::size_t>(j * (rows + 3) + rows)] = -2;
    }
    copy->restore();
    EXPECT_EQ(matrix.values, expected) << rows << " x " << cols;
  }
}

TEST(HostCopies, ReadAndWriteNoMoreThanTheTriangle) {
  Signal signal;
  HostCopies old(1, std::size_t{1} << 30);
  for (const Part part : {Part::lower, Part::upper}) {
    Matrix matrix(40, 40, part);
    const auto copy = old.copy(&job, matrix.tile, element, When::due, signal);
    await(copy, signal);
    std::fill(matrix.values.begin(), matrix.values.end(), -1.0);
    copy->restore();
    for (index_t j = 0; j < 40; ++j) {
      for (index_t i = 0; i < 43; ++i) {
        const bool inside = i < 40 && (part == Part::lower ? i >= j : i <= j);
        const index_t at = i + j * 43;
        ASSERT_EQ(matrix.values[static_cast<std::size_t>(at)], inside ? static_cast<double>(at + 1) : -1.0);
      }
    }
  }
}

TEST(HostCopies, TakeMemoryForSoMuchAndOneMore) {
  Signal signal;
  HostCopies old(1, 1000);
  Matrix matrix(10, 10);
  EXPECT_TRUE(old.has_memory(matrix.tile, element, When::due, signal));
  auto first = old.copy(&job, matrix.tile, element, When::due, signal);
  await(first, signal);
  EXPECT_FALSE(old.has_memory(matrix.tile, element, When::due, signal));
  first.reset();
  await_room(old, matrix, signal);
  // The memory is kept for the next copy, until it is given back.
  const std::size_t held = old.held_bytes();
  EXPECT_GE(held, 800u);
  auto second = old.copy(&job, matrix.tile, element, When::due, signal);
  EXPECT_EQ(old.held_bytes(), held);
  await(second, signal);
  second.reset();
  await_room(old, matrix, signal);
  old.give_back();
  EXPECT_EQ(old.held_bytes(), 0u);
}

TEST(HostCopies, CopiedAheadLeaveHalfOfTheRoom) {
  Signal signal;
  HostCopies old(1, 2000);
  Matrix matrix(10, 10);
  ASSERT_TRUE(old.has_memory(matrix.tile, element, When::ahead, signal));
  auto ahead = old.copy(&job, matrix.tile, element, When::ahead, signal);
  EXPECT_FALSE(old.has_memory(matrix.tile, element, When::ahead, signal));
  ASSERT_TRUE(old.has_memory(matrix.tile, element, When::due, signal));
  const auto due = old.copy(&job, matrix.tile, element, When::due, signal);
  EXPECT_FALSE(old.has_memory(matrix.tile, element, When::due, signal));
  await(due, signal);
  await(ahead, signal);
}

TEST(HostCopies, CopiedAheadNeverStopTheOneThatIsDue) {
  Signal signal;
  HostCopies old(1, 1700);  // half of it is room for one
  Matrix matrix(10, 10), larger(20, 20);
  const auto ahead = old.copy(&job, matrix.tile, element, When::ahead, signal);
  EXPECT_FALSE(old.has_memory(larger.tile, element, When::ahead, signal));
  EXPECT_TRUE(old.has_memory(larger.tile, element, When::due, signal));
  await(ahead, signal);
}

TEST(HostCopies, AreNotReadAnyMoreWhenCopyingHasStopped) {
  Signal signal;
  HostCopies old(2, std::size_t{1} << 30);
  std::vector<Matrix> matrices;
  for (int i = 0; i < 8; ++i) matrices.emplace_back(800, 800);
  std::vector<HostCopies::CopyPtr> copies;
  for (const Matrix& matrix : matrices) copies.push_back(old.copy(&job, matrix.tile, element, When::due, signal));
  old.stop_copying(&job);
  // Under ThreadSanitizer and AddressSanitizer a thread that still read would be seen.
  for (Matrix& matrix : matrices) std::fill(matrix.values.begin(), matrix.values.end(), 0.0);
  matrices.clear();
  copies.clear();
  Matrix another(50, 50);
  const auto copy = old.copy(&job, another.tile, element, When::due, signal);
  await(copy, signal);
  EXPECT_TRUE(copy->is_whole());
}

TEST(HostCopies, OfAnotherJobGoOn) {
  Signal signal;
  HostCopies old(1, std::size_t{1} << 30);
  constexpr int other = 0;
  std::vector<Matrix> matrices;
  for (int i = 0; i < 6; ++i) matrices.emplace_back(400, 400);
  std::vector<HostCopies::CopyPtr> copies;
  for (std::size_t i = 0; i < matrices.size(); ++i)
    copies.push_back(old.copy(i % 2 == 0 ? &job : &other, matrices[i].tile, element, When::due, signal));
  old.stop_copying(&job);
  for (std::size_t i = 0; i < matrices.size(); i += 2)
    std::fill(matrices[i].values.begin(), matrices[i].values.end(), 0.0);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (std::size_t i = 1; i < matrices.size(); i += 2) {
    while (!copies[i]->is_whole() && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
    EXPECT_TRUE(copies[i]->is_whole()) << i;
  }
}

}  // namespace host_copies_test
}  // namespace tessera::runtime
