// The BLAS symbols of the drop-in library, in the Fortran and the CBLAS interface: arguments are checked here as the reference
// does, and the call goes down to libtessera.so in column-major form. One line of core/routines.def makes two symbols; how their
// parameters are declared depends on the call shape only, of which there are five.
// Integers are 32-bit (LP64). Constructors do nothing; nothing is loaded before the first call.
#include <complex>
#include <cstdint>

#include "blas_api/arguments.hpp"
#include "blas_api/bridge.hpp"
#include "blas_api/drop_in/error_exit.hpp"
#include "core/scalar.hpp"

namespace tessera::api {
namespace {

using blas_int = std::int32_t;

void* find_next_gemm() { return next_definition("dgemm_"); }

template <Routine routine, Scalar T>
constexpr RoutineName routine_name = {letter(scalar_type_of<T>()), name_of(routine)};

template <Routine routine, Scalar T>
void from_fortran(const Arguments& arguments, const Operands& operands) {
  if (const int bad = first_bad_argument<routine, !std::floating_point<T>>(arguments); bad != 0) {
    return report_fortran(routine_name<routine, T>, bad);
  }
  tessera_private_run(level3_of<routine, T>(Layout::col_major, arguments, operands), find_next_gemm);
}

/// An enumerator as the reference's CBLAS sees it when it looks for bad ones.
struct CheckedEnumerator {
  bool good = true;
  const char* what = "";
  int value = 0;
  int position = 0;          ///< that it reports
  int fortran_position = 0;  ///< in the column-major call
};

/// @return a good one if `parameter` is no enumerator
template <Routine routine>
constexpr CheckedEnumerator enumerator_at(Parameter parameter, const Arguments& a, const CblasEnumerators& raw) {
  const bool row_major = a.layout == Layout::row_major;
  const int position = position_of(routine, parameter);
  switch (parameter) {
    case Parameter::side:
      return {a.side.has_value(), "Side", raw.side, position + 1, position};
    case Parameter::uplo: {
      // The reference says 3 in row-major order, except in her2k.
      const bool counts_as_3 = row_major && is_rank_update(routine) && routine != Routine::her2k;
      return {a.uplo.has_value(), "Uplo", raw.uplo, counts_as_3 ? 3 : position + 1, position};
    }
    case Parameter::transa:
      if (routine != Routine::gemm) return {a.op_a.has_value(), "Trans", raw.transa, position + 1, position};
      return {a.op_a.has_value(), "TransA", raw.transa, 2, row_major ? 2 : 1};
    case Parameter::transb:
      // The reference says 2 for a bad TransB in row-major order.
      return {a.op_b.has_value(), "TransB", raw.transb, row_major ? 2 : 3, row_major ? 1 : 2};
    case Parameter::diag:
      return {a.diag.has_value(), "Diag", raw.diag, position + 1, position};
    default:
      return {};
  }
}

template <Routine routine, Scalar T>
void from_cblas(int layout, const CblasEnumerators& raw, const Arguments& sizes, const Operands& operands) {
  constexpr RoutineName name = routine_name<routine, T>;
  const std::optional<Layout> order = layout_from_cblas(layout);
  if (!order) return report_cblas_enum(name, false, 1, 0, "layout", layout);
  const bool row_major = *order == Layout::row_major;
  const Arguments given = arguments_from_cblas(*order, raw, sizes);
  for (const Parameter parameter : parameters_of(routine)) {
    const CheckedEnumerator e = enumerator_at<routine>(parameter, given, raw);
    if (!e.good) return report_cblas_enum(name, row_major, e.position, e.fortran_position, e.what, e.value);
  }
  // From here on the reference knows only the column-major call that it makes, and so do its complaints.
  const Arguments arguments = in_column_major(routine, given);
  if (const int bad = first_bad_argument<routine, !std::floating_point<T>>(arguments); bad != 0) {
    return report_cblas(name, row_major, bad);
  }
  tessera_private_run(level3_of<routine, T>(*order, arguments, operands), find_next_gemm);
}

}  // namespace
}  // namespace tessera::api

#define TESSERA_SYMBOL extern "C" __attribute__((visibility("default"))) void
#define TESSERA_INT const std::int32_t*

// The Fortran compiler's hidden string lengths come last and are not looked at.
#define TESSERA_GEMM(routine, letter, T)                                                                             \
  TESSERA_SYMBOL letter##routine##_(const char* transa, const char* transb, TESSERA_INT m, TESSERA_INT n,            \
                                    TESSERA_INT k, const T* alpha, const T* A, TESSERA_INT lda, const T* B,          \
                                    TESSERA_INT ldb, const T* beta, T* C, TESSERA_INT ldc) {                         \
    using namespace tessera::api;                                                                                    \
    from_fortran<tessera::Routine::routine, T>({.op_a = op_from_letter(*transa),                                     \
                                                .op_b = op_from_letter(*transb),                                     \
                                                .m = *m,                                                             \
                                                .n = *n,                                                             \
                                                .k = *k,                                                             \
                                                .lda = *lda,                                                         \
                                                .ldb = *ldb,                                                         \
                                                .ldc = *ldc},                                                        \
                                               {alpha, A, B, beta, C});                                              \
  }                                                                                                                  \
  TESSERA_SYMBOL cblas_##letter##routine(                                                                            \
      int layout, int transa, int transb, std::int32_t m, std::int32_t n, std::int32_t k,                            \
      tessera::api::CScalar<T> alpha, const tessera::api::CArray<T>* A, std::int32_t lda,                            \
      const tessera::api::CArray<T>* B, std::int32_t ldb, tessera::api::CScalar<T> beta, tessera::api::CArray<T>* C, \
      std::int32_t ldc) {                                                                                            \
    using namespace tessera::api;                                                                                    \
    from_cblas<tessera::Routine::routine, T>(layout, {.transa = transa, .transb = transb},                           \
                                             {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc},           \
                                             {address_of(alpha), A, B, address_of(beta), C});                        \
  }

#define TESSERA_SIDED(routine, letter, T)                                                                             \
  TESSERA_SYMBOL letter##routine##_(const char* side, const char* uplo, TESSERA_INT m, TESSERA_INT n, const T* alpha, \
                                    const T* A, TESSERA_INT lda, const T* B, TESSERA_INT ldb, const T* beta, T* C,    \
                                    TESSERA_INT ldc) {                                                                \
    using namespace tessera::api;                                                                                     \
    from_fortran<tessera::Routine::routine, T>({.side = side_from_letter(*side),                                      \
                                                .uplo = uplo_from_letter(*uplo),                                      \
                                                .m = *m,                                                              \
                                                .n = *n,                                                              \
                                                .lda = *lda,                                                          \
                                                .ldb = *ldb,                                                          \
                                                .ldc = *ldc},                                                         \
                                               {alpha, A, B, beta, C});                                               \
  }                                                                                                                   \
  TESSERA_SYMBOL cblas_##letter##routine(                                                                             \
      int layout, int side, int uplo, std::int32_t m, std::int32_t n, tessera::api::CScalar<T> alpha,                 \
      const tessera::api::CArray<T>* A, std::int32_t lda, const tessera::api::CArray<T>* B, std::int32_t ldb,         \
      tessera::api::CScalar<T> beta, tessera::api::CArray<T>* C, std::int32_t ldc) {                                  \
    using namespace tessera::api;                                                                                     \
    from_cblas<tessera::Routine::routine, T>(layout, {.side = side, .uplo = uplo},                                    \
                                             {.m = m, .n = n, .lda = lda, .ldb = ldb, .ldc = ldc},                    \
                                             {address_of(alpha), A, B, address_of(beta), C});                         \
  }

#define TESSERA_RANK_K(routine, letter, T)                                                                             \
  TESSERA_SYMBOL letter##routine##_(const char* uplo, const char* trans, TESSERA_INT n, TESSERA_INT k,                 \
                                    const tessera::api::Alpha<tessera::Routine::routine, T>* alpha, const T* A,        \
                                    TESSERA_INT lda, const tessera::api::Beta<tessera::Routine::routine, T>* beta,     \
                                    T* C, TESSERA_INT ldc) {                                                           \
    using namespace tessera::api;                                                                                      \
    from_fortran<tessera::Routine::routine, T>(                                                                        \
        {.uplo = uplo_from_letter(*uplo), .op_a = op_from_letter(*trans), .n = *n, .k = *k, .lda = *lda, .ldc = *ldc}, \
        {alpha, A, nullptr, beta, C});                                                                                 \
  }                                                                                                                    \
  TESSERA_SYMBOL cblas_##letter##routine(                                                                              \
      int layout, int uplo, int trans, std::int32_t n, std::int32_t k,                                                 \
      tessera::api::CScalar<tessera::api::Alpha<tessera::Routine::routine, T>> alpha,                                  \
      const tessera::api::CArray<T>* A, std::int32_t lda,                                                              \
      tessera::api::CScalar<tessera::api::Beta<tessera::Routine::routine, T>> beta, tessera::api::CArray<T>* C,        \
      std::int32_t ldc) {                                                                                              \
    using namespace tessera::api;                                                                                      \
    from_cblas<tessera::Routine::routine, T>(layout, {.uplo = uplo, .transa = trans},                                  \
                                             {.n = n, .k = k, .lda = lda, .ldc = ldc},                                 \
                                             {address_of(alpha), A, nullptr, address_of(beta), C});                    \
  }

#define TESSERA_RANK_2K(routine, letter, T)                                                                            \
  TESSERA_SYMBOL letter##routine##_(const char* uplo, const char* trans, TESSERA_INT n, TESSERA_INT k, const T* alpha, \
                                    const T* A, TESSERA_INT lda, const T* B, TESSERA_INT ldb,                          \
                                    const tessera::api::Beta<tessera::Routine::routine, T>* beta, T* C,                \
                                    TESSERA_INT ldc) {                                                                 \
    using namespace tessera::api;                                                                                      \
    from_fortran<tessera::Routine::routine, T>({.uplo = uplo_from_letter(*uplo),                                       \
                                                .op_a = op_from_letter(*trans),                                        \
                                                .n = *n,                                                               \
                                                .k = *k,                                                               \
                                                .lda = *lda,                                                           \
                                                .ldb = *ldb,                                                           \
                                                .ldc = *ldc},                                                          \
                                               {alpha, A, B, beta, C});                                                \
  }                                                                                                                    \
  TESSERA_SYMBOL cblas_##letter##routine(int layout, int uplo, int trans, std::int32_t n, std::int32_t k,              \
                                         tessera::api::CScalar<T> alpha, const tessera::api::CArray<T>* A,             \
                                         std::int32_t lda, const tessera::api::CArray<T>* B, std::int32_t ldb,         \
                                         tessera::api::CScalar<tessera::api::Beta<tessera::Routine::routine, T>> beta, \
                                         tessera::api::CArray<T>* C, std::int32_t ldc) {                               \
    using namespace tessera::api;                                                                                      \
    from_cblas<tessera::Routine::routine, T>(layout, {.uplo = uplo, .transa = trans},                                  \
                                             {.n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc},                     \
                                             {address_of(alpha), A, B, address_of(beta), C});                          \
  }

#define TESSERA_TRIANGULAR(routine, letter, T)                                                                       \
  TESSERA_SYMBOL letter##routine##_(const char* side, const char* uplo, const char* transa, const char* diag,        \
                                    TESSERA_INT m, TESSERA_INT n, const T* alpha, const T* A, TESSERA_INT lda, T* B, \
                                    TESSERA_INT ldb) {                                                               \
    using namespace tessera::api;                                                                                    \
    from_fortran<tessera::Routine::routine, T>({.side = side_from_letter(*side),                                     \
                                                .uplo = uplo_from_letter(*uplo),                                     \
                                                .op_a = op_from_letter(*transa),                                     \
                                                .diag = diag_from_letter(*diag),                                     \
                                                .m = *m,                                                             \
                                                .n = *n,                                                             \
                                                .lda = *lda,                                                         \
                                                .ldb = *ldb},                                                        \
                                               {alpha, A, nullptr, nullptr, B});                                     \
  }                                                                                                                  \
  TESSERA_SYMBOL cblas_##letter##routine(int layout, int side, int uplo, int transa, int diag, std::int32_t m,       \
                                         std::int32_t n, tessera::api::CScalar<T> alpha,                             \
                                         const tessera::api::CArray<T>* A, std::int32_t lda,                         \
                                         tessera::api::CArray<T>* B, std::int32_t ldb) {                             \
    using namespace tessera::api;                                                                                    \
    from_cblas<tessera::Routine::routine, T>(layout, {.side = side, .uplo = uplo, .transa = transa, .diag = diag},   \
                                             {.m = m, .n = n, .lda = lda, .ldb = ldb},                               \
                                             {address_of(alpha), A, nullptr, nullptr, B});                           \
  }

#define TESSERA_SHAPE_gemm TESSERA_GEMM
#define TESSERA_SHAPE_symm TESSERA_SIDED
#define TESSERA_SHAPE_hemm TESSERA_SIDED
#define TESSERA_SHAPE_syrk TESSERA_RANK_K
#define TESSERA_SHAPE_herk TESSERA_RANK_K
#define TESSERA_SHAPE_syr2k TESSERA_RANK_2K
#define TESSERA_SHAPE_her2k TESSERA_RANK_2K
#define TESSERA_SHAPE_trmm TESSERA_TRIANGULAR
#define TESSERA_SHAPE_trsm TESSERA_TRIANGULAR
#define TESSERA_ROUTINE(routine, letter, T) TESSERA_SHAPE_##routine(routine, letter, T)
#include "core/routines.def"
#undef TESSERA_ROUTINE

/// Tells the search for a CPU BLAS that this library is none.
extern "C" {
extern __attribute__((visibility("default"))) const int tessera_blas_marker;
const int tessera_blas_marker = 1;
}
