// Threads that live inside another program's process.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <memory>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace tessera {

/// A thread with the interface of std::thread and a minimum stack size. std::thread leaves the size to RLIMIT_STACK,
/// whose smallest values are too small for kernels of a CPU BLAS.
class Thread {
 public:
  static constexpr std::size_t least_stack_bytes = std::size_t{1} << 20;

  Thread() noexcept = default;
  /// Runs `body` on a stack of the process's default size, and of least_stack_bytes at least. @throws std::system_error
  Thread(void* (*run)(void*), void* body) {
    pthread_attr_t attributes;
    throw_if(pthread_attr_init(&attributes));
    pthread_attr_setstacksize(&attributes, stack_bytes_for(attributes));
    const int error = pthread_create(&handle_, &attributes, run, body);
    pthread_attr_destroy(&attributes);
    throw_if(error);
    joinable_ = true;
  }
  ~Thread() {
    if (joinable_) std::terminate();
  }
  Thread(Thread&& other) noexcept : handle_(other.handle_), joinable_(std::exchange(other.joinable_, false)) {}
  /// @pre this one is not joinable
  Thread& operator=(Thread&& other) noexcept {
    if (joinable_) std::terminate();
    handle_ = other.handle_;
    joinable_ = std::exchange(other.joinable_, false);
    return *this;
  }

  /// The handle of the next thread.
  static std::size_t stack_bytes() {
    pthread_attr_t attributes;
    throw_if(pthread_attr_init(&attributes));
    const std::size_t bytes = stack_bytes_for(attributes);
    pthread_attr_destroy(&attributes);
    return bytes;
  }

  bool joinable() const noexcept { return joinable_; }
  /// @pre joinable()
  void join() {
    throw_if(pthread_join(handle_, nullptr));
    joinable_ = false;
  }
  /// @pre joinable()
  void detach() {
    throw_if(pthread_detach(handle_));
    joinable_ = false;
  }

 private:
  static std::size_t stack_bytes_for(const pthread_attr_t& attributes) {
    std::size_t by_default = 0;
    pthread_attr_getstacksize(&attributes, &by_default);
    return std::max(by_default, least_stack_bytes);
  }
  static void throw_if(int error) {
    if (error != 0) throw std::system_error(error, std::generic_category());
  }

  pthread_t handle_{};
  bool joinable_ = false;
};

/// Starts a thread that receives only the signals that its own instructions cause: the others belong to the program's
/// threads. The program's handler also handles the signals that this thread causes: it may map the memory that was
/// touched, or report a crash. If such a signal were blocked, it would end the process instead.
/// @throws std::system_error, std::bad_alloc
template <class F>
Thread start_thread(F&& body) {
  using Body = std::decay_t<F>;
  auto owned = std::make_unique<Body>(std::forward<F>(body));
  const auto run = [](void* argument) -> void* {
    const std::unique_ptr<Body> mine(static_cast<Body*>(argument));
    (*mine)();
    return nullptr;
  };
  sigset_t blocked;
  sigset_t old;
  sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&blocked, own);
  pthread_sigmask(SIG_SETMASK, &blocked, &old);
  Thread thread;
  try {
    thread = Thread(run, owned.get());
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw;
  }
  static_cast<void>(owned.release());  // the thread's from here on
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return thread;
}

/// Yields to other threads until `done()`, or until `patience` is over. For events that come sooner than a sleeping
/// thread wakes, which takes some tens of microseconds, on virtual machines hundreds.
/// @return done()
template <class Done>
bool yield_until(Done&& done, std::chrono::microseconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - begin >= patience) return done();
    std::this_thread::yield();
  }
  return true;
}

/// Makes timed waits of the calling thread end on time. By default Linux lengthens them by up to 50 us to save power.
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
