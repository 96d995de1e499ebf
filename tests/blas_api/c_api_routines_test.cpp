// All ten routines through the C++ veneer, hence through the C API: results on host devices against the oracle, for every
// variant and both layouts, and the positions and texts of errors. More about errors of gemm is in c_api_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace c_api_routines_test {

using testing::HasSubstr;

/// A call in the caller's layout. The routines' own names for these are op_a for trans and C for B of trmm and trsm.
struct Variant {
  Routine routine;
  tessera_layout layout;
  tessera_side side = TESSERA_LEFT;
  tessera_uplo uplo = TESSERA_UPPER;
  tessera_transpose op_a = TESSERA_NO_TRANS;
  tessera_transpose op_b = TESSERA_NO_TRANS;
  tessera_diag diag = TESSERA_NON_UNIT;
};

template <Scalar T>
constexpr bool is_complex_type = !std::floating_point<T>;

template <Scalar T>
T random_value(std::mt19937& random) {
  std::uniform_real_distribution<double> value(-0.5, 0.5);
  const double real = value(random);
  return scalar_cast<T>(AnyScalar(real, value(random)));
}

template <Scalar T>
T nan_value() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return scalar_cast<T>(AnyScalar(nan, nan));
}

/// A matrix of rows x cols in the caller's layout, the padding NaN.
template <Scalar T>
class Matrix {
 public:
  Matrix(index_t rows, index_t cols, bool row_major, index_t padding, std::mt19937& random)
      : rows_(rows), cols_(cols), row_major_(row_major), ld_((row_major ? cols : rows) + padding) {
    elements_.assign(static_cast<std::size_t>(ld_ * (row_major ? rows : cols)), nan_value<T>());
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < cols; ++j) at(i, j) = random_value<T>(random);
    }
  }
  index_t rows() const { return rows_; }
  index_t cols() const { return cols_; }
  index_t ld() const { return ld_; }
  T* data() { return elements_.data(); }
  const T* data() const { return elements_.data(); }
  T& at(index_t i, index_t j) { return elements_[static_cast<std::size_t>(row_major_ ? i * ld_ + j : i + j * ld_)]; }
  T at(index_t i, index_t j) const { return const_cast<Matrix&>(*this).at(i, j); }
  /// Column-major without padding: what the oracle reads.
  std::vector<T> packed() const {
    std::vector<T> packed(static_cast<std::size_t>(rows_ * cols_));
    for (index_t j = 0; j < cols_; ++j) {
      for (index_t i = 0; i < rows_; ++i) packed[static_cast<std::size_t>(i + j * rows_)] = at(i, j);
    }
    return packed;
  }
  const std::vector<T>& elements() const { return elements_; }

 private:
  index_t rows_, cols_;
  bool row_major_;
  index_t ld_;
  std::vector<T> elements_;
};

/// Spoils what the routine must not read: the other triangle and, of a unit one, the diagonal. Makes the rest easy to solve
/// with.
template <Scalar T>
void make_triangle(Matrix<T>& A, tessera_uplo uplo, bool is_unit, bool is_solved) {
  for (index_t i = 0; i < A.rows(); ++i) {
    for (index_t j = 0; j < A.cols(); ++j) {
      if (i == j) {
        A.at(i, j) = is_unit ? nan_value<T>() : is_solved ? A.at(i, j) + T(3) : A.at(i, j);
      } else if ((i < j) != (uplo == TESSERA_UPPER)) {
        A.at(i, j) = nan_value<T>();
      } else if (is_solved) {
        A.at(i, j) *= T(0.125F);
      }
    }
  }
}

template <Scalar T>
void check_variant(const Context& context, const Variant& v, T alpha, T beta, index_t m, index_t n, index_t k,
                   std::mt19937& random) {
  const Routine routine = v.routine;
  const bool row_major = v.layout == TESSERA_ROW_MAJOR;
  Level3 call = {.routine = routine,
                 .type = scalar_type_of<T>(),
                 .side = v.side == TESSERA_LEFT ? Side::left : Side::right,
                 .uplo = v.uplo == TESSERA_UPPER ? Uplo::upper : Uplo::lower,
                 .op_a = static_cast<Op>(v.op_a - TESSERA_NO_TRANS),
                 .op_b = static_cast<Op>(v.op_b - TESSERA_NO_TRANS),
                 .diag = v.diag == TESSERA_UNIT ? Diag::unit : Diag::non_unit};
  const bool is_update = call.updates_triangle();
  if (is_update) m = n;
  call.m = m;
  call.n = n;
  call.k = call.has_k() ? k : 0;
  if (routine == Routine::herk) alpha = T(std::real(alpha));
  if (routine == Routine::herk || routine == Routine::her2k) beta = T(std::real(beta));
  call.alpha = alpha;
  call.beta = call.is_triangular() ? T(0) : beta;

  const index_t order = call.side == Side::left ? m : n;
  const bool plain_a = call.op_a == Op::no_trans, plain_b = call.op_b == Op::no_trans;
  Matrix<T> A = !call.has_k() ? Matrix<T>(order, order, row_major, 2, random)
                : plain_a     ? Matrix<T>(m, k, row_major, 2, random)
                              : Matrix<T>(k, m, row_major, 2, random);
  Matrix<T> B = call.has_op_b() ? Matrix<T>(plain_b ? k : n, plain_b ? n : k, row_major, 1, random)
                : is_update     ? Matrix<T>(A.rows(), A.cols(), row_major, 1, random)
                                : Matrix<T>(m, n, row_major, 1, random);
  Matrix<T> C(m, n, row_major, 3, random);
  if (!call.has_k())
    make_triangle(A, v.uplo, call.is_triangular() && call.diag == Diag::unit, routine == Routine::trsm);
  if (!call.is_triangular() && beta == T(0)) {
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) C.at(i, j) = nan_value<T>();
    }
  }

  const std::vector<T> packed_a = A.packed(), packed_b = B.packed();
  std::vector<T> expected = C.packed();
  call.A = packed_a.data();
  call.lda = A.rows();
  call.B = routine == Routine::trmm ? expected.data() : packed_b.data();
  call.ldb = B.rows();
  call.C = expected.data();
  call.ldc = m;
  kernels::oracle_level3(call);

  const Matrix<T> before = C;
  const auto real = [](T value) { return std::real(value); };
  switch (routine) {
    case Routine::gemm:
      gemm(context, v.layout, v.op_a, v.op_b, m, n, k, alpha, A.data(), A.ld(), B.data(), B.ld(), beta, C.data(),
           C.ld());
      break;
    case Routine::gemmt:
      gemmt(context, v.layout, v.uplo, v.op_a, v.op_b, n, k, alpha, A.data(), A.ld(), B.data(), B.ld(), beta, C.data(),
            C.ld());
      break;
    case Routine::symm:
      symm(context, v.layout, v.side, v.uplo, m, n, alpha, A.data(), A.ld(), B.data(), B.ld(), beta, C.data(), C.ld());
      break;
    case Routine::syrk:
      syrk(context, v.layout, v.uplo, v.op_a, n, k, alpha, A.data(), A.ld(), beta, C.data(), C.ld());
      break;
    case Routine::syr2k:
      syr2k(context, v.layout, v.uplo, v.op_a, n, k, alpha, A.data(), A.ld(), B.data(), B.ld(), beta, C.data(), C.ld());
      break;
    case Routine::trmm:
      trmm(context, v.layout, v.side, v.uplo, v.op_a, v.diag, m, n, alpha, A.data(), A.ld(), C.data(), C.ld());
      break;
    case Routine::trsm:
      trsm(context, v.layout, v.side, v.uplo, v.op_a, v.diag, m, n, alpha, A.data(), A.ld(), C.data(), C.ld());
      break;
    default:
      if constexpr (is_complex_type<T>) {
        if (routine == Routine::hemm) {
          hemm(context, v.layout, v.side, v.uplo, m, n, alpha, A.data(), A.ld(), B.data(), B.ld(), beta, C.data(),
               C.ld());
        } else if (routine == Routine::herk) {
          herk(context, v.layout, v.uplo, v.op_a, n, k, real(alpha), A.data(), A.ld(), real(beta), C.data(), C.ld());
        } else {
          her2k(context, v.layout, v.uplo, v.op_a, n, k, alpha, A.data(), A.ld(), B.data(), B.ld(), real(beta),
                C.data(), C.ld());
        }
      }
  }

  const bool single = std::same_as<T, float> || std::same_as<T, std::complex<float>>;
  const double bound = (single ? 6e-8 : 1.2e-16) * 32 * static_cast<double>(std::max({m, n, k}) + 4);
  Matrix<T> padding = before;
  for (index_t i = 0; i < m; ++i) {
    for (index_t j = 0; j < n; ++j) {
      const T wanted = expected[static_cast<std::size_t>(i + j * m)];
      const bool untouched = is_update && i != j && (i < j) != (v.uplo == TESSERA_UPPER);
      if (!untouched) {
        ASSERT_LE(std::abs(C.at(i, j) - wanted), bound) << i << "," << j << ": " << C.at(i, j) << " not " << wanted;
        if (call.is_hermitian() && is_update && i == j) {
          ASSERT_EQ(std::imag(C.at(i, j)), 0) << i;
        }
        padding.at(i, j) = C.at(i, j);
      }
    }
  }
  // All other elements, and the padding, must be as they were.
  ASSERT_EQ(std::memcmp(padding.data(), C.data(), C.elements().size() * sizeof(T)), 0);
  const nlohmann::json job = nlohmann::json::parse(context.last_job_json());
  ASSERT_EQ(job["routine"], name_of(call));
  ASSERT_EQ(job["k"], call.has_k() ? k : order);
  ASSERT_EQ(job["m"], row_major ? n : m);
  ASSERT_EQ(context.last_job_stats().flops, flops_of(call));
}

/// All variants of a routine that differ in meaning.
template <Scalar T>
std::vector<Variant> variants_of(Routine routine) {
  std::vector<Variant> variants;
  const Level3 call = {.routine = routine};
  const std::vector<tessera_transpose> all_ops = {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS};
  const auto has_op = [&](tessera_transpose op) {
    if (call.has_op_b() || call.is_triangular()) return true;
    if (!call.is_rank_update()) return op == TESSERA_NO_TRANS;
    return !is_complex_type<T> || op != (call.is_hermitian() ? TESSERA_TRANS : TESSERA_CONJ_TRANS);
  };
  const bool has_side = !call.has_k(), has_uplo = routine != Routine::gemm;
  for (const tessera_layout layout : {TESSERA_COL_MAJOR, TESSERA_ROW_MAJOR})
    for (const tessera_side side : {TESSERA_LEFT, TESSERA_RIGHT})
      for (const tessera_uplo uplo : {TESSERA_UPPER, TESSERA_LOWER})
        for (const tessera_diag diag : {TESSERA_NON_UNIT, TESSERA_UNIT})
          for (const tessera_transpose op_b : all_ops)
            for (const tessera_transpose op_a : all_ops) {
              if (!has_op(op_a)) continue;
              if (!has_side && side == TESSERA_RIGHT) continue;
              if (!has_uplo && uplo == TESSERA_LOWER) continue;
              if (!call.is_triangular() && diag == TESSERA_UNIT) continue;
              if (!call.has_op_b() && op_b != TESSERA_NO_TRANS) continue;
              variants.push_back({routine, layout, side, uplo, op_a, op_b, diag});
            }
  return variants;
}

template <Scalar T>
std::vector<Routine> routines_of() {
  std::vector<Routine> routines;
  for (const Routine routine : level3_routines) {
    const Level3 call = {.routine = routine};
    if (is_complex_type<T> || !call.is_hermitian()) routines.push_back(call.routine);
  }
  return routines;
}

std::string text_of(const Variant& v) {
  return std::string(name_of(v.routine)) + " layout " + std::to_string(v.layout) + " side " + std::to_string(v.side) +
         " uplo " + std::to_string(v.uplo) + " ops " + std::to_string(v.op_a) + "," + std::to_string(v.op_b) +
         " diag " + std::to_string(v.diag);
}

template <class T>
class CApiRoutines : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CApiRoutines, Scalars);

TYPED_TEST(CApiRoutines, AgreeWithTheOracleInEveryVariant) {
  using T = TypeParam;
  std::mt19937 random(7);
  const T other = scalar_cast<T>(AnyScalar(1.25, -0.5));
  for (const int devices : {1, 3}) {
    const Context context("TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_DEVICES=host:" + std::to_string(devices));
    for (const Routine routine : routines_of<T>()) {
      for (const Variant& variant : variants_of<T>(routine)) {
        for (const T beta : {T(0), other}) {
          ASSERT_NO_FATAL_FAILURE(check_variant<T>(context, variant, other, beta, 37, 29, 41, random))
              << text_of(variant) << " beta " << beta << " devices " << devices;
          ASSERT_EQ(context.last_job_stats().devices, devices);
        }
      }
    }
  }
}

TYPED_TEST(CApiRoutines, AgreeWithTheOracleOnTheCpu) {
  using T = TypeParam;
  std::mt19937 random(8);
  const T other = scalar_cast<T>(AnyScalar(1.25, -0.5));
  const Context context("TESSERA_DEVICES=none");
  for (const Routine routine : routines_of<T>()) {
    for (const Variant& variant : variants_of<T>(routine)) {
      for (const T alpha : {T(1), other}) {
        ASSERT_NO_FATAL_FAILURE(check_variant<T>(context, variant, alpha, other, 7, 5, 3, random)) << text_of(variant);
      }
    }
  }
  EXPECT_EQ(context.last_job_stats().devices, 0);
}

TYPED_TEST(CApiRoutines, WithoutAProductOnlyScaleAndReadNothing) {
  using T = TypeParam;
  using Real = decltype(std::real(T()));
  const Context context("TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_DEVICES=host:2");
  const auto matrix = [] { return std::vector<T>(25, scalar_cast<T>(AnyScalar(2, 2))); };
  const T* const none = nullptr;
  for (const bool zero_depth : {false, true}) {
    const index_t k = zero_depth ? 0 : 5;
    const T alpha = zero_depth ? T(1) : T(0);
    for (const T beta : {T(0), T(1), T(3)}) {
      // Of a symmetric C the upper triangle is scaled.
      const auto expect_scaled = [&](const std::vector<T>& C, bool is_triangle, bool is_hermitian) {
        for (index_t j = 0; j < 5; ++j) {
          for (index_t i = 0; i < 5; ++i) {
            T expected = scalar_cast<T>(AnyScalar(2, 2));
            if (!is_triangle || i <= j) expected *= beta;
            if (is_hermitian && i == j && beta != T(1)) expected = T(std::real(expected));
            ASSERT_EQ(C[static_cast<std::size_t>(i + j * 5)], expected) << i << "," << j << " beta " << beta;
          }
        }
      };
      std::vector<T> C = matrix();
      gemm(context, TESSERA_COL_MAJOR, TESSERA_TRANS, TESSERA_TRANS, 5, 5, k, alpha, none, 5, none, 5, beta, C.data(),
           5);
      expect_scaled(C, false, false);
      C = matrix();
      gemmt(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_TRANS, TESSERA_NO_TRANS, 5, k, alpha, none, 5, none, 5,
            beta, C.data(), 5);
      expect_scaled(C, true, false);
      C = matrix();
      syrk(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_NO_TRANS, 5, k, alpha, none, 5, beta, C.data(), 5);
      expect_scaled(C, true, false);
      C = matrix();
      syr2k(context, TESSERA_ROW_MAJOR, TESSERA_LOWER, TESSERA_TRANS, 5, k, alpha, none, 5, none, 5, beta, C.data(), 5);
      expect_scaled(C, true, false);
      if (!zero_depth) {
        C = matrix();
        symm(context, TESSERA_COL_MAJOR, TESSERA_LEFT, TESSERA_UPPER, 5, 5, alpha, none, 5, none, 5, beta, C.data(), 5);
        expect_scaled(C, false, false);
      }
      if constexpr (is_complex_type<T>) {
        C = matrix();
        herk(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_NO_TRANS, 5, k, std::real(alpha), none, 5,
             Real(std::real(beta)), C.data(), 5);
        expect_scaled(C, true, true);
        C = matrix();
        her2k(context, TESSERA_ROW_MAJOR, TESSERA_LOWER, TESSERA_CONJ_TRANS, 5, k, alpha, none, 5, none, 5,
              Real(std::real(beta)), C.data(), 5);
        expect_scaled(C, true, true);
        if (!zero_depth) {
          C = matrix();
          hemm(context, TESSERA_COL_MAJOR, TESSERA_RIGHT, TESSERA_UPPER, 5, 5, alpha, none, 5, none, 5, beta, C.data(),
               5);
          expect_scaled(C, false, false);
        }
      }
    }
  }
  std::vector<T> B(25, nan_value<T>());
  trmm(context, TESSERA_COL_MAJOR, TESSERA_LEFT, TESSERA_UPPER, TESSERA_TRANS, TESSERA_UNIT, 5, 5, T(0), none, 5,
       B.data(), 5);
  EXPECT_EQ(B, std::vector<T>(25, T(0)));
  B.assign(25, nan_value<T>());
  trsm(context, TESSERA_ROW_MAJOR, TESSERA_RIGHT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, 5, 5, T(0), none,
       5, B.data(), 5);
  EXPECT_EQ(B, std::vector<T>(25, T(0)));
  EXPECT_EQ(context.last_job_stats().devices, 0);
}

// Wherever it is computed; the reference BLAS multiplies by a real number.
TEST(CApiHermitianUpdates, WithoutAProductKeepInfinitiesApart) {
  using T = std::complex<double>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const T* const none = nullptr;
  for (const char* const settings :
       {"TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_DEVICES=host:2", "TESSERA_DEVICES=none"}) {
    const Context context(settings);
    for (const double beta : {0.0, 1.0, 2.0}) {
      for (const bool twice : {false, true}) {
        // Columns; the lower triangle is not touched.
        std::vector<T> C = {{infinity, 3}, {5, 5}, {infinity, 1}, {1, infinity}};
        if (twice) {
          her2k(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_NO_TRANS, 2, 5, T(0), none, 2, none, 2, beta,
                C.data(), 2);
        } else {
          herk(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_NO_TRANS, 2, 5, 0.0, none, 2, beta, C.data(), 2);
        }
        std::vector<T> expected = {{infinity, 3}, {5, 5}, {infinity, 1}, {1, infinity}};
        if (beta == 0) expected = {0, {5, 5}, 0, 0};
        if (beta == 2) expected = {{infinity, 0}, {5, 5}, {infinity, 2}, {2, 0}};
        EXPECT_EQ(C, expected) << settings << ", beta " << beta << (twice ? ", her2k" : ", herk");
      }
    }
  }
}

TEST(CApiRoutineErrors, PositionsAndTexts) {
  const Context context("TESSERA_DEVICES=none");
  const tessera_context ctx = context.handle();
  double A[64] = {}, B[64] = {}, C[64] = {};
  const auto expect = [](tessera_status status, int position, const char* text) {
    EXPECT_EQ(status, TESSERA_INVALID_ARGUMENT) << text;
    EXPECT_EQ(tessera_last_error_position(), position) << text;
    EXPECT_THAT(tessera_last_error(), HasSubstr(text));
    EXPECT_THAT(tessera_last_error(), HasSubstr("argument " + std::to_string(position) + ": "));
  };
  // No enumerators, where C can pass any int.
  const auto side = static_cast<tessera_side>(140);
  const auto uplo = static_cast<tessera_uplo>(120);
  const auto trans = static_cast<tessera_transpose>(110);
  const auto diag = static_cast<tessera_diag>(130);
  constexpr auto col = TESSERA_COL_MAJOR, row = TESSERA_ROW_MAJOR;
  constexpr auto l = TESSERA_LEFT, r = TESSERA_RIGHT;
  constexpr auto u = TESSERA_UPPER;
  constexpr auto nt = TESSERA_NO_TRANS, tr = TESSERA_TRANS, ct = TESSERA_CONJ_TRANS;
  constexpr auto nu = TESSERA_NON_UNIT;

  expect(tessera_dsymm(nullptr, col, l, u, 2, 3, 1, A, 2, B, 2, 1, C, 2), 1, "ctx");
  expect(tessera_dsymm(ctx, col, side, u, 2, 3, 1, A, 2, B, 2, 1, C, 2), 3, "side is neither");
  expect(tessera_dsymm(ctx, col, l, uplo, 2, 3, 1, A, 2, B, 2, 1, C, 2), 4, "uplo is neither");
  expect(tessera_dsymm(ctx, row, l, u, -2, -3, 1, A, 2, B, 2, 1, C, 2), 5, "m is negative");
  expect(tessera_dsymm(ctx, col, r, u, 2, 3, 1, A, 2, B, 2, 1, C, 2), 9, "lda");
  expect(tessera_dsymm(ctx, row, l, u, 2, 3, 1, A, 2, B, 2, 1, C, 3), 11, "ldb");
  expect(tessera_dsymm(ctx, row, l, u, 2, 3, 1, A, 2, B, 3, 1, C, 2), 14, "ldc");
  expect(tessera_dsymm(ctx, col, l, u, 2, 3, 1, nullptr, 2, B, 2, 1, C, 2), 8, "A is null");
  expect(tessera_dsymm(ctx, col, l, u, 2, 3, 1, A, 2, nullptr, 2, 1, C, 2), 10, "B is null");
  expect(tessera_dsymm(ctx, col, l, u, 2, 3, 1, A, 2, B, 2, 1, nullptr, 2), 13, "C is null");

  expect(tessera_dsyrk(ctx, col, uplo, nt, 2, 3, 1, A, 2, 1, C, 2), 3, "uplo");
  expect(tessera_dsyrk(ctx, col, u, trans, 2, 3, 1, A, 2, 1, C, 2), 4, "trans is none of");
  EXPECT_EQ(tessera_dsyrk(ctx, col, u, ct, 2, 3, 1, A, 3, 1, C, 2), TESSERA_SUCCESS) << "real";
  expect(tessera_dsyrk(ctx, col, u, nt, -2, 3, 1, A, 2, 1, C, 2), 5, "n is negative");
  expect(tessera_dsyrk(ctx, col, u, nt, 2, -3, 1, A, 2, 1, C, 2), 6, "k is negative");
  expect(tessera_dsyrk(ctx, col, u, tr, 2, 3, 1, A, 2, 1, C, 2), 9, "lda");
  expect(tessera_dsyrk(ctx, row, u, nt, 2, 3, 1, A, 2, 1, C, 2), 9, "lda");
  expect(tessera_dsyrk(ctx, col, u, nt, 2, 3, 1, nullptr, 2, 1, C, 2), 8, "A is null");
  expect(tessera_dsyrk(ctx, col, u, nt, 2, 3, 1, A, 2, 1, nullptr, 2), 11, "C is null");
  expect(tessera_dsyrk(ctx, col, u, nt, 2, 3, 1, A, 2, 1, C, 1), 12, "ldc");
  for (const tessera_layout layout : {col, row}) {
    const double one[2] = {1, 0};
    expect(tessera_zsyrk(ctx, layout, u, ct, 2, 2, one, A, 2, one, C, 2), 4, "trans is neither");
    expect(tessera_zsyr2k(ctx, layout, u, ct, 2, 2, one, A, 2, B, 2, one, C, 2), 4,
           "TESSERA_NO_TRANS nor TESSERA_TRANS");
    expect(tessera_zherk(ctx, layout, u, tr, 2, 2, 1, A, 2, 1, C, 2), 4, "TESSERA_NO_TRANS nor TESSERA_CONJ_TRANS");
    expect(tessera_zher2k(ctx, layout, u, tr, 2, 2, one, A, 2, B, 2, 1, C, 2), 4, "trans is neither");
    expect(tessera_zsyrk(ctx, layout, u, nt, 2, 2, nullptr, A, 2, one, C, 2), 7, "alpha is null");
    expect(tessera_zsyrk(ctx, layout, u, nt, 2, 2, one, A, 2, nullptr, C, 2), 10, "beta is null");
    expect(tessera_zher2k(ctx, layout, u, nt, 2, 2, nullptr, A, 2, B, 2, 1, C, 2), 7, "alpha is null");
    expect(tessera_ztrsm(ctx, layout, l, u, nt, nu, 2, 2, nullptr, A, 2, B, 2), 9, "alpha is null");
    expect(tessera_zhemm(ctx, layout, l, u, 2, 2, one, A, 2, B, 2, nullptr, C, 2), 12, "beta is null");
  }
  expect(tessera_dgemmt(ctx, col, uplo, nt, nt, 2, 3, 1, A, 2, B, 3, 1, C, 2), 3, "uplo is neither");
  expect(tessera_dgemmt(ctx, row, u, trans, nt, 2, 3, 1, A, 3, B, 2, 1, C, 2), 4, "transa is none of");
  expect(tessera_dgemmt(ctx, row, u, nt, trans, 2, 3, 1, A, 3, B, 2, 1, C, 2), 5, "transb is none of");
  expect(tessera_dgemmt(ctx, col, u, nt, nt, -2, 3, 1, A, 2, B, 3, 1, C, 2), 6, "n is negative");
  expect(tessera_dgemmt(ctx, col, u, nt, nt, 2, -3, 1, A, 2, B, 3, 1, C, 2), 7, "k is negative");
  expect(tessera_dgemmt(ctx, row, u, nt, nt, 2, 3, 1, A, 2, B, 2, 1, C, 2), 10, "lda");
  expect(tessera_dgemmt(ctx, row, u, nt, tr, 2, 3, 1, A, 3, B, 2, 1, C, 2), 12, "ldb");
  expect(tessera_dgemmt(ctx, col, u, nt, nt, 2, 3, 1, A, 2, B, 3, 1, C, 1), 15, "ldc");
  expect(tessera_dgemmt(ctx, col, u, nt, nt, 2, 3, 1, A, 2, nullptr, 3, 1, C, 2), 11, "B is null");

  expect(tessera_dsyr2k(ctx, col, u, nt, 2, 3, 1, A, 2, B, 1, 1, C, 2), 11, "ldb");
  expect(tessera_dsyr2k(ctx, row, u, nt, 2, 3, 1, A, 3, B, 3, 1, C, 1), 14, "ldc");

  expect(tessera_dtrsm(ctx, col, side, u, nt, nu, 2, 3, 1, A, 2, B, 2), 3, "side");
  expect(tessera_dtrsm(ctx, col, l, uplo, nt, nu, 2, 3, 1, A, 2, B, 2), 4, "uplo");
  expect(tessera_dtrsm(ctx, col, l, u, trans, nu, 2, 3, 1, A, 2, B, 2), 5, "transa is none of");
  expect(tessera_dtrsm(ctx, col, l, u, nt, diag, 2, 3, 1, A, 2, B, 2), 6, "diag is neither");
  expect(tessera_dtrmm(ctx, col, l, u, nt, nu, -2, 3, 1, A, 2, B, 2), 7, "m is negative");
  expect(tessera_dtrmm(ctx, row, l, u, nt, nu, 2, -3, 1, A, 2, B, 2), 8, "n is negative");
  expect(tessera_dtrmm(ctx, row, r, u, nt, nu, 2, 3, 1, A, 2, B, 3), 11, "lda");
  expect(tessera_dtrmm(ctx, row, l, u, nt, nu, 2, 3, 1, A, 2, B, 2), 13, "ldb");
  expect(tessera_dtrmm(ctx, col, l, u, nt, nu, 2, 3, 1, nullptr, 2, B, 2), 10, "A is null");
  expect(tessera_dtrmm(ctx, col, l, u, nt, nu, 2, 3, 0, nullptr, 2, nullptr, 2), 12, "B is null");
  EXPECT_EQ(tessera_dtrmm(ctx, col, l, u, nt, nu, 0, 3, 1, nullptr, 2, nullptr, 2), TESSERA_SUCCESS);
}

TEST(CApiRoutineStatistics, VerboseLinesNameTheVariant) {
  testing::internal::CaptureStderr();
  {
    const Context context("TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_VERBOSE=1");
    std::vector<double> A(1600, 1), B(1600, 1), C(1600, 1);
    trsm(context, TESSERA_COL_MAJOR, TESSERA_LEFT, TESSERA_UPPER, TESSERA_NO_TRANS, TESSERA_UNIT, 40, 30, 1, A.data(),
         40, B.data(), 40);
    symm(context, TESSERA_ROW_MAJOR, TESSERA_LEFT, TESSERA_UPPER, 40, 30, 1, A.data(), 40, B.data(), 40, 0, C.data(),
         40);
    syrk(context, TESSERA_COL_MAJOR, TESSERA_LOWER, TESSERA_TRANS, 40, 30, 1, A.data(), 40, 0, C.data(), 40);
    gemmt(context, TESSERA_COL_MAJOR, TESSERA_UPPER, TESSERA_TRANS, TESSERA_NO_TRANS, 40, 30, 1, A.data(), 40, B.data(),
          40, 0, C.data(), 40);
    syrk(context, TESSERA_COL_MAJOR, TESSERA_LOWER, TESSERA_TRANS, 40, 0, 1, A.data(), 40, 0, C.data(), 40);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("tessera: dtrsm LUNU m=40 n=30 on host:0,host:1 (TESSERA_OFFLOAD=always)"));
  EXPECT_THAT(text, HasSubstr("tessera: dsymm RL m=30 n=40 on host:0,host:1"));
  EXPECT_THAT(text, HasSubstr("tessera: dsyrk LT n=40 k=30 on host:0,host:1"));
  EXPECT_THAT(text, HasSubstr("tessera: dgemmt UTN n=40 k=30 on host:0,host:1"));
  EXPECT_THAT(text, HasSubstr("tessera: dsyrk LT n=40 k=0 on the CPU BLAS (C is only scaled)"));
}

}  // namespace c_api_routines_test
}  // namespace tessera
