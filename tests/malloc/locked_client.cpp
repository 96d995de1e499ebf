// A program that multiplies matrices in memory of malloc, and forks, while the pool of libtessera_memory.so has its pages
// locked and unlocked: run over that library and libtessera.so, of which it knows the pool's count of locked bytes only.
// Products are exact, so every element is checked, also after the parent, its child or realloc has written. Prints how
// long forks took. Status 1 if something is wrong, or nothing was ever locked; 77 if
// nothing may be.
//
// usage: locked_client N FORKS LOCKED_FORKS [GIB]
//   N             size of the matrices
//   LOCKED_FORKS  of the forks, those that wait until pages are locked
//   GIB           of the piece of memory in which the matrix that is forked lies
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/memory_limit.hpp"
#include "pool/page_locking.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Dgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                       const int*, const double*, const int*, const double*, double*, const int*);

std::atomic<long> wrong = 0;

void expect(bool holds, const char* what) {
  if (!holds && wrong.fetch_add(1) < 10) std::fprintf(stderr, "locked_client: %s\n", what);
}

template <class Function>
Function find(const char* name) {
  const auto found = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) {
    std::fprintf(stderr, "locked_client: no %s: both libraries must be preloaded\n", name);
    std::exit(1);
  }
  return found;
}

/// Where the process may have too little memory, none is locked (docs/memory.md).
bool may_be_locked() { return tessera::memory_limit() >= std::size_t{16} << 30; }

std::size_t locked_bytes() {
  static const auto pool = find<tessera::pool::PreloadedPool>(tessera::pool::name_of_preloaded_pool);
  return pool()->locked_bytes();
}

/// n x n elements of malloc'ed memory, which are a function of a seed.
class Matrix {
 public:
  explicit Matrix(int n, std::size_t bytes = 0)
      : n_(n), elements_(static_cast<double*>(std::malloc(std::max(bytes, count() * sizeof(double))))) {
    std::memset(static_cast<void*>(elements_), 0, std::max(bytes, count() * sizeof(double)));
  }
  ~Matrix() { std::free(elements_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  static double value(std::size_t i, std::size_t j, int seed) {
    return static_cast<double>((7 * i + 13 * j + static_cast<std::size_t>(seed)) % 101);
  }
  void fill(int seed) {
    for_each([&](double& element, std::size_t i, std::size_t j) { element = value(i, j, seed); });
  }
  bool is_filled(int seed) {
    bool is = true;
    for_each([&](const double& element, std::size_t i, std::size_t j) { is = is && element == value(i, j, seed); });
    return is;
  }
  /// There and back, so that the elements may come to lie elsewhere.
  void resize() {
    for (const std::size_t factor : {std::size_t{3}, std::size_t{1}})
      elements_ = static_cast<double*>(std::realloc(elements_, factor * count() * sizeof(double)));
  }
  template <class Visit>
  void for_each(Visit visit) {
    const auto n = static_cast<std::size_t>(n_);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) visit(elements_[i + j * n], i, j);
    }
  }
  double* elements() { return elements_; }

 private:
  std::size_t count() const { return static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_); }

  int n_;
  double* elements_;
};

/// Multiplies by a matrix that reverses columns and doubles them.
class Product {
 public:
  explicit Product(int n) : n_(n), B_(n), dgemm_(find<Dgemm>("dgemm_")) {
    B_.for_each([&](double& element, std::size_t i, std::size_t j) { element = i + j == last() ? 2 : 0; });
  }
  /// @return whether A B is right, in memory that is new or has been freed before
  bool is_right(Matrix& A, int seed) {
    const double one = 1, zero = 0;
    Matrix C(n_);
    dgemm_("N", "N", &n_, &n_, &n_, &one, A.elements(), &n_, B_.elements(), &n_, &zero, C.elements(), &n_);
    bool is = true;
    C.for_each([&](const double& element, std::size_t i, std::size_t j) {
      is = is && element == 2 * Matrix::value(i, last() - j, seed);
    });
    return is;
  }

 private:
  std::size_t last() const { return static_cast<std::size_t>(n_) - 1; }

  int n_;
  Matrix B_;
  Dgemm dgemm_;
};

/// Products in memory that is freed, resized and asked to be zero.
void multiply_until(const std::atomic<bool>& is_over, int n) {
  Product product(n);
  for (int turn = 0; !is_over; ++turn) {
    Matrix A(n);
    A.fill(turn);
    expect(product.is_right(A, turn), "a product is wrong");
    A.resize();
    expect(product.is_right(A, turn), "a product after realloc is wrong");
    const std::size_t bytes = static_cast<std::size_t>(n) * static_cast<std::size_t>(n) * sizeof(double);
    auto* const zeroed = static_cast<unsigned char*>(std::calloc(1, bytes));
    expect(std::count(zeroed, zeroed + bytes, 0) == static_cast<std::ptrdiff_t>(bytes), "calloc is not zero");
    std::free(zeroed);
  }
}

/// A child has what its parent had, and what it writes is its own.
int live(Matrix& A, int seed) {
  const bool was_there = A.is_filled(seed);
  A.fill(seed + 50);
  Matrix other(1024);
  other.fill(seed);
  return was_there && A.is_filled(seed + 50) && other.is_filled(seed) ? 0 : 1;
}

bool wait_until_locked(Product& product, Matrix& A, int seed, std::size_t bytes) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  while (locked_bytes() < bytes && Clock::now() < end) {
    expect(product.is_right(A, seed), "a product before a fork is wrong");
    usleep(1000);
  }
  return locked_bytes() >= bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  if (!may_be_locked()) return 77;
  const int n = std::atoi(argv[1]), forks = std::atoi(argv[2]), locked_forks = std::atoi(argv[3]);
  const std::size_t bytes = (argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0) << 30;
  std::atomic<bool> is_over = false;
  Matrix A(n, bytes);
  Product product(n);
  std::thread beside([&] { multiply_until(is_over, n); });
  std::vector<double> locked_ms, other_ms;
  for (int f = 0; f < forks; ++f) {
    A.fill(f);
    const bool waits = f < locked_forks;
    if (waits) expect(wait_until_locked(product, A, f, std::max(bytes, std::size_t{1})), "nothing is locked");
    const Clock::time_point begin = Clock::now();
    const pid_t child = fork();
    if (child == 0) _exit(live(A, f));
    (waits ? locked_ms : other_ms).push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    A.fill(f + 1);
    expect(product.is_right(A, f + 1), "a product after a fork is wrong");
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0, "a child has other memory");
  }
  is_over = true;
  beside.join();
  for (std::vector<double>* each : {&locked_ms, &other_ms}) {
    if (each->empty()) continue;
    std::sort(each->begin(), each->end());
    std::printf("%zu forks %s: median %.1f, longest %.1f ms\n", each->size(),
                each == &locked_ms ? "with pages locked before" : "soon after one", (*each)[each->size() / 2],
                each->back());
  }
  return wrong > 0 ? 1 : 0;
}
