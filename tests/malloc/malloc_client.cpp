// A program that allocates at random by several threads, and forks: run over libtessera_memory.so, which it does not know.
// Each piece carries marks at its ends and between, which must be there later. Status 1 if one is not, or zeroed memory is not zero.
// usage: malloc_client THREADS OPERATIONS
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: malloc_client THREADS OPERATIONS\n");
    return 2;
  }
  const int threads = std::atoi(argv[1]), operations = std::atoi(argv[2]);
  try_odd_arguments();
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
  std::printf("%ld large pieces, %ld wrong\n", large.load(), wrong.load());
  return wrong == 0 ? 0 : 1;
}
