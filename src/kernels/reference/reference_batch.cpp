#include "kernels/reference/reference_batch.hpp"

#include "core/arguments.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::kernels {
namespace {

/// The bad argument that the reference BLAS finds first, by its position; 0: none.
template <Routine routine>
int bad_argument(const Level3& problem) {
  Arguments given{.layout = Layout::col_major,
                  .side = problem.side,
                  .uplo = problem.uplo,
                  .op_a = problem.op_a,
                  .op_b = problem.op_b,
                  .diag = problem.diag,
                  .m = problem.m,
                  .n = problem.n,
                  .k = problem.k,
                  .lda = problem.lda,
                  .ldb = problem.is_triangular() ? problem.ldc : problem.ldb,
                  .ldc = problem.ldc};
  return is_complex(problem.type) ? first_bad_argument<routine, true>(given)
                                  : first_bad_argument<routine, false>(given);
}

int bad_argument(const Level3& problem) {
  using Check = int (*)(const Level3&);
  constexpr Check of_routine[routine_count] = {bad_argument<Routine::gemm>,  bad_argument<Routine::symm>,
                                               bad_argument<Routine::hemm>,  bad_argument<Routine::syrk>,
                                               bad_argument<Routine::herk>,  bad_argument<Routine::syr2k>,
                                               bad_argument<Routine::her2k>, bad_argument<Routine::trmm>,
                                               bad_argument<Routine::trsm>,  bad_argument<Routine::gemmt>};
  return of_routine[static_cast<std::size_t>(problem.routine)](problem);
}

void set(void* numbers, bool is_wide, index_t at, int value) {
  if (is_wide)
    static_cast<std::int64_t*>(numbers)[at] = value;
  else
    static_cast<int*>(numbers)[at] = value;
}

}  // namespace

Level3 problem_of(const Level3Batch& batch, index_t problem) {
  Level3 call = batch.common;
  call.n = batch.n.of(problem);
  call.m = call.updates_triangle() ? call.n : batch.m.of(problem);
  call.k = call.has_k() ? batch.k.of(problem) : 0;
  call.lda = batch.lda.of(problem);
  call.ldb = batch.ldb.of(problem);
  call.ldc = batch.ldc.of(problem);
  dispatch(call.type, [&]<Scalar T>(T) {
    call.A = batch.A.as<const T>().of(problem);
    call.B = batch.B.as<const T>().of(problem);
    call.C = batch.C.as<T>().of(problem);
  });
  if (call.routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
  return call;
}

void reference_level3_batch(const Level3Batch& batch) {
  for (index_t i = 0; i < batch.count; ++i) {
    if (batch.left_out.of_each != nullptr && batch.left_out.of(i) != 0) continue;
    const Level3 problem = problem_of(batch, i);
    const int bad = batch.info == nullptr ? 0 : bad_argument(problem);
    if (batch.info != nullptr) set(batch.info, batch.n.is_wide, i, -bad);
    if (bad == 0) reference_level3(problem);
  }
}

}  // namespace tessera::kernels
