#include "core/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/temporary_folder.hpp"

namespace tessera {
namespace file_test {

using Use = OutputFile::Use;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  test::TemporaryFolder folder_;
};

TEST_F(OutputFileTest, AppendsToWhatIsThere) {
  put("log", "one\n");
  for (const char* text : {"two\n", "three\n"}) EXPECT_TRUE(OutputFile(path("log"), Use::append).write(text));
  EXPECT_EQ(text_of("log"), "one\ntwo\nthree\n");
  EXPECT_TRUE(OutputFile(path("new"), Use::append).write("first"));
  EXPECT_EQ(text_of("new"), "first");
}

TEST_F(OutputFileTest, CreatesWhatWasNotThere) {
  OutputFile file(path("draft"), Use::create);
  EXPECT_TRUE(file.write("text") && file.close());
  EXPECT_EQ(text_of("draft"), "text");
  const OutputFile again(path("draft"), Use::create);
  EXPECT_FALSE(again);
  EXPECT_EQ(again.why(), "File exists");
  EXPECT_EQ(text_of("draft"), "text");
}

TEST_F(OutputFileTest, FollowsNoLink) {
  put("target", "text");
  ASSERT_EQ(symlink(path("target").c_str(), path("link").c_str()), 0);
  ASSERT_EQ(symlink(path("nothing").c_str(), path("dangling").c_str()), 0);
  for (const Use use : {Use::append, Use::own, Use::create}) {
    for (const char* name : {"link", "dangling"}) {
      const OutputFile file(path(name), use);
      EXPECT_FALSE(file) << name;
      EXPECT_EQ(file.why(), use == Use::create ? "File exists" : "it is a symbolic link") << name;
    }
  }
  EXPECT_EQ(text_of("target"), "text");
  EXPECT_FALSE(std::filesystem::exists(path("nothing")));
}

TEST_F(OutputFileTest, WritesThroughAnOpenDescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const char* const folder : {"/proc/self/fd/", "/dev/fd/"}) {
    EXPECT_TRUE(OutputFile(folder + std::to_string(ends[1]), Use::append).write("line"));
    char text[5] = {};
    EXPECT_EQ(read(ends[0], text, 4), 4);
    EXPECT_STREQ(text, "line");
  }
  const OutputFile closed("/dev/fd/" + std::to_string(1 << 20), Use::append);
  EXPECT_EQ(closed.why(), "Bad file descriptor");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(OutputFileTest, WritesToStandardErrorOfTheProcess) {
  const int saved = dup(STDERR_FILENO);
  const int file = open(path("err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(dup2(file, STDERR_FILENO), 0);
  const bool good = OutputFile("/dev/stderr", Use::append).write("one ") && write(STDERR_FILENO, "two", 3) == 3;
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  EXPECT_TRUE(good);
  EXPECT_EQ(text_of("err"), "one two");
}

TEST_F(OutputFileTest, WritesToAFifo) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { std::getline(std::ifstream(path("fifo")), read); });
  EXPECT_TRUE(OutputFile(path("fifo"), Use::append).write("line\n"));
  reader.join();
  EXPECT_EQ(read, "line");
  const OutputFile own(path("fifo"), Use::own);
  EXPECT_FALSE(own);
  EXPECT_EQ(own.why(), "it is no regular file");
}

TEST_F(OutputFileTest, AFileHasOneOwnerAtATime) {
  put("file", "what was there before");
  {
    OutputFile first(path("file"), Use::own);
    ASSERT_TRUE(first);
    EXPECT_TRUE(OutputFile(path("file"), Use::own).is_taken());
    EXPECT_EQ(text_of("file"), "what was there before");
    EXPECT_TRUE(first.replace_from(0, "a long text"));
    EXPECT_EQ(text_of("file"), "a long text");
    EXPECT_TRUE(first.replace_from(2, "text"));
    EXPECT_EQ(text_of("file"), "a text");
    OutputFile other = std::move(first);
    EXPECT_TRUE(OutputFile(path("file"), Use::own).is_taken());
  }
  EXPECT_TRUE(OutputFile(path("file"), Use::own));
}

TEST_F(OutputFileTest, IsClosedInProgramsThatTheProcessRuns) {
  const int before = dup(STDERR_FILENO);
  close(before);
  const OutputFile file(path("file"), Use::own);
  EXPECT_EQ(fcntl(before, F_GETFD), FD_CLOEXEC);  // the lowest number that was free
}

TEST_F(OutputFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(OutputFile(path("no/folder"), Use::append).why(), "No such file or directory");
  OutputFile full("/dev/full", Use::append);
  ASSERT_TRUE(full);
  EXPECT_FALSE(full.write("text"));
  EXPECT_EQ(full.why(), "No space left on device");
}

}  // namespace file_test
}  // namespace tessera
