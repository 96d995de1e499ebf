// Many threads call all routines with random shapes and parameters, through the Fortran and the CBLAS symbols in both
// layouts. They compare each result with the oracle. Meanwhile they fork, run programs and are interrupted by signals,
// as the arguments request. Children compute, too, and so do their children.
//
//   stress THREADS CALLS [FORK_EVERY [SIGNALS [cold]]]
//     FORK_EVERY   each thread forks before every such call; 0: never
//     SIGNALS      none, restart, interrupt: a signal each millisecond, with SA_RESTART or without
//     cold         the threads' first calls are the first of the process. Otherwise earlier calls make the devices the
//                  parent's before the forks
//
// Prints the number of calls that compute a product. Prints all errors, too; the status is 1 then.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "level3_calls.h"
}
#include "calls/level3.hpp"
#include "tests/level3_problem.hpp"

namespace {

using tessera::AnyScalar;
using tessera::index_t;
using tessera::Level3;
using tessera::Scalar;
using tessera::test::Level3Case;
using Random = std::mt19937_64;

std::atomic<long> products = 0;
std::atomic<long> ticks = 0;

scalar as_argument(AnyScalar value) {
  return {{static_cast<float>(value.real()), static_cast<float>(value.imag())}, {value.real(), value.imag()}};
}

// Enumerators of CBLAS.
template <class Enumerator>
int cblas_value(int first, Enumerator value) {
  return first + static_cast<int>(value);
}
int other_side(int side) { return 141 + 142 - side; }
int other_uplo(int uplo) { return 121 + 122 - uplo; }

// The problem as a CBLAS call with column-major operands.
call as_call(const Level3& p) {
  const bool in_place = p.is_triangular();
  return {.layout = 102,
          .side = cblas_value(141, p.side),
          .uplo = cblas_value(121, p.uplo),
          .transa = cblas_value(111, p.op_a),
          .transb = cblas_value(111, p.op_b),
          .diag = cblas_value(131, p.diag),
          .m = static_cast<int>(p.m),
          .n = static_cast<int>(p.n),
          .k = static_cast<int>(p.k),
          .lda = static_cast<int>(p.lda),
          .ldb = static_cast<int>(in_place ? p.ldc : p.ldb),
          .ldc = static_cast<int>(p.ldc),
          .alpha = as_argument(p.alpha),
          .beta = as_argument(p.beta),
          .A = p.A,
          .B = in_place ? p.C : const_cast<void*>(p.B),
          .C = p.C};
}

// The same problem on the same memory in row-major order, which sees the transposes.
call in_row_major(const Level3& p) {
  call c = as_call(p);
  c.layout = 101;
  c.side = other_side(c.side);
  c.uplo = other_uplo(c.uplo);
  if (p.has_op_b()) {
    std::swap(c.transa, c.transb);
    std::swap(c.lda, c.ldb);
    c.A = p.B;
    c.B = const_cast<void*>(p.A);
  }
  if (p.is_rank_update()) {
    const int transposed = p.is_hermitian() ? 113 : 112;
    c.transa = c.transa == 111 ? transposed : 111;
    if (p.routine == tessera::Routine::her2k) c.alpha = as_argument(std::conj(p.alpha));
  } else if (!p.updates_triangle()) {
    std::swap(c.m, c.n);
  }
  return c;
}

index_t random_size(Random& random, index_t most) { return std::uniform_int_distribution<index_t>(0, most)(random); }

template <class Value>
Value one_of(Random& random, std::initializer_list<Value> values) {
  return values.begin()[static_cast<std::size_t>(random_size(random, static_cast<index_t>(values.size()) - 1))];
}

/// One call of a random routine whose longest inner loop has `largest` steps. @return whether its result is right
bool one_call(Random& random, index_t largest) {
  const symbol& s = symbols[random_size(random, symbol_count - 1)];
  Level3Case c;
  for (const tessera::Routine routine : tessera::test::all_routines) {
    if (std::string(s.routine) == tessera::name_of(routine)) c.routine = routine;
  }
  using enum tessera::Op;
  c.side = one_of(random, {tessera::Side::left, tessera::Side::right});
  c.uplo = one_of(random, {tessera::Uplo::upper, tessera::Uplo::lower});
  c.op_a = one_of(random, {no_trans, trans, conj_trans});
  c.op_b = one_of(random, {no_trans, trans, conj_trans});
  c.diag = one_of(random, {tessera::Diag::unit, tessera::Diag::non_unit});
  c.m = random_size(random, largest);
  c.n = random_size(random, largest);
  c.k = random_size(random, largest);
  c.alpha = one_of<AnyScalar>(random, {1, 1, 0.5, {0.75, -0.5}, {-1.25, 0.25}, 0});
  c.beta = one_of<AnyScalar>(random, {0, 1, 0.5, {0.25, 0.75}});
  c.padding = random_size(random, 3);
  const bool fortran = random_size(random, 2) == 0;
  const bool row_major = random_size(random, 1) == 0;
  const auto seed = static_cast<unsigned>(random());

  bool right = false;
  tessera::dispatch(*s.letter == 's'   ? tessera::ScalarType::s
                    : *s.letter == 'd' ? tessera::ScalarType::d
                    : *s.letter == 'c' ? tessera::ScalarType::c
                                       : tessera::ScalarType::z,
                    [&]<Scalar T>(T) {
                      tessera::test::Level3Fixture<T> fixture(c, seed);
                      const Level3 problem = fixture.problem();
                      const call call = row_major && !fortran ? in_row_major(problem) : as_call(problem);
                      (fortran ? s.fortran : s.cblas)(&call);
                      const testing::AssertionResult result = fixture.check();
                      if (!result) std::fprintf(stderr, "%s: %s\n", fortran ? "Fortran" : "CBLAS", result.message());
                      right = static_cast<bool>(result);
                      if (problem.m > 0 && problem.n > 0 && !problem.only_scales()) ++products;
                    });
  return right;
}

bool several_calls(Random& random) {
  for (const index_t largest : {20, 100, 40}) {
    if (!one_call(random, largest)) return false;
  }
  return true;
}

bool ended_well(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::fprintf(stderr, "a child ended with status %x\n", static_cast<unsigned>(status));
  return false;
}

/// A child that computes, and that has a computing child itself while `generations` are left.
bool child_computes(Random& random, int generations) {
  const auto seed = random();
  const pid_t child = fork();
  if (child < 0) return false;
  if (child > 0) return ended_well(child);
  alarm(120);  // a hang ends by a signal
  Random own(seed);
  bool good = several_calls(own);
  if (generations > 1) good = child_computes(own, generations - 1) && good;
  if (seed % 2 == 0) exit(good ? 0 : 1);
  _exit(good ? 0 : 1);
}

bool program_runs() {
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, name, nullptr, nullptr, arguments, environ) != 0) return false;
  return ended_well(child) && system("exit 0") == 0;
}

void on_tick(int) { ++ticks; }

void start_ticks(const std::string& kind) {
  struct sigaction action {};
  action.sa_handler = on_tick;
  action.sa_flags = kind == "restart" ? SA_RESTART : 0;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval each_millisecond{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &each_millisecond, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 16;
  const int calls = argc > 2 ? std::atoi(argv[2]) : 1000;
  const int fork_every = argc > 3 ? std::atoi(argv[3]) : 0;
  const std::string signals = argc > 4 ? argv[4] : "none";
  const bool cold = argc > 5;
  std::atomic<bool> good = true;
  if (fork_every > 0) {
    // Before any use of the library. The child may open devices, and has its own counts.
    const pid_t child = fork();
    if (child == 0) {
      unsetenv("TESSERA_STATS");
      Random random(1);
      _exit(several_calls(random) ? 0 : 1);
    }
    if (!ended_well(child)) good = false;
  }
  if (signals != "none") start_ticks(signals);
  if (!cold) {
    Random random(2);
    while (products == 0) good = one_call(random, 40) && good;
  }
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t) {
    crowd.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t + 100));
      for (int i = 0; i < calls && good; ++i) {
        if (fork_every > 0 && (i + t) % fork_every == 0) {
          if (!child_computes(random, t % 4 == 0 ? 2 : 1)) good = false;
          if (t % 4 == 1 && !program_runs()) good = false;
        }
        // Some are large enough for the threads of a CPU BLAS.
        if (!one_call(random, random_size(random, 49) == 0 ? 100 : 40)) good = false;
      }
    });
  }
  for (std::thread& thread : crowd) thread.join();
  if (signals != "none" && ticks == 0) {
    std::printf("no signal came\n");
    good = false;
  }
  std::printf("calls %ld\n", products.load());
  return good ? 0 : 1;
}
