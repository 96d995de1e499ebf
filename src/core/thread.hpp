// Threads that live inside another program's process.
#pragma once

#include <pthread.h>
#include <csignal>
#include <thread>
#include <utility>

namespace tessera {

/// Starts a thread that takes no signals: they belong to the program that we live in. @throws std::system_error
template <class F>
std::thread start_thread(F&& body) {
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
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
