// Whole problems of LAPACK (core/dense_problem.hpp) in host memory, by the LAPACK that comes with the CPU BLAS, as host devices
// solve them.
#pragma once

#include <array>
#include <functional>

#include "kernels/dense_solver.hpp"

namespace tessera::kernels {

/// Its entry points, all looked up at once; its library stays open meanwhile. Thread-safe once made.
class DenseLapack {
 public:
  /// Finds a function by its Fortran name without prefix and suffix, or nullptr (CpuBlas::fortran).
  using Find = std::function<void*(const char* name)>;
  /// @throws NotAvailable if it lacks one of them
  /// @param integer_bits of its arrays of integers
  explicit DenseLapack(const Find& find, int integer_bits = 32);

  /// The problem with the memory that it takes beside its matrices, ready to be computed: the result returns LAPACK's info,
  /// and tells in `outcome` how many eigenvalues it has found, or the rank. Overwrites A wherever LAPACK does.
  /// @pre no VectorJob is overwrite @throws std::bad_alloc
  std::function<int(DenseOutcome& outcome)> prepare(const DenseProblem& problem) const;

  /// Computes the problem now, by the one entry point that it takes. @return LAPACK's info @pre and @throws as above
  static int compute(const Find& find, int integer_bits, const DenseProblem& problem, DenseOutcome& outcome);

 private:
  void* function(const DenseProblem& problem) const {
    return functions_[static_cast<std::size_t>(problem.routine)][static_cast<std::size_t>(problem.type)];
  }

  int integer_bits_;
  std::array<std::array<void*, 4>, dense_routine_count> functions_{};
};

/// The largest element that the problem reads of one of its matrices, see DenseTelling::largest.
double largest_element(ScalarType type, const DenseOperand& operand);

/// DenseTelling::largest of the problem. @pre its matrices lie in host memory
void measure_here(const DenseProblem& problem, DenseTelling& telling);

}  // namespace tessera::kernels
