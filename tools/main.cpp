// `tessera`: the command line. Parses, finds the subcommand, and turns its exceptions into one line on standard error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "core/error.hpp"
#include "tessera/tessera.h"

int main(int argc, char** argv) {
  using tessera::tools::Command;

  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> program;

  CLI::App app{"Tessera: BLAS and LAPACK on all devices of the machine, for matrices in host memory.", "tessera"};
  app.set_version_flag("--version", std::string("tessera ") + tessera_version());
  app.require_subcommand(1);
  std::vector<Command> commands;
  commands.push_back(tessera::tools::add_info(app));
  commands.push_back(tessera::tools::add_run(app, program));
  if (!arguments.empty() && arguments.front() == "run") {
    program = tessera::tools::take_program(*commands.back().app, arguments);
  }
  commands.push_back(tessera::tools::add_calibrate(app));
  CLI::App* bench = app.add_subcommand("bench", "measure a routine beside its peers");
  bench->require_subcommand(1);
  for (Command& command : tessera::tools::add_bench(*bench)) commands.push_back(std::move(command));
  commands.push_back(tessera::tools::add_stats(app));
  CLI::App* trace = app.add_subcommand("trace", "show a trace file (TESSERA_TRACE)");
  trace->require_subcommand(1);
  commands.push_back(tessera::tools::add_trace_draw(*trace));

  if (std::find(arguments.begin(), arguments.end(), "--") != arguments.end()) {
    std::fputs("tessera: \"--\" belongs to `tessera run`\n", stderr);
    return 2;
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order in which CLI11 takes a vector
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with status 0; anything else is wrong use.
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const Command& command : commands) {
      if (!command.app->parsed()) continue;
      return command.run();
    }
  } catch (const tessera::tools::UsageError& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
    return 2;
  } catch (const tessera::InvalidArgument& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
    return 1;
  }
  return 2;
}
