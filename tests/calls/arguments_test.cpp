// First bad argument, exhaustively: every combination of good and bad values against the IF chains of the reference; and what
// row-major calls become.
#include "calls/arguments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <set>
#include <string>
#include <vector>

namespace tessera::offload {
namespace arguments_test {

/// A call as Fortran programs write it.
struct Case {
  char side = 'L', uplo = 'U', transa = 'N', transb = 'N', diag = 'N';
  index_t m = 2, n = 2, k = 2, lda = 9, ldb = 9, ldc = 9;
};

char upper(char x) { return x >= 'a' && x <= 'z' ? static_cast<char>(x - 32) : x; }
bool is_one_of(char x, const std::string& letters) { return letters.find(upper(x)) != std::string::npos; }
bool spans(index_t ld, index_t rows) { return ld >= std::max<index_t>(1, rows); }

/// As the reference writes it: NROWA, NROWB, and one IF after another.
int reference_info(const std::string& name, const Case& c) {
  const char type = name[0];
  const std::string routine = name.substr(1);
  const bool none_a = upper(c.transa) == 'N';
  if (routine == "gemm") {
    if (!is_one_of(c.transa, "NTC")) return 1;
    if (!is_one_of(c.transb, "NTC")) return 2;
    if (c.m < 0) return 3;
    if (c.n < 0) return 4;
    if (c.k < 0) return 5;
    if (!spans(c.lda, none_a ? c.m : c.k)) return 8;
    if (!spans(c.ldb, upper(c.transb) == 'N' ? c.k : c.n)) return 10;
    return spans(c.ldc, c.m) ? 0 : 13;
  }
  if (routine == "gemmt") {
    if (!is_one_of(c.uplo, "UL")) return 1;
    if (!is_one_of(c.transa, "NTC")) return 2;
    if (!is_one_of(c.transb, "NTC")) return 3;
    if (c.n < 0) return 4;
    if (c.k < 0) return 5;
    if (!spans(c.lda, none_a ? c.n : c.k)) return 8;
    if (!spans(c.ldb, upper(c.transb) == 'N' ? c.k : c.n)) return 10;
    return spans(c.ldc, c.n) ? 0 : 13;
  }
  if (routine == "symm" || routine == "hemm") {
    if (!is_one_of(c.side, "LR")) return 1;
    if (!is_one_of(c.uplo, "UL")) return 2;
    if (c.m < 0) return 3;
    if (c.n < 0) return 4;
    if (!spans(c.lda, upper(c.side) == 'L' ? c.m : c.n)) return 7;
    if (!spans(c.ldb, c.m)) return 9;
    return spans(c.ldc, c.m) ? 0 : 12;
  }
  if (routine == "trmm" || routine == "trsm") {
    if (!is_one_of(c.side, "LR")) return 1;
    if (!is_one_of(c.uplo, "UL")) return 2;
    if (!is_one_of(c.transa, "NTC")) return 3;
    if (!is_one_of(c.diag, "UN")) return 4;
    if (c.m < 0) return 5;
    if (c.n < 0) return 6;
    if (!spans(c.lda, upper(c.side) == 'L' ? c.m : c.n)) return 9;
    return spans(c.ldb, c.m) ? 0 : 11;
  }
  const bool is_real = type == 's' || type == 'd';
  if (!is_one_of(c.uplo, "UL")) return 1;
  if (!is_one_of(c.transa, routine[0] == 'h' ? "NC" : is_real ? "NTC" : "NT")) return 2;
  if (c.n < 0) return 3;
  if (c.k < 0) return 4;
  if (!spans(c.lda, none_a ? c.n : c.k)) return 7;
  if (routine == "syrk" || routine == "herk") return spans(c.ldc, c.n) ? 0 : 10;
  if (!spans(c.ldb, none_a ? c.n : c.k)) return 9;
  return spans(c.ldc, c.n) ? 0 : 12;
}

/// Calls f.operator()<routine, T>() for each of the 34 routines.
template <class F>
void for_each_routine(F&& f) {
#define TESSERA_ROUTINE(routine, list, letter, T) f.template operator()<Routine::routine, T>();
#include "calls/routines.def"
}

template <Routine routine, Scalar T>
std::string name() {
  return letter(scalar_type_of<T>()) + std::string(name_of(routine));
}

TEST(Arguments, EveryCombinationInTheOrderOfTheReference) {
  int routines = 0;
  for_each_routine([&]<Routine routine, class T>() {
    ++routines;
    // A parameter that the routine lacks takes one value. A position that differs then would show as a difference.
    const auto choose = [](Parameter parameter, const auto& values) {
      return position_of(routine, parameter) != 0 ? values : std::decay_t<decltype(values)>{values[0]};
    };
    const std::vector<index_t> sizes = {-1, 0, 1, 3};
    const std::vector<index_t> leading = {-1, 0, 1, 2, 3};
    std::set<int> seen;
    Case c;
    for (const char side : choose(Parameter::side, std::string("LrlRN")))
      for (const char uplo : choose(Parameter::uplo, std::string("UlX")))
        for (const char ta : choose(Parameter::transa, std::string("NtCcR")))
          for (const char tb : choose(Parameter::transb, std::string("nTX")))
            for (const char diag : choose(Parameter::diag, std::string("NuT")))
              for (const index_t m : choose(Parameter::m, sizes))
                for (const index_t n : choose(Parameter::n, sizes))
                  for (const index_t k : choose(Parameter::k, sizes))
                    for (const index_t lda : choose(Parameter::lda, leading))
                      for (const index_t ldb : choose(Parameter::ldb, leading))
                        for (const index_t ldc : choose(Parameter::ldc, leading)) {
                          c = {side, uplo, ta, tb, diag, m, n, k, lda, ldb, ldc};
                          const Arguments arguments = {.side = side_from_letter(side),
                                                       .uplo = uplo_from_letter(uplo),
                                                       .op_a = op_from_letter(ta),
                                                       .op_b = op_from_letter(tb),
                                                       .diag = diag_from_letter(diag),
                                                       .m = m,
                                                       .n = n,
                                                       .k = k,
                                                       .lda = lda,
                                                       .ldb = ldb,
                                                       .ldc = ldc};
                          const int expected = reference_info(name<routine, T>(), c);
                          seen.insert(expected);
                          ASSERT_EQ((first_bad_argument<routine, !std::floating_point<T>>(arguments)), expected)
                              << name<routine, T>() << " " << side << uplo << ta << tb << diag << " m " << m << " n "
                              << n << " k " << k << " ld " << lda << " " << ldb << " " << ldc;
                        }
    // Each checked position is reported at least once, and 0.
    std::set<int> checked = {0};
    for (const Parameter parameter :
         {Parameter::side, Parameter::uplo, Parameter::transa, Parameter::transb, Parameter::diag, Parameter::m,
          Parameter::n, Parameter::k, Parameter::lda, Parameter::ldb, Parameter::ldc}) {
      checked.insert(position_of(routine, parameter));
    }
    EXPECT_EQ(seen, checked) << name<routine, T>();
  });
  EXPECT_EQ(routines, 34);
}

/// Rows and columns of an operand, as the routine's definition has them.
struct Sizes {
  index_t rows, cols;
};
template <Routine routine>
Sizes sizes_of(Parameter leading_dimension, const Arguments& a) {
  const auto transposed_if = [](bool yes, Sizes s) { return yes ? Sizes{s.cols, s.rows} : s; };
  const index_t order = a.side == Side::left ? a.m : a.n;
  if (is_rank_update(routine)) {
    if (leading_dimension == Parameter::ldc) return {a.n, a.n};
    return transposed_if(a.op_a != Op::no_trans, {a.n, a.k});
  }
  if (has_op_b(routine)) {
    const index_t rows = routine == Routine::gemmt ? a.n : a.m;
    if (leading_dimension == Parameter::lda) return transposed_if(a.op_a != Op::no_trans, {rows, a.k});
    if (leading_dimension == Parameter::ldb) return transposed_if(a.op_b != Op::no_trans, {a.k, a.n});
    return {rows, a.n};
  }
  return leading_dimension == Parameter::lda ? Sizes{order, order} : Sizes{a.m, a.n};
}

TEST(Arguments, LeadingDimensionsSpanColumnsOrRows) {
  for_each_routine([&]<Routine routine, class T>() {
    constexpr bool is_complex = !std::floating_point<T>;
    for (const Layout layout : {Layout::col_major, Layout::row_major})
      for (const Side side : {Side::left, Side::right})
        for (const Op op_a : {Op::no_trans, Op::trans, Op::conj_trans})
          for (const Op op_b : {Op::no_trans, Op::trans}) {
            if (!allows(routine, is_complex, op_a)) continue;
            Arguments a = {layout, side, Uplo::lower, op_a, op_b, Diag::unit, 5, 7, 3, 7, 7, 7};
            for (const auto& [parameter, member] : {std::pair{Parameter::lda, &Arguments::lda},
                                                    {Parameter::ldb, &Arguments::ldb},
                                                    {Parameter::ldc, &Arguments::ldc}}) {
              if (position_of(routine, parameter) == 0) continue;
              const Sizes sizes = sizes_of<routine>(parameter, a);
              Arguments b = a;
              b.*member = layout == Layout::col_major ? sizes.rows : sizes.cols;
              EXPECT_EQ((first_bad_argument<routine, is_complex>(b)), 0) << name<routine, T>();
              --(b.*member);
              EXPECT_EQ((first_bad_argument<routine, is_complex>(b)), position_of(routine, parameter))
                  << name<routine, T>();
            }
          }
  });
}

/// A row-major m x n matrix is the column-major n x m transpose. Results of these calls are in c_api_routines_test.cpp.
TEST(RowMajor, GoodCallsBecomeGoodCallsOfTransposedResults) {
  for_each_routine([&]<Routine routine, class T>() {
    constexpr bool is_complex = !std::floating_point<T>;
    for (const Side side : {Side::left, Side::right})
      for (const Uplo uplo : {Uplo::upper, Uplo::lower})
        for (const Op op_a : {Op::no_trans, Op::trans, Op::conj_trans})
          for (const Op op_b : {Op::no_trans, Op::trans, Op::conj_trans}) {
            if (!allows(routine, is_complex, op_a)) continue;
            const Arguments row = {Layout::row_major, side, uplo, op_a, op_b, Diag::unit, 5, 7, 3, 11, 12, 13};
            const Arguments column = in_column_major(routine, row);
            const int a = 0, b = 0;
            int c = 0;
            const T alpha = scalar_cast<T>(AnyScalar(2, 3)), beta = 1;
            const Alpha<routine, T> own_alpha = scalar_cast<Alpha<routine, T>>(AnyScalar(alpha));
            const Beta<routine, T> own_beta = scalar_cast<Beta<routine, T>>(AnyScalar(beta));
            const Level3 call = level3_of<routine, T>(Layout::row_major, column, {&own_alpha, &a, &b, &own_beta, &c});
            ASSERT_EQ((first_bad_argument<routine, is_complex>(column)), 0) << name<routine, T>();
            EXPECT_EQ(column.layout, Layout::col_major);
            EXPECT_EQ(call.routine, routine);
            EXPECT_EQ(call.type, scalar_type_of<T>());
            EXPECT_EQ(call.C, &c);
            const bool rank = is_rank_update(routine);
            EXPECT_EQ(call.m, 7);
            EXPECT_EQ(call.n, rank || routine == Routine::gemmt ? 7 : 5);
            EXPECT_EQ(call.k, 3);
            if (routine != Routine::gemm) {
              EXPECT_EQ(call.uplo, uplo == Uplo::upper ? Uplo::lower : Uplo::upper);
            }
            if (!has_op_b(routine)) {
              EXPECT_EQ(call.A, &a);
              EXPECT_EQ(call.lda, 11);
            } else {  // C^T = op(B)^T op(A)^T
              EXPECT_EQ(call.A, &b);
              EXPECT_EQ(call.B, &a);
              EXPECT_EQ(call.lda, 12);
              EXPECT_EQ(call.ldb, 11);
              EXPECT_EQ(call.op_a, op_b);
              EXPECT_EQ(call.op_b, op_a);
            }
            if (rank) {
              const Op transposed = is_hermitian(routine) ? Op::conj_trans : Op::trans;
              EXPECT_EQ(call.op_a, op_a == Op::no_trans ? transposed : Op::no_trans);
            } else if (!has_op_b(routine)) {
              EXPECT_EQ(call.side, side == Side::left ? Side::right : Side::left);
              EXPECT_EQ(call.op_a, op_a);
            }
            if (is_triangular(routine)) {
              EXPECT_EQ(call.ldc, 12);
              EXPECT_EQ(call.diag, Diag::unit);
              EXPECT_EQ(call.B, routine == Routine::trmm ? &c : nullptr);
            } else {
              EXPECT_EQ(call.ldc, 13);
              EXPECT_EQ(call.beta, AnyScalar(1));
            }
            const AnyScalar expected_alpha = routine == Routine::herk    ? AnyScalar(2)
                                             : routine == Routine::her2k ? AnyScalar(2, -3)
                                             : is_complex                ? AnyScalar(2, 3)
                                                                         : AnyScalar(2);
            EXPECT_EQ(call.alpha, expected_alpha) << name<routine, T>();
          }
  });
}

TEST(RowMajor, ColumnMajorCallsStayAsTheyAre) {
  const Arguments a = {
      Layout::col_major, Side::left, Uplo::upper, Op::trans, Op::no_trans, Diag::unit, 5, 7, 3, 11, 12, 13};
  const Arguments same = in_column_major(Routine::gemm, a);
  EXPECT_EQ(same.m, 5);
  EXPECT_EQ(same.lda, 11);
  EXPECT_EQ(same.op_a, Op::trans);
  EXPECT_EQ(same.uplo, Uplo::upper);
}

TEST(Arguments, EnumeratorsAndLetters) {
  EXPECT_EQ(op_from_cblas(111), Op::no_trans);
  EXPECT_EQ(op_from_cblas(112), Op::trans);
  EXPECT_EQ(op_from_cblas(113), Op::conj_trans);
  EXPECT_FALSE(op_from_cblas(110) || op_from_cblas(114) || op_from_cblas(0) || op_from_cblas('N'));
  EXPECT_EQ(layout_from_cblas(101), Layout::row_major);
  EXPECT_EQ(layout_from_cblas(102), Layout::col_major);
  EXPECT_FALSE(layout_from_cblas(100) || layout_from_cblas(103));
  EXPECT_EQ(uplo_from_cblas(121), Uplo::upper);
  EXPECT_EQ(uplo_from_cblas(122), Uplo::lower);
  EXPECT_FALSE(uplo_from_cblas(120) || uplo_from_cblas(123));
  EXPECT_EQ(diag_from_cblas(131), Diag::non_unit);
  EXPECT_EQ(diag_from_cblas(132), Diag::unit);
  EXPECT_FALSE(diag_from_cblas(130) || diag_from_cblas(133));
  EXPECT_EQ(side_from_cblas(141), Side::left);
  EXPECT_EQ(side_from_cblas(142), Side::right);
  EXPECT_FALSE(side_from_cblas(140) || side_from_cblas(143));
  EXPECT_EQ(op_from_letter('c'), Op::conj_trans);
  EXPECT_FALSE(op_from_letter('R'));
  EXPECT_EQ(side_from_letter('l'), Side::left);
  EXPECT_EQ(side_from_letter('R'), Side::right);
  EXPECT_FALSE(side_from_letter('U'));
  EXPECT_EQ(uplo_from_letter('u'), Uplo::upper);
  EXPECT_EQ(uplo_from_letter('L'), Uplo::lower);
  EXPECT_FALSE(uplo_from_letter('N') || uplo_from_letter('\0'));
  EXPECT_EQ(diag_from_letter('n'), Diag::non_unit);
  EXPECT_EQ(diag_from_letter('U'), Diag::unit);
  EXPECT_FALSE(diag_from_letter('L'));
}

}  // namespace arguments_test
}  // namespace tessera::offload
