// Prints how long the schedules of the routines take on a modelled machine (tests/modelled_run.hpp). It shows what
// changes of order, tiling and prefetching do, before a GPU has seen them.
// usage: schedule_model [--pages] [--keep] [ROUTINE,...|all] [DEVICES,...] [N,...] [MEMORY_GB] [TILE] [TRACE]
// --pages  with the rates of copies out of pages of 64 KiB (docs/adr/0003-tall-tiles.md)
// --keep   devices keep old values of C for each other (docs/adr/0014-old-values.md)
// ROUTINE  a routine of Level 3, or potrf, getrf, geqrf: with its type (strsm), or without (double precision).
//          With :R, A is on the right (trmm:R). Single precision is computed at the rate of double precision.
// TRACE    a file for the last run, for `tessera trace draw`
//
// usage: schedule_model [--pages] [--keep] --problems FILE [DEVICES] [MEMORY_GB] [TILE]
// One line of JSON for each problem of the file (`tessera bench problems`, bench/survey.py): seconds, bound_s, tiling.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/trace.hpp"
#include "tests/modelled_run.hpp"
#include "tools/bench_cases.hpp"

namespace {

using namespace tessera;

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// "trsm" or "strsm"; false: neither
bool parse(const std::string& name, Level3& call) {
  for (const Routine routine : level3_routines) {
    call.routine = routine;
    for (const ScalarType type : scalar_types) {
      call.type = type;
      if (!exists(call.routine, type)) continue;
      if (name == name_of(call) || (type == ScalarType::d && name == name_of(call.routine))) return true;
    }
  }
  return false;
}

test::ModelledMachine machine_of(bool pages, bool keep, int devices, double memory_gb) {
  test::ModelledMachine machine = pages ? test::modelled_h200_in_pages(devices) : test::modelled_h200(devices);
  machine.memory_bytes = static_cast<std::size_t>(memory_gb * 1e9);
  machine.keeps_old_values = keep;
  return machine;
}

void run_problems(const std::string& file, test::ModelledMachine machine, index_t tile) {
  // Products of one H200 for some milliseconds.
  const RatesByType rates(50.5e12, 60e12, 50.5e12, 60e12);
  machine.rates.assign(static_cast<std::size_t>(machine.devices), rates);
  for (const Level3& call : tools::problems_of(file)) {
    machine.flops = rates[call.type];
    const test::ModelledRun run = test::modelled_run(machine, call, tile);
    const runtime::Tiling& t = run.tiling;
    std::printf("{\"routine\": \"%s\", \"seconds\": %.6f, \"bound_s\": %.6f, \"tiling\": [%ld, %ld, %ld]}\n",
                name_of(call).c_str(), run.seconds, run.bound_s, t.m, t.n, t.k);
  }
}

/// A call of the table: what it computes, and how it runs.
struct Case {
  std::string name;
  double flops = 0;
  std::function<test::ModelledRun(const test::ModelledMachine&, index_t tile)> run;
};

/// "potrf" or "dpotrf". @return no run if no factorization has this name
Case factorization_of(const std::string& name, index_t n) {
  for (const ScalarType type : scalar_types) {
    const auto is = [&](const char* routine) {
      return name == letter(type) + std::string(routine) || (type == ScalarType::d && name == routine);
    };
    const double cube = (is_complex(type) ? 4.0 : 1.0) * std::pow(static_cast<double>(n), 3);
    if (is("potrf")) {
      const routines::CholeskyCall call{.type = type, .n = n};
      return {name, cube / 3, [=](const auto& machine, index_t tile) { return modelled_run(machine, call, tile); }};
    }
    if (is("getrf")) {
      const routines::LuCall call{.type = type, .m = n, .n = n};
      return {name, cube * 2 / 3, [=](const auto& m, index_t tile) { return modelled_columns(m, call, tile); }};
    }
    if (is("geqrf")) {
      const routines::QrCall call{.type = type, .m = n, .n = n};
      return {name, cube * 4 / 3, [=](const auto& m, index_t tile) { return modelled_columns(m, call, tile); }};
    }
  }
  return {};
}

/// Of a square problem. @return no run where there is no such routine
Case case_of(const std::string& name, index_t n) {
  if (Case factorization = factorization_of(name, n); factorization.run) return factorization;
  Level3 call;
  const bool right = name.ends_with(":R");
  if (!parse(right ? name.substr(0, name.size() - 2) : name, call)) return {};
  if (right) call.side = Side::right;
  call.m = call.n = n;
  if (call.has_k()) call.k = n;
  call.alpha = 1.1;
  call.beta = call.is_triangular() ? 0 : 0.3;
  return {name_of(call), flops_of(call),
          [=](const auto& machine, index_t tile) { return modelled_run(machine, call, tile); }};
}

void append_trace(const char* file, const Case& shown, index_t n, const test::ModelledRun& run) {
  runtime::JobStatistics job{
      .routine = shown.name, .m = n, .n = n, .k = n, .seconds = run.seconds, .flops = shown.flops, .devices = {}};
  std::vector<std::string> names;
  for (std::size_t d = 0; d < run.operations.size(); ++d) names.push_back("model:" + std::to_string(d));
  for (const std::string& name : names) job.devices.push_back({.device = name});
  runtime::TraceFile(file).append(job, 0, names, run.operations);
}

}  // namespace

int main(int argc, char** argv) {
  const auto take = [&](const char* option) {
    const bool given = argc > 1 && std::string(argv[1]) == option;
    argc -= given;
    argv += given;
    return given;
  };
  const bool pages = take("--pages");
  const bool keep = take("--keep");
  if (take("--problems") && argc > 1) {
    const auto number = [&](int index, double otherwise) { return argc > index ? std::atof(argv[index]) : otherwise; };
    run_problems(argv[1], machine_of(pages, keep, static_cast<int>(number(2, 1)), number(3, 100)),
                 static_cast<index_t>(number(4, 0)));
    return 0;
  }
  const std::string names = argc > 1 && std::string(argv[1]) != "all" ? argv[1] : "gemm,symm,syrk,syr2k,trmm,trsm";
  const std::vector<std::string> devices = parts_of(argc > 2 ? argv[2] : "1,2,4");
  const std::vector<std::string> sizes = parts_of(argc > 3 ? argv[3] : "4096,8192,16384,32768");
  const double memory = argc > 4 ? std::atof(argv[4]) : 100;
  const index_t tile = argc > 5 ? std::atol(argv[5]) : 0;
  std::printf("%-6s %-7s", "", "devices");
  for (const std::string& n : sizes) std::printf(" | n = %-28s", n.c_str());
  std::printf("\n");
  for (const std::string& name : parts_of(names)) {
    for (const std::string& count : devices) {
      std::printf("%-6s %-7s", name.c_str(), count.c_str());
      for (const std::string& size : sizes) {
        const index_t n = std::atol(size.c_str());
        const Case shown = case_of(name, n);
        if (!shown.run) {
          std::fprintf(stderr, "no routine %s\n", name.c_str());
          return 1;
        }
        const test::ModelledMachine machine = machine_of(pages, keep, std::atoi(count.c_str()), memory);
        const test::ModelledRun run = shown.run(machine, tile);
        std::printf(" | %5.1f%% %6.1f TF %.4f s up %4.2f peers %4.2f %ldx%ldx%ld", 100 * run.fraction_of_bound(),
                    shown.flops / run.seconds * 1e-12, run.seconds,
                    static_cast<double>(run.bytes_up) / static_cast<double>(run.compulsory_up),
                    static_cast<double>(run.bytes_peer) / static_cast<double>(run.compulsory_up), run.tiling.m,
                    run.tiling.n, run.tiling.k);
        std::fflush(stdout);
        if (argc > 6) append_trace(argv[6], shown, n, run);
      }
      std::printf("\n");
    }
  }
}
