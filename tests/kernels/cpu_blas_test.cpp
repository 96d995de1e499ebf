// The loader of the CPU BLAS, the division of products that do not fit its integers, and the readable reference.
#include "kernels/host/cpu_blas.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/gemm_pieces.hpp"
#include "kernels/host/reference.hpp"
#include "tests/kernels/gemm_problem.hpp"

namespace tessera {
namespace {

using kernels::CpuBlas;
using kernels::for_each_gemm_piece;
using test::GemmProblem;
using test::GemmShape;

/// A shared library made of C source, in a folder of its own that goes away with it.
class SharedLibrary {
 public:
  explicit SharedLibrary(const std::string& source) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera_test_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "library.c") << source;
    const std::string command = "cc -shared -fPIC -o '" + path() + "' '" + (folder_ / "library.c").string() + "'";
    built_ = std::system(command.c_str()) == 0;
  }
  ~SharedLibrary() { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "library.so").string(); }
  bool built() const { return built_; }

 private:
  std::filesystem::path folder_;
  bool built_ = false;
};

/// gemm functions that only write a sign of themselves to C[0].
std::string fake_blas_source(int sign, const std::string& functions = "s d c z") {
  std::string source;
  for (const char letter : functions) {
    if (letter == ' ') continue;
    const std::string type = letter == 's' || letter == 'c' ? "float" : "double";
    source += std::string("void ") + letter +
              "gemm_(char*ta,char*tb,int*m,int*n,int*k,void*al,void*a,int*lda,void*b,int*ldb,void*be," + type +
              "*c,int*ldc) { *c = " + std::to_string(sign) + " + *m; }\n";
  }
  return source;
}

double call_dgemm(const CpuBlas& blas) {
  double x = 1, y = 1, c = 0;
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 1;
  p.A = reinterpret_cast<const std::byte*>(&x);
  p.B = reinterpret_cast<const std::byte*>(&y);
  p.C = reinterpret_cast<std::byte*>(&c);
  blas.run(p);
  return c;
}

TEST(CpuBlas, FindsTheBlasOfTheMachine) {
  const auto blas = CpuBlas::open("");
  EXPECT_FALSE(blas->path().empty());
  EXPECT_TRUE(std::filesystem::exists(blas->path())) << blas->path();
  EXPECT_EQ(call_dgemm(*blas), 1.0);
}

TEST(CpuBlas, OpensThePathThatWasAskedFor) {
  const SharedLibrary library(fake_blas_source(1000));
  ASSERT_TRUE(library.built());
  const auto blas = CpuBlas::open(library.path());
  EXPECT_EQ(std::filesystem::canonical(blas->path()), std::filesystem::canonical(library.path()));
  EXPECT_EQ(call_dgemm(*blas), 1001.0);
}

TEST(CpuBlas, APathThatIsNoBlasIsAnErrorAndNothingElseIsTaken) {
  EXPECT_THROW(CpuBlas::open("/nonexistent/libblas.so"), NotAvailable);
  try {
    CpuBlas::open("/nonexistent/libblas.so");
  } catch (const NotAvailable& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/libblas.so"), std::string::npos) << error.what();
  }
  EXPECT_THROW(CpuBlas::open("libm.so.6"), NotAvailable) << "a library without gemm";
  const SharedLibrary incomplete(fake_blas_source(1000, "s d c"));
  ASSERT_TRUE(incomplete.built());
  try {
    CpuBlas::open(incomplete.path());
    ADD_FAILURE() << "a BLAS without zgemm_ was accepted";
  } catch (const NotAvailable& error) {
    EXPECT_NE(std::string(error.what()).find("zgemm_"), std::string::npos) << error.what();
  }
}

TEST(CpuBlas, NeverTakesTheDropInLibraryForABlas) {
  const SharedLibrary ourselves(fake_blas_source(2000) + "int tessera_blas_marker = 1;\n");
  ASSERT_TRUE(ourselves.built());
  EXPECT_THROW(CpuBlas::open(ourselves.path()), NotAvailable);
  // Not as the program's next BLAS, either: then the search goes on.
  void* const handle = dlopen(ourselves.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  const auto blas = CpuBlas::open("", dlsym(handle, "dgemm_"));
  EXPECT_EQ(call_dgemm(*blas), 1.0) << "the machine's own, from " << blas->path();
  dlclose(handle);
}

TEST(CpuBlas, TakesTheProgramsOwnBlasBeforeAnyOther) {
  const SharedLibrary next(fake_blas_source(3000));
  ASSERT_TRUE(next.built());
  void* const handle = dlopen(next.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  const auto blas = CpuBlas::open("", dlsym(handle, "dgemm_"));
  EXPECT_EQ(call_dgemm(*blas), 3001.0);
  // It holds the library itself: the program may close it.
  dlclose(handle);
  EXPECT_EQ(call_dgemm(*blas), 3001.0);
  // A path that was asked for wins over it.
  const SharedLibrary other(fake_blas_source(4000));
  ASSERT_TRUE(other.built());
  EXPECT_EQ(call_dgemm(*CpuBlas::open(other.path(), dlsym(handle, "dgemm_"))), 4001.0);
}

TEST(CpuBlas, AnIncompleteNextBlasIsNotMixedWithAnother) {
  const SharedLibrary next(fake_blas_source(5000, "d"));
  ASSERT_TRUE(next.built());
  void* const handle = dlopen(next.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(call_dgemm(*CpuBlas::open("", dlsym(handle, "dgemm_"))), 1.0);
  dlclose(handle);
}

TEST(CpuBlas, AnAddressOutsideAllLibrariesIsNoNextBlas) {
  int local = 0;
  EXPECT_EQ(call_dgemm(*CpuBlas::open("", &local)), 1.0);
}

TEST(CpuBlas, ComputesLikeTheOracle) {
  const auto blas = CpuBlas::open("");
  test::for_each_problem(
      {{1, 1, 1, 0}, {9, 1, 4, 2}, {1, 8, 3, 0}, {33, 29, 41, 3}, {5, 4, 0, 1}, {0, 3, 2, 1}, {3, 0, 2, 1}},
      [&](auto& problem) {
        const bool reads_inputs = problem.product.alpha != AnyScalar(0) && problem.product.k > 0;
        if (!reads_inputs) problem.poison_inputs();
        auto result = problem.C;
        Level3 p = problem.product;
        problem.point_at_host(p, result);
        blas->run(p);
        problem.expect_result(result);
      });
}

TEST(CpuBlas, ALeadingDimensionBeyond32BitsIsLeftToTheReference) {
  // Two columns, 2^31 + 8 floats apart, in memory of which only the touched pages exist.
  const index_t ld = (index_t{1} << 31) + 8;
  const std::size_t bytes = static_cast<std::size_t>(ld + 16) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of 8 GiB";
  float* const C = static_cast<float*>(memory);
  const float x[2] = {2, 3};
  const float y[2] = {5, 7};
  C[0] = 100;
  C[ld + 1] = 200;
  Level3 p;
  p.type = ScalarType::s;
  p.m = p.n = 2;
  p.k = 1;
  p.A = reinterpret_cast<const std::byte*>(x);
  p.lda = 2;
  p.B = reinterpret_cast<const std::byte*>(y);
  p.ldb = 1;
  p.C = reinterpret_cast<std::byte*>(C);
  p.ldc = ld;
  p.beta = 1;
  CpuBlas::open("")->run(p);
  EXPECT_EQ(C[0], 110.0f);
  EXPECT_EQ(C[1], 15.0f);
  EXPECT_EQ(C[ld], 14.0f);
  EXPECT_EQ(C[ld + 1], 221.0f);
  munmap(memory, bytes);
}

TEST(GemmPieces, AddUpToTheProduct) {
  // The limit that stands for 2^31 - 1 here; shapes below it, at it, and beyond it in each dimension.
  for (const index_t limit : {index_t{1}, index_t{3}, index_t{8}}) {
    test::for_each_problem(
        {{8, 8, 8, 0}, {9, 5, 7, 2}, {3, 17, 4, 1}, {4, 3, 19, 0}, {5, 4, 0, 1}}, [&](auto& problem) {
          auto result = problem.C;
          Level3 p = problem.product;
          problem.point_at_host(p, result);
          index_t volume = 0;
          for_each_gemm_piece(p, limit, [&](const Level3& piece) {
            EXPECT_TRUE(piece.m >= 1 && piece.m <= limit && piece.n >= 1 && piece.n <= limit && piece.k <= limit);
            volume += piece.m * piece.n * piece.k;
            kernels::reference_gemm(piece);
          });
          EXPECT_EQ(volume, p.m * p.n * p.k);
          problem.expect_result(result);
        });
  }
}

TEST(GemmPieces, ReachBeyond32Bits) {
  // Only arithmetic on addresses: nothing is read.
  constexpr std::intptr_t base = 4096;
  constexpr index_t limit = (index_t{1} << 31) - 1;
  const auto cut = [&](index_t m, index_t k) {
    Level3 p;
    p.type = ScalarType::z;
    p.op_b = Op::trans;
    p.m = m;
    p.n = 3;
    p.k = k;
    p.lda = p.ldc = m;
    p.ldb = 3;
    p.beta = 2;
    p.A = p.B = p.C = reinterpret_cast<std::byte*>(base);
    std::vector<Level3> pieces;
    for_each_gemm_piece(p, limit, [&](const Level3& piece) { pieces.push_back(piece); });
    return pieces;
  };
  const auto offset = [](const void* address) {
    return static_cast<index_t>(reinterpret_cast<std::intptr_t>(address) - base);
  };
  const std::vector<Level3> tall = cut(limit + 6, 2);
  ASSERT_EQ(tall.size(), 2u);
  EXPECT_EQ(tall[0].m, limit);
  EXPECT_EQ(tall[1].m, 6);
  EXPECT_EQ(tall[1].beta, AnyScalar(2));
  EXPECT_EQ(offset(tall[1].A), limit * 16);
  EXPECT_EQ(offset(tall[1].B), 0);
  EXPECT_EQ(offset(tall[1].C), limit * 16);
  const std::vector<Level3> deep = cut(2, limit + 1);
  ASSERT_EQ(deep.size(), 2u);
  EXPECT_EQ(deep[0].k, limit);
  EXPECT_EQ(deep[0].beta, AnyScalar(2));
  EXPECT_EQ(deep[1].k, 1);
  EXPECT_EQ(deep[1].beta, AnyScalar(1));
  EXPECT_EQ(offset(deep[1].A), limit * 2 * 16);
  EXPECT_EQ(offset(deep[1].B), limit * 3 * 16);
  EXPECT_EQ(offset(deep[1].C), 0);
}

TEST(Reference, FollowsTheReferenceBlas) {
  test::for_each_problem({{1, 1, 1, 0}, {7, 5, 9, 2}, {4, 6, 0, 1}, {0, 4, 3, 1}}, [&](auto& problem) {
    const bool reads_inputs = problem.product.alpha != AnyScalar(0) && problem.product.k > 0;
    if (!reads_inputs) problem.poison_inputs();
    auto result = problem.C;
    Level3 p = problem.product;
    problem.point_at_host(p, result);
    kernels::reference_gemm(p);
    problem.expect_result(result);
  });
}

TEST(Reference, ComputesAProductDoneByHand) {
  // The oracle itself must rest on something: [1+i 2; 0 i] * [i; 3-i] = [5-i; 1+3i], and with X conjugated and
  // transposed.
  using z = std::complex<double>;
  const z X[4] = {z(1, 1), 0, 2, z(0, 1)};  // column-major
  const z Y[2] = {z(0, 1), z(3, -1)};
  z C[2] = {z(10, 0), z(0, 10)};
  kernels::reference_gemm<z>(Op::no_trans, Op::no_trans, 2, 1, 2, 1, X, 2, Y, 2, 0, C, 2);
  EXPECT_EQ(C[0], z(5, -1));
  EXPECT_EQ(C[1], z(1, 3));
  // conj(X)^T * Y = [(1-i) i; 2i - i (3-i)] = [1+i; -1-i]; times i, plus 2 C.
  kernels::reference_gemm<z, kernels::Wide<z>>(Op::conj_trans, Op::no_trans, 2, 1, 2, z(0, 1), X, 2, Y, 2, 2, C, 2);
  EXPECT_EQ(C[0], z(9, -1));
  EXPECT_EQ(C[1], z(3, 5));
  // X^T * conj(Y)^T for a 1 x 2 Y: X^T = [1+i 0; 2 i].
  kernels::reference_gemm<z>(Op::trans, Op::conj_trans, 2, 1, 2, 1, X, 2, Y, 1, 0, C, 2);
  EXPECT_EQ(C[0], z(1, -1));
  EXPECT_EQ(C[1], z(-1, 1));
}

}  // namespace
}  // namespace tessera
