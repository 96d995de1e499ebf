// Threads that live inside another program's process.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <thread>
#include <utility>

namespace tessera {

/// Starts a thread that takes no signals but those that its own instructions cause: the rest belongs to the program's
/// threads. What it causes is the program's, too: its handler may bring in the memory that the thread has touched, or
/// report a crash. Blocked, such a signal would end the process instead. @throws std::system_error
template <class F>
std::thread start_thread(F&& body) {
  sigset_t blocked;
  sigset_t old;
  sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&blocked, own);
  pthread_sigmask(SIG_SETMASK, &blocked, &old);
  std::thread thread;
  try {
    thread = std::thread(std::forward<F>(body));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return thread;
}

/// Gives way to other threads until `done()`, or until `patience` is over. For what comes sooner than a thread that
/// sleeps would be woken, which takes some tens of microseconds, on virtual machines hundreds. @return done()
template <class Done>
bool yield_until(Done&& done, std::chrono::microseconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - begin >= patience) return done();
    std::this_thread::yield();
  }
  return true;
}

/// Waits of the calling thread end when they should. Linux makes them up to 50 us longer, so that processors sleep
/// longer.
inline void wake_on_time() { prctl(PR_SET_TIMERSLACK, 1UL); }

/// Keeps pthread_cancel away while it lives: unwinding through a BLAS call would end the process.
class WithoutCancellation {
 public:
  WithoutCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former_); }
  ~WithoutCancellation() { pthread_setcancelstate(former_, nullptr); }
  WithoutCancellation(const WithoutCancellation&) = delete;
  WithoutCancellation& operator=(const WithoutCancellation&) = delete;

 private:
  int former_ = 0;
};

}  // namespace tessera
