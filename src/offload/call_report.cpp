#include "offload/call_report.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "core/file.hpp"
#include "core/log.hpp"

namespace tessera::offload {
namespace {

void log_call(const std::string& what, double flops, const std::string& where, const Decision& decision,
              const CallSummary::Took& took) {
  const std::string start =
      took.start_s > 0 ? fmt::format(", {:.6f} s of it waiting for devices to start", took.start_s) : "";
  log_line(fmt::format("{} on {} ({}): {:.6f} s{}, {:.3f} TFLOP/s", what, where, to_text(decision), took.seconds, start,
                       took.seconds > 0 ? flops / took.seconds * 1e-12 : 0.0));
}

/// A program of many small calls seems to hang where all of them must go to devices.
void count_sent_in_vain(index_t volume, const Decision& decision) {
  constexpr std::uint64_t many = 1000;
  static std::atomic<std::uint64_t> calls = 0;  // of the process; orders nothing
  if (decision.reason != Reason::always || volume >= tiny_volume) return;
  if (calls.fetch_add(1, std::memory_order_relaxed) + 1 != many) return;
  log_line(
      fmt::format("{} calls that are too small for devices went there by TESSERA_OFFLOAD=always, where each takes "
                  "longer than on the "
                  "CPU: a number N in place of \"always\" leaves calls of m*n*k < N^3 to the CPU",
                  many));
}

std::string place_of(const CallRecord& record) {
  if (record.job == nullptr) return record.work.of == Work::Of::lapack ? "the CPU's LAPACK" : "the CPU BLAS";
  std::string where;
  for (const runtime::DeviceStatistics& device : record.job->devices)
    where += (where.empty() ? "" : ",") + device.device;
  return where;
}

void log_start_up(const runtime::StartUp& start_up) {
  log_line(fmt::format(
      "devices were found in {:.3f} s, opened in {:.3f} s, their memory reserved in {:.3f} s; first kernel {:.3f} s "
      "after the call",
      start_up.load_s, start_up.open_s, start_up.reserve_s, start_up.first_kernel_s));
}

/// One line appended in one write, so that the lines of several processes do not mix.
void append_line(const std::string& file, std::string line) {
  line += '\n';
  OutputFile output(file, OutputFile::Use::append);
  if (!output || !output.write(line)) log_line_once(fmt::format("cannot write TESSERA_STATS={}:", file), output.why());
}

}  // namespace

CallReport::CallReport(const Config& config)
    : config_(config), summary_(config.summary ? &CallSummary::of_process(*config.summary) : nullptr) {}

void CallReport::tell_user(const CallRecord& record, const std::string& text) const {
  log_call(text, record.work.flops, place_of(record), record.decision, record.took);
  if (record.job == nullptr) return;
  if (record.job->start_up) log_start_up(*record.job->start_up);
  count_sent_in_vain(record.work.volume, record.decision);
}

void CallReport::tell_observer(const CallObserver& observer, const CallRecord& record, std::string text) {
  ObservedCall call;
  call.what = std::move(text);
  call.where = place_of(record);
  call.why = to_text(record.decision);
  call.seconds = record.took.seconds;
  call.start_s = record.took.start_s;
  call.flops = record.work.flops;
  call.on_devices = record.job != nullptr && !record.job->devices.empty();
  call.is_part = record.is_part;
  if (record.job != nullptr) {
    const runtime::DeviceStatistics all = record.job->total();
    call.bytes_up = all.bytes_up;
    call.bytes_down = all.bytes_down;
  }
  observer.tell(call, observer.function, observer.data);
}

void CallReport::keep(const CallRecord& record) const {
  if (record.job != nullptr && !config_.stats_file.empty())
    append_line(config_.stats_file, runtime::to_json(*record.job));
  if (summary_ != nullptr && !record.is_part) summary_->record(record.work, record.decision, record.took);
}

}  // namespace tessera::offload
