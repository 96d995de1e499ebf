// What problems that a device solves whole read and write.
#include "core/dense_problem.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace {

std::optional<DenseOperand> operand_of(const DenseOperands& operands, DenseSlot slot) {
  const auto* const found =
      std::find_if(operands.begin(), operands.end(), [slot](const DenseOperand& each) { return each.slot == slot; });
  return found != operands.end() ? std::optional(*found) : std::nullopt;
}

TEST(DenseProblem, NamesAreThoseOfTheType) {
  EXPECT_EQ(name_of(DenseProblem{.routine = DenseRoutine::heevd, .type = ScalarType::d}), "dsyevd");
  EXPECT_EQ(name_of(DenseProblem{.routine = DenseRoutine::heevd, .type = ScalarType::c}), "cheevd");
  EXPECT_EQ(name_of(DenseProblem{.routine = DenseRoutine::unmqr, .type = ScalarType::s}), "sormqr");
  EXPECT_EQ(name_of(DenseProblem{.routine = DenseRoutine::potri, .type = ScalarType::z}), "zpotri");
}

TEST(DenseProblem, HermitianMatricesAreReadByATriangle) {
  DenseProblem problem{.routine = DenseRoutine::heevd, .type = ScalarType::z, .uplo = Uplo::upper, .n = 10, .lda = 12};
  for (const bool vectors : {false, true}) {
    problem.vectors = vectors;
    const DenseOperands operands(problem);
    const DenseOperand A = *operand_of(operands, DenseSlot::A);
    EXPECT_EQ(A.read_part, Part::upper);
    EXPECT_EQ(A.written_part, Part::full);
    EXPECT_EQ(A.writes, vectors);
    EXPECT_EQ(A.ld, 12);
    EXPECT_EQ(A.read_bytes(), 55 * 16);
    EXPECT_EQ(operand_of(operands, DenseSlot::values)->bytes(), 80);
    EXPECT_EQ(traffic_of(problem).up, 55 * 16);
    EXPECT_EQ(traffic_of(problem).down, 80 + (vectors ? 1600 : 0));
  }
}

TEST(DenseProblem, SomeVectorsHaveAMatrixOfTheirOwn) {
  DenseProblem problem{.routine = DenseRoutine::heevr, .vectors = true, .range = EigenRange::indices, .n = 10};
  problem.il = 3, problem.iu = 6;
  const DenseOperands operands(problem);
  EXPECT_FALSE(operand_of(operands, DenseSlot::A)->writes);
  EXPECT_EQ(operand_of(operands, DenseSlot::U)->cols, 4);
  problem.range = EigenRange::values;
  EXPECT_EQ(operand_of(DenseOperands(problem), DenseSlot::U)->cols, 10);
}

TEST(DenseProblem, VectorsMayTakeThePlaceOfA) {
  std::vector<double> A(60), VT(100);
  DenseProblem problem{
      .routine = DenseRoutine::gesvd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 6, .n = 10};
  problem.A = A.data(), problem.lda = 6;
  problem.VT = VT.data(), problem.ldvt = 10;
  const DenseOperands operands(problem);
  const DenseOperand U = *operand_of(operands, DenseSlot::U);
  EXPECT_EQ(U.address, reinterpret_cast<std::byte*>(A.data()));
  EXPECT_EQ(U.ld, 6);
  EXPECT_EQ(U.cols, 6);
  EXPECT_EQ(operand_of(operands, DenseSlot::VT)->rows, 10);
  EXPECT_FALSE(operand_of(operands, DenseSlot::A)->writes);
}

TEST(DenseProblem, ReflectorsAreTheFirstColumns) {
  const DenseProblem problem{.routine = DenseRoutine::ungqr, .m = 9, .n = 7, .k = 4};
  const DenseOperands operands(problem);
  EXPECT_EQ(operand_of(operands, DenseSlot::A)->read_bytes(), 9 * 4 * 8);
  EXPECT_EQ(operand_of(operands, DenseSlot::A)->written_bytes(), 9 * 7 * 8);
  const DenseProblem right{.routine = DenseRoutine::unmqr, .side = Side::right, .m = 9, .n = 7, .k = 4};
  const DenseOperands of_right(right);
  EXPECT_EQ(operand_of(of_right, DenseSlot::A)->rows, 7);
  EXPECT_FALSE(operand_of(of_right, DenseSlot::A)->writes);
}

TEST(DenseProblem, LeastSquaresReadAsManyRowsAsThereAreEquations) {
  DenseProblem problem{.routine = DenseRoutine::gels, .m = 9, .n = 7, .k = 2};
  EXPECT_EQ(operand_of(DenseOperands(problem), DenseSlot::B)->read_bytes(), 9 * 2 * 8);
  problem.op = Op::conj_trans;
  EXPECT_EQ(operand_of(DenseOperands(problem), DenseSlot::B)->read_bytes(), 7 * 2 * 8);
  EXPECT_EQ(operand_of(DenseOperands(problem), DenseSlot::B)->written_bytes(), 9 * 2 * 8);
  EXPECT_TRUE(operand_of(DenseOperands(problem), DenseSlot::A)->writes);
  problem.routine = DenseRoutine::gelsd;
  EXPECT_FALSE(operand_of(DenseOperands(problem), DenseSlot::A)->writes);
  EXPECT_EQ(operand_of(DenseOperands(problem), DenseSlot::values)->rows, 7);
}

TEST(DenseProblem, ReflectorsInRowsAndTrianglesOfBlocks) {
  const DenseProblem rows{.routine = DenseRoutine::unmlq, .side = Side::right, .m = 9, .n = 7, .k = 4};
  EXPECT_EQ(operand_of(DenseOperands(rows), DenseSlot::A)->rows, 4);
  EXPECT_EQ(operand_of(DenseOperands(rows), DenseSlot::A)->cols, 7);
  DenseProblem block{.routine = DenseRoutine::larfb, .m = 9, .n = 7, .k = 4};
  EXPECT_EQ(operand_of(DenseOperands(block), DenseSlot::A)->rows, 9);
  EXPECT_EQ(operand_of(DenseOperands(block), DenseSlot::T)->read_part, Part::upper);
  block.order = ReflectorOrder::backward;
  block.storage = ReflectorStorage::rows;
  EXPECT_EQ(operand_of(DenseOperands(block), DenseSlot::A)->rows, 4);
  EXPECT_EQ(operand_of(DenseOperands(block), DenseSlot::T)->read_part, Part::lower);
  const DenseProblem reduced{.routine = DenseRoutine::unmtr, .uplo = Uplo::upper, .m = 9, .n = 7};
  EXPECT_EQ(operand_of(DenseOperands(reduced), DenseSlot::A)->read_bytes(), 45 * 8);
  EXPECT_EQ(operand_of(DenseOperands(reduced), DenseSlot::tau)->rows, 8);
}

TEST(DenseProblem, FlopsAreThoseThatEverybodyCounts) {
  DenseProblem problem{.routine = DenseRoutine::ungqr, .m = 300, .n = 300, .k = 300};
  EXPECT_NEAR(dense_flops(problem), 4.0 / 3 * 300 * 300 * 300, 1);
  problem.type = ScalarType::c;
  EXPECT_NEAR(dense_flops(problem), 4 * 4.0 / 3 * 300 * 300 * 300, 1);
  // A wide matrix takes what its transpose takes.
  const DenseProblem tall{.routine = DenseRoutine::gesdd, .u = VectorJob::all, .vt = VectorJob::all, .m = 300, .n = 20};
  DenseProblem wide = tall;
  std::swap(wide.m, wide.n);
  EXPECT_EQ(dense_flops(tall), dense_flops(wide));
}

}  // namespace
}  // namespace tessera
