#include "kernels/reference/reference_batch.hpp"

#include <cstddef>

#include "calls/arguments.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::kernels {
namespace {

/// The position of the first bad argument, in the order in which the reference BLAS checks them; 0: none.
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
  return dispatch_level3(problem.routine, [&]<Routine routine>() { return bad_argument<routine>(problem); });
}

void set(void* numbers, bool is_wide, index_t at, int value) {
  if (is_wide)
    static_cast<std::int64_t*>(numbers)[at] = value;
  else
    static_cast<int*>(numbers)[at] = value;
}

const void* address_in(const UntypedMatrixOfEach& matrix, index_t problem, std::size_t element_bytes) {
  if (matrix.of_each != nullptr) return static_cast<const void* const*>(matrix.of_each)[problem];
  if (matrix.first == nullptr) return nullptr;
  return static_cast<const std::byte*>(matrix.first) + problem * matrix.distance * static_cast<index_t>(element_bytes);
}

Level3 problem_of(const Level3Batch& batch, index_t problem, std::size_t element_bytes) {
  Level3 call = batch.common;
  call.n = batch.n.of(problem);
  call.m = call.updates_triangle() ? call.n : batch.m.of(problem);
  call.k = call.has_k() ? batch.k.of(problem) : 0;
  call.lda = batch.lda.of(problem);
  call.ldb = batch.ldb.of(problem);
  call.ldc = batch.ldc.of(problem);
  call.A = address_in(batch.A, problem, element_bytes);
  call.B = address_in(batch.B, problem, element_bytes);
  call.C = const_cast<void*>(address_in(batch.C, problem, element_bytes));
  if (call.routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
  return call;
}

}  // namespace

Level3 problem_of(const Level3Batch& batch, index_t problem) {
  return problem_of(batch, problem, element_bytes(batch.common.type));
}

void for_each_good_problem(const Level3Batch& batch, std::size_t element_bytes,
                           const std::function<void(const Level3&)>& compute) {
  for (index_t i = 0; i < batch.count; ++i) {
    if (batch.left_out.of_each != nullptr && batch.left_out.of(i) != 0) continue;
    const Level3 problem = problem_of(batch, i, element_bytes);
    const int bad = batch.info == nullptr ? 0 : bad_argument(problem);
    if (batch.info != nullptr) set(batch.info, batch.n.is_wide, i, -bad);
    if (bad == 0) compute(problem);
  }
}

void reference_level3_batch(const Level3Batch& batch) {
  for_each_good_problem(batch, element_bytes(batch.common.type),
                        [](const Level3& problem) { reference_level3(problem); });
}

}  // namespace tessera::kernels
