// Runs many problems (lapack_problem.hpp) as one batch of one of LAPACK's routines on an implementation of the device
// routines, in any of its forms. All matrices and arrays lie in one image between guards, so that any write besides
// results shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/lapack_batch.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_problem.hpp"
#include "tests/device_api/runner.hpp"

namespace tessera::test {

struct LapackPlacement {
  BatchForm form = BatchForm::sizes;
  bool with_bounds = true;  ///< the largest sizes, else 0 if that is allowed
  struct Bounds {
    index_t m = 0, n = 0, nrhs = 0;
  };
  std::optional<Bounds> bounds = {};  ///< other bounds
  bool with_info = true;              ///< else none, if it may be missing
  index_t workspace_problems = 0;     ///< for so many problems at once; 0: for all
  index_t workspace_order = 0;        ///< for so many rows; 0: for those of the largest problem
  bool misaligned = false;            ///< matrices and numbers begin one element behind an aligned address
  bool dense = false;                 ///< matrices lie one element apart
  /// The problem at each place of the batch; empty: problem i at place i. A problem at several places must have the
  /// same bits in all of them.
  std::vector<std::size_t> order = {};
  /// A bad argument of the problem at a place.
  struct Bad {
    std::size_t place;
    Parameter argument;
  };
  std::optional<Bad> bad = {};
};

template <class Element>
bool same_bits(const std::vector<Element>& one, const std::vector<Element>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(Element)) == 0);
}

class LapackRunner {
 public:
  explicit LapackRunner(Implementation& implementation) : implementation_(implementation), memory_(implementation) {}

  /// Runs the problems and copies their results back, info included. Operands that a routine only reads, the other
  /// triangle and the padding between columns must be unchanged, and so must every bad problem.
  template <Scalar T>
  void run(const LapackVariant& variant, std::vector<LapackProblem<T>>& problems, const LapackPlacement& placement) {
    if (placement.form == BatchForm::wide_sizes)
      run_as<T, std::int64_t>(variant, problems, placement);
    else
      run_as<T, int>(variant, problems, placement);
  }

 private:
  /// One matrix of all problems, or their pivots, and the array of their addresses if there is one.
  struct Placed {
    std::vector<std::size_t> at = {};
    std::size_t array = 0;
  };
  struct PlacedNumbers {
    std::size_t at;
    kernels::NumberOfEach* of_batch;
  };

  template <Scalar T, class Integer>
  void run_as(const LapackVariant& variant, std::vector<LapackProblem<T>>& problems, const LapackPlacement& placement) {
    using Parameter = Parameter;
    const Routine routine = variant.routine;
    const bool has_sizes = has_arrays(placement.form), has_b = solves(routine);
    std::vector<std::size_t> order = placement.order;
    if (order.empty()) {
      order.resize(problems.size());
      std::iota(order.begin(), order.end(), 0);
    }
    const auto at_place = [&](std::size_t place) -> LapackProblem<T>& { return problems[order[place]]; };
    const std::size_t count = order.size();
    kernels::LapackBatch batch;
    batch.routine = routine;
    batch.type = scalar_type_of<T>();
    batch.uplo = variant.uplo;
    batch.op = variant.op;
    batch.count = static_cast<index_t>(count);
    batch.incx = variant.incx;
    batch.tiny = variant.tiny;
    batch.is_wide = sizeof(Integer) == sizeof(std::int64_t);
    set_bounds(batch, problems, placement);

    DeviceImage image(memory_);
    const std::size_t shift_of_numbers = placement.misaligned ? sizeof(Integer) : 0;
    std::vector<PlacedNumbers> numbers;
    const auto place_number = [&](Parameter parameter, auto value_of, kernels::NumberOfEach& of_batch) {
      if (position_of(routine, parameter) == 0) return;
      of_batch.of_all = has_sizes ? 0 : value_of(at_place(0));
      if (!has_sizes) return;
      std::vector<Integer> values;
      for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<Integer>(value_of(at_place(i))));
      if (placement.bad && placement.bad->argument == parameter)
        values[placement.bad->place] = is_size(parameter) ? -1 : 0;
      numbers.push_back({image.place(values, shift_of_numbers), &of_batch});
    };
    using Problem = LapackProblem<T>;
    place_number(
        Parameter::m, [](const Problem& problem) { return problem.m; }, batch.m);
    place_number(
        Parameter::n, [](const Problem& problem) { return problem.n; }, batch.n);
    place_number(
        Parameter::nrhs, [](const Problem& problem) { return problem.nrhs; }, batch.nrhs);
    place_number(
        Parameter::lda, [](const Problem& problem) { return problem.lda; }, batch.lda);
    place_number(
        Parameter::ldb, [](const Problem& problem) { return problem.ldb; }, batch.ldb);
    place_number(
        Parameter::k1, [](const Problem& problem) { return problem.k1; }, batch.k1);
    place_number(
        Parameter::k2, [](const Problem& problem) { return problem.k2; }, batch.k2);
    const bool has_info = position_of(routine, Parameter::info) != 0 && (placement.with_info || needs_info(routine));
    std::vector<Integer> infos(has_info ? count : 0, Integer{12345});
    const std::size_t info_at = image.place(infos, shift_of_numbers);
    kernels::LapackBatch of_workspace = batch;
    if (placement.workspace_problems != 0) of_workspace.count = placement.workspace_problems;
    of_workspace.max_n = placement.workspace_order;
    for (const Problem& problem : problems) of_workspace.max_n = std::max(of_workspace.max_n, problem.n);
    const std::size_t workspace_bytes = implementation_.lapack_workspace_bytes(of_workspace);
    const std::size_t workspace = image.place(std::vector<std::byte>(workspace_bytes), 0);

    Placed A, B, ipiv;
    std::vector<std::vector<T>> of_a, of_b;
    std::vector<std::vector<Integer>> of_ipiv;
    for (std::size_t i = 0; i < count; ++i) {
      of_a.push_back(at_place(i).A);
      of_b.push_back(at_place(i).B);
      of_ipiv.emplace_back(at_place(i).ipiv.begin(), at_place(i).ipiv.end());
    }
    const bool has_pivots = position_of(routine, Parameter::ipiv) != 0 && variant.with_pivots;
    for (Placed* const one : {&A, &B, &ipiv}) {
      if (placement.form != BatchForm::strides)
        one->array = image.place(std::vector<std::byte*>(count), placement.misaligned ? sizeof(void*) : 0);
    }
    place_each(image, of_a, placement, A);
    if (has_b) place_each(image, of_b, placement, B);
    if (has_pivots) place_each(image, of_ipiv, placement, ipiv);

    std::byte* const memory = image.address();
    for (const PlacedNumbers& one : numbers) {
      one.of_batch->of_each = memory + one.at;
      one.of_batch->is_wide = batch.is_wide;
    }
    put_addresses(image, A, of_a, memory, placement, batch.A);
    if (has_b) put_addresses(image, B, of_b, memory, placement, batch.B);
    if (has_pivots) put_addresses(image, ipiv, of_ipiv, memory, placement, batch.ipiv);
    if (has_info) batch.info = memory + info_at;
    if (workspace_bytes > 0) implementation_.set_workspace(memory + workspace, workspace_bytes);
    image.send();
    implementation_.run_lapack_batch(batch);
    if (workspace_bytes > 0) implementation_.set_workspace(nullptr, 0);
    image.receive();

    image.take(infos, info_at);
    image.forget(workspace, workspace_bytes);
    const bool writes_a = factors(routine) || inverts(routine) || routine == Routine::laswp;
    const bool writes_pivots = routine == Routine::getrf || routine == Routine::gesv;
    std::vector<bool> is_taken(problems.size());
    for (std::size_t i = 0; i < count; ++i) {
      Problem result = at_place(i);
      const bool is_first = !is_taken[order[i]];
      is_taken[order[i]] = true;
      if (has_info) result.info = infos[i];
      if (!placement.bad || placement.bad->place != i) {
        if (writes_a) image.take(result.A, A.at[i]);
        if (has_b) image.take(result.B, B.at[i]);
        if (writes_pivots) {
          image.take(of_ipiv[i], ipiv.at[i]);
          result.ipiv.assign(of_ipiv[i].begin(), of_ipiv[i].end());
        }
        expect_beside_as_before(variant, result, of_a[i], of_b[i]);
      }
      if (!is_first && !(same_bits(result.A, at_place(i).A) && same_bits(result.B, at_place(i).B) &&
                         result.ipiv == at_place(i).ipiv && result.info == at_place(i).info))
        ADD_FAILURE() << "problem " << order[i] << " has another result at place " << i;
      at_place(i) = std::move(result);
    }
    EXPECT_TRUE(image.is_as_before()) << "something beside the results was written";
  }

  template <Scalar T>
  static void set_bounds(kernels::LapackBatch& batch, const std::vector<LapackProblem<T>>& problems,
                         const LapackPlacement& placement) {
    const bool is_needed = inverts(batch.routine) || !has_arrays(placement.form);
    if (placement.bounds) {
      batch.max_m = placement.bounds->m;
      batch.max_n = placement.bounds->n;
      batch.max_nrhs = placement.bounds->nrhs;
    } else if (placement.with_bounds || is_needed) {
      for (const LapackProblem<T>& problem : problems) {
        batch.max_m = std::max(batch.max_m, problem.m);
        batch.max_n = std::max(batch.max_n, problem.n);
        batch.max_nrhs = std::max(batch.max_nrhs, problem.nrhs);
      }
    }
  }

  template <class Element>
  static void place_each(DeviceImage& image, const std::vector<std::vector<Element>>& all,
                         const LapackPlacement& placement, Placed& placed) {
    const std::size_t shift = placement.misaligned ? sizeof(Element) : 0;
    if (placement.form != BatchForm::strides && !placement.dense) {
      for (const std::vector<Element>& one : all) placed.at.push_back(image.place(one, shift));
      return;
    }
    std::vector<Element> together;
    for (const std::vector<Element>& one : all) {
      placed.at.push_back(together.size() * sizeof(Element));
      together.insert(together.end(), one.begin(), one.end());
      together.insert(together.end(), placement.dense ? 1 : 5, Element(-7));
    }
    const std::size_t begin = image.place(together, shift);
    for (std::size_t& at : placed.at) at += begin;
  }

  /// The addresses are null if a problem has nothing to do.
  template <class Element>
  static void put_addresses(DeviceImage& image, const Placed& placed, const std::vector<std::vector<Element>>& all,
                            std::byte* memory, const LapackPlacement& placement,
                            kernels::UntypedMatrixOfEach& of_batch) {
    if (placement.form == BatchForm::strides) {
      of_batch.first = memory + placed.at.front();
      if (placed.at.size() > 1)
        of_batch.distance = static_cast<index_t>((placed.at[1] - placed.at[0]) / sizeof(Element));
      return;
    }
    std::vector<std::byte*> addresses;
    for (std::size_t i = 0; i < all.size(); ++i) addresses.push_back(all[i].empty() ? nullptr : memory + placed.at[i]);
    image.replace(placed.array, addresses);
    of_batch.of_each = memory + placed.array;
  }

  template <Scalar T>
  static void expect_beside_as_before(const LapackVariant& variant, const LapackProblem<T>& result,
                                      const std::vector<T>& A, const std::vector<T>& B) {
    const auto is_same = [](const T& one, const T& other) { return std::memcmp(&one, &other, sizeof(T)) == 0; };
    for (index_t at = 0; at < static_cast<index_t>(A.size()); ++at) {
      const index_t i = at % result.lda, j = at / result.lda;
      if (i < result.m && is_stored(variant, i, j)) continue;
      if (!is_same(result.A[static_cast<std::size_t>(at)], A[static_cast<std::size_t>(at)])) {
        ADD_FAILURE() << "(" << i << ", " << j << ") beside A was written";
        return;
      }
    }
    for (index_t at = 0; at < static_cast<index_t>(B.size()); ++at) {
      if (at % result.ldb < result.n ||
          is_same(result.B[static_cast<std::size_t>(at)], B[static_cast<std::size_t>(at)]))
        continue;
      ADD_FAILURE() << "something beside B was written";
      return;
    }
  }

  Implementation& implementation_;
  DeviceMemory memory_;
};

}  // namespace tessera::test
