// Runs many problems (tests/level3_problem.hpp) as one batch on an implementation of the device routines, in any of its
// forms. All matrices and arrays lie in one image between guards, so that any write besides results and info shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "calls/arguments.hpp"
#include "kernels/level3_batch.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

struct BatchPlacement {
  BatchForm form = BatchForm::sizes;
  bool with_bounds = true;            ///< the largest sizes, else 0
  std::optional<Level3> bounds = {};  ///< other bounds
  bool with_info = true;
  bool with_workspace = false;    ///< of the size that the batch can use
  bool misaligned = false;        ///< matrices and numbers begin one element behind an aligned address
  bool without_operands = false;  ///< A and B are at `no_operands`
  const void* no_operands = nullptr;
  bool shares_a = false;  ///< all problems have the first one's A
  bool dense = false;     ///< matrices lie one element apart
  std::size_t gap = 5;    ///< otherwise the elements between matrices at a common distance
  /// The problem at each place of the batch; empty: problem i at place i. A problem at several places has a C at each
  /// of them, and must have the same bits in all.
  std::vector<std::size_t> order = {};
  /// A bad argument of the problem at a place.
  struct Bad {
    std::size_t place;
    Parameter argument;
  };
  std::optional<Bad> bad = {};
};

/// The value of a size or leading dimension in a call. The ldb of triangular routines is that of the result.
inline index_t value_of(const Level3& call, Parameter parameter) {
  switch (parameter) {
    case Parameter::m:
      return call.m;
    case Parameter::n:
      return call.n;
    case Parameter::k:
      return call.k;
    case Parameter::lda:
      return call.lda;
    case Parameter::ldb:
      return call.is_triangular() ? call.ldc : call.ldb;
    default:
      return call.ldc;
  }
}

class BatchRunner {
 public:
  explicit BatchRunner(Implementation& implementation) : implementation_(implementation), memory_(implementation) {}

  /// Runs the fixtures' problems, which share variant and factors, and copies their results back. A bad problem must
  /// not have been written.
  /// @return info by place; empty without info
  /// @tparam Fixture Level3Fixture, or HalfFixture (half_problem.hpp)
  template <class Fixture>
  std::vector<index_t> run(std::vector<Fixture>& problems, const BatchPlacement& placement) {
    if (placement.form == BatchForm::wide_sizes) return run_as<Fixture, std::int64_t>(problems, placement);
    return run_as<Fixture, int>(problems, placement);
  }

 private:
  template <class T>
  void submit(const kernels::Level3Batch& batch) {
    if constexpr (Scalar<T>)
      implementation_.run_batch(batch);
    else
      implementation_.run_half_batch({.stored = half_type_of<T>(), .products = batch});
  }

  template <class Fixture, class Integer>
  std::vector<index_t> run_as(std::vector<Fixture>& problems, const BatchPlacement& placement) {
    using T = typename Fixture::Element;
    const bool has_sizes = placement.form == BatchForm::sizes || placement.form == BatchForm::wide_sizes;
    std::vector<std::size_t> order = placement.order;
    if (order.empty()) {
      order.resize(problems.size());
      std::iota(order.begin(), order.end(), 0);
    }
    std::vector<Level3> calls;
    for (const std::size_t problem : order) calls.push_back(problems[problem].problem());

    kernels::Level3Batch batch;
    batch.common = calls.front();
    batch.count = static_cast<index_t>(calls.size());
    if (has_sizes) set_bounds(batch.common, calls, placement);
    batch.common.A = batch.common.B = batch.common.C = nullptr;

    DeviceImage image(memory_);
    // Arrays come first: their places do not depend on their contents.
    const std::size_t shift_of_numbers = placement.misaligned ? sizeof(Integer) : 0;
    std::vector<PlacedNumbers> numbers;
    const auto place_number = [&](Parameter parameter, kernels::NumberOfEach& of_batch) {
      if (position_of(batch.common.routine, parameter) == 0) return;
      of_batch.of_all = has_sizes ? 0 : value_of(calls.front(), parameter);
      if (!has_sizes) return;
      std::vector<Integer> values;
      for (const Level3& call : calls) values.push_back(static_cast<Integer>(value_of(call, parameter)));
      if (placement.bad && placement.bad->argument == parameter)
        values[placement.bad->place] = parameter < Parameter::lda ? -1 : 0;
      numbers.push_back({image.place(values, shift_of_numbers), &of_batch});
    };
    place_number(Parameter::m, batch.m);
    place_number(Parameter::n, batch.n);
    place_number(Parameter::k, batch.k);
    place_number(Parameter::lda, batch.lda);
    place_number(Parameter::ldb, batch.common.is_triangular() ? batch.ldc : batch.ldb);
    place_number(Parameter::ldc, batch.ldc);
    const bool has_info = has_sizes && placement.with_info;
    std::vector<Integer> info(has_info ? calls.size() : 0, Integer{12345});
    const std::size_t info_at = image.place(info, shift_of_numbers);
    const std::size_t workspace_bytes =
        placement.with_workspace ? implementation_.batch_workspace_bytes(batch.count) : 0;
    const std::size_t workspace = image.place(std::vector<std::byte>(workspace_bytes), 0);
    Placed A{.of_batch = &batch.A}, B{.of_batch = &batch.B}, C{.of_batch = &batch.C};
    for (Placed* const one : {&A, &B, &C}) {
      if (placement.form != BatchForm::strides)
        one->array = image.place(std::vector<std::byte*>(calls.size()), placement.misaligned ? sizeof(void*) : 0);
    }

    const auto place = [&](Placed& placed, auto matrix, bool is_shared) {
      std::vector<const std::vector<T>*> values;
      for (const std::size_t problem : order) values.push_back(&matrix(problems[problem]));
      place_matrices(image, values, placement, is_shared, placed);
    };
    const bool has_b = position_of(batch.common.routine, Parameter::B) != 0 && !batch.common.is_triangular();
    if (!placement.without_operands)
      place(
          A, [](Fixture & fixture) -> auto& { return fixture.A(); }, placement.shares_a);
    if (!placement.without_operands && has_b)
      place(
          B, [](Fixture & fixture) -> auto& { return fixture.B(); }, false);
    place(
        C, [](Fixture & fixture) -> auto& { return fixture.C(); }, false);

    std::byte* const memory = image.address();
    for (const PlacedNumbers& one : numbers) {
      one.of_batch->of_each = memory + one.at;
      one.of_batch->is_wide = sizeof(Integer) == sizeof(std::int64_t);
    }
    for (const Placed* const one : {&A, &B, &C}) {
      if (!one->at.empty()) put_addresses(image, *one, calls, memory, placement);
    }
    if (placement.without_operands) {
      batch.A.distance = batch.B.distance = 7;
      for (auto* const matrix : {&batch.A, &batch.B}) {
        if (matrix == &batch.B && !has_b) continue;
        (placement.form == BatchForm::strides ? matrix->first : matrix->of_each) = placement.no_operands;
      }
    }
    if (has_info) batch.info = memory + info_at;
    if (workspace_bytes > 0) implementation_.set_workspace(memory + workspace, workspace_bytes);
    image.send();
    submit<T>(batch);
    if (workspace_bytes > 0) implementation_.set_workspace(nullptr, 0);
    image.receive();
    std::vector<bool> is_taken(problems.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (placement.bad && placement.bad->place == i) continue;
      std::vector<T>& result = problems[order[i]].C();
      std::vector<T> here(result.size());
      image.take(here, C.at[i]);
      if (is_taken[order[i]] && !here.empty() && std::memcmp(here.data(), result.data(), here.size() * sizeof(T)) != 0)
        ADD_FAILURE() << "problem " << order[i] << " has other bits at place " << i;
      is_taken[order[i]] = true;
      result = here;
    }
    image.take(info, info_at);
    image.forget(workspace, workspace_bytes);
    EXPECT_TRUE(image.is_as_before()) << "something beside the results was written";
    return {info.begin(), info.end()};
  }

  static void set_bounds(Level3& common, const std::vector<Level3>& calls, const BatchPlacement& placement) {
    common.m = common.n = common.k = 0;
    if (!placement.with_bounds) return;
    if (placement.bounds) {
      common.m = placement.bounds->m;
      common.n = placement.bounds->n;
      common.k = placement.bounds->k;
      return;
    }
    for (const Level3& call : calls) {
      common.m = std::max(common.m, call.m);
      common.n = std::max(common.n, call.n);
      common.k = std::max(common.k, call.k);
    }
  }

  /// One operand of all problems, and the array of their addresses if there is one.
  struct Placed {
    kernels::UntypedMatrixOfEach* of_batch;
    std::vector<std::size_t> at = {};
    std::size_t array = 0;
  };
  struct PlacedNumbers {
    std::size_t at;
    kernels::NumberOfEach* of_batch;
  };

  template <class T>
  static void place_matrices(DeviceImage& image, const std::vector<const std::vector<T>*>& matrices,
                             const BatchPlacement& placement, bool is_shared, Placed& placed) {
    const std::size_t shift = placement.misaligned ? sizeof(T) : 0;
    if (placement.form != BatchForm::strides && !placement.dense) {
      for (const std::vector<T>* matrix : matrices) {
        const bool is_there = is_shared && !placed.at.empty();
        placed.at.push_back(is_there ? placed.at.front() : image.place(*matrix, shift));
      }
      return;
    }
    const std::size_t gap = placement.dense ? 1 : placement.gap;
    std::vector<T> all;
    for (const std::vector<T>* matrix : matrices) {
      placed.at.push_back(is_shared ? 0 : all.size() * sizeof(T));
      if (is_shared && !all.empty()) continue;
      all.insert(all.end(), matrix->begin(), matrix->end());
      std::array<std::byte, sizeof(T)> nan;
      nan.fill(std::byte{0xff});
      all.insert(all.end(), gap, std::bit_cast<T>(nan));
    }
    const std::size_t begin = image.place(all, shift);
    for (std::size_t& at : placed.at) at += begin;
    if (matrices.size() > 1)
      placed.of_batch->distance = static_cast<index_t>((placed.at[1] - placed.at[0]) / sizeof(T));
  }

  /// The addresses are null if a problem has nothing to do.
  static void put_addresses(DeviceImage& image, const Placed& placed, const std::vector<Level3>& calls,
                            std::byte* memory, const BatchPlacement& placement) {
    if (placement.form == BatchForm::strides) {
      placed.of_batch->first = memory + placed.at.front();
      return;
    }
    std::vector<std::byte*> addresses;
    for (std::size_t i = 0; i < calls.size(); ++i)
      addresses.push_back(calls[i].m == 0 || calls[i].n == 0 ? nullptr : memory + placed.at[i]);
    image.replace(placed.array, addresses);
    placed.of_batch->of_each = memory + placed.array;
  }

  Implementation& implementation_;
  DeviceMemory memory_;
};

}  // namespace tessera::test
