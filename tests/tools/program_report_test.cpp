// The BLAS calls of a program that can be caught: parsing of names, and the loader's rules on lists of symbols.
#include "tools/program_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/blas_names.hpp"

namespace tessera::tools {
namespace program_report_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* level3_names[] = {
#define TESSERA_ROUTINE(routine, list, letter, T) #letter #routine,
#include "calls/routines.def"
};

std::set<std::string> dressed(const std::string& prefix, const std::string& suffix) {
  std::set<std::string> names;
  for (const char* name : level3_names) names.insert(prefix + name + suffix);
  return names;
}

std::set<std::string> operator+(std::set<std::string> a, const std::set<std::string>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const std::set<std::string> wheel_names =
    dressed("", "_64_") + dressed("cblas_", "64_") + dressed("scipy_", "_") + dressed("scipy_cblas_", "64_");
const Faces faces = {.lp64 = dressed("", "_") + dressed("cblas_", "") + wheel_names,
                     .ilp64 = dressed("", "_") + dressed("cblas_", "") + wheel_names};

ProgramObject program(std::set<std::string> references) {
  ProgramObject object;
  object.path = "/home/prog";
  object.executable = true;
  object.references = std::move(references);
  return object;
}

ProgramObject library(const std::string& path, std::set<std::string> defines, std::set<std::string> references = {}) {
  ProgramObject object;
  object.path = path;
  object.soname = object.name();
  object.defines = std::move(defines);
  object.references = std::move(references);
  return object;
}

const std::set<std::string> lapack_names = {"dgetrf_", "dpotrf_", "dgeqrf_", "dgesv_", "ilaenv_"};

ProgramObject openblas() {
  const auto blas = dressed("", "_") + dressed("cblas_", "");
  // Only the routines from the reference LAPACK call symbols.
  return library("/lib/libopenblas.so.0", blas + lapack_names + std::set<std::string>{"openblas_get_config", "xerbla_"},
                 {"dgemm_", "dtrmm_", "dgetrf_", "ilaenv_"});
}

Report report_of(std::vector<ProgramObject> objects, std::size_t in_global = static_cast<std::size_t>(-1)) {
  Program given;
  given.objects = std::move(objects);
  Scope module;
  for (std::size_t i = 0; i < given.objects.size(); ++i) (i < in_global ? given.global : module).push_back(i);
  if (!module.empty()) given.modules.push_back(module);
  return analyse(given, faces);
}

/// "dgemm_=caught" of the uses of one object.
std::vector<std::string> uses_with(const Report& report, std::size_t object, Fate fate) {
  std::vector<std::string> symbols;
  for (const Use& use : report.uses) {
    if (use.object == object && use.fate == fate) symbols.push_back(use.symbol);
  }
  return symbols;
}

TEST(BlasNames, are_taken_apart) {
  const struct {
    const char* symbol;
    const char* routine;
    const char* prefix;
    const char* suffix;
    bool lapack, c_interface;
  } names[] = {
      {"dgemm_", "dgemm", "", "_", false, false},
      {"dgemm", "dgemm", "", "", false, false},
      {"cblas_zher2k", "zher2k", "", "", false, true},
      {"cblas_dgemmtr", "dgemmtr", "", "", false, true},
      {"dgemm_batch_", "dgemm_batch", "", "_", false, false},
      {"cblas_zgemm_batch_strided64_", "zgemm_batch_strided", "", "64_", false, true},
      {"dgemm_64_", "dgemm", "", "_64_", false, false},
      {"dgemm_64", "dgemm", "", "_64", false, false},
      {"cblas_dgemm64_", "dgemm", "", "64_", false, true},
      {"cblas_dgemm_64", "dgemm", "", "_64", false, true},
      {"scipy_dgemm_", "dgemm", "scipy_", "_", false, false},
      {"scipy_cblas_dgemm64_", "dgemm", "scipy_", "64_", false, true},
      {"my_lib_ssyrk_", "ssyrk", "my_lib_", "_", false, false},
      {"dgetrf_", "dgetrf", "", "_", true, false},
      {"scipy_zgesv_64_", "zgesv", "scipy_", "_64_", true, false},
      {"LAPACKE_dpotrf_work", "dpotrf", "", "", true, true},
      {"LAPACKE_dpotrf_work64_", "dpotrf", "", "64_", true, true},
  };
  for (const auto& expected : names) {
    const auto name = parse_blas_name(expected.symbol);
    ASSERT_TRUE(name) << expected.symbol;
    EXPECT_EQ(name->routine, expected.routine) << expected.symbol;
    EXPECT_EQ(name->prefix, expected.prefix) << expected.symbol;
    EXPECT_EQ(name->suffix, expected.suffix) << expected.symbol;
    EXPECT_EQ(name->lapack, expected.lapack) << expected.symbol;
    EXPECT_EQ(name->c_interface, expected.c_interface) << expected.symbol;
  }
}

TEST(BlasNames, leave_others_alone) {
  for (const char* symbol :
       {"daxpy_", "dgemv_", "dgemm_nn", "dgemm_thread_tt", "dgemm3m_", "cublasDgemm_v2", "gemm_", "", "xerbla_",
        "dgetrf_single", "cblas_dsyrk_batch", "dgemm_batches_", "qgemm_", "dher2k_"}) {
    EXPECT_FALSE(parse_blas_name(symbol)) << symbol;
  }
}

TEST(ProgramReport, shared_blas_is_caught) {
  const Report report = report_of({program({"cblas_dgemm", "dtrsm_", "printf"}), openblas()});
  EXPECT_THAT(uses_with(report, 0, Fate::caught), ElementsAre("cblas_dgemm", "dtrsm_"));
  EXPECT_EQ(report.bits, 32);
  EXPECT_FALSE(report.blas_inside);
  EXPECT_THAT(report.libraries, ElementsAre(1));
}

TEST(ProgramReport, no_blas_at_all) {
  const Report report = report_of({program({"printf", "dlopen"}), library("/lib/libc.so.6", {"printf"})});
  EXPECT_THAT(report.uses, IsEmpty());
  EXPECT_FALSE(report.blas_inside);
}

TEST(ProgramReport, blas_in_the_executable_is_not_caught) {
  ProgramObject main = program({});
  main.inside = {"dgemm_"};
  EXPECT_TRUE(report_of({main}).blas_inside);

  // If exported, it also serves the program's libraries.
  main = program({});
  main.defines = {"dgemm_"};
  const Report report = report_of({main, library("/lib/libsolver.so", {}, {"dgemm_", "dtrsm_"}), openblas()});
  EXPECT_TRUE(report.blas_inside);
  EXPECT_THAT(uses_with(report, 1, Fate::executable_has_it), ElementsAre("dgemm_"));
  EXPECT_THAT(uses_with(report, 1, Fate::caught), ElementsAre("dtrsm_"));

  main = program({});
  main.stripped = main.names_blas_errors = true;
  EXPECT_TRUE(report_of({main}).blas_inside);
}

TEST(ProgramReport, width_of_plain_names_is_the_librarys) {
  const auto blas = dressed("", "_");
  EXPECT_EQ(report_of({program({"dgemm_"}), library("/lib/libblas.so.3", blas)}).bits, 32);
  for (const char* path :
       {"/lib/libblas64.so.3", "/lib/libopenblas64.so.0", "/opt/libopenblas64p-r0.3.21.so", "/lib/libblis64.so.4",
        "/opt/intel/libmkl_intel_ilp64.so.2", "/opt/intel/libmkl_gf_ilp64.so.2", "/opt/libmwblas.so"}) {
    const Report report = report_of({program({"dgemm_"}), library(path, blas)});
    EXPECT_EQ(report.bits, 64) << path;
    EXPECT_THAT(uses_with(report, 0, Fate::caught), ElementsAre("dgemm_")) << path;
    EXPECT_FALSE(report.mixed) << path;
  }
  for (const char* path :
       {"/lib/libopenblas.so.0", "/opt/libmkl_intel_lp64.so.2", "/opt/libmkl_rt.so.2", "/lib64/libblas.so.3"}) {
    EXPECT_EQ(report_of({program({"dgemm_"}), library(path, blas)}).bits, 32) << path;
  }
}

TEST(ProgramReport, names_that_carry_their_width_need_no_choice) {
  const Report report =
      report_of({program({}), library("/np/umath.so", {}, {"scipy_cblas_dgemm64_"}),
                 library("/np/libscipy_openblas64_.so", dressed("scipy_", "_64_") + dressed("scipy_cblas_", "64_"))},
                1);
  EXPECT_THAT(uses_with(report, 1, Fate::caught), ElementsAre("scipy_cblas_dgemm64_"));
  EXPECT_EQ(report.bits, 32);
  EXPECT_EQ(report.uses.front().bits, 64);
}

TEST(ProgramReport, both_widths_are_told) {
  const Report report = report_of({program({"dgemm_"}), library("/lib/libother.so", {}, {"dtrsm_"}),
                                   library("/lib/liba.so", {"dgemm_"}), library("/lib/libblas64.so.3", {"dtrsm_"})});
  EXPECT_TRUE(report.mixed);
  EXPECT_EQ(report.bits, 32);
}

TEST(ProgramReport, renamed_blas_is_seen_and_wrappers_are_not) {
  const Report report =
      report_of({program({"acme_dgemm_", "gsl_blas_dgemm"}), library("/lib/libacme.so", dressed("acme_", "_")),
                 library("/lib/libgsl.so", dressed("gsl_blas_", ""), {"cblas_dgemm"}), openblas()});
  EXPECT_THAT(uses_with(report, 0, Fate::renamed), ElementsAre("acme_dgemm_"));
  EXPECT_THAT(uses_with(report, 0, Fate::caught), IsEmpty());
  EXPECT_THAT(uses_with(report, 2, Fate::caught), ElementsAre("cblas_dgemm"));
}

TEST(ProgramReport, symbolic_libraries_keep_their_calls) {
  ProgramObject closed = library("/lib/libclosed.so", {"dgemm_"}, {"dgemm_", "dtrsm_"});
  closed.symbolic = true;
  const Report report = report_of({program({}), closed, openblas()});
  EXPECT_THAT(uses_with(report, 1, Fate::bound_inside), ElementsAre("dgemm_"));
  EXPECT_THAT(uses_with(report, 1, Fate::caught), ElementsAre("dtrsm_"));
}

TEST(ProgramReport, lapack_of_openblas) {
  const Report report = report_of({program({"dgetrf_", "dgesv_", "dgeqrf_"}), openblas()});
  EXPECT_THAT(uses_with(report, 0, Fate::openblas_lapack), ElementsAre("dgesv_", "dgetrf_"));
  EXPECT_THAT(uses_with(report, 0, Fate::partly_lapack), ElementsAre("dgeqrf_"));
  EXPECT_TRUE(report.openblas_lapack);
  EXPECT_FALSE(report.lapack_by_soname);
}

TEST(ProgramReport, lapack_of_openblas_under_its_own_name) {
  ProgramObject lapack = library("/lib/liblapack.so.3", lapack_names, {"dgemm_", "dgetrf_parallel"});
  lapack.needed = {"libopenblas.so.0"};
  ProgramObject main = program({"dgetrf_", "dgeqrf_"});
  const Report report = report_of({main, lapack, openblas()});
  EXPECT_THAT(uses_with(report, 0, Fate::openblas_lapack), ElementsAre("dgetrf_"));
  EXPECT_TRUE(report.lapack_by_soname);
  EXPECT_TRUE(report.openblas_by_soname);

  main.needed = {"libopenblas.so.0"};
  EXPECT_FALSE(report_of({main, lapack, openblas()}).openblas_by_soname);
  // One name that OpenBLAS itself defines is enough to require another LAPACK.
  EXPECT_FALSE(report_of({main, openblas(), lapack}).lapack_by_soname);
}

std::vector<std::string> whole_of(const Report& report, std::size_t object) {
  std::vector<std::string> symbols;
  for (const Use& use : report.uses) {
    if (use.object == object && use.whole) symbols.push_back(use.symbol);
  }
  return symbols;
}

TEST(ProgramReport, lapack_that_is_taken_as_a_whole) {
  const std::set<std::string> names = {"LAPACKE_dgelsd", "cheevd_",          "dgels_",  "dgels_64",
                                       "dgetrf_",        "scipy_zunmbr_64_", "dgehrd_", "dgemm_"};
  EXPECT_THAT(whole_of(report_of({program(names), openblas()}), 0),
              ElementsAre("LAPACKE_dgelsd", "cheevd_", "dgels_", "dgetrf_", "scipy_zunmbr_64_"));
  ProgramObject has_it = program({"dgetrf_"});
  has_it.defines = {"dgetrf_"};
  EXPECT_THAT(whole_of(report_of({has_it}), 0), IsEmpty());
  ProgramObject closed = library("/lib/libclosed.so", {"dgetrf_"}, {"dgetrf_", "dgels_"});
  closed.symbolic = true;
  const Report report = report_of({program({"dpotrf_"}), closed, openblas()});
  EXPECT_THAT(whole_of(report, 0), ElementsAre("dpotrf_"));
}

TEST(ProgramReport, reference_lapack_goes_through) {
  const ProgramObject lapack = library("/lib/liblapack.so.3", lapack_names, {"dgemm_", "dtrsm_", "dgetrf_"});
  const Report report = report_of({program({"dgetrf_"}), lapack, library("/lib/libblas.so.3", dressed("", "_"))});
  EXPECT_THAT(uses_with(report, 0, Fate::through_lapack), ElementsAre("dgetrf_"));
  EXPECT_THAT(uses_with(report, 1, Fate::caught), ElementsAre("dgemm_", "dtrsm_"));
  EXPECT_FALSE(report.openblas_lapack);
  EXPECT_TRUE(calls_blas_by_symbol(lapack));
  EXPECT_FALSE(calls_blas_by_symbol(openblas()));
}

TEST(ProgramReport, closed_lapack_is_told) {
  ProgramObject closed = library("/opt/libmkl_rt.so.2", dressed("", "_") + lapack_names);
  EXPECT_THAT(uses_with(report_of({program({"dgetrf_"}), closed}), 0, Fate::closed_lapack), ElementsAre("dgetrf_"));
  closed.references = dressed("", "_");
  closed.symbolic = true;
  EXPECT_THAT(uses_with(report_of({program({"dgetrf_"}), closed}), 0, Fate::closed_lapack), ElementsAre("dgetrf_"));
}

TEST(ProgramReport, lapacke_leads_to_the_lapack_under_it) {
  const Report report = report_of(
      {program({"LAPACKE_dgetrf"}), library("/lib/liblapacke.so.3", {"LAPACKE_dgetrf"}, {"dgetrf_"}), openblas()});
  EXPECT_THAT(uses_with(report, 0, Fate::openblas_lapack), ElementsAre("LAPACKE_dgetrf"));
}

TEST(ProgramReport, modules_see_the_program_first) {
  // An extension module whose libraries come after those of the program, as R's lapack.so.
  ProgramObject lapack = library("/lib/liblapack.so.3", lapack_names, {"dgemm_"});
  const Report report = report_of({program({}), library("/lib/libR.so", {"xerbla_"}, {"dgemm_"}), openblas(),
                                   library("/R/lapack.so", {}, {"dgetrf_"}), lapack},
                                  3);
  EXPECT_THAT(uses_with(report, 3, Fate::openblas_lapack), ElementsAre("dgetrf_"));
}

TEST(ProgramReport, tessera_as_the_blas_of_the_system) {
  const Report report =
      report_of({program({"dgemm_"}), library("/lib/tessera/libblas.so.3",
                                              dressed("", "_") + std::set<std::string>{"tessera_blas_marker"})});
  EXPECT_THAT(uses_with(report, 0, Fate::already_tessera), ElementsAre("dgemm_"));
}

TEST(ProgramReport, nothing_is_preloaded_into_a_static_program) {
  ProgramObject main = program({});
  main.is_static = true;
  main.inside = {"dgemm_"};
  const Report report = report_of({main});
  EXPECT_TRUE(report.statically_linked);
  EXPECT_TRUE(report.blas_inside);
}

}  // namespace program_report_test
}  // namespace tessera::tools
