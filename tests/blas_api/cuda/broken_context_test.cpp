// A GPU whose context is broken by the program that Tessera is a guest of. In a process of its own: CUDA is of no use
// there any more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/device/backends.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera {
namespace broken_context_test {

struct Ended {
  int status = -1;
  std::string output, errors;
};

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

Ended run(const std::filesystem::path& program) {
  const test::TemporaryFolder folder;
  const std::string output = folder.path("output"), errors = folder.path("errors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_CREAT | O_WRONLY, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_CREAT | O_WRONLY, 0600);
  std::string name = program;
  char* const arguments[] = {name.data(), nullptr};
  pid_t child = 0;
  Ended ended;
  if (posix_spawn(&child, name.c_str(), &actions, nullptr, arguments, environ) == 0) {
    int status = 0;
    waitpid(child, &status, 0);
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&actions);
  ended.output = contents(output);
  ended.errors = contents(errors);
  return ended;
}

TEST(CudaBrokenContext, ProductsAreRightAfterAKernelOfTheProgramHasTrapped) {
  const Ended ended = run(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "trap_client");
  constexpr int no_gpu = 77;
  if (ended.status == no_gpu && !test::cuda_required()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.status, 0) << ended.output << ended.errors;
  const std::string told = "cuda:0 is lost";
  const std::size_t at = ended.errors.find(told);
  ASSERT_NE(at, std::string::npos) << ended.errors;
  EXPECT_EQ(ended.errors.find(told, at + 1), std::string::npos) << "told more than once: " << ended.errors;
}

}  // namespace broken_context_test
}  // namespace tessera
