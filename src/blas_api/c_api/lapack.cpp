// Single calls of LAPACK of the own C API (tessera/lapack.h): checks, and exceptions into status codes. Arguments are those of the
// Fortran interfaces (calls/parameters.hpp) in their order, without workspaces and left eigenvectors, and are checked in it. Calls
// on row-major matrices become such on column-major ones (calls/row_major.hpp). CMake writes the functions
// (cmake/lapack_symbols.cmake).
#include <algorithm>
#include <complex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_fortran.hpp"
#include "calls/row_major.hpp"
#include "core/matrix_copy.hpp"
#include "runtime/whole/whole_job.hpp"
#include "tessera/lapack.h"

using tessera::CArray;
using tessera::index_t;
using tessera::LapackArguments;
using tessera::LapackCall;
using tessera::Parameter;
using tessera::RealOf;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::VectorJob;
using tessera::c_api::guarded;
using tessera::c_api::places_before;

namespace {

/// The places for what LAPACK tells of a call.
struct Told {
  int64_t* found = nullptr;
  int64_t* info = nullptr;
};

/// A transposition as the routine knows it: most take either for the conjugate one of real types.
std::optional<tessera::Op> op_of(Routine routine, bool is_complex, int trans) {
  using tessera::Op;
  const std::optional<Op> op = tessera::op_from_cblas(trans);
  if (!op || *op == Op::no_trans || routine == Routine::trtrs || routine == Routine::getrs) return op;
  if (is_complex && *op == Op::trans) return std::nullopt;
  return Op::conj_trans;
}

void take_vectors(int given, LapackArguments& taken) {
  const bool has_all = taken.called == Routine::gesdd;
  if (given != TESSERA_NO_VECTORS && given != TESSERA_VECTORS && !(has_all && given == TESSERA_ALL_VECTORS))
    taken.set_bad(taken.called == Routine::geev ? Parameter::jobvr : Parameter::jobz);
  LapackCall& p = taken.problem;
  p.vectors = given != TESSERA_NO_VECTORS;
  if (has_all && p.vectors) p.u = p.vt = given == TESSERA_ALL_VECTORS ? VectorJob::all : VectorJob::thin;
}

template <Parameter parameter, class Value>
void take(const Value& value, LapackArguments& taken, Told& told) {
  using enum Parameter;
  LapackCall& p = taken.problem;
  if constexpr (parameter == jobz || parameter == jobvr)
    take_vectors(value, taken);
  else if constexpr (parameter == uplo)
    taken.take(uplo, tessera::uplo_from_cblas(value), p.uplo);
  else if constexpr (parameter == side)
    taken.take(side, tessera::side_from_cblas(value), p.side);
  else if constexpr (parameter == trans)
    taken.take(trans, op_of(p.routine, is_complex(p.type), value), p.op);
  else if constexpr (parameter == diag)
    taken.take(diag, tessera::diag_from_cblas(value), p.diag);
  else if constexpr (parameter == itype)
    p.itype = value;
  else if constexpr (parameter == m)
    p.m = value;
  else if constexpr (parameter == n)
    p.n = value;
  else if constexpr (parameter == k || parameter == nrhs)
    p.k = value;
  else if constexpr (parameter == rcond)
    p.rcond = value;
  else if constexpr (parameter == found)
    told.found = value;
  else if constexpr (parameter == info)
    told.info = value;
  else if constexpr (is_leading_dimension(parameter))
    ld_of(p, *slot_of(parameter)) = value;
  else
    address_of(p, *slot_of(parameter)) = const_cast<void*>(static_cast<const void*>(value));
}

/// @param values in the order of the routine's interface
template <Routine routine, Scalar T, class... Values>
LapackArguments arguments_of(Told& told, const Values&... values) {
  constexpr tessera::ScalarType type = tessera::scalar_type_of<T>();
  constexpr tessera::Parameters parameters = own_parameters_of(routine, is_complex(type));
  static_assert(sizeof...(values) == count_of(parameters));
  LapackArguments taken{.called = routine, .problem = {.routine = routine, .type = type}, .bad_letters = {}};
  [&]<std::size_t... i>(std::index_sequence<i...>) { (take<parameters[i]>(values, taken, told), ...); }
  (std::index_sequence_for<Values...>{});
  if (!has_m(routine)) taken.problem.m = taken.problem.n;
  return taken;
}

/// LAPACK never has anything to tell.
constexpr bool may_leave_info_out(Routine routine) {
  return (solves(routine) && !factors(routine)) || makes_reflectors(routine);
}

void check(const Told& told, const LapackArguments& taken, bool is_in_rows) {
  tessera::ArgumentLimits limits = tessera::own_limits;
  limits.are_in_rows = is_in_rows;
  const tessera::Parameters parameters = own_parameters_of(taken.called, is_complex(taken.problem.type));
  const int place = first_bad(parameters, taken, limits, [&](Parameter parameter) {
    if (parameter == Parameter::found) return told.found != nullptr;
    return parameter != Parameter::info || told.info != nullptr || may_leave_info_out(taken.called);
  });
  if (place == 0) return;
  require_argument(false, place + places_before,
                   tessera::lapack_complaint(parameters[static_cast<std::size_t>(place - 1)], taken, limits).c_str());
}

/// Computes it, where it does something. The CPU's LAPACK computes what no device takes (sizes of 0 among it).
std::optional<tessera::runtime::JobStatistics> compute(tessera_context ctx, tessera::offload::LapackRun& run,
                                                       tessera::offload::CallTime& time) {
  const LapackCall& p = run.problem;
  if (!does_nothing(p) && tessera::lapack_fortran::is_large_enough(p))
    return ctx->context.run(run, tessera::offload::Fallback::report, nullptr, nullptr, &time);
  if (row_of(p.routine).way != tessera::Way::factors) ctx->context.compute_on_cpu(run);
  return std::nullopt;
}

/// Memory of one operand, which the pool keeps for the next call.
struct Piece {
  explicit Piece(std::int64_t bytes) : memory(tessera_malloc(static_cast<std::size_t>(bytes))) {
    if (memory == nullptr) throw std::bad_alloc();
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  Piece(Piece&& other) noexcept : memory(std::exchange(other.memory, nullptr)) {}
  Piece& operator=(Piece&&) = delete;
  ~Piece() { tessera_free(memory); }
  void* memory;
};

/// The copies in columns of matrices that a row-major call cannot use as they lie, and of tau.
class Copies {
 public:
  /// Points the call at its copies.
  Copies(tessera::InColumns& made, tessera::offload::Context& context) : processors_(context.processors()) {
    LapackCall& p = made.call;
    const auto is_copied = [&](const tessera::LapackOperand& operand) {
      const bool is_tau = operand.slot == tessera::LapackSlot::tau && made.conjugates_tau;
      return (made.copies(operand.slot) || is_tau) && operand.bytes() > 0;
    };
    std::vector<tessera::device::Touched> touched;
    for (const tessera::LapackOperand& operand : tessera::LapackOperands(p)) {
      if (is_copied(operand)) touched.push_back(rows_of(operand));
    }
    if (!touched.empty()) context.begin_host_use(host_use_, touched);
    for (const tessera::LapackOperand& operand : tessera::LapackOperands(p)) {
      if (!is_copied(operand)) continue;
      const bool is_tau = operand.slot == tessera::LapackSlot::tau;
      Copied copied{operand, is_tau || (made.conjugates_b && operand.slot == tessera::LapackSlot::B),
                    Piece(operand.bytes())};
      address_of(p, operand.slot) = copied.in_columns.memory;
      if (!is_tau) ld_of(p, operand.slot) = std::max<index_t>(operand.rows, 1);
      if (operand.reads) copy(copied, operand.read_rows, operand.read_cols, true);
      copies_.push_back(std::move(copied));
    }
  }

  /// Brings what the call has written to the caller.
  void hand_back() const {
    for (const Copied& copied : copies_) {
      if (copied.rows.writes) copy(copied, copied.rows.rows, copied.rows.cols, false);
    }
  }

 private:
  struct Copied {
    tessera::LapackOperand rows;  ///< the caller's
    bool is_conjugate;
    Piece in_columns;
  };

  /// The caller's memory of it.
  static tessera::device::Touched rows_of(const tessera::LapackOperand& operand) {
    using Use = tessera::device::Touched::Use;
    const Use use = operand.writes ? Use::written : Use::read;
    if (!operand.has_ld()) return {{operand.address, operand.bytes(), operand.bytes(), 1}, use};
    return {tessera::runtime::matrix_of(operand, operand.cols, operand.rows), use};
  }

  void copy(const Copied& copied, index_t rows, index_t cols, bool there) const {
    const tessera::LapackOperand& given = copied.rows;
    const index_t element = given.element_bytes;
    const bool is_vector = !given.has_ld();
    const tessera::StridedMatrix in_rows{given.address, is_vector ? element : given.ld * element, element};
    const tessera::StridedMatrix in_columns{static_cast<std::byte*>(copied.in_columns.memory), element,
                                            std::max<index_t>(given.rows, 1) * element};
    tessera::copy_matrix({.rows = rows,
                          .columns = cols,
                          .element_bytes = static_cast<std::size_t>(element),
                          .conjugates = copied.is_conjugate,
                          .from = there ? in_rows : in_columns,
                          .to = there ? in_columns : in_rows},
                         processors_);
  }

  std::optional<tessera::runtime::HostUse> host_use_;  ///< of what is copied
  int processors_;
  std::vector<Copied> copies_;
};

void run(tessera_context ctx, tessera::Layout layout, const LapackArguments& taken, const Told& told,
         tessera::offload::CallTime& time) {
  const bool is_in_rows = layout == tessera::Layout::row_major;
  check(told, taken, is_in_rows);
  const std::shared_lock alive(ctx->in_use);
  tessera::InColumns made{.call = taken.problem, .copied = {}};
  if (is_in_rows) made = in_columns(taken.problem);
  const Copies copies(made, ctx->context);
  tessera::offload::LapackRun run{.problem = made.call};
  std::optional<tessera::runtime::JobStatistics> job = compute(ctx, run, time);
  copies.hand_back();
  if (told.info != nullptr) *told.info = run.info;
  if (told.found != nullptr) *told.found = run.found;
  if (!job) {
    const LapackCall& p = run.problem;
    job.emplace();
    job->routine = name_of(p);  // short enough to need no memory
    job->m = p.m;
    job->n = p.n;
    job->k = p.k;
    job->flops = flops_of(p);
  }
  ctx->set_last(std::move(job), time);
}

/// @param values of the call, behind the context and the layout
template <Routine routine, Scalar T, class... Values>
tessera_status run(tessera_context ctx, tessera_layout layout, const Values&... values) noexcept {
  return guarded([&] {
    tessera::offload::CallTime time = tessera::offload::CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    const std::optional<tessera::Layout> order = tessera::layout_from_cblas(static_cast<int>(layout));
    require_argument(order.has_value(), 2, "layout is neither TESSERA_ROW_MAJOR nor TESSERA_COL_MAJOR");
    Told told;
    run(ctx, *order, arguments_of<routine, T>(told, values...), told, time);
  });
}

}  // namespace

extern "C" {
#include "blas_api/c_api/lapack_functions.inc"
}
