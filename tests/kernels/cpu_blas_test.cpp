// The loader of the CPU BLAS and its ten routines, the division of products that do not fit its integers, and the
// readable reference.
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
#include "kernels/host/gemm_pieces.hpp"
#include "kernels/host/gemmt_pieces.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/level3_problem.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera {
namespace cpu_blas_test {

using kernels::CpuBlas;
using kernels::for_each_gemm_piece;
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

/// Calls f(fixture) for every routine, type, variant and factor, on shapes of which some are empty.
template <class F>
void for_each_problem(F&& f) {
  struct Shape {
    index_t m, n, k, padding;
  };
  constexpr Shape shapes[] = {{1, 1, 1, 0}, {9, 1, 4, 2}, {1, 8, 3, 0}, {17, 13, 21, 3},
                              {5, 4, 0, 1}, {0, 3, 2, 1}, {3, 0, 2, 1}};
  for (const Routine routine : test::all_routines) {
    for (const ScalarType type : test::types_of(routine)) {
      dispatch(type, [&]<Scalar T>(T) {
        for (const Shape& s : shapes) {
          for (const AnyScalar alpha : test::factors(type)) {
            for (const AnyScalar beta : test::factors(type)) {
              for (const bool apart : {false, true}) {
                if (apart && routine != Routine::trmm) continue;
                const Level3Case base{.routine = routine,
                                      .m = s.m,
                                      .n = s.n,
                                      .k = s.k,
                                      .alpha = alpha,
                                      .beta = beta,
                                      .padding = s.padding,
                                      .apart = apart};
                test::for_each_variant(type, base, [&](const Level3Case& c) {
                  Level3Fixture<T> fixture(c, 1);
                  if (!::testing::Test::HasFatalFailure()) f(fixture);
                });
              }
            }
          }
        }
      });
    }
  }
}

TEST(CpuBlas, ComputesLikeTheOracle) {
  const auto blas = CpuBlas::open("");
  for_each_problem([&](auto& fixture) {
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

TEST(GemmPieces, AddUpToTheProduct) {
  // A limit of 8 stands for 2^31 - 1; the shapes lie below it, at it, and beyond it in each dimension.
  constexpr index_t shapes[][4] = {{8, 8, 8, 0}, {9, 5, 7, 2}, {3, 17, 4, 1}, {4, 3, 19, 0}, {5, 4, 0, 1}};
  for (const index_t limit : {index_t{1}, index_t{3}, index_t{8}}) {
    for (const auto& [m, n, k, padding] : shapes) {
      for (const AnyScalar alpha : test::factors(ScalarType::z)) {
        for (const AnyScalar beta : test::factors(ScalarType::z)) {
          const Level3Case base{.m = m, .n = n, .k = k, .alpha = alpha, .beta = beta, .padding = padding};
          test::for_each_variant(ScalarType::z, base, [&](const Level3Case& c) {
            Level3Fixture<std::complex<double>> fixture(c, 1);
            const Level3 p = fixture.problem();
            index_t volume = 0;
            for_each_gemm_piece(p, limit, [&](const Level3& piece) {
              EXPECT_TRUE(piece.m >= 1 && piece.m <= limit && piece.n >= 1 && piece.n <= limit && piece.k <= limit);
              volume += piece.m * piece.n * piece.k;
              kernels::reference_level3(piece);
            });
            EXPECT_EQ(volume, p.m * p.n * p.k);
            EXPECT_TRUE(fixture.check());
          });
        }
      }
    }
  }
}

TEST(GemmPieces, ReachBeyond32Bits) {
  // Only addresses are computed: nothing is read.
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
  for_each_problem([&](auto& fixture) {
    kernels::reference_level3(fixture.problem());
    ASSERT_TRUE(fixture.check());
  });
}

TEST(Reference, ComputesAProductDoneByHand) {
  // The oracle itself is checked by hand: [1+i 2; 0 i] * [i; 3-i] = [5-i; 1+3i], and with X conjugated and transposed.
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

TEST(Reference, ComputesTheOtherRoutinesDoneByHand) {
  using z = std::complex<double>;
  using Matrix = std::vector<z>;  // 2 x 2, column-major
  const z i(0, 1);
  const Matrix before = {1, 2, 3, 4};
  const auto expect = [&](Level3 call, const Matrix& A, const Matrix& B, const Matrix& expected) {
    for (const auto& compute : {kernels::reference_level3, kernels::oracle_level3}) {
      Matrix C = before;
      call.type = ScalarType::z;
      call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 2;
      call.A = A.data();
      call.B = call.is_triangular() ? C.data() : B.data();
      call.C = C.data();
      compute(call);
      EXPECT_EQ(C, expected) << name_of(call);
    }
  };
  // The lower triangle of A is [i .; 2 1]: symmetric [i 2; 2 1], Hermitian [0 2; 2 1] (its first element counts as 0).
  const Matrix A = {i, 2, 77, 1};
  const Matrix unit = {1, 0, 0, 1};
  const Matrix X = {1, i, 0, 1};  // [1 0; i 1]
  expect({.routine = Routine::symm, .beta = 2}, A, unit, {2.0 + i, 6, 8, 9});
  expect({.routine = Routine::hemm, .beta = 2}, A, unit, {2, 6, 8, 9});
  expect({.routine = Routine::symm, .side = Side::right}, A, X, {i, 1, 2, 1.0 + 2.0 * i});
  // The upper triangle of a Hermitian matrix [3 1+i; 1-i 2] times the unit matrix.
  expect({.routine = Routine::hemm, .uplo = Uplo::upper}, {3, 77, 1.0 + i, 2}, unit, {3, 1.0 - i, 1.0 + i, 2});
  // X X^T = [1 i; i 0], X X^H = [1 -i; i 2], X^H X = [2 -i; i 1].
  expect({.routine = Routine::syrk, .beta = 1}, X, {}, {2, 2.0 + i, 3, 4});
  expect({.routine = Routine::herk, .beta = 1}, X, {}, {2, 2.0 + i, 3, 6});
  expect({.routine = Routine::herk, .uplo = Uplo::upper, .op_a = Op::conj_trans}, X, {}, {2, 2, -i, 1});
  // X B^T for B = [1 2; 0 3]: [1 0; 2+i 3]; conj(X)^T B = [1 2-3i; 0 3]. The other triangle stays as it is.
  expect({.routine = Routine::gemmt, .op_b = Op::trans, .beta = 1}, X, {1, 0, 2, 3}, {2, 4.0 + i, 3, 7});
  expect({.routine = Routine::gemmt, .uplo = Uplo::upper, .op_a = Op::conj_trans}, X, {1, 0, 2, 3},
         {1, 2, 2.0 - 3.0 * i, 3});
  // i X B^T + i B X^T and i X B^H - i B X^H for B = [0 0; 1 0]: X B^T = [0 1; 0 i], X B^H the same.
  expect({.routine = Routine::syr2k, .alpha = i}, X, {0, 1, 0, 0}, {0, i, 3, -2});
  expect({.routine = Routine::her2k, .uplo = Uplo::upper, .alpha = i}, X, {0, 1, 0, 0}, {0, 2, i, -2});
  // [1 .; i 1] times [1 3; 2 4], and its transpose, and from the right, where the upper triangle is [1 2; . 1].
  expect({.routine = Routine::trmm}, X, {}, {1, 2.0 + i, 3, 4.0 + 3.0 * i});
  expect({.routine = Routine::trmm, .op_a = Op::conj_trans}, X, {}, {1.0 - 2.0 * i, 2, 3.0 - 4.0 * i, 4});
  expect({.routine = Routine::trmm, .side = Side::right, .uplo = Uplo::upper}, {1, 77, 2, 1}, {}, {1, 2, 5, 8});
  // And back: these solve what the three above multiplied, scaled by 2.
  expect({.routine = Routine::trsm, .alpha = 2}, X, {}, {2, 4.0 - 2.0 * i, 6, 8.0 - 6.0 * i});
  expect({.routine = Routine::trsm, .op_a = Op::trans, .diag = Diag::unit}, {77, i, 0, 77}, {},
         {1.0 - 2.0 * i, 2, 3.0 - 4.0 * i, 4});
  expect({.routine = Routine::trsm, .side = Side::right, .uplo = Uplo::upper}, {1, 77, 2, 2}, {}, {1, 2, 0.5, 0});
}

TEST(Level3Fixture, RefusesWhatIsWrong) {
  // All tests of kernels and routines rely on these: one wrong element, a forbidden write, or no computation at all
  // must show.
  for (const Routine routine : test::all_routines) {
    const ScalarType type = test::types_of(routine).back();
    const Level3Case base{.routine = routine, .m = 6, .n = 6, .k = 6, .alpha = 0.5, .beta = 1, .padding = 2};
    test::for_each_variant(type, base, [&](const Level3Case& c) {
      using T = std::complex<double>;
      const auto right = [&] {
        Level3Fixture<T> fixture(c, 7);
        kernels::reference_level3(fixture.problem());
        return fixture;
      };
      Level3Fixture<T> untouched(c, 7);
      EXPECT_FALSE(untouched.check()) << c;
      EXPECT_TRUE(right().check()) << c;
      for (std::size_t at = 0; at < right().C().size(); ++at) {
        Level3Fixture<T> wrong = right();
        T& element = wrong.C()[at];
        element = std::isnan(element.real()) ? T(1) : element + T(1e-12);
        EXPECT_FALSE(wrong.check()) << c << " at " << at;
        Level3Fixture<T> wrong_input = right();
        wrong_input.A()[at] = 3;
        EXPECT_FALSE(wrong_input.check()) << c << " at " << at;
      }
      if (right().B().empty()) return;
      Level3Fixture<T> wrong_input = right();
      wrong_input.B()[0] = 3;
      EXPECT_FALSE(wrong_input.check()) << c;
    });
  }
}

}  // namespace cpu_blas_test
}  // namespace tessera
