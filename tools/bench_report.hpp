// The report of `tessera bench`: a table for people, and JSON.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_cases.hpp"
#include "bench_measurement.hpp"
#include "text_table.hpp"

namespace tessera::tools {

class BenchReport {
 public:
  /// All references must outlive it.
  BenchReport(const BenchOptions& options, const std::vector<Level3>& cases, const Measurement& measurement);

  /// @param number of the case @param call that case with a size
  void add(std::size_t number, const Level3& call, const Measured& measured);
  /// Prints the table, and writes the results that have not been written. @return whether all results were correct
  bool finish() const;

 private:
  using json = nlohmann::ordered_json;

  json describe_case(const Level3& one) const;
  json describe(const Level3& call, const Measured& measured, std::vector<std::string>& cells) const;
  json document() const;
  bool json_to_stdout() const { return options_.json_file == "-"; }
  bool json_to_regular_file() const;
  void save() const;
  TextTable table() const;
  void print(std::FILE* out) const;

  const BenchOptions& options_;
  const std::vector<Level3>& cases_;
  const Measurement& measurement_;
  const BenchMachine& machine_;
  json documents_ = json::array();                           ///< by case
  std::vector<std::vector<std::vector<std::string>>> rows_;  ///< of the table, by case
  double worst_error_ = 0;
  std::string where_;  ///< the devices of the last call
};

}  // namespace tessera::tools
