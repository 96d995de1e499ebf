// The reports of calls, for users who ask for them: a line per call on standard error (TESSERA_VERBOSE), a line of
// JSON per call on devices (TESSERA_STATS), counters that are printed at exit (TESSERA_SUMMARY).
#pragma once

#include <string>

#include "calls/level3.hpp"
#include "core/config.hpp"
#include "offload/batch_policy.hpp"
#include "offload/call_summary.hpp"
#include "offload/call_time.hpp"
#include "offload/lapack_policy.hpp"
#include "offload/policy.hpp"
#include "runtime/statistics.hpp"

namespace tessera::offload {

class CallReport {
 public:
  /// @param config outlives this
  explicit CallReport(const Config& config);

  /// Somebody wants to know of calls of any size.
  bool is_wanted() const { return config_.verbose || summary_ != nullptr; }

  /// Whether a call is one of the program's, or a part of one, which the summary counts as a whole.
  enum class Is : std::uint8_t { call, part };
  /// A call has returned. @param time of it; job.seconds and job.start_s hold that of a call on devices
  void on_cpu(const Level3& call, index_t volume, const Decision& decision, const CallTime& time, Is is) const;
  void on_devices(const Level3& call, index_t volume, const Decision& decision, const runtime::JobStatistics& job,
                  Is is) const;
  void on_cpu(const LapackCall& call, const LapackDemand& demand, const Decision& decision, const CallTime& time) const;
  void on_devices(const LapackCall& call, const LapackDemand& demand, const Decision& decision,
                  const runtime::JobStatistics& job) const;
  void on_cpu(const BatchDemand& batch, const Decision& decision, const CallTime& time) const;
  void on_devices(const BatchDemand& batch, const Decision& decision, const runtime::JobStatistics& job) const;

 private:
  /// A call or a batch ran there. @param what it is, in words
  void tell_of_devices(const std::string& what, double flops, const Decision& decision,
                       const runtime::JobStatistics& job) const;

  const Config& config_;
  CallSummary* summary_;  ///< nullptr: nobody wants one
};

}  // namespace tessera::offload
