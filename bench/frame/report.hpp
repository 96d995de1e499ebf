// The report of a program that measures case after case, each within a time budget: JSON, and a line for people.
#pragma once

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/frame/timing.hpp"

namespace tessera::bench {

class Report {
 public:
  /// @param file           "": none
  /// @param time_budget_s  after which no case begins; 0: no limit
  explicit Report(std::string file, double time_budget_s = 0) : file_(std::move(file)), time_budget_s_(time_budget_s) {}

  nlohmann::json& json() { return json_; }

  /// A case of the array `list`, if there is time.
  /// @param result   describes the case. measure(result) fills it, and throws if the case fails
  /// @param tell     prints the rest of the line for what was measured
  template <class Measure, class Tell>
  void add(const char* list, nlohmann::json result, const Measure& measure, const Tell& tell) {
    if (time_budget_s_ > 0 && seconds_since(begin_) > time_budget_s_) {
      ++left_out_;
      return;
    }
    try {
      measure(result);
      tell(std::as_const(result));
    } catch (const std::exception& error) {
      result["error"] = error.what();
      std::printf(" FAILED: %s", error.what());
    }
    std::printf("\n");
    std::fflush(stdout);
    if (result.contains("error") || result.contains("wrong")) ++failed_;
    json_[list].push_back(std::move(result));
    // A machine that is lent for some minutes may be gone at the end.
    if (seconds_since(written_) > 3) save();
  }

  /// @return whether no case failed
  bool finish() {
    save();
    std::printf("%.0f s in all", seconds_since(begin_));
    if (left_out_ > 0) std::printf(", %d cases left out for lack of time (--time-budget)", left_out_);
    if (failed_ > 0) std::printf(", %d cases FAILED", failed_);
    std::printf("\n");
    return failed_ == 0;
  }

 private:
  void save() {
    written_ = Clock::now();
    if (file_.empty()) return;
    std::ofstream file(file_);
    file << json_.dump(1) << "\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + file_);
  }

  std::string file_;
  double time_budget_s_;
  nlohmann::json json_;
  Clock::time_point begin_ = Clock::now(), written_ = begin_;
  int failed_ = 0, left_out_ = 0;
};

}  // namespace tessera::bench
