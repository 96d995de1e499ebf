// A program that allocates at random by several threads, and forks: run over libtessera_memory.so, which it does not know.
// Each piece carries marks at its ends and between, which must be there later. Status 1 if one is not, or zeroed memory is not zero.
// Then come single cases of programs that use memory in their own ways. usage: malloc_client THREADS OPERATIONS LIBRARY
// LIBRARY has much memory for each thread (large_tls.cpp).
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<long> wrong = 0;
std::atomic<long> large = 0;  // pieces that a pool would serve

void expect(bool holds, const char* what) {
  if (holds) return;
  if (wrong.fetch_add(1) < 10) std::fprintf(stderr, "malloc_client: %s\n", what);
}

struct Piece {
  unsigned char* begin;
  std::size_t bytes;
  unsigned char mark;

  /// At both ends, and in each 64 KiB.
  template <class Visit>
  void for_marks(std::size_t bytes_seen, Visit visit) const {
    for (std::size_t at = 0; at < bytes_seen; at += 65536) visit(begin[at]);
    if (bytes_seen == bytes && bytes > 0) visit(begin[bytes - 1]);
  }
};

class Churn {
 public:
  explicit Churn(unsigned seed) : random_(seed) {}
  ~Churn() {
    while (!pieces_.empty()) drop();
  }
  void step() {
    const unsigned choice = random_() % 8;
    if (pieces_.size() < 8 || (pieces_.size() < 40 && choice < 4)) return add();
    choice < 6 ? drop() : resize();
  }

 private:
  /// Mostly small; one in sixteen as large as a pool would like.
  std::size_t some_bytes() {
    if (random_() % 16 != 0) return random_() % (std::size_t{1} << (random_() % 18));
    return (std::size_t{1} << 20) + random_() % (std::size_t{11} << 20);
  }

  void add() {
    const std::size_t bytes = some_bytes();
    const std::size_t alignment = std::size_t{16} << (random_() % 10);
    void* memory = nullptr;
    std::size_t aligned_to = 16;
    bool is_zero = false;
    switch (random_() % 6) {
      case 0:
        memory = calloc(bytes / 8 + 1, 8);
        is_zero = true;
        break;
      case 1:
        memory = aligned_alloc(alignment, bytes);
        aligned_to = alignment;
        break;
      case 2:
        expect(posix_memalign(&memory, alignment, bytes) == 0, "posix_memalign fails");
        aligned_to = alignment;
        break;
      case 3:
        memory = memalign(alignment, bytes);
        aligned_to = alignment;
        break;
      default:
        memory = malloc(bytes);
    }
    expect(memory != nullptr, "no memory");
    if (memory == nullptr) return;
    expect(reinterpret_cast<std::uintptr_t>(memory) % aligned_to == 0, "not aligned");
    expect(malloc_usable_size(memory) >= bytes, "less than was asked for");
    Piece piece{static_cast<unsigned char*>(memory), bytes, static_cast<unsigned char>(random_())};
    if (is_zero) piece.for_marks(bytes, [](unsigned char byte) { expect(byte == 0, "not zero"); });
    keep(piece);
  }
  void keep(const Piece& piece) {
    if (piece.bytes >= std::size_t{4} << 20) ++large;
    piece.for_marks(piece.bytes, [&](unsigned char& byte) { byte = piece.mark; });
    pieces_.push_back(piece);
  }
  Piece take() {
    const std::size_t at = random_() % pieces_.size();
    const Piece piece = pieces_[at];
    pieces_[at] = pieces_.back();
    pieces_.pop_back();
    piece.for_marks(piece.bytes, [&](unsigned char byte) { expect(byte == piece.mark, "overwritten"); });
    return piece;
  }
  void drop() {
    errno = 78;
    free(take().begin);
    expect(errno == 78, "free has changed errno");
  }
  void resize() {
    const Piece before = take();
    const std::size_t bytes = some_bytes() + 1;
    void* const memory = random_() % 2 == 0 ? realloc(before.begin, bytes) : reallocarray(before.begin, bytes, 1);
    expect(memory != nullptr, "realloc fails");
    if (memory == nullptr) return;
    Piece after{static_cast<unsigned char*>(memory), bytes, before.mark};
    const std::size_t both = std::min(before.bytes, bytes) / 65536 * 65536;
    after.for_marks(both, [&](unsigned char byte) { expect(byte == before.mark, "realloc has lost something"); });
    keep(after);
  }

  std::mt19937 random_;
  std::vector<Piece> pieces_;
};

/// Odd arguments, which are refused or harmless.
void try_odd_arguments() {
  free(nullptr);
  expect(malloc_usable_size(nullptr) == 0, "nothing has room");
  volatile std::size_t huge = SIZE_MAX / 2;
  expect(malloc(huge) == nullptr && errno == ENOMEM, "more than there is");
  expect(calloc(huge, 4) == nullptr, "a product that overflows");
  expect(reallocarray(nullptr, huge, 4) == nullptr, "likewise");
  void* memory = nullptr;
  expect(posix_memalign(&memory, 3, 10) == EINVAL, "an alignment that is none");
  memory = malloc(std::size_t{8} << 20);
  expect(realloc(memory, huge) == nullptr, "more than there is");
  static_cast<char*>(memory)[0] = 1;  // still there
  memory = realloc(memory, 100);
  expect(memory != nullptr && static_cast<char*>(memory)[0] == 1, "what is left of a large piece");
  free(memory);
  memory = aligned_alloc(std::size_t{8} << 20, std::size_t{16} << 20);
  expect(reinterpret_cast<std::uintptr_t>(memory) % (std::size_t{8} << 20) == 0, "a large alignment");
  free(memory);
}

void fork_beside(std::atomic<int>& at_work) {
  for (unsigned number = 0; at_work > 0; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      {
        Churn churn(1000 + number);
        for (int i = 0; i < 100; ++i) churn.step();
      }
      _exit(wrong == 0 ? 0 : 1);
    }
    int status = 0;
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child fails");
    usleep(2000);
  }
}

constexpr std::size_t mib = std::size_t{1} << 20;

/// A compiler may leave out a piece that nobody uses.
void use(std::size_t bytes) {
  void* volatile memory = malloc(bytes);
  free(memory);
}

/// Runs `body` in a child. @return its status
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(wrong == 0 ? 0 : 1);
  }
  int status = 0;
  expect(child > 0 && waitpid(child, &status, 0) == child, "no child");
  return status;
}

long pages_of_statm(int column) {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  for (int i = 0; i <= column; ++i) file >> pages;
  return pages;
}
std::size_t address_bytes() { return static_cast<std::size_t>(pages_of_statm(0)) * 4096; }
std::size_t resident_bytes() { return static_cast<std::size_t>(pages_of_statm(1)) * 4096; }

/// As some libraries do it: their threads end before a fork, and begin again.
namespace helper {
std::atomic<bool> stopping = false;
std::unique_ptr<std::thread> thread;
void begin() {
  stopping = false;
  thread = std::make_unique<std::thread>([] {
    while (!stopping) use(8 * mib);
  });
}
void end() {
  stopping = true;
  thread->join();
  thread.reset();
}
void allocate_in_child() { use(8 * mib); }
}  // namespace helper

void fork_with_handlers_that_wait() {
  helper::begin();
  pthread_atfork(helper::end, helper::begin, helper::allocate_in_child);
  for (int i = 0; i < 50; ++i) expect(in_child([] { use(8 * mib); }) == 0, "a child of handlers fails");
  pthread_atfork(nullptr, nullptr, nullptr);
  helper::end();
  helper::thread = std::make_unique<std::thread>([] {});  // for the handlers, which stay
}

/// A thread's memory comes and goes within the C library, which holds locks meanwhile.
void use_large_memory_of_threads(const char* library) {
  void* const loaded = dlopen(library, RTLD_NOW);
  expect(loaded != nullptr, "the library with memory of threads is not there");
  if (loaded == nullptr) return;
  const auto touch = reinterpret_cast<int (*)(int)>(dlsym(loaded, "touch_memory_of_thread"));
  std::atomic<int> sum = 0;
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { sum += touch(t); });
    for (std::thread& thread : threads) thread.join();
  }
  expect(sum == 50 * 6, "memory of threads");
}

void ask_for_more_than_there_is() {
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  const std::size_t machine =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = malloc(20 * machine);
  expect((memory != nullptr) == (mode == 1), "twenty times the memory of the machine");
  free(memory);
}

void grow_what_is_hardly_touched() {
  const std::size_t before = resident_bytes();
  auto* memory = static_cast<char*>(malloc(512 * mib));
  memory[300 * mib] = 7;
  std::vector<void*> behind;
  for (std::size_t bytes = 640 * mib; bytes <= 1024 * mib; bytes += 128 * mib) {
    behind.push_back(malloc(5 * mib));
    memory = static_cast<char*>(realloc(memory, bytes));
    expect(memory != nullptr && memory[300 * mib] == 7, "what was written before it grew");
  }
  expect(resident_bytes() < before + 64 * mib, "growing touches what nobody has touched");
  free(memory);
  for (void* const piece : behind) free(piece);
}

void live_under_a_limit_of_addresses() {
  const int status = in_child([] {
    use(64 * mib);
    const rlimit limit{address_bytes() + 96 * mib, RLIM_INFINITY};
    expect(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    std::vector<void*> small;
    for (int i = 0; i < 64; ++i) small.push_back(malloc(mib));
    expect(std::count(small.begin(), small.end(), nullptr) == 0, "small pieces under a limit");
    expect(malloc(512 * mib) == nullptr, "more than the limit");
  });
  expect(status == 0, "under a limit of addresses");
}

/// The first that a child does with a piece of its parent.
void begin_children_with_each_call() {
  auto* const memory = static_cast<char*>(malloc(8 * mib));
  memory[5] = 5;
  const auto is_fine = [&](auto body) {
    const int status = in_child([&] {
      body();
      auto* const next = static_cast<char*>(malloc(8 * mib));
      std::memset(next, 1, 8 * mib);
      free(next);
    });
    expect(status == 0, "a child that begins with a piece of its parent");
  };
  is_fine([&] { free(memory); });
  is_fine([&] {
    auto* const larger = static_cast<char*>(realloc(memory, 40 * mib));
    expect(larger != nullptr && larger[5] == 5, "a piece of the parent grows");
    std::memset(larger, 1, 40 * mib);
  });
  free(memory);
}

void free_twice() {
  const int status = in_child([] {
    if (freopen("/dev/null", "w", stderr) == nullptr) return;
    void* volatile memory = malloc(8 * mib);
    free(memory);
    free(memory);
  });
  expect(WIFSIGNALED(status), "a piece is freed twice");  // abort(), or its memory is not there any more
}

/// Memory that was freed is given back, sooner or later.
void be_idle() {
  const std::size_t before = resident_bytes();
  void* const memory = malloc(256 * mib);
  std::memset(memory, 1, 256 * mib);
  free(memory);
  for (int i = 0; i < 600 && resident_bytes() > before + 16 * mib; ++i) usleep(100000);
  expect(resident_bytes() <= before + 16 * mib, "an idle process keeps its memory");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: malloc_client THREADS OPERATIONS LIBRARY\n");
    return 2;
  }
  const int threads = std::atoi(argv[1]), operations = std::atoi(argv[2]);
  try_odd_arguments();
  use_large_memory_of_threads(argv[3]);
  ask_for_more_than_there_is();
  grow_what_is_hardly_touched();
  live_under_a_limit_of_addresses();
  begin_children_with_each_call();
  free_twice();
  std::atomic<int> at_work = threads;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      {
        Churn churn(static_cast<unsigned>(t));
        for (int i = 0; i < operations; ++i) churn.step();
      }
      --at_work;
    });
  }
  fork_beside(at_work);
  for (std::thread& thread : all) thread.join();
  be_idle();
  fork_with_handlers_that_wait();
  helper::thread->join();
  std::printf("%ld large pieces, %ld wrong\n", large.load(), wrong.load());
  return wrong == 0 ? 0 : 1;
}
