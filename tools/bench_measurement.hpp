// The contestants of `tessera bench` on the same matrices, in turns.
//
// For every routine, type and size, all contestants run once to warm up, then `repeats` times. Within each repeat they
// run one after the other, so that other activity of the machine affects all of them.
#pragma once

#include <memory>
#include <vector>

#include "bench_cases.hpp"
#include "bench_machine.hpp"
#include "contestants.hpp"
#include "host_matrix.hpp"
#include "progress_bar.hpp"
#include "told_job.hpp"

namespace tessera::tools {

inline constexpr int checked_entries = 400;

/// @pre there is at least one run
double median(std::vector<double> values);

/// The runs of one contestant at one size.
struct Series {
  std::vector<Outcome> runs;
  double worst_error = 0;  ///< relative to its bound, over all runs

  double median_s() const;
  /// Statistics of the run with the median time.
  JobStatistics middle_job() const;
};

/// The results of all contestants at one size, and the time of the kernels alone, in turns with them.
struct Measured {
  std::vector<Series> series;  ///< Tessera first
  std::vector<double> in_core_s;
};

class Measurement {
 public:
  /// Finds the machine, makes the contestants, and takes memory for the largest call. All references must outlive it.
  /// @throws std::runtime_error if something that was requested is missing
  /// @param calls all that will be measured
  Measurement(const BenchOptions& options, const std::vector<Level3>& calls);

  const BenchMachine& machine() const { return machine_; }
  /// Tessera first.
  const std::vector<std::unique_ptr<Contestant>>& contestants() const { return contestants_; }
  bool pinned() const;

  /// @param call without matrices: they are filled anew
  Measured measure(Level3 call, ProgressBar& progress);

 private:
  struct Matrices {
    HostMatrix A, B, C;
  };
  std::vector<std::unique_ptr<Contestant>> make_contestants(const std::vector<Level3>& calls);
  Matrices make_matrices(const std::vector<Level3>& calls) const;
  Level3 prepare(Level3 call);

  const BenchOptions& options_;
  BenchMachine machine_;
  std::vector<std::unique_ptr<Contestant>> contestants_;
  Matrices matrices_;  ///< large enough for each call
};

}  // namespace tessera::tools
