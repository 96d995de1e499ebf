// Counters, gates and handlers behind process.hpp. All state is atomics in static memory and a few words per thread. So
// a child can repair it, whatever the other threads of its parent were doing.
#include "core/process.hpp"
#include "core/environment.hpp"
#include "core/loaded_objects.hpp"
#include "core/thread.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <utility>

namespace tessera::process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t works = 3;
constexpr std::size_t shards = 64;
constexpr std::size_t unknown_shard = shards;
constexpr std::size_t most_libraries = 16;

// Why a gate is closed.
constexpr unsigned for_fork = 1;
constexpr unsigned for_end = 2;

/// Counts the threads at one kind of work. An entering thread increments its shard and then reads `closed`. A closing
/// thread sets `closed` and then reads the shards. All four accesses are sequentially consistent, so at least one of
/// the two threads sees the other.
struct Gate {
  struct alignas(64) Shard {
    std::atomic<int> inside = 0;
  };
  alignas(64) std::atomic<unsigned> closed = 0;
  std::array<Shard, shards> counts;
};

struct Thread {
  std::size_t shard = unknown_shard;
  std::array<int, works> depth{};  ///< passes held, by work
  int in_lapack = 0;               ///< passes for computing taken by enter_lapack()
  /// Registrations of our handler that have run; several may prepare the same fork. A C library may run a handler that
  /// was registered during a fork only after it, so the count may be 0 there.
  int forks = 0;
  int for_blas = 0;  ///< of these, registrations that are for a CPU BLAS
  bool ends_process = false;
};

constinit std::array<Gate, works> gates;
constinit std::atomic<std::size_t> next_shard = 0;
/// 1 while a thread forks: one at a time, since the handlers of a BLAS do not expect two.
constinit std::atomic<unsigned> fork_turn = 0;
/// The step that the forking thread is at. It sets how long waiting threads wait; no ordering depends on it except in
/// enter().
enum class Phase : std::uint8_t {
  waiting,   ///< for the threads that are inside: no thread is let in
  handlers,  ///< handlers of other libraries run, or may run
  making,    ///< all of our handlers have run: the child may inherit any later change half done
};
constinit std::atomic<Phase> phase = Phase::waiting;
/// Whether the fork in progress makes a child that must not use the CPU BLAS. A thread that is let in during the fork
/// sets it before it goes in.
constinit std::atomic<bool> cuts = false;
/// For each CPU BLAS that fork must wait for, the function that returns its number of threads.
constinit std::array<std::atomic<int (*)()>, most_libraries> to_be_left{};
/// Handlers for fork that were registered for a CPU BLAS. Incremented after a registration and before its work begins.
/// Fork waits for that work, and this wait orders the accesses.
constinit std::atomic<int> registrations = 0;
/// The atomics below order nothing: each is read by itself.
constinit std::atomic<bool> cut = false;
constinit std::atomic<bool> has_begun_to_end = false;
constinit std::atomic<std::uint32_t> generation = 0;
/// The process that this state describes; 0: none yet. It differs from getpid() in a child whose fork began before our
/// handlers were registered.
constinit std::atomic<pid_t> told_of = 0;
constinit std::array<std::atomic<const void*>, most_libraries> watched{};
/// loads_so_far() at the call of watch_all_loaded(); 0: it was not called.
constinit std::atomic<unsigned long long> loads_watched = 0;

constinit thread_local Thread self;

Gate& gate_of(Work work) { return gates[static_cast<std::size_t>(work)]; }
int& depth_of(Work work) { return self.depth[static_cast<std::size_t>(work)]; }

std::atomic<int>& count_of(Gate& gate) {
  if (self.shard == unknown_shard) self.shard = next_shard.fetch_add(1, std::memory_order_relaxed) % shards;
  return gate.counts[self.shard].inside;
}

[[noreturn]] void stop() {
  const WithoutCancellation stays;
  for (;;) pause();
}

/// Resets the state in a child, where only the forking thread exists.
void begin_anew() {
  for (std::size_t work = 0; work < works; ++work) {
    for (auto& shard : gates[work].counts) shard.inside.store(0, std::memory_order_relaxed);
    if (self.depth[work] > 0) gates[work].counts[self.shard].inside.store(1, std::memory_order_relaxed);
    if (!self.ends_process) gates[work].closed.store(0, std::memory_order_relaxed);
    gates[work].closed.fetch_and(~for_fork, std::memory_order_relaxed);
  }
  if (!self.ends_process) has_begun_to_end.store(false, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_relaxed);
  fork_turn.store(0, std::memory_order_relaxed);
  told_of.store(getpid(), std::memory_order_relaxed);
  // In a child that catches up late, another thread may be waiting already.
  for (Gate& gate : gates) gate.closed.notify_all();
  fork_turn.notify_all();
}

/// Does the work of our handlers in a child if they were registered while it was being made. Must be called before any
/// wait.
/// @return whether this was such a child
bool catch_up() {
  pid_t before = told_of.load(std::memory_order_relaxed);
  const pid_t now = getpid();
  if (before == now || !told_of.compare_exchange_strong(before, now, std::memory_order_relaxed) || before == 0)
    return false;
  for (const Work work : {Work::opening, Work::computing}) {
    const auto& counts = gate_of(work).counts;
    if (std::any_of(counts.begin(), counts.end(), [](const Gate::Shard& shard) { return shard.inside > 0; }))
      cut.store(true, std::memory_order_relaxed);
  }
  begin_anew();
  return true;
}

void before_fork_for_blas() noexcept {
  ++self.for_blas;
  before_fork();
}

// If there is no memory for a handler, the only choice is to continue without it.
void add_exit_handler() {
  catch_up();
  static_cast<void>(std::atexit(leave_devices));
}

void add_handlers_for_blas() {
  add_exit_handler();
  if (pthread_atfork(before_fork_for_blas, after_fork_in_parent, after_fork_in_child) == 0)
    registrations.fetch_add(1, std::memory_order_relaxed);
}

/// The last of our handlers: all handlers that were registered before the fork began have run.
void finish_before_fork() {
  before_fork();
  // A lower count means that a thread began to use a CPU BLAS during this fork. The BLAS's own handler has run already,
  // and its locks and threads may be in use again.
  if (self.for_blas < registrations.load(std::memory_order_relaxed)) cuts.store(true, std::memory_order_relaxed);
  self.for_blas = 0;
  phase.store(Phase::making, std::memory_order_relaxed);
}

/// The only action at the library's load.
[[gnu::constructor]] void at_load() {
  static_cast<void>(pthread_atfork(finish_before_fork, after_fork_in_parent, after_fork_in_child));
}

/// @pre the thread has counted itself
bool may_pass(unsigned closed) {
  // The forking thread waits for this thread already, so this thread must not wait.
  if (depth_of(Work::computing) + depth_of(Work::opening) > 1) return true;
  return ((closed & for_fork) == 0 || self.forks > 0) && ((closed & for_end) == 0 || self.ends_process);
}

void close(Gate& gate, unsigned reason) { gate.closed.fetch_or(reason, std::memory_order_seq_cst); }

void open(Gate& gate, unsigned reason) {
  gate.closed.fetch_and(~reason, std::memory_order_seq_cst);
  gate.closed.notify_all();
}

void sleep_for_us(long microseconds) {
  const WithoutCancellation stays;
  const ErrnoKept errno_stays;
  const timespec moment{0, microseconds * 1000};
  nanosleep(&moment, nullptr);
}

/// The number of threads other than the calling one at this work.
int others_at(Work work) {
  int others = depth_of(work) > 0 ? -1 : 0;
  for (const Gate::Shard& shard : gate_of(work).counts) others += shard.inside.load(std::memory_order_seq_cst);
  return others;
}

/// Waits until no thread but the calling one is at this work. @pre the gate is closed
/// @return false if `patience` has run out
bool drain(Work work, Clock::duration patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  while (others_at(work) > 0) {
    if (Clock::now() >= deadline) return false;
    sleep_for_us(20);
  }
  return true;
}

bool some_blas_must_be_left() {
  return std::any_of(to_be_left.begin(), to_be_left.end(), [](const auto& entry) {
    int (*const threads)() = entry.load(std::memory_order_acquire);
    return threads != nullptr && threads() > 1;
  });
}

/// Waits for the computing threads to leave. Gives up when none has left for `patience` and no BLAS must be left.
/// @pre the gate is closed
/// @return false if a thread stays inside
bool drain_computing(Clock::duration patience) {
  int inside = std::numeric_limits<int>::max();
  Clock::time_point deadline;
  for (;;) {
    const int now_inside = others_at(Work::computing);
    if (now_inside <= 0) return true;
    if (now_inside < inside) deadline = Clock::now() + patience;
    inside = std::min(inside, now_inside);
    // Asked at each turn: a thread that has just come in may have started the threads of the BLAS.
    if (Clock::now() >= deadline && !some_blas_must_be_left()) return false;
    sleep_for_us(20);
  }
}

/// Waits until the gate changes or the thread may go in during the fork.
/// @return whether the gate is still closed as before
bool wait_for_fork(const Gate& gate, unsigned closed) {
  const Clock::time_point begin = Clock::now();
  while (gate.closed.load(std::memory_order_relaxed) == closed) {
    const Clock::duration waited = Clock::now() - begin;
    const Phase now = phase.load(std::memory_order_relaxed);
    if (now == Phase::waiting || waited < computing_patience) {
      sleep_for_us(50);
      continue;
    }
    // The handler that is running may be one that hangs if a thread is inside.
    const bool may_go_in = now == Phase::handlers && !some_blas_must_be_left();
    if (may_go_in || waited >= opening_patience) return true;
    sleep_for_us(50);
  }
  return false;
}

/// Calls `registration` unless the library is known already, and records the library.
template <class Registration>
void watch_once(const void* library, Registration registration) {
  bool registered = false;
  for (auto& known : watched) {
    const void* expected = known.load(std::memory_order_acquire);
    if (expected == nullptr) {
      // Recorded after the registration, so that no thread relies on it too early. Two threads may then register at
      // once, which the handlers allow.
      if (!registered) registration();
      registered = true;
      if (known.compare_exchange_strong(expected, library, std::memory_order_release)) return;
    }
    if (expected == library) return;
  }
}

}  // namespace

bool Pass::enter(Work work) noexcept {
  int& depth = depth_of(work);
  // The handlers protect the work that begins here. They are registered before the thread is counted, because watch()
  // may reset the counts.
  if (depth == 0 && work != Work::computing) {
    watch_once(&gates, [] {
      if (loads_watched.load(std::memory_order_relaxed) == 0) add_handlers_for_blas();
    });
  }
  if (++depth > 1) return true;
  Gate& gate = gate_of(work);
  std::atomic<int>& count = count_of(gate);
  for (;;) {
    count.fetch_add(1, std::memory_order_seq_cst);
    const unsigned closed = gate.closed.load(std::memory_order_seq_cst);
    if (closed == 0 || may_pass(closed)) [[likely]]
      return true;
    count.fetch_sub(1, std::memory_order_release);
    depth = 0;
    if (catch_up()) {
      depth = 1;
      continue;
    }
    if ((closed & for_end) != 0) {
      if (work == Work::driving) return false;
      stop();
    }
    const bool goes_in = wait_for_fork(gate, closed);
    depth = 1;
    if (!goes_in) continue;
    // Set before the thread is counted: a child that inherits any of its work inherits this flag, too.
    cuts.store(true, std::memory_order_seq_cst);
    count.fetch_add(1, std::memory_order_seq_cst);
    // Pairs with before_fork(), which stores Phase::waiting and then reads the counts: one of the two sees the other.
    if (phase.load(std::memory_order_seq_cst) != Phase::waiting) return true;
    count.fetch_sub(1, std::memory_order_release);
  }
}

void Pass::leave(Work work) noexcept {
  // The release pairs with the load in drain(): a thread that sees this one gone sees all that it did.
  if (--depth_of(work) == 0) count_of(gate_of(work)).fetch_sub(1, std::memory_order_release);
}

void enter_lapack() noexcept {
  Pass::enter(Work::computing);
  ++self.in_lapack;
}

void leave_lapack() noexcept {
  --self.in_lapack;
  Pass::leave(Work::computing);
}

OutOfLapack::OutOfLapack() noexcept {
  int& depth = depth_of(Work::computing);
  // With a pass of another kind the thread may hold a device.
  if (depth == 0 || depth != self.in_lapack) [[likely]]
    return;
  passes_ = std::exchange(self.in_lapack, 0);
  depth = 1;
  Pass::leave(Work::computing);
}

OutOfLapack::~OutOfLapack() {
  if (passes_ == 0) [[likely]]
    return;
  Pass::enter(Work::computing);
  depth_of(Work::computing) = self.in_lapack = passes_;
}

void watch(const void* library) noexcept { watch_once(library, add_exit_handler); }

void watch_loaded(const void* library) noexcept {
  watch_once(library, [] {
    // The handler of watch_all_loaded() runs right before those of the libraries that were loaded then. A handler
    // registered later would also run before the program's own. Such a handler may wait for a lock whose owner waits
    // for the end of the fork. The caller has a pass for opening, so fork waits for this query of the loader.
    const unsigned long long loads = loads_watched.load(std::memory_order_relaxed);
    loads == 0 || loads != loads_so_far() ? add_handlers_for_blas() : add_exit_handler();
  });
}

void must_be_left(int (*threads)()) noexcept {
  for (auto& entry : to_be_left) {
    int (*expected)() = nullptr;
    if (entry.compare_exchange_strong(expected, threads, std::memory_order_release) || expected == threads) return;
  }
}

void watch_all_loaded() noexcept {
  add_handlers_for_blas();
  loads_watched.store(loads_so_far(), std::memory_order_relaxed);
}

bool is_computing() noexcept { return depth_of(Work::computing) > 0; }

bool ending() noexcept { return has_begun_to_end.load(std::memory_order_relaxed); }

void stop_if_ending() noexcept {
  if (ending() && !self.ends_process) stop();
}

std::uint64_t identity() noexcept {
  catch_up();
  const auto number = static_cast<std::uint64_t>(getpid());
  return number << 32 | generation.load(std::memory_order_relaxed);
}

bool cpu_blas_is_cut() noexcept { return cut.load(std::memory_order_relaxed); }

void before_fork() noexcept {
  if (self.forks++ == 0) {
    catch_up();
    while (fork_turn.exchange(1, std::memory_order_acquire) != 0) fork_turn.wait(1, std::memory_order_relaxed);
    cuts.store(false, std::memory_order_relaxed);
  }
  phase.store(Phase::waiting, std::memory_order_seq_cst);
  const bool is_first = !cuts.load(std::memory_order_relaxed);
  close(gate_of(Work::opening), for_fork);
  if (!drain(Work::opening, is_first ? opening_patience : Clock::duration::zero())) cuts = true;
  close(gate_of(Work::computing), for_fork);
  // If the child's CPU BLAS is cut already, only a BLAS that must be left is worth a wait for the threads inside.
  if (!drain_computing(is_first ? computing_patience : Clock::duration::zero())) cuts = true;
  phase.store(Phase::handlers, std::memory_order_relaxed);
}

void after_fork_in_parent() noexcept {
  if (self.forks == 0 || --self.forks > 0) return;
  open(gate_of(Work::computing), for_fork);
  open(gate_of(Work::opening), for_fork);
  fork_turn.store(0, std::memory_order_release);
  fork_turn.notify_one();
}

void after_fork_in_child() noexcept {
  if (self.forks == 0) {
    catch_up();
    return;
  }
  if (--self.forks > 0) return;
  if (cuts.load(std::memory_order_relaxed)) cut.store(true, std::memory_order_relaxed);
  begin_anew();
}

bool is_forking() noexcept { return self.forks > 0; }

void leave_devices() noexcept {
  catch_up();
  if (has_begun_to_end.exchange(true, std::memory_order_relaxed)) return;
  self.ends_process = true;
  close(gate_of(Work::driving), for_end);
  drain(Work::driving, ending_patience);
}

void leave_libraries() noexcept {
  catch_up();
  self.ends_process = true;
  has_begun_to_end.store(true, std::memory_order_relaxed);
  for (const Work work : {Work::opening, Work::computing}) {
    close(gate_of(work), for_end);
    drain(work, ending_patience);
  }
}

namespace {
/// Runs while libraries are torn down. The CPU BLAS is torn down after this library. If the program brought it, it is
/// torn down after the drop-in library, which calls the same function.
[[gnu::destructor]] void at_unload() { leave_libraries(); }
}  // namespace

}  // namespace tessera::process
