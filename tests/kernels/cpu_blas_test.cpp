// The loader of the CPU BLAS, and its ten routines.
#include "kernels/host/cpu_blas.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/gemmt_pieces.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/small_problems.hpp"
#include "tests/level3_problem.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera {
namespace cpu_blas_test {

using kernels::CpuBlas;
using test::Level3Case;
using test::Level3Fixture;

/// A shared library made of C source, in a folder of its own that is removed with it.
class SharedLibrary {
 public:
  explicit SharedLibrary(const std::string& source) {
    const std::string file = folder_.path("library.c");
    std::ofstream(file) << source;
    const std::string command = "cc -shared -fPIC -o '" + path() + "' '" + file + "'";
    built_ = std::system(command.c_str()) == 0;
  }
  std::string path() const { return folder_.path("library.so"); }
  bool built() const { return built_; }

 private:
  test::TemporaryFolder folder_;
  bool built_ = false;
};

/// The source of a complete BLAS, except for the symbols in `missing`. Its gemm functions only write a sign to C[0],
/// and its other functions do nothing.
std::string fake_blas_source(int sign, const std::vector<std::string>& missing = {}) {
  std::string source;
  for (const Routine routine : test::all_routines) {
    for (const ScalarType type : test::types_of(routine)) {
      const std::string symbol = name_of({.routine = routine, .type = type}) + '_';
      if (std::find(missing.begin(), missing.end(), symbol) != missing.end()) continue;
      if (routine != Routine::gemm) {
        source += "void " + symbol + "(void) {}\n";
        continue;
      }
      const std::string real = type == ScalarType::s || type == ScalarType::c ? "float" : "double";
      source += "void " + symbol + "(char*ta,char*tb,int*m,int*n,int*k,void*al,void*a,int*lda,void*b,int*ldb,void*be," +
                real + "*c,int*ldc) { *c = " + std::to_string(sign) + " + *m; }\n";
    }
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
  // One symbol for each shape of call, and for each type.
  for (const char* symbol :
       {"zgemm_", "ssymm_", "chemm_", "dsyrk_", "zherk_", "csyr2k_", "zher2k_", "dtrmm_", "strsm_"}) {
    const SharedLibrary incomplete(fake_blas_source(1000, {symbol}));
    ASSERT_TRUE(incomplete.built());
    try {
      CpuBlas::open(incomplete.path());
      ADD_FAILURE() << "a BLAS without " << symbol << " was accepted";
    } catch (const NotAvailable& error) {
      EXPECT_NE(std::string(error.what()).find(symbol), std::string::npos) << error.what();
    }
  }
}

TEST(CpuBlas, NeverTakesTheDropInLibraryForABlas) {
  const SharedLibrary ourselves(fake_blas_source(2000) + "int tessera_blas_marker = 1;\n");
  ASSERT_TRUE(ourselves.built());
  EXPECT_THROW(CpuBlas::open(ourselves.path()), NotAvailable);
  // It is not taken as the program's next BLAS, either: the search continues.
  void* const handle = dlopen(ourselves.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  const auto blas = CpuBlas::open("", {.next_gemm = dlsym(handle, "dgemm_")});
  EXPECT_EQ(call_dgemm(*blas), 1.0) << "the machine's own, from " << blas->path();
  dlclose(handle);
}

TEST(CpuBlas, TakesTheProgramsOwnBlasBeforeAnyOther) {
  const SharedLibrary next(fake_blas_source(3000));
  ASSERT_TRUE(next.built());
  void* const handle = dlopen(next.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  const auto blas = CpuBlas::open("", {.next_gemm = dlsym(handle, "dgemm_")});
  EXPECT_EQ(call_dgemm(*blas), 3001.0);
  // The BLAS holds the library open itself, so the program may close it.
  dlclose(handle);
  EXPECT_EQ(call_dgemm(*blas), 3001.0);
  // An explicit path has priority over it.
  const SharedLibrary other(fake_blas_source(4000));
  ASSERT_TRUE(other.built());
  EXPECT_EQ(call_dgemm(*CpuBlas::open(other.path(), {.next_gemm = dlsym(handle, "dgemm_")})), 4001.0);
}

TEST(CpuBlas, AnIncompleteNextBlasIsNotMixedWithAnother) {
  const SharedLibrary next(fake_blas_source(5000, {"zgemm_", "dtrsm_"}));
  ASSERT_TRUE(next.built());
  void* const handle = dlopen(next.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(call_dgemm(*CpuBlas::open("", {.next_gemm = dlsym(handle, "dgemm_")})), 1.0);
  dlclose(handle);
}

TEST(CpuBlas, AnAddressOutsideAllLibrariesIsNoNextBlas) {
  int local = 0;
  EXPECT_EQ(call_dgemm(*CpuBlas::open("", {.next_gemm = &local})), 1.0);
}

TEST(CpuBlas, ComputesLikeTheOracle) {
  const auto blas = CpuBlas::open("");
  test::for_each_small_problem([&](auto& fixture) {
    blas->run(fixture.problem());
    ASSERT_TRUE(fixture.check());
  });
}

const std::vector<std::string> gemmt_symbols = {"sgemmt_", "dgemmt_", "cgemmt_", "zgemmt_"};

/// Calls f(fixture) for every variant, factor, and size around the blocks into which a triangle is divided.
template <Scalar T, class F>
void for_each_gemmt(F&& f) {
  const ScalarType type = scalar_type_of<T>();
  for (const index_t n : {1, 63, 64, 65, 129, 200}) {
    for (const AnyScalar alpha : {AnyScalar(1), test::factors(type).back()}) {
      for (const AnyScalar beta : test::factors(type)) {
        const Level3Case base{.routine = Routine::gemmt, .n = n, .k = 5, .alpha = alpha, .beta = beta, .padding = 2};
        test::for_each_variant(type, base, [&](const Level3Case& c) {
          Level3Fixture<T> fixture(c, 3);
          if (!::testing::Test::HasFatalFailure()) f(fixture);
        });
      }
    }
  }
}

// A BLAS without gemmt. Of its functions only dgemm has an effect.
TEST(CpuBlas, GemmtIsMadeOfGemmWhereTheBlasHasNone) {
  std::vector<std::string> missing = gemmt_symbols;
  missing.push_back("dgemm_");
  const SharedLibrary library(fake_blas_source(0, missing) + R"(
    void dgemm_(char*ta,char*tb,int*m,int*n,int*k,double*al,double*a,int*lda,double*b,int*ldb,double*be,double*c,
                int*ldc) {
      for (int j = 0; j < *n; ++j)
        for (int i = 0; i < *m; ++i) {
          double sum = 0;
          for (int l = 0; l < *k; ++l)
            sum += (*ta == 'N' ? a[i + l * *lda] : a[l + i * *lda]) * (*tb == 'N' ? b[l + j * *ldb] : b[j + l * *ldb]);
          c[i + j * *ldc] = *al * sum + (*be == 0 ? 0 : *be * c[i + j * *ldc]);
        }
    })");
  ASSERT_TRUE(library.built());
  const auto blas = CpuBlas::open(library.path());
  for_each_gemmt<double>([&](auto& fixture) {
    blas->run(fixture.problem());
    ASSERT_TRUE(fixture.check());
  });
}

/// A gemmt of all types under a name. The real ones leave a sign; the complex ones multiply numbers by the conjugate of
/// B.
/// @param more further statements of these functions
std::string fake_gemmt_source(const std::string& name, const std::string& more) {
  std::string source;
  for (const std::string letter : {"s", "d", "c", "z"}) {
    const std::string real = letter == "s" || letter == "c" ? "float" : "double";
    source += "void " + letter + name + "_(char*u,char*ta,char*tb,int*n,int*k,void*al," + real + "*a,int*lda," + real +
              "*b,int*ldb,void*be," + real + "*c,int*ldc) {";
    if (letter == "s" || letter == "d") {
      source += "*c = 100 * *n + 10 * *k + *ldc; }\n";
    } else {
      source += "c[0] = a[0] * b[0] + a[1] * b[1]; c[1] = a[1] * b[0] - a[0] * b[1];" + more + "}\n";
    }
  }
  return source;
}

double first_element_of_gemmt(const CpuBlas& blas) {
  Level3Fixture<double> fixture({.routine = Routine::gemmt, .n = 3, .k = 4, .padding = 2}, 1);
  blas.run(fixture.problem());
  return fixture.C()[0];
}

TEST(CpuBlas, GemmtIsTheBlasOwnUnderEitherName) {
  for (const char* name : {"gemmt", "gemmtr"}) {
    const SharedLibrary library(fake_blas_source(0, gemmt_symbols) + fake_gemmt_source(name, ""));
    ASSERT_TRUE(library.built());
    EXPECT_EQ(first_element_of_gemmt(*CpuBlas::open(library.path())), 345) << name;
  }
}

// As older versions of OpenBLAS do.
TEST(CpuBlas, AGemmtThatWritesToItsOperandsIsNotTaken) {
  const SharedLibrary library(fake_blas_source(0, gemmt_symbols) + fake_gemmt_source("gemmt", "b[1] = -b[1];"));
  ASSERT_TRUE(library.built());
  EXPECT_NE(first_element_of_gemmt(*CpuBlas::open(library.path())), 345);
}

TEST(GemmtPieces, CoverTheTriangleOnce) {
  const auto run = [](auto& fixture) {
    kernels::for_each_gemmt_piece(fixture.problem(), [](const Level3& piece) {
      EXPECT_TRUE(piece.routine == Routine::gemm || piece.n <= kernels::gemmt_diagonal) << piece.n;
      kernels::reference_level3(piece);
    });
    ASSERT_TRUE(fixture.check());  // with any beta but 1, a block that is computed twice shows
  };
  for_each_gemmt<float>(run);
  for_each_gemmt<std::complex<double>>(run);
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

TEST(CpuBlas, ALeadingDimensionBeyond32BitsIsLeftToTheReferenceForTriangularMatricesToo) {
  const index_t ld = (index_t{1} << 31) + 8;
  const std::size_t bytes = static_cast<std::size_t>(ld + 16) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of 8 GiB";
  // [2 0; 3 4] X = [8; 20]
  float* const A = static_cast<float*>(memory);
  A[0] = 2;
  A[1] = 3;
  A[ld + 1] = 4;
  float X[2] = {8, 20};
  CpuBlas::open("")->run(
      {.routine = Routine::trsm, .type = ScalarType::s, .m = 2, .n = 1, .A = A, .lda = ld, .C = X, .ldc = 2});
  EXPECT_EQ(X[0], 4.0f);
  EXPECT_EQ(X[1], 2.0f);
  munmap(memory, bytes);
}

}  // namespace cpu_blas_test
}  // namespace tessera
