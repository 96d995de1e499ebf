// The common parts of the programs in bench/: medians, options, the report, and products of which checks are made.
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/frame/linear_maps.hpp"
#include "bench/frame/options.hpp"
#include "bench/frame/report.hpp"
#include "bench/frame/timing.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera::bench {
namespace {

TEST(BenchFrame, MediansAreTheMiddleOrTheLargerOfTheTwoThere) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

struct Options : Measuring {
  std::vector<int> sizes = {4, 8};
  std::vector<std::string> types = {"s", "d"};

  void add_to(CLI::App& app) {
    add_numbers(app, "--sizes", sizes, "sizes");
    add_names(app, "--types", types, {"s", "d", "z"}, "types");
    Measuring::add_to(app);
    add_time_budget_to(app);
  }
};

template <class Measure>
int status_of(std::vector<std::string> words, const Measure& measure) {
  words.insert(words.begin(), "program");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return run_program<Options>("program", "what it does", static_cast<int>(arguments.size()), arguments.data(), measure);
}

TEST(BenchFrame, ListsAreSeparatedByCommas) {
  Options given;
  const auto keep = [&](const Options& options) {
    given = options;
    return true;
  };
  EXPECT_EQ(status_of({"--sizes", "1,2,3", "--types", "z", "--groups", "5"}, keep), 0);
  EXPECT_EQ(given.sizes, (std::vector{1, 2, 3}));
  EXPECT_EQ(given.types, (std::vector<std::string>{"z"}));
  EXPECT_EQ(given.groups, 5);
  for (const char* const wrong : {"--sizes=0", "--types=c", "--groups=0", "--other=1"})
    EXPECT_NE(status_of({wrong}, keep), 0) << wrong;
}

TEST(BenchFrame, AProgramEndsWithWhatItsMeasurementSays) {
  EXPECT_EQ(status_of({}, [](const Options&) { return false; }), 1);
  EXPECT_EQ(status_of({}, [](const Options&) -> bool { throw std::runtime_error("no GPU"); }), 1);
}

TEST(BenchFrame, AReportKeepsWhatFailedAndGoesOn) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("report.json");
  Report report(file);
  report.json() = {{"gpu", "X"}};
  const auto tell = [](const nlohmann::json&) {};
  report.add(
      "results", {{"n", 1}}, [](nlohmann::json& result) { result["seconds"] = 2.0; }, tell);
  report.add(
      "results", {{"n", 2}}, [](nlohmann::json&) { throw std::runtime_error("differs"); }, tell);
  EXPECT_FALSE(report.finish());
  const nlohmann::json read = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(read["gpu"], "X");
  EXPECT_EQ(read["results"], (nlohmann::json{{{"n", 1}, {"seconds", 2.0}}, {{"n", 2}, {"error", "differs"}}}));
}

TEST(BenchFrame, NoCaseBeginsAfterTheTimeBudget) {
  Report report("", 1e-6);
  const Clock::time_point begin = Clock::now();
  while (seconds_since(begin) <= 1e-6) {
  }
  bool is_measured = false;
  report.add(
      "results", {}, [&](nlohmann::json&) { is_measured = true; }, [](const nlohmann::json&) {});
  EXPECT_FALSE(is_measured);
  EXPECT_TRUE(report.finish());
}

TEST(BenchFrame, ProductsUseTheirPartOfAMatrix) {
  constexpr std::size_t n = 300;  // on several threads
  const auto a = [](std::size_t i, std::size_t j) {
    return AnyScalar(static_cast<double>(i % 7) + 1, i == j ? 0 : static_cast<double>(j % 5));
  };
  Vector x;
  for (std::size_t i = 0; i < n; ++i) x.emplace_back(static_cast<double>(i % 3), static_cast<double>(i % 2));
  const auto whole_of = [&](Part part, std::size_t i, std::size_t j) -> AnyScalar {
    if (part == Part::unit_lower && i == j) return 1;
    if (i >= first_row(part, j) && i < last_row(part, j, n)) return a(i, j);
    return is_hermitian(part) ? std::conj(a(j, i)) : 0;
  };
  for (const Part part :
       {Part::whole, Part::lower, Part::unit_lower, Part::upper, Part::hermitian_lower, Part::hermitian_upper}) {
    for (const bool adjoint : {false, true}) {
      Vector expected(n);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t i = 0; i < n; ++i)
          expected[i] += (adjoint ? std::conj(whole_of(part, j, i)) : whole_of(part, i, j)) * x[j];
      }
      EXPECT_LT(distance1(product(part, a, x, adjoint), expected), 1e-9) << static_cast<int>(part) << adjoint;
    }
  }
  EXPECT_NEAR(norm1(
                  Part::lower, [](std::size_t, std::size_t) { return 2.0; }, n),
              2.0 * n, 1e-9);
}

}  // namespace
}  // namespace tessera::bench
