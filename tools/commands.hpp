// The subcommands of `tessera`, one file each. A command registers its options on the application and returns what to
// do if it was chosen; main() decides which.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera::tools {

struct Command {
  const CLI::App* app = nullptr;
  /// @return exit status: 0 good, 1 something was found wrong or failed, 2 wrong use
  std::function<int()> run;
};

/// A mistake on the command line that the option parser cannot see; main() prints it and exits with status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Command add_info(CLI::App& app);
/// @param program name first, from take_program(); read when the command runs
Command add_run(CLI::App& app, const std::vector<std::string>& program);
/// Takes the program and its arguments off the end of `arguments`, a command line that begins with "run". They begin
/// after "--", or with the first word that is neither an option of `run` nor the value of one. The option parser does
/// not see them, so the program keeps its own options.
std::vector<std::string> take_program(const CLI::App& run, std::vector<std::string>& arguments);
/// The subcommands of `bench`: one per routine, `all` and `problems`.
std::vector<Command> add_bench(CLI::App& bench);
Command add_calibrate(CLI::App& app);
Command add_stats(CLI::App& app);
/// The subcommand `draw` of `trace`.
Command add_trace_draw(CLI::App& trace);

}  // namespace tessera::tools
