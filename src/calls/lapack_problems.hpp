// Batches of LAPACK's routines in host memory (host_batch.hpp): column-major problems, and their forms.
//
// Invariant of what LapackProblemsBuilder makes: no problem is without effect (m, n >= 1, and B has columns where it is
// all that is written); info of those that are is 0 already.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calls/host_batch.hpp"
#include "calls/lapack.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The properties that problems of a batch share. LapackProblems names their routine.
struct LapackForm {
  Uplo uplo = Uplo::lower;  ///< of Cholesky factors
  Op op = Op::no_trans;     ///< getrs
  double tiny = 0;          ///< getrf_nopiv, see kernels::LapackBatch
  bool has_pivots = false;  ///< getrs and getri do without where rows were not interchanged
};

/// A is m x n in getrf and getrf_nopiv, n x n (m == n) in the others; B is n x nrhs.
struct LapackProblem {
  index_t m = 0, n = 0, nrhs = 0;
  void* A = nullptr;  ///< potrs and getrs only read it
  index_t lda = 0;    ///< elements, as is ldb
  void* B = nullptr;
  index_t ldb = 0;
  int* ipiv = nullptr;  ///< min(m, n); getrs and getri only read them
  int* info = nullptr;  ///< nullptr: nobody asks, and nothing can be told
  index_t form = 0;     ///< its number in LapackProblems::forms
};

/// Memory for threads that compute on the CPU, taken while nothing has been computed.
class SpaceOfThreads {
 public:
  static constexpr std::size_t alignment = 64;

  /// @throws std::bad_alloc
  void reserve(std::size_t bytes_each, int threads) {
    each_ = (bytes_each + alignment - 1) / alignment * alignment;
    memory_.resize(each_ * static_cast<std::size_t>(threads) + alignment);
  }
  /// @pre thread < threads
  std::byte* of(std::size_t thread) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (alignment - begin % alignment) + thread * each_;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t each_ = 0;
};

struct LapackProblems : HostBatch<LapackForm, LapackProblem> {
  Routine routine = Routine::getrf;
  SpaceOfThreads space;

  double flops_of(const LapackProblem& problem) const {
    return (is_complex(type) ? 4 : 1) * real_flops_of(routine, static_cast<double>(problem.m),
                                                      static_cast<double>(problem.n),
                                                      static_cast<double>(problem.nrhs));
  }
};

/// Of what belongs to the part of a matrix that a routine reads or writes.
constexpr Part part_of_factors(Routine routine, Uplo uplo) {
  if (!is_hermitian(routine)) return Part::full;
  return uplo == Uplo::lower ? Part::lower : Part::upper;
}

/// Problems of one size, form and leading dimension.
struct LapackGroup {
  LapackForm form;
  LapackProblem common;  ///< sizes and leading dimensions, checked
  MatricesOfGroup A, B, ipiv;
  int* info = nullptr;  ///< of the first; may be nullptr
  index_t count = 0;

  /// Whether anything is done. @param routine of the batch
  bool has_effect(Routine routine) const {
    if (count <= 0 || common.m == 0 || common.n == 0) return false;
    return factors(routine) || inverts(routine) || common.nrhs > 0;
  }
};

class LapackProblemsBuilder : public BatchBuilder<LapackProblems, 2> {
 public:
  LapackProblemsBuilder(Routine routine, ScalarType type) {
    batch_.routine = routine;
    batch_.type = type;
  }

  /// @throws std::bad_alloc
  void add(const LapackGroup& group) {
    if (!group.has_effect(batch_.routine)) return;
    LapackProblem problem = group.common;
    problem.form = number_of(group.form, key_of(group.form));
    for (index_t i = 0; i < group.count; ++i) {
      problem.A = group.A.writable(i);
      problem.B = group.common.nrhs > 0 ? group.B.writable(i) : nullptr;
      problem.ipiv = group.form.has_pivots ? static_cast<int*>(group.ipiv.writable(i)) : nullptr;
      problem.info = group.info != nullptr ? group.info + i : nullptr;
      batch_.problems.push_back(problem);
    }
  }

 private:
  static Key key_of(const LapackForm& form) {
    return {std::bit_cast<std::uint64_t>(form.tiny), static_cast<std::uint64_t>(form.uplo) * 8 +
                                                         static_cast<std::uint64_t>(form.op) * 2 +
                                                         static_cast<std::uint64_t>(form.has_pivots)};
  }
};

}  // namespace tessera
