// The rule of each routine in each type, as TESSERA_OFFLOAD names them.
#include "offload/rule_table.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/config.hpp"

namespace tessera::offload {
namespace rule_table_test {

RuleTable table_of(const std::string& text) {
  return RuleTable(Config::from_settings("TESSERA_OFFLOAD=" + text, is_routine_name).offload);
}

TEST(RuleTable, ARuleIsForARoutineInAllItsTypesOrInOne) {
  const RuleTable rules = table_of("auto,trsm=never,dgemm=always,zherk=2000,ctrsm=1");
  EXPECT_EQ(rules.of(Routine::gemm, ScalarType::d), OffloadRule{Offload::always});
  EXPECT_EQ(rules.of(Routine::gemm, ScalarType::s), OffloadRule{});
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::z})
    EXPECT_EQ(rules.of(Routine::trsm, type), OffloadRule{Offload::never});
  const OffloadRule from_1{Offload::by_size, 1}, from_2000{Offload::by_size, 8000000000};
  EXPECT_EQ(rules.of(Routine::trsm, ScalarType::c), from_1);
  EXPECT_EQ(rules.of(Routine::herk, ScalarType::z), from_2000);
  EXPECT_EQ(rules.of(Routine::herk, ScalarType::c), OffloadRule{});
  EXPECT_EQ(rules.of(Routine::syrk, ScalarType::z), OffloadRule{});
}

TEST(RuleTable, SmallCallsNeedNoLookUpToTheLeastOfAllRules) {
  EXPECT_EQ(table_of("auto").least_volume_of_any(), tiny_volume);
  EXPECT_EQ(table_of("never").least_volume_of_any(), tiny_volume);
  EXPECT_EQ(table_of("auto,zherk=100,dgemm=200").least_volume_of_any(), 1000000);
  EXPECT_EQ(table_of("never,dpotrf=always").least_volume_of_any(), 0);
}

TEST(RuleTable, TheLastRuleThatMatchesWins) {
  EXPECT_EQ(table_of("dgemm=always,gemm=never").of(Routine::gemm, ScalarType::d), OffloadRule{Offload::never});
  EXPECT_EQ(table_of("gemm=never,dgemm=always").of(Routine::gemm, ScalarType::d), OffloadRule{Offload::always});
  EXPECT_EQ(table_of("dgemm=always,never").of(Routine::gemm, ScalarType::d), OffloadRule{Offload::never});
  EXPECT_EQ(table_of("dgemm=always").of(Routine::symm, ScalarType::d), OffloadRule{});
}

TEST(RuleTable, LapacksRoutinesHaveNamesOfRealAndOfComplexTypes) {
  const RuleTable rules = table_of("heevd=never,dsyevd=always,potri=always,geqrf=never,dgetrf=always");
  EXPECT_EQ(rules.of(Routine::heevd, ScalarType::d).when, Offload::always);
  EXPECT_EQ(rules.of(Routine::heevd, ScalarType::s).when, Offload::never);
  EXPECT_EQ(rules.of(Routine::heevd, ScalarType::z).when, Offload::never);
  EXPECT_EQ(rules.of(Routine::potri, ScalarType::s).when, Offload::always);
  for (const ScalarType type : scalar_types) EXPECT_EQ(rules.of(Routine::geqrf, type).when, Offload::never);
  EXPECT_EQ(rules.of(Routine::getrf, ScalarType::d).when, Offload::always);
  EXPECT_EQ(rules.of(Routine::getrf, ScalarType::d).when, Offload::always);
  EXPECT_EQ(rules.of(Routine::getrf, ScalarType::s).when, Offload::automatic);
}

TEST(RuleTable, NamesAreThoseOfRoutinesThatThereAre) {
  for (const char* name : {"gemm", "dgemm", "zherk", "heevd", "dsyevd", "getrf_nopiv"})
    EXPECT_TRUE(is_routine_name(name)) << name;
  for (const char* name : {"", "d", "DGEMM", "dgemv", "dhemm", "gehrd", "dheevd"})
    EXPECT_FALSE(is_routine_name(name)) << name;
}

}  // namespace rule_table_test
}  // namespace tessera::offload
