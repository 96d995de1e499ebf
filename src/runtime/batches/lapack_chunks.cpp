#include "runtime/batches/lapack_chunks.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "runtime/batches/packing.hpp"

namespace tessera::runtime {
namespace {

using packing::Use;

/// "potrf_batch", by routine. For traces, which keep the address.
constexpr auto kernel_names = [] {
  constexpr std::string_view ending = "_batch";
  std::array<std::array<char, 24>, routine_count> names{};
  for (const RoutineRow& row : routine_rows) {
    char* const end = std::copy_n(row.real, std::string_view(row.real).size(), names[number_of(row.routine)].data());
    std::copy(ending.begin(), ending.end(), end);
  }
  return names;
}();

class Systems {
 public:
  static constexpr std::size_t operands = 3;  // A, B, pivots
  static constexpr std::size_t with_ld = 2;

  /// @param problems those of the batch, or one of them
  Systems(const LapackProblems& batch, std::span<const LapackProblem> problems) : batch_(&batch), problems_(problems) {}

  index_t size() const { return static_cast<index_t>(problems_.size()); }
  bool has_same_form(index_t i, index_t j) const { return problem(i).form == problem(j).form; }

  packing::Roles<operands> roles(index_t i) const {
    const Routine routine = batch_->routine;
    const LapackForm& form = batch_->form_of(problem(i));
    const auto element = static_cast<index_t>(element_bytes(batch_->type));
    const bool only_solves = solves(routine) && !factors(routine);
    const Use pivots = factors(routine) ? Use::write : Use::read;
    return {{{.use = only_solves ? Use::read : Use::update,
              .element_bytes = element,
              .part = part_of_factors(routine, form.uplo)},
             {.use = solves(routine) ? Use::update : Use::none, .element_bytes = element},
             {.use = form.has_pivots ? pivots : Use::none, .element_bytes = sizeof(int)}}};
  }
  packing::Operands<operands> operands_of(index_t i) const {
    const LapackProblem& p = problem(i);
    const index_t pivots = p.ipiv != nullptr ? std::min(p.m, p.n) : 0;
    return {{{.at = p.A, .ld = p.lda, .rows = p.m, .cols = p.n},
             {.at = p.B, .ld = p.ldb, .rows = p.n, .cols = p.nrhs},
             {.at = p.ipiv, .ld = pivots, .rows = pivots, .cols = 1}}};
  }
  packing::Sizes sizes_of(index_t i) const {
    const LapackProblem& p = problem(i);
    return {p.m, p.n, p.nrhs};
  }
  double flops_of(index_t i) const { return batch_->flops_of(problem(i)); }
  index_t workspace_bytes(index_t i) const {
    return inverts(batch_->routine) ? kernels::inverse_bytes(batch_->type, problem(i).n) : 0;
  }
  static bool has_info() { return true; }
  void set_info(index_t i, int info) const {
    if (problem(i).info != nullptr) *problem(i).info = info;
  }

  kernels::LapackBatch batch_of(index_t i, const packing::ChunkArrays<Systems>& arrays) const {
    const LapackForm& form = batch_->form_of(problem(i));
    const bool is_rectangular = has_m(batch_->routine);
    kernels::LapackBatch batch;
    batch.routine = batch_->routine;
    batch.type = batch_->type;
    batch.uplo = form.uplo;
    batch.op = form.op;
    batch.tiny = form.tiny;
    batch.count = arrays.count;
    batch.max_m = is_rectangular ? arrays.largest[0] : 0;
    batch.max_n = arrays.largest[1];
    batch.max_nrhs = arrays.largest[2];
    if (is_rectangular) batch.m = arrays.sizes[0];
    batch.n = arrays.sizes[1];
    batch.nrhs = arrays.sizes[2];
    batch.lda = arrays.ld[0];
    batch.ldb = arrays.ld[1];
    batch.A = arrays.matrices[0];
    batch.B = arrays.matrices[1];
    batch.ipiv = arrays.matrices[2];
    batch.info = arrays.info;
    return batch;
  }
  std::string name() const { return letter(batch_->type) + std::string(kernel_name()); }
  const char* kernel_name() const { return kernel_names[number_of(batch_->routine)].data(); }

 private:
  const LapackProblem& problem(index_t i) const { return problems_[static_cast<std::size_t>(i)]; }

  const LapackProblems* batch_;
  std::span<const LapackProblem> problems_;
};

}  // namespace

std::unique_ptr<PackableBatch> packable(const LapackProblems& batch) {
  return std::make_unique<packing::Packable<Systems>>(Systems(batch, batch.problems));
}

index_t packed_bytes(const LapackProblems& batch, const LapackProblem& problem) {
  return packing::Packable<Systems>(Systems(batch, {&problem, 1})).packed_bytes(0);
}

}  // namespace tessera::runtime
