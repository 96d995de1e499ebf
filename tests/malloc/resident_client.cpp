// A program that uses matrices of the pool again and again, and writes them in every way that a program has: elements,
// whole arrays, other threads beside a call, system calls, free, realloc, fork. Run over libtessera.so and libtessera_memory.so with TESSERA_RESIDENT=verify. Products are exact and compared
// with those of a copy that devices never see. Status 1 if something is wrong, or nothing was found on devices; 77
// where the kernel does not tell what is written.
//
// usage: resident_client STEPS STATISTICS      STATISTICS is the file of TESSERA_STATS
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Dgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                       const int*, const double*, const int*, const double*, double*, const int*);

constexpr int n = 640, thin = 8, matrices = 4;
constexpr std::size_t elements = std::size_t{n} * n, bytes = elements * sizeof(double);

long wrong = 0;
void expect(bool holds, const char* what) {
  if (!holds && ++wrong <= 10) std::fprintf(stderr, "resident_client: %s\n", what);
}

/// One of the matrices, and the copy that only this program's own loops touch.
struct Pair {
  double* seen = nullptr;
  std::vector<double> own = std::vector<double>(elements);
};

class Program {
 public:
  explicit Program(Dgemm dgemm) : dgemm_(dgemm) {
    for (Pair& pair : pairs_) {
      pair.seen = static_cast<double*>(std::malloc(bytes));
      fill(pair);
    }
    std::string name = "/tmp/resident_client_XXXXXX";
    file_ = mkstemp(name.data());
    unlink(name.c_str());
    std::vector<double> numbers(elements);
    for (double& number : numbers) number = small();
    expect(write(file_, numbers.data(), bytes) == static_cast<ssize_t>(bytes), "no file to read from");
  }

  void step() {
    Pair& pair = pairs_[draw(matrices)];
    switch (draw(3)) {
      case 0:
        update(pair);
        break;
      default:
        use(pair);
    }
    if (draw(2) == 0) change(pairs_[draw(matrices)]);
  }

  bool all_agree() const {
    bool agree = true;
    for (const Pair& pair : pairs_) agree = agree && std::memcmp(pair.seen, pair.own.data(), bytes) == 0;
    return agree;
  }

 private:
  std::size_t draw(std::size_t most) { return random_() % most; }
  double small() { return static_cast<double>(draw(5)); }
  void fill(Pair& pair) {
    for (std::size_t e = 0; e < elements; ++e) pair.seen[e] = pair.own[e] = small();
  }

  /// Y = A X, while another thread writes another matrix.
  void use(Pair& pair) {
    std::vector<double> X(std::size_t{n} * thin), Y(X.size()), expected(X.size());
    for (double& x : X) x = small();
    Pair& other = pairs_[draw(matrices)];
    const std::size_t place = draw(elements);
    const double value = small();
    std::thread writer([&] {
      if (&other == &pair) return;
      for (std::size_t e = place; e < elements && e < place + 5000; e += 100) other.seen[e] = other.own[e] = value;
    });
    call(n, thin, n, pair.seen, X.data(), 0, Y.data());
    writer.join();
    for (int j = 0; j < thin; ++j) {
      for (int k = 0; k < n; ++k) {
        const double x = X[static_cast<std::size_t>(j * n + k)];
        for (int i = 0; i < n; ++i)
          expected[static_cast<std::size_t>(j * n + i)] += pair.own[static_cast<std::size_t>(k * n + i)] * x;
      }
    }
    expect(Y == expected, "a product is wrong");
  }

  /// A = X Z or A += X Z.
  void update(Pair& pair) {
    std::vector<double> X(std::size_t{n} * thin), Z(X.size());
    for (double& x : X) x = small();
    for (double& z : Z) z = small();
    const double beta = static_cast<double>(draw(2));
    call(n, n, thin, X.data(), Z.data(), beta, pair.seen);
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        double sum = 0;
        for (int k = 0; k < thin; ++k)
          sum += X[static_cast<std::size_t>(k * n + i)] * Z[static_cast<std::size_t>(j * thin + k)];
        double& element = pair.own[static_cast<std::size_t>(j * n + i)];
        element = sum + (beta != 0 ? element : 0);
      }
    }
    expect(std::memcmp(pair.seen, pair.own.data(), bytes) == 0, "a result is wrong");
  }

  void change(Pair& pair) {
    Pair& other = pairs_[draw(matrices)];
    const std::size_t first = draw(elements), count = 1 + draw(elements - first);
    switch (draw(9)) {
      case 0:
        pair.seen[first] = pair.own[first] = small();
        break;
      case 1:
        std::memmove(pair.seen + first, other.seen + first, count * sizeof(double));
        std::memmove(pair.own.data() + first, other.own.data() + first, count * sizeof(double));
        break;
      case 2:
        expect(pread(file_, pair.seen + first, count * sizeof(double), static_cast<off_t>(first * sizeof(double))) ==
                   static_cast<ssize_t>(count * sizeof(double)),
               "the file cannot be read");
        expect(pread(file_, pair.own.data() + first, count * sizeof(double),
                     static_cast<off_t>(first * sizeof(double))) > 0,
               "the file cannot be read");
        break;
      case 3: {
        const iovec to{pair.seen + first, count * sizeof(double)}, from{other.seen + first, count * sizeof(double)};
        if (&other != &pair && process_vm_writev(getpid(), &from, 1, &to, 1, 0) == static_cast<ssize_t>(to.iov_len))
          std::memcpy(pair.own.data() + first, other.own.data() + first, count * sizeof(double));
        break;
      }
      case 4:
        std::free(pair.seen);
        pair.seen = static_cast<double*>(std::malloc(bytes));
        fill(pair);
        break;
      case 5:  // pages move
        pair.seen = static_cast<double*>(std::realloc(pair.seen, 8 * bytes));
        pair.seen[elements] = 1;
        pair.seen = static_cast<double*>(std::realloc(pair.seen, bytes));
        pair.seen[first] = pair.own[first] = small();
        break;
      case 6: {
        const pid_t child = fork();
        if (child == 0) {
          std::memset(pair.seen, 1, bytes);
          _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        pair.seen[first] = pair.own[first] = small();
        break;
      }
      case 7:
        std::swap(pair.seen, other.seen);
        std::swap(pair.own, other.own);
        break;
      default:
        std::memset(pair.seen, 0, bytes);
        std::fill(pair.own.begin(), pair.own.end(), 0.0);
    }
  }

  void call(int m, int columns, int k, const double* A, const double* B, double beta, double* C) {
    const double one = 1;
    dgemm_("N", "N", &m, &columns, &k, &one, A, &m, B, &k, &beta, C, &m);
  }

  Dgemm dgemm_;
  std::mt19937 random_{7};
  Pair pairs_[matrices];
  int file_ = -1;
};

/// Linux 6.7, and a process that may watch its own memory.
bool kernel_tells_writes() {
  constexpr int faults_of_programs_alone = 1;
  const int watch = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | faults_of_programs_alone));
  if (watch < 0) return false;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = 1U << 15U;
  const bool tells = ioctl(watch, UFFDIO_API, &api) == 0;
  close(watch);
  return tells;
}

/// Of all calls together.
long long resident_bytes(const char* statistics) {
  std::ifstream file(statistics);
  const std::string key = "\"resident_bytes\":";
  long long sum = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(key);
    if (at != std::string::npos) sum += std::atoll(line.c_str() + at + key.size());
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const auto dgemm = reinterpret_cast<Dgemm>(dlsym(RTLD_DEFAULT, "dgemm_"));
  if (argc != 3 || dgemm == nullptr) {
    std::fprintf(stderr, "usage: resident_client STEPS STATISTICS, with both libraries preloaded\n");
    return 1;
  }
  if (!kernel_tells_writes()) {
    std::fprintf(stderr, "resident_client: the kernel does not tell what is written\n");
    return 77;
  }
  std::remove(argv[2]);
  Program program(dgemm);
  const int steps = std::atoi(argv[1]);
  for (int step = 0; step < steps; ++step) {
    program.step();
    if (step % 20 == 0) expect(program.all_agree(), "a matrix is wrong");
  }
  expect(program.all_agree(), "a matrix is wrong");
  const long long found = resident_bytes(argv[2]);
  std::printf("%d steps, %lld MiB found on devices, %ld wrong\n", steps, found >> 20, wrong);
  expect(found > 0, "nothing stayed on devices");
  return wrong > 0 ? 1 : 0;
}
