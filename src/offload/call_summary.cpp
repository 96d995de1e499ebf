#include "offload/call_summary.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include "core/file.hpp"
#include "core/log.hpp"

namespace tessera::offload {
namespace {

/// Set once. Release pairs with the acquire loads of whoever finds it set.
std::atomic<CallSummary*> the_summary = nullptr;

std::int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// As ps shows it.
std::string name_of_process() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

}  // namespace

CallSummary& CallSummary::of_process(const std::string& file) {
  // No lock, in which a child could be caught that is forked meanwhile; of two threads that make one, one throws its
  // own away.
  if (CallSummary* const there = the_summary.load(std::memory_order_acquire)) return *there;
  auto made = std::make_unique<CallSummary>(file);
  CallSummary* first = nullptr;
  if (!the_summary.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) return *first;
  pthread_atfork(nullptr, nullptr, [] { the_summary.load(std::memory_order_acquire)->clear(); });
  std::atexit([] { the_summary.load(std::memory_order_acquire)->print(); });
  return *made.release();
}

CallSummary::CallSummary(std::string file) : file_(std::move(file)) { clear(); }

void CallSummary::print() const noexcept {
  try {
    const std::string report = text();
    if (report.empty()) return;
    OutputFile output(file_.empty() ? "/dev/stderr" : file_, OutputFile::Use::append);
    if ((!output || !output.write(report)) && !file_.empty())
      log_line(fmt::format("cannot write TESSERA_SUMMARY={}: {}", file_, output.why()));
  } catch (...) {  // no memory: there is no report then
  }
}

void CallSummary::clear() noexcept {
  begin_ns_.store(now_ns(), std::memory_order_relaxed);
  for (auto& of_routine : counters_) {
    for (auto& of_type : of_routine) {
      for (auto& of_size : of_type) {
        for (Counter& counter : of_size) {
          counter.calls.store(0, std::memory_order_relaxed);
          counter.nanoseconds.store(0, std::memory_order_relaxed);
          counter.flops.store(0, std::memory_order_relaxed);
        }
      }
    }
  }
  for (auto& count : reasons_) count.store(0, std::memory_order_relaxed);
  start_ns_.store(0, std::memory_order_relaxed);
}

int CallSummary::size_class_of(index_t volume) {
  return volume <= 1 ? 0 : (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(volume))) - 1) / 3;
}

void CallSummary::record(const Work& work, const Decision& decision, const Took& took) noexcept {
  const int size = size_class_of(work.mean_volume());
  Counter& counter = counters_[number_of(work.routine)][static_cast<std::size_t>(work.type)]
                              [static_cast<std::size_t>(size)][decision.offload ? on_devices : on_cpu];
  counter.calls.fetch_add(static_cast<std::uint64_t>(work.problems), std::memory_order_relaxed);
  counter.nanoseconds.fetch_add(static_cast<std::uint64_t>(took.seconds * 1e9), std::memory_order_relaxed);
  counter.flops.fetch_add(work.flops, std::memory_order_relaxed);
  reasons_[static_cast<std::size_t>(decision.reason)].fetch_add(1, std::memory_order_relaxed);
  if (took.start_s > 0) start_ns_.fetch_add(static_cast<std::uint64_t>(took.start_s * 1e9), std::memory_order_relaxed);
}

void CallSummary::Sum::add(const Counter& counter) {
  add(Sum{counter.calls.load(std::memory_order_relaxed),
          1e-9 * static_cast<double>(counter.nanoseconds.load(std::memory_order_relaxed)),
          counter.flops.load(std::memory_order_relaxed)});
}

void CallSummary::Sum::add(const Sum& other) {
  calls += other.calls;
  seconds += other.seconds;
  flops += other.flops;
}

std::string CallSummary::text() const {
  static constexpr const char* place_names[places] = {"devices", "CPU"};
  const auto row = [](std::string_view name, std::string_view size, int place, const Sum& sum) {
    return fmt::format("tessera: {:<8} {:<17} {:<8} {:>10} {:>12.6f} {:>10.3f}\n", name, size, place_names[place],
                       sum.calls, sum.seconds, sum.seconds > 0 ? sum.flops / sum.seconds * 1e-9 : 0.0);
  };
  std::string rows;
  Sum totals[places];
  for (const RoutineRow& routine_row : routine_rows) {
    for (const ScalarType type : scalar_types) {
      const Routine routine = routine_row.routine;
      const auto& of_type = counters_[number_of(routine)][static_cast<std::size_t>(type)];
      for (int size = 0; size < size_classes; ++size) {
        for (int place = 0; place < places; ++place) {
          Sum sum;
          sum.add(of_type[static_cast<std::size_t>(size)][static_cast<std::size_t>(place)]);
          if (sum.calls == 0) continue;
          totals[place].add(sum);
          rows += row(letter(type) + std::string(name_of(routine, type)),
                      fmt::format("{}-{}", 1 << size, (2 << size) - 1), place, sum);
        }
      }
    }
  }
  if (rows.empty()) return "";
  for (int place = 0; place < places; ++place) {
    if (totals[place].calls > 0) rows += row("all", "", place, totals[place]);
  }
  if (const std::uint64_t start_ns = start_ns_.load(std::memory_order_relaxed); start_ns > 0)
    rows += fmt::format("tessera: {:.6f} s of it waiting for devices to start\n", 1e-9 * static_cast<double>(start_ns));
  std::string reasons;
  for (int reason = 0; reason < reason_count; ++reason) {
    const std::uint64_t count = reasons_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
    if (count > 0) reasons += fmt::format("tessera: {:>10} x {}\n", count, words_of(static_cast<Reason>(reason)));
  }
  const double seconds = 1e-9 * static_cast<double>(now_ns() - begin_ns_.load(std::memory_order_relaxed));
  return fmt::format(
             "tessera: summary of process {} ({}), {:.3f} s\n"
             "tessera: {:<8} {:<17} {:<8} {:>10} {:>12} {:>10}\n",
             getpid(), name_of_process(), seconds, "routine", "cbrt(m*n*k)", "ran on", "calls", "seconds", "GFLOP/s") +
         rows + reasons;
}

}  // namespace tessera::offload
