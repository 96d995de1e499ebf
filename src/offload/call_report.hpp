// The reports of calls, for users who ask for them: a line per call on standard error (TESSERA_VERBOSE), a line of
// JSON per call on devices (TESSERA_STATS), counters that are printed at exit (TESSERA_SUMMARY).
#pragma once

#include <string>

#include "calls/lapack_call.hpp"
#include "calls/work.hpp"
#include "core/config.hpp"
#include "offload/call_summary.hpp"
#include "offload/call_time.hpp"
#include "offload/policy.hpp"
#include "runtime/statistics.hpp"

namespace tessera::offload {

/// A call that has returned. All reports are made of it.
struct CallRecord {
  const Work& work;
  const Decision& decision;
  CallSummary::Took took;                       ///< as its caller sees it
  const runtime::JobStatistics* job = nullptr;  ///< nullptr: the CPU has computed it
  bool is_part = false;                         ///< of a call that the summary counts as a whole
};

class CallReport {
 public:
  /// @param config outlives this
  explicit CallReport(const Config& config);

  /// Somebody wants to know of calls of any size.
  bool is_wanted() const { return config_.verbose || summary_ != nullptr; }
  /// @param text () gives the call in words, see text_of()
  template <class Text>
  void tell(const CallRecord& record, const Text& text) const {
    if (config_.verbose) tell_user(record, text());
    keep(record);
  }

 private:
  void tell_user(const CallRecord& record, const std::string& text) const;
  void keep(const CallRecord& record) const;

  const Config& config_;
  CallSummary* summary_;  ///< nullptr: nobody wants one
};

/// The letters of the Fortran call, in its order, and the sizes: "dtrsm LUNN m=20 n=30".
std::string text_of(const Level3& call);
/// Likewise, with the letters of the jobs: "dsyevd VL n=20", "dgesdd SS m=20 n=30", "dgels N m=30 n=20 nrhs=2".
std::string text_of(const LapackCall& call);
/// "dgemm_batch of 100000 products, 2 forms, mean of m*n*k 32^3", "dgesv_batch of 1000 problems, 1 form, mean of n 24"
std::string text_of_batch(const Work& batch);

}  // namespace tessera::offload
