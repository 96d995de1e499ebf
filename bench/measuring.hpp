// How the programs that measure are told how to, and how they end.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

namespace tessera::bench {

/// Of calls in device memory that follow each other (Timer).
struct Measuring {
  double group_s = 0.004;
  int groups = 3;
  std::string json;

  void add_to(CLI::App& app) {
    app.add_option("--group-seconds", group_s, "calls that follow each other take about so long")
        ->capture_default_str();
    app.add_option("--groups", groups, "of which the median is taken")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--json", json, "file for the times");
  }
};

/// What main() returns. @param measure returns whether all is well; what it throws is told on standard error
template <class Measure>
int exit_status_of(const char* program, const Measure& measure) {
  try {
    return measure() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace tessera::bench
