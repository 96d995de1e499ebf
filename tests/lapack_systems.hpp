// Batches of LAPACK's problems in host memory for tests of the runtime and of the CPU's side: made, computed, and
// compared with the readable reference. Elements that must not be read are NaN, and must stay unchanged.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "calls/arguments.hpp"
#include "calls/lapack_problems.hpp"
#include "core/error.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "runtime/batches/lapack_chunks.hpp"
#include "runtime/runtime.hpp"

namespace tessera::test {

inline constexpr Routine host_lapack_routines[] = {Routine::potrf, Routine::potrs, Routine::posv,
                                                   Routine::potri, Routine::getrf, Routine::getrf_nopiv,
                                                   Routine::getrs, Routine::gesv,  Routine::getri};

/// Dominated by their diagonals, so that all of them serve as matrices and as factors. Problems alternate between two
/// forms.
template <Scalar T>
class Systems {
 public:
  Systems(Routine routine, unsigned seed) : routine_(routine), random_(seed) {}

  void add(index_t m, index_t n, index_t nrhs) {
    const bool has_m = position_of(routine_, Parameter::m) != 0;
    Item item{.m = has_m ? m : n, .n = n, .nrhs = solves(routine_) ? nrhs : 0};
    item.lda = item.m + 1;
    item.ldb = n + 2;
    item.form = form(static_cast<index_t>(items_.size()) % 2);
    item.a = room(item.lda * n);
    item.b = room(item.ldb * item.nrhs);
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = 0; i < item.m; ++i) {
        const Part part = part_of_factors(routine_, item.form.uplo);
        if ((part == Part::lower && i < j) || (part == Part::upper && i > j)) continue;
        value(item.a, i + j * item.lda) = element(i, j, n);
      }
    }
    for (index_t v = 0; v < item.nrhs; ++v) {
      for (index_t i = 0; i < n; ++i) value(item.b, i + v * item.ldb) = random_value();
    }
    item.pivots = pivots_.size();
    for (index_t i = 0; i < std::min(item.m, n); ++i)
      pivots_.push_back(factors(routine_) ? -7 : std::uniform_int_distribution<int>(int(i) + 1, int(n))(random_));
    pivots_.push_back(-77);
    items_.push_back(item);
    info_.push_back(12345);
  }
  /// `count` systems of 1 to `most` rows.
  void add_some(int count, index_t most) {
    const auto size = [&] { return std::uniform_int_distribution<index_t>(1, most)(random_); };
    for (int i = 0; i < count; ++i) add(size(), size(), 1 + size() / 3);
  }

  tessera::LapackProblems batch() {
    LapackProblemsBuilder builder(routine_, scalar_type_of<T>());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      LapackGroup group;
      group.form = item.form;
      group.common = {.m = item.m, .n = item.n, .nrhs = item.nrhs, .lda = item.lda, .ldb = item.ldb};
      group.A.first = values_.data() + item.a;
      group.B.first = values_.data() + item.b;
      group.ipiv.first = pivots_.data() + item.pivots;
      group.info = &info_[i];
      group.count = 1;
      builder.add(group);
    }
    return builder.take();
  }

  /// Solves all of them with the reference.
  void compute() { compute_range(batch()); }
  static void compute_range(const tessera::LapackProblems& batch, index_t first = 0, index_t last = -1) {
    for (index_t i = first; i < (last < 0 ? batch.size() : last); ++i)
      *batch.problem(i).info = kernels::run_lapack(nullptr, batch, batch.problem(i), true, nullptr);
  }

  void expect_same(const Systems& expected) const {
    using Real = typename RealOf<T>::type;
    const auto bound = Real(2000) * std::numeric_limits<Real>::epsilon();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool same = std::memcmp(&values_[i], &expected.values_[i], sizeof(T)) == 0 ||
                        std::abs(values_[i] - expected.values_[i]) <= bound * (1 + std::abs(expected.values_[i]));
      if (!same && ++wrong <= 3)
        ADD_FAILURE() << "element " << i << " of all: " << values_[i] << ", not " << expected.values_[i];
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(pivots_, expected.pivots_);
    EXPECT_EQ(info_, expected.info_);
  }
  index_t size() const { return static_cast<index_t>(items_.size()); }

 private:
  struct Item {
    index_t m = 0, n = 0, nrhs = 0, lda = 0, ldb = 0;
    LapackForm form = {};
    std::size_t a = 0, b = 0, pivots = 0;
  };

  LapackForm form(index_t number) const {
    return {.uplo = number == 0 ? Uplo::lower : Uplo::upper,
            .op = number == 0 || routine_ != Routine::getrs ? Op::no_trans : Op::conj_trans,
            .tiny = routine_ == Routine::getrf_nopiv ? 0.25 * static_cast<double>(number) : 0,
            .has_pivots = position_of(routine_, Parameter::ipiv) != 0 &&
                          (factors(routine_) || number == 0 || routine_ == Routine::getrs)};
  }
  std::size_t room(index_t elements) {
    const std::size_t at = values_.size();
    const double nan = std::nan("7");
    values_.resize(at + static_cast<std::size_t>(elements), scalar_cast<T>(AnyScalar(nan, nan)));
    return at;
  }
  T& value(std::size_t at, index_t offset) { return values_[at + static_cast<std::size_t>(offset)]; }
  T random_value() {
    std::uniform_real_distribution<double> value(-1, 1);
    const double real = value(random_);
    return scalar_cast<T>(AnyScalar(real, value(random_)));
  }
  T element(index_t i, index_t j, index_t n) {
    if (i == j) return scalar_cast<T>(AnyScalar(3 + std::real(random_value()), 0));
    return random_value() / T(static_cast<typename RealOf<T>::type>(n));
  }

  Routine routine_;
  std::mt19937 random_;
  std::vector<T> values_;
  std::vector<int> pivots_, info_;
  std::vector<Item> items_;
};

/// One batch of 200; the CPU finishes it if the devices refuse it. @return statistics if it ran on devices
inline constexpr int lapack_problems_of_batch = 200;
inline std::optional<runtime::JobStatistics> compute_lapack_batch(runtime::Runtime& runtime, Routine routine,
                                                                  unsigned seed) {
  Systems<double> systems(routine, seed), same(routine, seed);
  for (Systems<double>* const each : {&systems, &same}) each->add_some(lapack_problems_of_batch, 40);
  same.compute();
  const tessera::LapackProblems batch = systems.batch();
  std::optional<runtime::JobStatistics> statistics;
  try {
    statistics = runtime.run_batch(*runtime::packable(batch), [&](index_t first, index_t last) {
      Systems<double>::compute_range(batch, first, last);
    });
  } catch (const NoDeviceLeft&) {
    Systems<double>::compute_range(batch);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  systems.expect_same(same);
  return statistics;
}

}  // namespace tessera::test
