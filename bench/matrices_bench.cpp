// The gain of programs that name their matrices (tessera/matrix.h): solves by factors that stay, products with a matrix
// that stays, and chains of products whose results are the next operands. Each case runs on plain memory and on named
// matrices, in contexts of the same devices (TESSERA_*). One JSON object a line on standard output: seconds of each
// step, those of the kernels of the last one, and whether some elements are right.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/frame/timing.hpp"
#include "tessera/lapack.hpp"
#include "tessera/matrix.hpp"

namespace tessera::bench {
namespace {

/// Columns in memory of the pool.
class Columns {
 public:
  Columns(std::int64_t rows, std::int64_t cols)
      : rows_(rows), cols_(cols), memory_(static_cast<double*>(tessera_malloc(bytes())), tessera_free) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  double* data() const { return memory_.get(); }
  double& at(std::int64_t i, std::int64_t j) const { return memory_.get()[j * rows_ + i]; }
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ * cols_) * sizeof(double); }

 private:
  std::int64_t rows_, cols_;
  std::unique_ptr<double, void (*)(void*)> memory_;
};

/// Numbers in (-scale, scale), by a linear congruence.
Columns random_columns(std::int64_t rows, std::int64_t cols, double scale, std::uint64_t seed) {
  Columns made(rows, cols);
  std::uint64_t state = seed;
  for (std::int64_t e = 0; e < rows * cols; ++e) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    made.data()[e] = (static_cast<double>(state >> 11) * 0x1p-52 - 1) * scale;
  }
  return made;
}

/// Of what a case has done.
struct Outcome {
  std::vector<double> steps;  ///< seconds
  double kernel_s = 0;        ///< of the last step
  double last_s = 0;          ///< until host memory has the results
  bool is_right = true;
};

/// The context of a run, and its matrices if they are named.
class Run {
 public:
  explicit Run(bool names) : names_(names), context_(names ? "TESSERA_RESIDENT=matrices" : "TESSERA_RESIDENT=off") {}

  const Context& context() const { return context_; }
  void name(const Columns& columns) {
    if (names_)
      named_.emplace_back(context_, TESSERA_COL_MAJOR, columns.rows(), columns.cols(), columns.data(), columns.rows());
  }
  void step(Outcome& outcome, const std::function<void()>& call) const {
    outcome.steps.push_back(seconds_of(call));
    outcome.kernel_s = context_.last_job_stats().kernel_s;
  }
  void end(Outcome& outcome) const {
    outcome.last_s = seconds_of([&] {
      for (const Matrix<double>& matrix : named_) matrix.sync();
    });
  }

 private:
  bool names_;
  Context context_;
  std::vector<Matrix<double>> named_;  // ends before the context
};

bool agree(double result, double expected, double scale) { return std::abs(result - expected) <= 1e-9 * scale; }

/// Some elements of C = A B.
bool is_product(const Columns& A, const Columns& B, const Columns& C) {
  bool is_right = true;
  for (const std::int64_t i : {std::int64_t{0}, A.rows() / 2, A.rows() - 1}) {
    for (const std::int64_t j : {std::int64_t{0}, B.cols() - 1}) {
      double sum = 0, size = 0;
      for (std::int64_t l = 0; l < A.cols(); ++l) {
        sum += A.at(i, l) * B.at(l, j);
        size += std::abs(A.at(i, l) * B.at(l, j));
      }
      is_right = is_right && agree(C.at(i, j), sum, size);
    }
  }
  return is_right;
}

void multiply(const Run& run, const Columns& A, const Columns& B, const Columns& C) {
  gemm<double>(run.context(), TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, A.rows(), B.cols(), A.cols(), 1,
               A.data(), A.rows(), B.data(), B.rows(), 0, C.data(), C.rows());
}

Outcome solve(bool names, std::int64_t n, int steps) {
  Outcome outcome;
  Run run(names);
  const Columns A = random_columns(n, n, 1, 1), b = random_columns(n, 1, 1, 2);
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) row[static_cast<std::size_t>(j)] = A.at(n / 2, j);
  const double right = b.at(n / 2, 0);
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  run.name(A);
  if (getrf<double>(run.context(), TESSERA_COL_MAJOR, n, n, A.data(), n, pivots.data()) != 0)
    throw std::runtime_error("the matrix has no factors");
  const Columns x(n, 1);
  for (int step = 0; step < steps; ++step) {
    std::copy_n(b.data(), n, x.data());
    run.step(outcome, [&] {
      static_cast<void>(getrs<double>(run.context(), TESSERA_COL_MAJOR, TESSERA_NO_TRANS, n, 1, A.data(), n,
                                      pivots.data(), x.data(), n));
    });
    double sum = 0, size = 1;
    for (std::int64_t j = 0; j < n; ++j) {
      sum += row[static_cast<std::size_t>(j)] * x.at(j, 0);
      size = std::max(size, std::abs(x.at(j, 0)));
    }
    outcome.is_right = outcome.is_right && std::abs(sum - right) <= 1e-6 * size * static_cast<double>(n);
  }
  run.end(outcome);
  return outcome;
}

Outcome subspace(bool names, std::int64_t n, int steps) {
  Outcome outcome;
  Run run(names);
  const Columns A = random_columns(n, n, 1, 3), X = random_columns(n, 64, 1, 4), Y(n, 64);
  run.name(A);
  for (int step = 0; step < steps; ++step) {
    run.step(outcome, [&] { multiply(run, A, X, Y); });
    outcome.is_right = outcome.is_right && is_product(A, X, Y);
  }
  run.end(outcome);
  return outcome;
}

Outcome chain(bool names, std::int64_t n, int steps) {
  Outcome outcome;
  Run run(names);
  const Columns A = random_columns(n, n, 1 / std::sqrt(static_cast<double>(n)), 5);
  Columns X = random_columns(n, n, 1, 6), Y(n, n);
  std::fill_n(Y.data(), n * n, 0.0);
  run.name(A);
  run.name(X);
  run.name(Y);
  for (int step = 0; step < steps; ++step) {
    run.step(outcome, [&] { multiply(run, A, X, Y); });
    std::swap(X, Y);
  }
  run.end(outcome);
  outcome.is_right = is_product(A, Y, X);
  return outcome;
}

struct Case {
  const char* name;
  Outcome (*run)(bool names, std::int64_t n, int steps);
  std::int64_t n;
};
constexpr Case cases[] = {{"solve", solve, 30000}, {"subspace", subspace, 16384}, {"chain", chain, 8192}};

}  // namespace
}  // namespace tessera::bench

int main(int count, char** arguments) {
  using namespace tessera::bench;
  CLI::App app("calls on named matrices beside calls on plain memory");
  std::vector<std::string> chosen = {"solve", "subspace", "chain"};
  double scale = 1;
  int steps = 10;
  app.add_option("--cases", chosen, "of solve, subspace, chain")->delimiter(',');
  app.add_option("--scale", scale, "factor of all orders");
  app.add_option("--steps", steps, "of each case");
  CLI11_PARSE(app, count, arguments);
  bool is_right = true;
  for (const Case& each : cases) {
    if (std::find(chosen.begin(), chosen.end(), each.name) == chosen.end()) continue;
    const auto n = static_cast<std::int64_t>(static_cast<double>(each.n) * scale);
    for (const bool names : {false, true}) {
      const Outcome outcome = each.run(names, n, steps);
      is_right = is_right && outcome.is_right;
      std::vector<double> later(outcome.steps.begin() + std::min<std::ptrdiff_t>(2, steps - 1), outcome.steps.end());
      std::printf("%s\n", nlohmann::json{{"case", each.name},
                                         {"n", n},
                                         {"named", names},
                                         {"median_s", median(std::move(later))},
                                         {"steps_s", outcome.steps},
                                         {"kernel_s", outcome.kernel_s},
                                         {"sync_s", outcome.last_s},
                                         {"right", outcome.is_right}}
                              .dump()
                              .c_str());
      std::fflush(stdout);
    }
  }
  return is_right ? 0 : 1;
}
