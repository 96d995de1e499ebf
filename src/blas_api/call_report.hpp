// What is told of calls to who asked for it: a line per call on standard error (TESSERA_VERBOSE), a line of JSON per
// call on devices (TESSERA_STATS), counters that are printed at exit (TESSERA_SUMMARY).
#pragma once

#include <string>

#include "blas_api/batch_policy.hpp"
#include "blas_api/call_summary.hpp"
#include "blas_api/call_time.hpp"
#include "blas_api/lapack_policy.hpp"
#include "blas_api/policy.hpp"
#include "core/config.hpp"
#include "core/level3.hpp"
#include "runtime/statistics.hpp"

namespace tessera::api {

class CallReport {
 public:
  /// @param config outlives this
  explicit CallReport(const Config& config);

  /// Somebody wants to know of calls of any size.
  bool is_wanted() const { return config_.verbose || summary_ != nullptr; }

  /// Whether a call is one of the program's, or a part of one, which the summary counts as a whole.
  enum class Is : std::uint8_t { call, part };
  /// A call has returned. @param time of it; of one on devices, job.seconds and job.start_s are that
  void on_cpu(const Level3& call, index_t volume, const Verdict& verdict, const CallTime& time, Is is) const;
  void on_devices(const Level3& call, index_t volume, const Verdict& verdict, const runtime::JobStatistics& job,
                  Is is) const;
  /// @tparam Call LapackCall or DenseProblem
  template <class Call>
  void on_cpu(const Call& call, const LapackDemand& demand, const Verdict& verdict, const CallTime& time) const;
  template <class Call>
  void on_devices(const Call& call, const LapackDemand& demand, const Verdict& verdict,
                  const runtime::JobStatistics& job) const;
  void on_cpu(const BatchDemand& batch, const Verdict& verdict, const CallTime& time) const;
  void on_devices(const BatchDemand& batch, const Verdict& verdict, const runtime::JobStatistics& job) const;

 private:
  /// A call or a batch ran there. @param what it is, in words
  void tell_of_devices(const std::string& what, double flops, const Verdict& verdict,
                       const runtime::JobStatistics& job) const;

  const Config& config_;
  CallSummary* summary_;  ///< nullptr: nobody wants one
};

}  // namespace tessera::api
