// `tessera run [options] -- program args`: sets the preload and the environment, and becomes the program.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "commands.hpp"
#include "locations.hpp"
#include "settings_options.hpp"

namespace tessera::tools {
namespace {

void set_variable(const std::string& name, const std::string& value) {
  if (setenv(name.c_str(), value.c_str(), 1) != 0) throw std::runtime_error(name + ": " + std::strerror(errno));
}

int run_program(const SettingsOptions& settings, std::vector<std::string> program) {
  if (program.empty()) throw UsageError("run: no program given; use: tessera run [options] -- program [arguments]");
  settings.config();  // says now, and once, what the program's every process would say

  constexpr const char* preload_name = "libtessera_blas.so";
  const auto preload = find_library(preload_name);
  if (!preload) {
    std::string tried;
    for (const auto& folder : library_folders()) tried += ' ' + folder.string();
    throw std::runtime_error(std::string(preload_name) + " not found in" + tried);
  }
  std::string chain = preload->string();
  // The loader splits LD_PRELOAD at blanks and colons and has no way to quote them.
  if (chain.find_first_of(" :") != std::string::npos) {
    throw std::runtime_error("LD_PRELOAD cannot name " + chain + ": the path has a blank or a colon in it");
  }
  const char* before = std::getenv("LD_PRELOAD");
  if (before != nullptr && *before != '\0') chain += std::string(":") + before;
  set_variable("LD_PRELOAD", chain);
  for (const auto& [name, value] : settings.values()) set_variable(name, value);

  std::vector<char*> argv;
  argv.reserve(program.size() + 1);
  for (std::string& argument : program) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  std::fprintf(stderr, "tessera: %s: %s\n", argv[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;  // as shells and env(1) answer
}

}  // namespace

Command add_run(CLI::App& app, const std::vector<std::string>& program) {
  CLI::App* run = app.add_subcommand("run", "run a program with its BLAS calls going through Tessera");
  run->footer("Use: tessera run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  auto settings = std::make_shared<SettingsOptions>();
  settings->add_to(*run);
  return {run, [settings, program] { return run_program(*settings, program); }};
}

}  // namespace tessera::tools
