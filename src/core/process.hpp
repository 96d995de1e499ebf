// What the process that we live in may do at any moment, fork and exit, kept away from code that cannot bear it.
//
// A thread says by a Pass what it is about to do:
//
//   computing  inside the CPU BLAS, whose locks and threads a child must not inherit half-way. fork() waits as long as
//              threads come out one after the other, but not for one that stays in. Only where the CPU BLAS's own
//              handler would hang it waits without bound (must_be_left()).
//   opening    loading the CPU BLAS: a child must not inherit a half-loaded library either. fork() waits for its end,
//              but not for ever, because the thread may wait for a lock that the forking one holds. A child that was
//              made nevertheless knows by cpu_blas_is_cut() that it must not use the CPU BLAS.
//              A call that has gone on to the program's LAPACK is the same, but for what LAPACK calls of ours meanwhile:
//              that is decided as any call, and until it returns the thread counts as outside (OutOfLapack).
//   driving    using devices. The end of the process waits for it; once that has begun nobody else is let in. fork()
//              does not wait: a child has nothing to do with devices.
//
// While fork() waits, nobody is let in. Then the handlers of other libraries run. One of them may wait for a lock whose
// owner waits to be let in: after a while that thread is let in, and the child's CPU BLAS counts as cut. The handler of
// the CPU BLAS runs right after one of ours, and each of ours begins by waiting anew: so no thread is inside then.
//
// Handlers for fork and exit run in the opposite order of their registration. So they are registered (watch) each time
// that a library with handlers of its own has been opened: ours then come first, while all of it still works. A fork
// that began before knows nothing of them. Those that are registered when we are loaded take part in it, too late for
// the CPU BLAS, whose own handlers may have run: if they see that others have been registered meanwhile, the child gets
// a cut CPU BLAS too.
//
// The process ends in two steps. (1) exit() runs its handlers: devices are left (a driver may be gone next), and what
// they have not computed the CPU computes; all calls still return, since destructors may wait for threads that make
// calls. (2) Libraries are torn down: threads that are inside the CPU BLAS may finish, any other but the exiting one
// that wants in stops there for good. Neither step waits without bound.
//
// A Pass costs one atomic increment and one decrement on a counter that few threads share. All functions are
// thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace tessera::process {

enum class Work : std::uint8_t { computing, opening, driving };

/// Held by a thread during such work. Passes may be nested. Waits while another thread forks (computing, opening; not
/// for ever), and for ever if libraries are being torn down by another thread.
class Pass {
 public:
  explicit Pass(Work work) noexcept : work_(work), admitted_(enter(work)) {}
  ~Pass() {
    if (admitted_) leave(work_);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  /// false: the process is ending, and there is to be no more driving. All other work is always admitted.
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

/// Held by each symbol of ours. If the thread is inside the program's LAPACK, and has no other pass for computing, it is outside
/// meanwhile. LAPACK holds no locks and uses no threads of the CPU BLAS then.
class OutOfLapack {
 public:
  OutOfLapack() noexcept;
  ~OutOfLapack();
  OutOfLapack(const OutOfLapack&) = delete;
  OutOfLapack& operator=(const OutOfLapack&) = delete;

 private:
  int passes_ = 0;  ///< that the thread has again afterwards
};

/// Registers the handler for exit after those of `library`, a driver, once for each: an address stands for it.
void watch(const void* library) noexcept;

/// The same for a CPU BLAS, which registers handlers for fork, too, when it is loaded: ours follow, unless nothing has
/// been loaded since watch_all_loaded(). @pre the thread is opening
void watch_loaded(const void* library) noexcept;

/// Of a CPU BLAS whose own handler for fork never returns if a thread is inside while `threads()` > 1: fork() waits for
/// all then, and while handlers run nobody is let in sooner than after opening_patience.
void must_be_left(int (*threads)()) noexcept;

/// To be called while libraries are loaded, by one that is set up after all whose handlers matter. Where nobody does,
/// the first pass for opening or driving registers handlers.
void watch_all_loaded() noexcept;

/// Whether the calling thread is inside the CPU BLAS or its LAPACK, by a Pass: symbols of ours that these call have to be
/// answered by the CPU, since whoever has called them may hold a device.
bool is_computing() noexcept;

/// Whether exit() has begun: devices are to be left.
bool ending() noexcept;

/// Stops the calling thread for good if another one is ending the process. For a thread that has met something that can
/// only be a consequence of that.
void stop_if_ending() noexcept;

/// Differs between a process and those that it was forked from, also where a process number is used again.
std::uint64_t identity() noexcept;

/// In a child: whether it must not use the CPU BLAS, because another thread was opening it or inside it when the child
/// was made, or had begun to use it after the fork had begun.
bool cpu_blas_is_cut() noexcept;

/// What the handlers do. Public for tests, and for the libraries' destructors.
void before_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;
void leave_devices() noexcept;
void leave_libraries() noexcept;

/// How long fork() waits for the next thread to leave the CPU BLAS, and how long a thread waits to be let in while the
/// handlers of others run. Calls that take much longer than making a child are not worth waiting for.
inline constexpr std::chrono::milliseconds computing_patience{50};
/// How long fork() waits for the CPU BLAS to be loaded, a thread for a child to be made, and each step of the end for
/// threads that are at work.
inline constexpr std::chrono::seconds opening_patience{5};
inline constexpr std::chrono::seconds ending_patience{10};

}  // namespace tessera::process
