#include "slots/slot_writer.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/slots/some_libraries.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera::slots_test {

std::string protection_at(const void* address) {
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0, end = 0;
    char letters[5] = "";
    const auto number = reinterpret_cast<unsigned long>(address);
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, letters) == 3 && number >= begin && number < end)
      return letters;
  }
  return "";
}

namespace slot_writer_test {

using slots::SlotWriter;

class SlotWriterPages : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    for (std::size_t page = 0; page < 3; ++page) *slot(page) = &before_;
  }
  void TearDown() override { munmap(memory_, bytes()); }

  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static std::size_t bytes() { return 3 * page_bytes(); }
  void** slot(std::size_t page) { return reinterpret_cast<void**>(static_cast<char*>(memory_) + page * page_bytes()); }
  void protect(std::size_t page, int protection) { ASSERT_EQ(mprotect(slot(page), page_bytes(), protection), 0); }

  void* memory_ = nullptr;
  int before_ = 0, after_ = 0;
};

TEST_F(SlotWriterPages, EachPageGetsItsProtectionBack) {
  protect(0, PROT_READ);
  protect(2, PROT_READ | PROT_EXEC);
  {
    SlotWriter writer;
    for (std::size_t page = 0; page < 3; ++page) {
      for (void** const at : {slot(page), slot(page) + 1})
        EXPECT_EQ(writer.replace(at, *at, &after_), SlotWriter::Outcome::written);
    }
    EXPECT_EQ(protection_at(slot(0)), "r--p");
    EXPECT_EQ(protection_at(slot(2)), "rwxp");
  }
  EXPECT_EQ(protection_at(slot(1)), "rw-p");
  EXPECT_EQ(protection_at(slot(2)), "r-xp");
  for (std::size_t page = 0; page < 3; ++page) {
    EXPECT_EQ(*slot(page), &after_);
    EXPECT_EQ(slot(page)[1], &after_);
  }
}

TEST_F(SlotWriterPages, AnotherValueStays) {
  SlotWriter writer;
  EXPECT_EQ(writer.replace(slot(0), &after_, this), SlotWriter::Outcome::changed);
  EXPECT_EQ(*slot(0), &before_);
}

TEST_F(SlotWriterPages, ASlotThatIsNotAlignedIsRefused) {
  SlotWriter writer;
  void** const between = reinterpret_cast<void**>(reinterpret_cast<char*>(slot(1)) - 4);
  EXPECT_EQ(writer.replace(between, nullptr, &after_), SlotWriter::Outcome::refused);
  EXPECT_THAT(writer.why(), testing::HasSubstr("aligned"));
  EXPECT_EQ(*slot(1), &before_);
}

TEST_F(SlotWriterPages, MemoryThatIsNotThereIsRefused) {
  void** const gone = slot(1);
  ASSERT_EQ(munmap(gone, page_bytes()), 0);
  SlotWriter writer;
  EXPECT_EQ(writer.replace(gone, nullptr, &after_), SlotWriter::Outcome::refused);
  EXPECT_NE(writer.why(), "");
}

}  // namespace slot_writer_test
}  // namespace tessera::slots_test
