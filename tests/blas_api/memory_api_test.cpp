// tessera_malloc, tessera_realloc, tessera_free and tessera_is_ours.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tessera/tessera.h"

namespace tessera {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::uintptr_t beyond_64(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 64; }

TEST(MemoryApi, LargePiecesAreOursAndSmallOnesArePlain) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, 4 * mib - 1, 4 * mib, 33 * mib}) {
    void* const memory = tessera_malloc(bytes);
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(beyond_64(memory), 0U);
    EXPECT_EQ(tessera_is_ours(memory) != 0, bytes >= 4 * mib) << bytes;
    std::memset(memory, 1, bytes);
    tessera_free(memory);
  }
  int local = 0;
  EXPECT_EQ(tessera_is_ours(&local), 0);
  EXPECT_EQ(tessera_is_ours(nullptr), 0);
  tessera_free(nullptr);
}

TEST(MemoryApi, AFreedPieceComesAgain) {
  void* const first = tessera_malloc(8 * mib);
  tessera_free(first);
  void* const second = tessera_malloc(8 * mib);
  EXPECT_EQ(second, first);
  tessera_free(second);
}

TEST(MemoryApi, ResizingKeepsTheContentAcrossTheLimit) {
  auto* memory = static_cast<unsigned char*>(tessera_realloc(nullptr, 10));
  std::memcpy(memory, "contents!", 10);
  for (const std::size_t bytes : {mib, 5 * mib, 70 * mib, 6 * mib, 2 * mib, std::size_t{10}}) {
    memory = static_cast<unsigned char*>(tessera_realloc(memory, bytes));
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_STREQ(reinterpret_cast<char*>(memory), "contents!") << bytes;
    EXPECT_EQ(tessera_is_ours(memory) != 0, bytes >= 4 * mib) << bytes;
    memory[bytes - 1] = bytes > 10 ? 3 : 0;
  }
  tessera_free(memory);
}

TEST(MemoryApi, WhatThereIsNotIsNull) {
  EXPECT_EQ(tessera_malloc(SIZE_MAX), nullptr);
  EXPECT_EQ(tessera_malloc(SIZE_MAX / 2), nullptr);
  void* const memory = tessera_malloc(5 * mib);
  EXPECT_EQ(tessera_realloc(memory, SIZE_MAX / 2), nullptr);
  std::memset(memory, 1, 5 * mib);  // as it was
  tessera_free(memory);
}

TEST(MemoryApi, ChangesNoErrno) {
  errno = 77;
  void* memory = tessera_malloc(5 * mib);
  memory = tessera_realloc(memory, 50 * mib);
  tessera_free(memory);
  static_cast<void>(tessera_malloc(SIZE_MAX / 2));
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace tessera
