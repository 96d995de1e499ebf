// The command line of programs that measure, and how these end.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace tessera::bench {

/// A list whose values are separated by commas. Help shows what it is without the option.
template <class Value>
CLI::Option* add_list(CLI::App& app, const char* name, std::vector<Value>& values, const char* what) {
  return app.add_option(name, values, what)->delimiter(',')->capture_default_str();
}
/// A list of positive numbers.
template <class Number>
CLI::Option* add_numbers(CLI::App& app, const char* name, std::vector<Number>& values, const char* what) {
  return add_list(app, name, values, what)->check(CLI::PositiveNumber);
}
template <class Number>
CLI::Option* add_number(CLI::App& app, const char* name, Number& value, const char* what) {
  return app.add_option(name, value, what)->check(CLI::PositiveNumber)->capture_default_str();
}
/// A list of some of `allowed`.
inline CLI::Option* add_names(CLI::App& app, const char* name, std::vector<std::string>& values,
                              const std::vector<std::string>& allowed, const char* what) {
  return add_list(app, name, values, what)->check(CLI::IsMember(allowed));
}
inline CLI::Option* add_name(CLI::App& app, const char* name, std::string& value,
                             const std::vector<std::string>& allowed, const char* what) {
  return app.add_option(name, value, what)->check(CLI::IsMember(allowed))->capture_default_str();
}

/// Of calls in device memory that follow each other (Timer).
struct Measuring {
  double group_s = 0.004;
  int groups = 3;
  std::string json;
  double time_budget_s = 0;

  void add_to(CLI::App& app) {
    app.add_option("--group-seconds", group_s, "calls that follow each other take about so long")
        ->capture_default_str();
    add_number(app, "--groups", groups, "of which the median is taken");
    app.add_option("--json", json, "file for the times");
  }
  void add_time_budget_to(CLI::App& app) {
    app.add_option("--time-budget", time_budget_s, "seconds after which no case begins; 0: no limit")
        ->capture_default_str();
  }
};

/// Runs a program. @return the result of main()
/// @tparam Options  has add_to(CLI::App&)
/// @param measure   (options): whether all is well. Its exceptions are reported on standard error
template <class Options, class Measure>
int run_program(const char* name, const char* what, int argc, char** argv, const Measure& measure) {
  Options options;
  CLI::App app(what);
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace tessera::bench
