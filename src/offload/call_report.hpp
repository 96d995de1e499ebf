// The reports of calls, for users who ask for them: a line per call on standard error (TESSERA_VERBOSE), a line of
// JSON per call on devices (TESSERA_STATS), counters that are printed at exit (TESSERA_SUMMARY), and the program's observer.
#pragma once

#include <string>

#include "calls/call_text.hpp"
#include "calls/work.hpp"
#include "core/config.hpp"
#include "offload/call_observer.hpp"
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
  bool is_wanted() const { return config_.verbose || summary_ != nullptr || call_observer() != nullptr; }
  /// @param text () gives the call in words, see text_of()
  template <class Text>
  void tell(const CallRecord& record, const Text& text) const {
    if (config_.verbose) tell_user(record, text());
    if (const CallObserver* const observer = call_observer()) tell_observer(*observer, record, text());
    keep(record);
  }

 private:
  void tell_user(const CallRecord& record, const std::string& text) const;
  static void tell_observer(const CallObserver& observer, const CallRecord& record, std::string text);
  void keep(const CallRecord& record) const;

  const Config& config_;
  CallSummary* summary_;  ///< nullptr: nobody wants one
};

}  // namespace tessera::offload
