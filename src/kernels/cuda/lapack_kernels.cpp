#include "kernels/cuda/lapack_kernels.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "kernels/cuda/cholesky_batch.hpp"
#include "kernels/cuda/lu_batch.hpp"
#include "kernels/cuda/solve_batch.hpp"
#include "kernels/plan/lapack_choice.hpp"

namespace tessera::kernels::cuda {
namespace {

/// A number that exceeds any matrix's columns.
constexpr index_t all_columns = index_t{1} << 62;

/// Ignores a bound that no matrix of a batch reaches: 0 means not known.
index_t useful(index_t bound) { return bound < index_t{1} << 20 ? bound : 0; }

/// @param height the largest number of rows, from `first` on
cudaError_t submit_lu_panel(const LapackBatch& batch, index_t first, index_t height, index_t width,
                            cudaStream_t stream) {
  const std::size_t small = plan::class_of_small(batch.type, std::max(height, width));
  if (small < plan::small_factorizations.size()) return submit_small_lu(batch, small, first, stream);
  const std::size_t panel = plan::class_of_register_panel(batch.type, height);
  if (panel < plan::register_panels.size()) return submit_lu_register_panel(batch, panel, first, stream);
  return submit_lu_sweep(batch, plan::class_of_lu(batch.type, height), first, plan::lu_panel_columns, stream);
}

/// @param rows of the highest matrix; 0: not known
cudaError_t submit_lu_in_one_launch(const LapackBatch& batch, index_t rows, cudaStream_t stream) {
  return submit_lu_sweep(batch, plan::class_of_lu(batch.type, rows), 0, all_columns, stream);
}

cudaError_t submit_lu(const LapackBatch& batch, cudaStream_t stream) {
  const bool is_square = !has_m(batch.routine);
  const index_t rows = useful(is_square ? batch.max_n : batch.max_m), columns = useful(batch.max_n);
  const bool is_known = rows > 0 && columns > 0;
  constexpr index_t width = plan::lu_panel_columns;
  if (is_known && columns <= width) return submit_lu_panel(batch, 0, rows, columns, stream);
  if (!is_known || columns <= plan::most_columns_of_lu_sweep(batch.type))
    return submit_lu_in_one_launch(batch, rows, stream);
  cudaError_t error = cudaSuccess;
  for (index_t first = 0; first < std::min(rows, columns) && error == cudaSuccess; first += width) {
    error = submit_lu_panel(batch, first, rows - first, std::min(width, columns - first), stream);
    if (error == cudaSuccess) error = submit_lu_strips(batch, first, columns, stream);
    const index_t behind = first + width;
    if (error == cudaSuccess && behind < rows && behind < columns)
      error = submit_lu_update(batch, first, rows - behind, columns - behind, stream);
  }
  return error;
}

cudaError_t submit_cholesky_by_triangles(const LapackBatch& batch, index_t begin, index_t order, cudaStream_t stream) {
  constexpr index_t width = plan::cholesky_triangle;
  cudaError_t error = cudaSuccess;
  for (index_t first = begin; first < order && error == cudaSuccess; first += width) {
    const index_t rest = order - first, behind = rest - width;
    error = submit_small_cholesky(batch, plan::class_of_small(batch.type, std::min(rest, width)), first, stream);
    if (behind <= 0) break;
    if (error == cudaSuccess) error = submit_cholesky_strips(batch, first, behind, stream);
    if (error == cudaSuccess) error = submit_cholesky_update(batch, first, width, behind, stream);
  }
  return error;
}

/// @param begin where the triangle that is left to factor begins; 0 if the order is not known
cudaError_t submit_cholesky(const LapackBatch& batch, index_t begin, cudaStream_t stream) {
  const index_t order = useful(batch.max_n), left = order - begin;
  const std::size_t small = plan::class_of_small(batch.type, left);
  if (small < plan::small_factorizations.size()) return submit_small_cholesky(batch, small, begin, stream);
  if (plan::has_triangles_in_registers(batch.type, batch.uplo, left))
    return submit_cholesky_by_triangles(batch, begin, order, stream);
  if (left == 0 || left <= plan::most_columns_of_cholesky_sweep)
    return submit_cholesky_sweep(batch, plan::class_of_cholesky(left), begin, all_columns, stream);
  const index_t width = plan::cholesky_panel_columns(left);
  cudaError_t error = cudaSuccess;
  for (index_t first = begin; first < order && error == cudaSuccess; first += width) {
    error = submit_cholesky_sweep(batch, plan::class_of_cholesky(order - first), first, width, stream);
    const index_t behind = first + width;
    if (error == cudaSuccess && behind < order)
      error = submit_cholesky_update(batch, first, width, order - behind, stream);
  }
  return error;
}

/// Bytes of workspace per problem of potri or getri.
std::size_t inverse_bytes(const LapackBatch& batch) {
  return static_cast<std::size_t>(kernels::inverse_bytes(batch.type, batch.max_n));
}

/// `count` problems from `first` on.
LapackBatch part_of(LapackBatch batch, index_t first, index_t count) {
  const auto skip_numbers = [&](NumberOfEach& number) {
    const index_t bytes = first * (number.is_wide ? 8 : 4);
    if (number.of_each != nullptr) number.of_each = static_cast<const char*>(number.of_each) + bytes;
  };
  const auto skip_matrices = [&](UntypedMatrixOfEach& matrix, std::size_t bytes_of_element) {
    if (matrix.of_each != nullptr) matrix.of_each = static_cast<const char*>(matrix.of_each) + first * 8;
    if (matrix.first != nullptr)
      matrix.first =
          static_cast<const char*>(matrix.first) + first * matrix.distance * static_cast<index_t>(bytes_of_element);
  };
  for (NumberOfEach* const number : {&batch.m, &batch.n, &batch.nrhs, &batch.lda, &batch.ldb}) skip_numbers(*number);
  skip_matrices(batch.A, element_bytes(batch.type));
  skip_matrices(batch.B, element_bytes(batch.type));
  skip_matrices(batch.ipiv, batch.is_wide ? 8 : 4);
  batch.info = static_cast<char*>(batch.info) + first * (batch.is_wide ? 8 : 4);
  batch.count = count;
  return batch;
}

bool has_pivots(const LapackBatch& batch) { return batch.ipiv.of_each != nullptr || batch.ipiv.first != nullptr; }

}  // namespace

cudaError_t LapackKernels::load() {
  cudaError_t error = load_lu_kernels();
  if (error == cudaSuccess) error = load_cholesky_kernels();
  if (error == cudaSuccess) error = load_solve_kernels();
  return error;
}

Outcome LapackKernels::submit(const LapackBatch& batch, const Submission& to) const {
  using enum Routine;
  Outcome outcome;
  switch (batch.routine) {
    case potrf:
    case posv:
      outcome.cuda = submit_cholesky(batch, 0, to.stream);
      break;
    case getrf:
    case getrf_nopiv:
    case gesv:
      outcome.cuda = submit_lu(batch, to.stream);
      break;
    case potri:
    case getri:
      return invert(batch, to);
    case laswp:
      return {.cuda = batch.incx != 0 ? submit_interchanges(batch, to.stream) : cudaSuccess};
    case potrs:
    case getrs:
      if (plan::is_vector_solve(batch.max_n, batch.max_nrhs))
        return {.cuda = submit_vector_solves(batch, true, to.stream)};
      if (batch.info != nullptr) outcome.cuda = submit_checks(batch, to.stream);
      break;
    default:
      break;
  }
  return solves(batch.routine) && outcome.is_good() ? solve(batch, to) : outcome;
}

/// Solves with the factors, for problems whose info is zero.
Outcome LapackKernels::solve(const LapackBatch& batch, const Submission& to) const {
  using enum Op;
  if (plan::is_vector_solve(batch.max_n, batch.max_nrhs))
    return {.cuda = submit_vector_solves(batch, false, to.stream)};
  if (is_hermitian(batch.routine)) {
    const bool is_lower = batch.uplo == Uplo::lower;
    const Outcome outcome = solve_triangle(batch, batch.uplo, is_lower ? no_trans : conj_trans, Diag::non_unit, to);
    if (!outcome.is_good()) return outcome;
    return solve_triangle(batch, batch.uplo, is_lower ? conj_trans : no_trans, Diag::non_unit, to);
  }
  const auto interchange = [&] {
    return Outcome{.cuda = has_pivots(batch) ? submit_interchanges(batch, to.stream) : cudaSuccess};
  };
  const auto lower = [&] { return solve_triangle(batch, Uplo::lower, batch.op, Diag::unit, to); };
  const auto upper = [&] { return solve_triangle(batch, Uplo::upper, batch.op, Diag::non_unit, to); };
  const auto in_turn = [](auto first, auto second, auto third) {
    Outcome outcome = first();
    if (outcome.is_good()) outcome = second();
    return outcome.is_good() ? third() : outcome;
  };
  return batch.op == no_trans ? in_turn(interchange, lower, upper) : in_turn(upper, lower, interchange);
}

Outcome LapackKernels::solve_triangle(const LapackBatch& batch, Uplo uplo, Op op, Diag diag,
                                      const Submission& to) const {
  Level3Batch solve;
  solve.common.routine = Routine::trsm;
  solve.common.type = batch.type;
  solve.common.side = Side::left;
  solve.common.uplo = uplo;
  solve.common.op_a = op;
  solve.common.diag = diag;
  solve.common.m = batch.max_n;
  solve.common.n = batch.max_nrhs;
  solve.common.alpha = 1;
  solve.count = batch.count;
  solve.m = batch.n;
  solve.n = batch.nrhs;
  solve.lda = batch.lda;
  solve.ldc = batch.ldb;
  solve.A = batch.A;
  solve.C = batch.B;
  solve.left_out = {.of_each = batch.info, .is_wide = batch.is_wide};
  return level3_.submit(solve, to);
}

Outcome LapackKernels::invert(const LapackBatch& batch, const Submission& to) const {
  const std::size_t of_one = inverse_bytes(batch);
  if (of_one == 0) return {.cuda = submit_checks(batch, to.stream)};
  const auto problems = static_cast<index_t>(to.workspace_bytes / of_one);
  if (problems == 0)
    throw OutOfDeviceMemory(std::string(name_of(batch.routine)) + " needs a workspace of at least " +
                            std::to_string(of_one) + " bytes, for one problem of order " + std::to_string(batch.max_n));
  Outcome outcome;
  for (index_t first = 0; first < batch.count && outcome.is_good(); first += problems) {
    LapackBatch part = part_of(batch, first, std::min(problems, batch.count - first));
    part.nrhs = part.n;
    part.max_nrhs = part.max_n;
    part.op = Op::no_trans;
    part.B = {.first = to.workspace, .distance = static_cast<index_t>(of_one / element_bytes(batch.type))};
    part.ldb = {.of_all = std::max<index_t>(batch.max_n, 1)};
    outcome.cuda = submit_identities(part, to.stream);
    if (outcome.is_good()) outcome = solve(part, to);
    if (outcome.is_good()) outcome.cuda = submit_results(part, to.stream);
  }
  return outcome;
}

cudaError_t LapackKernels::submit_cholesky_from(const LapackBatch& batch, index_t first, cudaStream_t stream) {
  return submit_cholesky(batch, first, stream);
}

cudaError_t LapackKernels::load_cholesky() { return load_cholesky_kernels(); }

cudaError_t LapackKernels::submit_getrf_in_one_launch(const LapackBatch& batch, cudaStream_t stream) {
  return submit_lu_in_one_launch(batch, useful(batch.max_m), stream);
}

cudaError_t LapackKernels::load_lu() { return load_lu_kernels(); }

std::size_t LapackKernels::workspace_bytes(const LapackBatch& batch) {
  return inverts(batch.routine) ? static_cast<std::size_t>(batch.count) * inverse_bytes(batch) : 0;
}

}  // namespace tessera::kernels::cuda
