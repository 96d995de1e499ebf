// Protects code that must not be interrupted by a fork or the exit of the process, which may happen at any moment.
//
// A thread announces its work by a Pass:
//
//   computing  inside the CPU BLAS, whose locks and threads a child must not inherit half-way. fork() waits as long as
//              threads leave one after the other, but not for a thread that stays inside. Only if the CPU BLAS's own
//              handler would hang does fork() wait without bound (must_be_left()).
//   opening    loading the CPU BLAS: a child must not inherit a half-loaded library either. fork() waits for the end of
//              the load, but not for ever: the thread may need a lock that the forking one holds. If a child is made
//              meanwhile, cpu_blas_is_cut() is true in it: it must not use the CPU BLAS.
//              A call that is passed on to the program's LAPACK counts as computing. If LAPACK then calls one of our
//              symbols, that call is decided as any other. Until it returns, the thread counts as outside
//              (OutOfLapack).
//   driving    using devices. The exit of the process waits for it, and admits no further thread once it has begun.
//              fork() does not wait: a child does not use its parent's devices.
//
// While fork() waits, no thread is let in. Then the handlers of other libraries run. One of them may wait for a lock
// whose owner waits to be let in. After a while that thread is let in, and the child's CPU BLAS counts as cut. The
// handler of the CPU BLAS runs right after one of ours, and each of ours begins by waiting again. So no thread is
// inside then.
//
// Handlers for fork and exit run in the opposite order of their registration. So ours are registered again (watch)
// after each library with handlers of its own is opened: ours then run first, while that library still works. A fork
// that began before such a registration does not run the new handlers. It runs those that were registered when we were
// loaded, which is too late for the CPU BLAS: its own handlers may have run. If our handlers see a registration during
// the fork, the child's CPU BLAS counts as cut, too.
//
// The process ends in two steps. (1) exit() runs its handlers: devices are left (a driver may be gone next), and the
// CPU computes the work that they had left. All calls still return, since destructors may wait for threads that make
// calls. (2) Libraries are torn down: threads that are inside the CPU BLAS may finish. Any other thread but the exiting
// one stops for good when it wants in. Neither step waits without bound.
//
// A Pass costs one atomic increment and one decrement on a counter that few threads share. All functions are
// thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace tessera::process {

enum class Work : std::uint8_t { computing, opening, driving };

/// Held by a thread during such work. Passes may be nested. For computing and opening, the constructor waits while
/// another thread forks, though not for ever. It never returns if another thread is tearing down libraries.
class Pass {
 public:
  explicit Pass(Work work) noexcept : work_(work), admitted_(enter(work)) {}
  ~Pass() {
    if (admitted_) leave(work_);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  /// false: the process is ending, and no further driving may begin. All other work is always admitted.
  explicit operator bool() const { return admitted_; }

 private:
  friend class OutOfLapack;
  friend void enter_lapack() noexcept;
  friend void leave_lapack() noexcept;
  static bool enter(Work work) noexcept;
  static void leave(Work work) noexcept;

  Work work_;
  bool admitted_;
};

/// Around a call that goes on to the program's LAPACK: a Pass for computing. May be nested.
void enter_lapack() noexcept;
void leave_lapack() noexcept;

/// Held by each symbol of ours. If the thread is inside the program's LAPACK, and has no other pass for computing, it
/// counts as outside meanwhile: LAPACK holds no locks and uses no threads of the CPU BLAS then.
class OutOfLapack {
 public:
  OutOfLapack() noexcept;
  ~OutOfLapack();
  OutOfLapack(const OutOfLapack&) = delete;
  OutOfLapack& operator=(const OutOfLapack&) = delete;

 private:
  int passes_ = 0;  ///< to be restored at the end
};

/// Registers the handler for exit after those of `library`, a driver; once for each library, which an address
/// identifies.
void watch(const void* library) noexcept;

/// The same for a CPU BLAS, which also registers handlers for fork when it is loaded. Ours follow, unless nothing has
/// been loaded since watch_all_loaded().
/// @pre the thread is opening
void watch_loaded(const void* library) noexcept;

/// Declares a CPU BLAS whose own handler for fork never returns if a thread is inside while `threads()` > 1. fork()
/// then waits for all threads. While handlers run, no thread is let in before opening_patience is over.
void must_be_left(int (*threads)()) noexcept;

/// Must be called while libraries are loaded, by one that is initialized after all libraries whose handlers matter.
/// Without such a call the first pass for opening or driving registers handlers.
void watch_all_loaded() noexcept;

/// Whether the calling thread is inside the CPU BLAS or its LAPACK, by a Pass. If these call our symbols, the CPU must
/// compute the call, since the outer caller may hold a device.
bool is_computing() noexcept;

/// Whether the calling thread is making a child, and our handlers have begun: threads may wait for the end of that.
bool is_forking() noexcept;

/// Whether exit() has begun: devices are to be left.
bool ending() noexcept;

/// Stops the calling thread for good if another one is ending the process. For a thread that has met an error that only
/// the end of the process can cause.
void stop_if_ending() noexcept;

/// A number that differs between a process and its ancestors by fork, even if a process number is reused.
std::uint64_t identity() noexcept;

/// Whether this process is a child that must not use the CPU BLAS. Another thread was opening it or inside it when the
/// child was made, or began to use it during the fork.
bool cpu_blas_is_cut() noexcept;

/// The handlers' bodies. Public for tests and for the libraries' destructors.
void before_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;
void leave_devices() noexcept;
void leave_libraries() noexcept;

/// The time that fork() waits for the next thread to leave the CPU BLAS. Also the time that a thread waits to be let in
/// while the handlers of others run. A call that takes much longer than making a child is not worth the wait.
inline constexpr std::chrono::milliseconds computing_patience{50};
/// opening_patience: the time that fork() waits for the CPU BLAS to be loaded, and a thread for a child to be made.
/// ending_patience: the time that each step of the exit waits for threads at work.
inline constexpr std::chrono::seconds opening_patience{5};
inline constexpr std::chrono::seconds ending_patience{10};

}  // namespace tessera::process
