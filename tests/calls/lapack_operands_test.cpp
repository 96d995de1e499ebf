// The operands that a problem reads and writes, where a device solves it whole.
#include "calls/lapack_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace lapack_operands_test {

std::optional<LapackOperand> operand_of(const LapackOperands& operands, LapackSlot slot) {
  const auto* const found =
      std::find_if(operands.begin(), operands.end(), [slot](const LapackOperand& each) { return each.slot == slot; });
  return found != operands.end() ? std::optional(*found) : std::nullopt;
}

TEST(LapackCall, NamesAreThoseOfTheType) {
  EXPECT_EQ(name_of(LapackCall{.routine = Routine::heevd, .type = ScalarType::d}), "dsyevd");
  EXPECT_EQ(name_of(LapackCall{.routine = Routine::heevd, .type = ScalarType::c}), "cheevd");
  EXPECT_EQ(name_of(LapackCall{.routine = Routine::unmqr, .type = ScalarType::s}), "sormqr");
  EXPECT_EQ(name_of(LapackCall{.routine = Routine::potri, .type = ScalarType::z}), "zpotri");
}

TEST(LapackCall, HermitianMatricesAreReadByATriangle) {
  LapackCall problem{.routine = Routine::heevd, .type = ScalarType::z, .uplo = Uplo::upper, .n = 10, .lda = 12};
  for (const bool vectors : {false, true}) {
    problem.vectors = vectors;
    const LapackOperands operands(problem);
    const LapackOperand A = *operand_of(operands, LapackSlot::A);
    EXPECT_EQ(A.read_part, Part::upper);
    EXPECT_EQ(A.written_part, Part::full);
    EXPECT_EQ(A.writes, vectors);
    EXPECT_EQ(A.ld, 12);
    EXPECT_EQ(A.read_bytes(), 55 * 16);
    EXPECT_EQ(operand_of(operands, LapackSlot::values)->bytes(), 80);
    EXPECT_EQ(traffic_of(problem).up, 55 * 16);
    EXPECT_EQ(traffic_of(problem).down, 80 + (vectors ? 1600 : 0));
  }
}

TEST(LapackCall, SomeVectorsHaveAMatrixOfTheirOwn) {
  LapackCall problem{.routine = Routine::heevr, .vectors = true, .range = EigenRange::indices, .n = 10};
  problem.il = 3, problem.iu = 6;
  const LapackOperands operands(problem);
  EXPECT_FALSE(operand_of(operands, LapackSlot::A)->writes);
  EXPECT_EQ(operand_of(operands, LapackSlot::U)->cols, 4);
  problem.range = EigenRange::values;
  EXPECT_EQ(operand_of(LapackOperands(problem), LapackSlot::U)->cols, 10);
}

TEST(LapackCall, VectorsMayTakeThePlaceOfA) {
  std::vector<double> A(60), VT(100);
  LapackCall problem{.routine = Routine::gesvd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 6, .n = 10};
  problem.A = A.data(), problem.lda = 6;
  problem.VT = VT.data(), problem.ldvt = 10;
  const LapackOperands operands(problem);
  const LapackOperand U = *operand_of(operands, LapackSlot::U);
  EXPECT_EQ(U.address, reinterpret_cast<std::byte*>(A.data()));
  EXPECT_EQ(U.ld, 6);
  EXPECT_EQ(U.cols, 6);
  EXPECT_EQ(operand_of(operands, LapackSlot::VT)->rows, 10);
  EXPECT_FALSE(operand_of(operands, LapackSlot::A)->writes);
}

TEST(LapackCall, ReflectorsAreTheFirstColumnsOrRows) {
  const LapackCall problem{.routine = Routine::ungqr, .m = 9, .n = 7, .k = 4};
  const LapackOperands operands(problem);
  EXPECT_EQ(operand_of(operands, LapackSlot::A)->read_bytes(), 9 * 4 * 8);
  EXPECT_EQ(operand_of(operands, LapackSlot::A)->written_bytes(), 9 * 7 * 8);
  const LapackCall wide{.routine = Routine::unglq, .m = 7, .n = 9, .k = 4};
  const LapackOperands of_wide(wide);
  EXPECT_EQ(operand_of(of_wide, LapackSlot::A)->read_rows, 4);
  EXPECT_EQ(operand_of(of_wide, LapackSlot::A)->read_bytes(), 4 * 9 * 8);
  EXPECT_EQ(operand_of(of_wide, LapackSlot::A)->written_bytes(), 9 * 7 * 8);
  const LapackCall right{.routine = Routine::unmqr, .side = Side::right, .m = 9, .n = 7, .k = 4};
  const LapackOperands of_right(right);
  EXPECT_EQ(operand_of(of_right, LapackSlot::A)->rows, 7);
  EXPECT_FALSE(operand_of(of_right, LapackSlot::A)->writes);
}

TEST(LapackCall, LeastSquaresReadAsManyRowsAsThereAreEquations) {
  LapackCall problem{.routine = Routine::gels, .m = 9, .n = 7, .k = 2};
  EXPECT_EQ(operand_of(LapackOperands(problem), LapackSlot::B)->read_bytes(), 9 * 2 * 8);
  problem.op = Op::conj_trans;
  EXPECT_EQ(operand_of(LapackOperands(problem), LapackSlot::B)->read_bytes(), 7 * 2 * 8);
  EXPECT_EQ(operand_of(LapackOperands(problem), LapackSlot::B)->written_bytes(), 9 * 2 * 8);
  EXPECT_TRUE(operand_of(LapackOperands(problem), LapackSlot::A)->writes);
  problem.routine = Routine::gelsd;
  EXPECT_FALSE(operand_of(LapackOperands(problem), LapackSlot::A)->writes);
  EXPECT_EQ(operand_of(LapackOperands(problem), LapackSlot::values)->rows, 7);
}

TEST(LapackCall, ReflectorsInRowsAndTrianglesOfBlocks) {
  const LapackCall rows{.routine = Routine::unmlq, .side = Side::right, .m = 9, .n = 7, .k = 4};
  EXPECT_EQ(operand_of(LapackOperands(rows), LapackSlot::A)->rows, 4);
  EXPECT_EQ(operand_of(LapackOperands(rows), LapackSlot::A)->cols, 7);
  LapackCall block{.routine = Routine::larfb, .m = 9, .n = 7, .k = 4};
  EXPECT_EQ(operand_of(LapackOperands(block), LapackSlot::A)->rows, 9);
  EXPECT_EQ(operand_of(LapackOperands(block), LapackSlot::T)->read_part, Part::upper);
  block.order = ReflectorOrder::backward;
  block.storage = ReflectorStorage::rows;
  EXPECT_EQ(operand_of(LapackOperands(block), LapackSlot::A)->rows, 4);
  EXPECT_EQ(operand_of(LapackOperands(block), LapackSlot::T)->read_part, Part::lower);
  const LapackCall reduced{.routine = Routine::unmtr, .uplo = Uplo::upper, .m = 9, .n = 7};
  EXPECT_EQ(operand_of(LapackOperands(reduced), LapackSlot::A)->read_bytes(), 45 * 8);
  EXPECT_EQ(operand_of(LapackOperands(reduced), LapackSlot::tau)->rows, 8);
}

TEST(LapackCall, IndefiniteMatricesAreTriangles) {
  for (const bool is_hermitian : {false, true}) {
    LapackCall problem{.routine = is_hermitian ? Routine::hesv : Routine::sysv, .type = ScalarType::z, .n = 10, .k = 3};
    const LapackOperands operands(problem);
    const LapackOperand A = *operand_of(operands, LapackSlot::A);
    EXPECT_EQ(A.read_part, Part::lower);
    EXPECT_EQ(A.written_bytes(), 55 * 16);
    EXPECT_EQ(A.real_diagonal, is_hermitian);
    EXPECT_TRUE(operand_of(operands, LapackSlot::ipiv)->writes);
    EXPECT_FALSE(operand_of(operands, LapackSlot::ipiv)->reads);
    problem.routine = is_hermitian ? Routine::hetrs : Routine::sytrs;
    const LapackOperands of_solve(problem);
    EXPECT_FALSE(operand_of(of_solve, LapackSlot::A)->writes);
    EXPECT_TRUE(operand_of(of_solve, LapackSlot::ipiv)->reads);
    EXPECT_TRUE(operand_of(of_solve, LapackSlot::B)->writes);
  }
}

TEST(LapackCall, PivotsAreRowsOrPairs) {
  std::vector<std::int64_t> pivots = {2, -3, -3, 4};
  LapackCall problem{.routine = Routine::sytrs, .n = 4, .k = 1, .ipiv = pivots.data()};
  EXPECT_EQ(first_bad_pivot(problem), 0);
  problem.routine = Routine::getri;
  EXPECT_EQ(first_bad_pivot(problem), 2);
  problem.routine = Routine::hetrs;
  problem.n = 2;
  EXPECT_EQ(first_bad_pivot(problem), 2) << "half of a pair";
  problem.n = 4;
  pivots[3] = 5;
  EXPECT_EQ(first_bad_pivot(problem), 4);
}

TEST(LapackCall, FlopsAreThoseThatEverybodyCounts) {
  LapackCall problem{.routine = Routine::ungqr, .m = 300, .n = 300, .k = 300};
  EXPECT_NEAR(flops_of(problem), 4.0 / 3 * 300 * 300 * 300, 1);
  LapackCall wide_q{.routine = Routine::unglq, .m = 200, .n = 300, .k = 100};
  const double of_wide_q = flops_of(wide_q);
  wide_q.routine = Routine::ungqr;
  std::swap(wide_q.m, wide_q.n);
  EXPECT_EQ(of_wide_q, flops_of(wide_q));
  problem.type = ScalarType::c;
  EXPECT_NEAR(flops_of(problem), 4 * 4.0 / 3 * 300 * 300 * 300, 1);
  EXPECT_EQ(flops_of(LapackCall{.routine = Routine::sytrf, .n = 300}), 9e6);
  EXPECT_EQ(flops_of(LapackCall{.routine = Routine::hesv, .type = ScalarType::z, .n = 300, .k = 10}), 4 * (9e6 + 18e5));
  // A wide matrix takes what its transpose takes.
  const LapackCall tall{.routine = Routine::gesdd, .u = VectorJob::all, .vt = VectorJob::all, .m = 300, .n = 20};
  LapackCall wide = tall;
  std::swap(wide.m, wide.n);
  EXPECT_EQ(flops_of(tall), flops_of(wide));
}

}  // namespace lapack_operands_test
}  // namespace tessera
