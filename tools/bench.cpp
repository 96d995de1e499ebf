// `tessera bench ROUTINE`: Tessera and its peers on the same matrices, in the same run, in turns. How to read it:
// docs/bench.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench_cases.hpp"
#include "bench_measurement.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "progress_bar.hpp"

namespace tessera::tools {
namespace {

/// @return exit status
int run_bench(const BenchOptions& options) {
  const std::vector<Size> sizes = sizes_of(options);
  const std::vector<Level3> cases = cases_of(options);
  Measurement measurement(options, calls_of(cases, sizes));
  BenchReport report(options, cases, measurement);
  {
    ProgressBar progress(static_cast<int>(cases.size() * sizes.size() * measurement.contestants().size()) *
                         (options.repeats + 1));
    // Sizes first: a run that is cut off has measured all routines at some sizes, and the file has them. The table is
    // by routine.
    for (const Size& size : sizes) {
      for (std::size_t c = 0; c < cases.size(); ++c) {
        const Level3 call = with_size(cases[c], size);
        report.add(c, call, measurement.measure(call, progress));
      }
    }
  }
  return report.finish() ? 0 : 1;
}

/// Each problem of the file is a case of its own. @return exit status
int run_problems(const BenchOptions& options) {
  const std::vector<Level3> problems = problems_of(options.problems_file);
  Measurement measurement(options, problems);
  BenchReport report(options, problems, measurement);
  {
    ProgressBar progress(static_cast<int>(problems.size() * measurement.contestants().size()) * (options.repeats + 1));
    for (std::size_t p = 0; p < problems.size(); ++p)
      report.add(p, problems[p], measurement.measure(problems[p], progress));
  }
  return report.finish() ? 0 : 1;
}

constexpr const char* formula_of(Routine routine) {
  switch (routine) {
    case Routine::gemm:
      return "C = alpha op(A) op(B) + beta C";
    case Routine::symm:
      return "C = alpha A B + beta C or alpha B A + beta C, A symmetric";
    case Routine::hemm:
      return "C = alpha A B + beta C or alpha B A + beta C, A Hermitian";
    case Routine::syrk:
      return "C = alpha op(A) op(A)^T + beta C, C symmetric";
    case Routine::herk:
      return "C = alpha op(A) op(A)^H + beta C, C Hermitian";
    case Routine::syr2k:
      return "C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, C symmetric";
    case Routine::her2k:
      return "C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C, C Hermitian";
    case Routine::gemmt:
      return "C = alpha op(A) op(B) + beta C, a triangle of C";
    case Routine::trmm:
      return "B = alpha op(A) B or alpha B op(A), A triangular";
    default:
      break;
  }
  return "solve op(A) X = alpha B or X op(A) = alpha B, A triangular";
}

void add_letter(CLI::App& app, const char* name, std::string& value, const std::vector<std::string>& letters,
                const char* help) {
  app.add_option(name, value, help)->check(CLI::IsMember(letters))->capture_default_str();
}

/// Adds the options that set how calls are measured, not which.
void add_common(CLI::App& app, BenchOptions& options) {
  app.add_option("--host", options.host, "pinned (page-locked), pageable, or auto: pinned if GPUs are used")
      ->check(CLI::IsMember({"auto", "pinned", "pageable"}));
  app.add_option("--repeats", options.repeats, "timed runs of each contestant")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--peer", options.peers, "cublasxt or cpu; may be repeated")
      ->delimiter(',')
      ->check(CLI::IsMember({"cublasxt", "cpu"}));
  app.add_option("--cublasxt-blocks", options.cublasxt_blocks, "block sizes of cublasXt; the best is in the table")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("B,...");
  app.add_option("--json", options.json_file,
                 "write everything to this file, as far as it is measured; - for standard output, at the end")
      ->type_name("FILE");
  app.add_flag("--in-core", options.in_core,
               "also what cuBLAS takes for as many operations in GPU memory, in turns, and the bound with it");
  app.add_flag("--check", options.check, "compare entries of the result with inner products in extended precision");
  options.settings.add_to(app);
}

Command add_problems(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("problems", "the problems of a file, one JSON object in a line (docs/bench.md)");
  auto options = std::make_shared<BenchOptions>();
  options->several = true;
  app->add_option("file", options->problems_file, "routine, sizes, letters, factors, leading dimensions")->required();
  add_common(*app, *options);
  return {app, [options] { return run_problems(*options); }};
}

Command add_subcommand(CLI::App& bench, const char* name, const char* help, const std::vector<Routine>& routines) {
  CLI::App* app = bench.add_subcommand(name, help);
  auto options = std::make_shared<BenchOptions>();
  options->several = routines.size() > 1;
  for (const Routine routine : routines) options->routines.emplace_back(name_of(routine));
  const auto any = [&routines](bool (*has)(const Level3&)) {
    return std::any_of(routines.begin(), routines.end(), [has](Routine routine) { return has(routine_call(routine)); });
  };

  CLI::Option* type =
      app->add_option("--type", options->types, "s, d, c or z")->check(CLI::IsMember({"s", "d", "c", "z"}));
  if (options->several) {
    type->delimiter(',')->type_name("TYPE,...");
    app->add_option("--routines", options->routines, "which; without it all that exist for the type")
        ->delimiter(',')
        ->check(CLI::IsMember(options->routines))
        ->type_name("NAME,...");
  } else {
    type->expected(1);
  }
  const auto add_sizes = [app](const char* option, std::vector<std::int64_t>& values, const char* text,
                               const char* metavar) {
    return app->add_option(option, values, text)->delimiter(',')->check(CLI::PositiveNumber)->type_name(metavar);
  };
  add_sizes("--n", options->n, "sizes, separated by commas", "N,...")->required();
  if (any(has_m)) add_sizes("--m", options->m, "rows of C; as --n if not given", "M,...");
  if (any([](const Level3& call) { return call.has_k(); })) {
    add_sizes("--k", options->k, "inner size; as --n if not given", "K,...");
  }
  if (any(has_side)) add_letter(*app, "--side", options->side, {"L", "R"}, "side of A: L or R");
  if (any(has_uplo)) add_letter(*app, "--uplo", options->uplo, {"L", "U"}, "stored triangle: L or U");
  if (any(has_op_a)) add_letter(*app, "--transa", options->transa, {"N", "T", "C"}, "N, T or C");
  if (any(has_op_b)) add_letter(*app, "--transb", options->transb, {"N", "T", "C"}, "N, T or C");
  if (any(has_diag)) add_letter(*app, "--diag", options->diag, {"N", "U"}, "diagonal of A: N (as stored) or U (ones)");
  app->add_option("--alpha", options->alpha, "factor of the product")->capture_default_str();
  if (any(has_beta)) app->add_option("--beta", options->beta, "factor of the old C")->capture_default_str();
  add_common(*app, *options);
  return {app, [options] { return run_bench(*options); }};
}

}  // namespace

std::vector<Command> add_bench(CLI::App& bench) {
  std::vector<Command> commands;
  for (const Routine routine : level3_routines) {
    commands.push_back(add_subcommand(bench, name_of(routine), formula_of(routine), {routine}));
  }
  commands.push_back(add_subcommand(bench, "all", "all routines, or some, in one table",
                                    {level3_routines.begin(), level3_routines.end()}));
  commands.push_back(add_problems(bench));
  return commands;
}

}  // namespace tessera::tools
