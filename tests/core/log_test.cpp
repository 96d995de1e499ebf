// One diagnostic is one line, for any text.
#include "core/log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace tessera {
namespace log_test {

std::string logged(const std::string& text) {
  testing::internal::CaptureStderr();
  log_line(text);
  return testing::internal::GetCapturedStderr();
}

TEST(LogLine, HasPrefixAndLineEnd) { EXPECT_EQ(logged("hello"), "tessera: hello\n"); }

TEST(LogLine, EmptyTextIsALine) { EXPECT_EQ(logged(""), "tessera: \n"); }

TEST(LogLine, LineBreaksInsideBecomeBlanks) { EXPECT_EQ(logged("a\nb"), "tessera: a b\n"); }

TEST(LogLine, LongTextIsCutAndStaysOneLine) {
  const std::string text = logged(std::string(100000, 'x'));
  EXPECT_EQ(text.size(), 4096u);
  EXPECT_TRUE(text.ends_with("x [...]\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(LogLine, KeepsErrno) {
  errno = ENOENT;
  logged("text");
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace log_test
}  // namespace tessera
