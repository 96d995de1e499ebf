// The symbols of libtessera_lapack.so, which is preloaded, as a program calls them: in every spelling. Behind them is a
// LAPACK that computes nothing (spelt_lapack.cpp), or none. So right results come from devices or, without devices,
// from the library's own code. The environment selects the place, LAPACK_FACES the expectation:
//   devices, cpu   calls are computed there    alone   there is no LAPACK behind
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/blas_api/lapack_call_problem.hpp"
#include "tests/lapack/spelt_lapack.hpp"

namespace tessera::test {
namespace {

using enum Routine;
constexpr Routine routines[] = {potrf, potrs, posv, getrf, getrs, gesv, geqrf, gelqf};

bool expects(const char* what) { return std::string(std::getenv("LAPACK_FACES")) == what; }

/// The functions of the LAPACK behind, if there is one. It is preloaded, too, or opened locally, as by modules of
/// Python.
struct Behind {
  static void* library() {
    static void* const opened = [] {
      const char* const file = std::getenv("LAPACK_FACES_LOCAL");
      return file != nullptr ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;
    }();
    return opened;
  }
  SpeltCall* last = static_cast<SpeltCall*>(dlsym(library(), "spelt_last"));
  int* calls = static_cast<int*>(dlsym(library(), "spelt_calls"));
  int count() const { return calls != nullptr ? *calls : 0; }
};

struct Spelling {
  const char *prefix, *suffix;
  int bits;
  std::string of(const std::string& name) const { return prefix + name + suffix; }
};
std::vector<Spelling> spellings() {
  const int plain = std::atoi(std::getenv("LAPACK_FACES_BITS"));
  return {{"", "_", plain}, {"", "", plain}, {"", "_64_", 64}, {"scipy_", "_", 32}, {"scipy_", "_64_", 64}};
}

/// Arguments as Fortran passes them. Integers are stored in 64 bits; if the caller's have 32, the upper half is poison.
class FortranCall {
 public:
  FortranCall(const Spelling& spelling, const LapackCall& call) : call_(call), bits_(spelling.bits) {
    symbol_ = dlsym(RTLD_DEFAULT, spelling.of(name_of(call)).c_str());
    option_ = call.routine == getrs ? "NTC"[static_cast<std::size_t>(call.op)] : call.uplo == Uplo::lower ? 'L' : 'U';
    m_ = integer(call.m), n_ = integer(call.n), nrhs_ = integer(call.k);
    lda_ = integer(call.lda), ldb_ = integer(call.ldb);
    work_.resize(static_cast<std::size_t>(call.n) * 64 + 64);
    lwork_ = integer(call.n * 64 + 1);
    info_ = integer(4711);
  }
  void set_lda(index_t lda) { lda_ = integer(lda); }
  void set_lwork(index_t lwork) { lwork_ = integer(lwork); }
  void set_option(char option) { option_ = option; }
  template <class T>
  T first_work() const {
    return *reinterpret_cast<const T*>(work_.data());
  }

  /// @return info
  index_t run() {
    EXPECT_NE(symbol_, nullptr);
    switch (call_.routine) {
      case potrf:
        pass(&option_, &n_, call_.A, &lda_, &info_, std::size_t{1});
        break;
      case potrs:
      case posv:
        pass(&option_, &n_, &nrhs_, call_.A, &lda_, call_.B, &ldb_, &info_, std::size_t{1});
        break;
      case getrf:
        pass(&m_, &n_, call_.A, &lda_, call_.ipiv, &info_);
        break;
      case getrs:
        pass(&option_, &n_, &nrhs_, call_.A, &lda_, call_.ipiv, call_.B, &ldb_, &info_, std::size_t{1});
        break;
      case gesv:
        pass(&n_, &nrhs_, call_.A, &lda_, call_.ipiv, call_.B, &ldb_, &info_);
        break;
      case geqrf:
      case gelqf:
        pass(&m_, &n_, call_.A, &lda_, call_.tau, work_.data(), &lwork_, &info_);
        break;
      default:
        break;
    }
    const std::int64_t expected_above = info_ >> 32, poison = integer(0) >> 32;
    if (bits_ == 32) {
      EXPECT_EQ(expected_above, poison) << "behind info";
    }
    return bits_ == 64 ? info_ : static_cast<std::int32_t>(info_);
  }
  /// Whether the LAPACK behind has received exactly these.
  bool is_what(const SpeltCall& seen) const {
    if (seen.name == nullptr || name_of(call_) != seen.name) return false;
    for (std::size_t i = 0; i < passed_.size() && passed_[i] != nullptr; ++i) {
      if (passed_[i] != seen.arguments[i]) return false;
    }
    return true;
  }

 private:
  std::int64_t integer(index_t value) const {
    constexpr std::int64_t poison = 0x5aa5;
    return bits_ == 64 ? value : poison << 32 | static_cast<std::uint32_t>(value);
  }
  template <class... Arguments>
  void pass(Arguments... arguments) {
    passed_ = {};
    std::size_t at = 0;
    const auto note = [&](auto argument) {
      if constexpr (std::is_pointer_v<decltype(argument)>) passed_[at++] = argument;
    };
    (note(arguments), ...);
    reinterpret_cast<void (*)(Arguments...)>(symbol_)(arguments...);
  }

  LapackCall call_;
  int bits_;
  void* symbol_ = nullptr;
  char option_ = 'L';
  std::int64_t m_ = 0, n_ = 0, nrhs_ = 0, lda_ = 0, ldb_ = 0, lwork_ = 0, info_ = 0;
  std::vector<AnyScalar> work_;
  std::array<const void*, 10> passed_{};
};

/// Of each routine, in each spelling.
template <Scalar T, class Check>
void for_each_call(Check check) {
  for (const Spelling& spelling : spellings()) {
    for (const Routine routine : routines) {
      const LapackCase c{.routine = routine, .m = 53, .n = 50, .nrhs = 5, .ipiv_bits = spelling.bits};
      LapackCallProblem<T> problem(c, 1);
      FortranCall call(spelling, problem.call());
      SCOPED_TRACE(spelling.of(name_of(problem.call())));
      check(problem, call);
    }
  }
}

template <class T>
class LapackFaces : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LapackFaces, Types);

TYPED_TEST(LapackFaces, ComputeOrPassOn) {
  const Behind behind;
  for_each_call<TypeParam>([&](auto& problem, FortranCall& call) {
    const int before = behind.count();
    const index_t info = call.run();
    if (expects("cpu")) {
      EXPECT_EQ(info, spelt_info);
      EXPECT_EQ(behind.count(), before + 1);
      EXPECT_TRUE(call.is_what(*behind.last));
    } else {
      EXPECT_TRUE(problem.check(info));
      // Except for the query of the workspace's size.
      EXPECT_LE(behind.count(), before + 1);
      if (behind.count() != before) {
        EXPECT_TRUE(makes_reflectors(problem.call().routine));
        EXPECT_EQ(behind.last->name, name_of(problem.call()));
      }
    }
  });
}

TYPED_TEST(LapackFaces, PassOnWhatIsWrongOrAsks) {
  const Behind behind;
  if (expects("alone")) GTEST_SKIP() << "there is no LAPACK behind";
  for_each_call<TypeParam>([&](auto& problem, FortranCall& call) {
    const auto expect_passed_on = [&](const char* what) {
      const int before = behind.count();
      EXPECT_EQ(call.run(), spelt_info) << what;
      EXPECT_EQ(behind.count(), before + 1) << what;
      EXPECT_TRUE(call.is_what(*behind.last)) << what;
    };
    call.set_lda(7);
    expect_passed_on("lda");
    call.set_lda(problem.call().lda);
    const Routine routine = problem.call().routine;
    if (is_hermitian(routine) || routine == getrs) {
      call.set_option('X');
      expect_passed_on("option");
    }
    if (makes_reflectors(routine)) {
      call.set_lwork(routine == geqrf ? 49 : 52);
      expect_passed_on("lwork");
      call.set_lwork(-1);
      expect_passed_on("question");
    }
  });
}

TYPED_TEST(LapackFaces, TellTheWorkspaceOfQrAndLq) {
  const Behind behind;
  const Spelling spelling = spellings().front();
  for (const Routine routine : {geqrf, gelqf}) {
    LapackCallProblem<TypeParam> problem({.routine = routine, .m = 40, .n = 30, .ipiv_bits = spelling.bits}, 1);
    FortranCall call(spelling, problem.call());
    call.run();
    const double told = std::abs(call.first_work<TypeParam>());
    if (expects("devices")) {
      EXPECT_EQ(told, spelt_workspace);
    }
    if (expects("alone")) {
      EXPECT_GE(told, routine == geqrf ? 30 : 40);
    }
  }
}

TYPED_TEST(LapackFaces, TellEnoughWorkspaceForThinMatrices) {
  if (!expects("alone")) GTEST_SKIP() << "the LAPACK behind tells it";
  const Spelling spelling = spellings().front();
  LapackCallProblem<TypeParam> problem({.routine = gelqf, .m = 200, .n = 2, .ipiv_bits = spelling.bits}, 1);
  FortranCall call(spelling, problem.call());
  call.run();
  EXPECT_GE(std::abs(call.first_work<TypeParam>()), 200);
}

TEST(LapackFacesErrors, AreToldWhereThereIsNoLapack) {
  if (!expects("alone")) GTEST_SKIP() << "the LAPACK behind tells them";
  const Spelling spelling = spellings().front();
  LapackCallProblem<double> problem({.routine = getrf, .m = 40, .n = 30, .ipiv_bits = spelling.bits}, 1);
  FortranCall call(spelling, problem.call());
  call.set_lda(7);
  // By the process's xerbla_: that of a BLAS, or the library's own message.
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(call.run(), -4);
  const std::string told = testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout();
  EXPECT_NE(told.find("DGETRF"), std::string::npos);
}

TEST(LapackFacesThreads, CallAtOnce) {
  if (expects("cpu")) GTEST_SKIP() << "nothing is computed";
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (unsigned i = 0; i < 6; ++i) {
        const Spelling spelling = spellings()[(t + i) % 5];
        LapackCallProblem<double> problem(
            {.routine = routines[(t * 3 + i) % 6], .m = 60, .n = 60, .nrhs = 20, .ipiv_bits = spelling.bits}, t);
        FortranCall call(spelling, problem.call());
        const index_t info = call.run();
        EXPECT_TRUE(problem.check(info));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera::test
