// Batches of the own C API: checks, conversion to column-major form, and exceptions into status codes. All arguments of
// all groups are checked, in the caller's order, before anything is computed. The functions come from
// calls/routines.def.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/gemm_batch.hpp"
#include "calls/level3_lists.hpp"
#include "core/error.hpp"
#include "tessera/tessera.h"

using tessera::Arguments;
using tessera::CArray;
using tessera::CScalar;
using tessera::GemmBatch;
using tessera::GemmBatchBuilder;
using tessera::GemmGroup;
using tessera::index_t;
using tessera::Layout;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::untyped;
using tessera::c_api::guarded;
using tessera::c_api::places_before;
using tessera::offload::CallTime;

namespace {

/// The arrays of a call, an entry for each group, or, of matrices, for each product.
struct GroupArrays {
  const tessera_transpose* transa = nullptr;
  const tessera_transpose* transb = nullptr;
  const int64_t *m = nullptr, *n = nullptr, *k = nullptr;
  const void* alpha = nullptr;
  const void* const* A = nullptr;
  const int64_t* lda = nullptr;
  const void* const* B = nullptr;
  const int64_t* ldb = nullptr;
  const void* beta = nullptr;
  const void* const* C = nullptr;
  const int64_t* ldc = nullptr;
  int64_t count = 0;
  const int64_t* size = nullptr;
};

int place_of(Parameter parameter) { return tessera::position_of(Routine::gemm, parameter) + places_before; }

/// @throws InvalidArgument that tells of the argument of a group
[[noreturn]] void complain(int position, const std::string& what, index_t group) {
  throw tessera::InvalidArgument(
      "argument " + std::to_string(position) + ": " + what + " (group " + std::to_string(group) + ", from 0)",
      position);
}

Layout layout_of(tessera_context ctx, tessera_layout layout) {
  require_argument(ctx != nullptr, 1, "ctx is null");
  const std::optional<Layout> order = tessera::layout_from_cblas(static_cast<int>(layout));
  require_argument(order.has_value(), 2, "layout is neither TESSERA_ROW_MAJOR nor TESSERA_COL_MAJOR");
  return *order;
}

void require_arrays(const GroupArrays& a) {
  using enum Parameter;
  const std::pair<const void*, Parameter> arrays[] = {
      {a.transa, transa}, {a.transb, transb}, {a.m, m},     {a.n, n},       {a.k, k},
      {a.alpha, alpha},   {a.lda, lda},       {a.ldb, ldb}, {a.beta, beta}, {a.ldc, ldc}};
  for (const auto& [array, parameter] : arrays)
    require_argument(array != nullptr, place_of(parameter), "the array is null");
  require_argument(a.size != nullptr, tessera::gemm_batch_position::group_size + places_before, "the array is null");
}

/// The group as the caller describes it. @param first of its products
template <Scalar T>
GemmGroup group_of(Layout layout, const GroupArrays& a, index_t group, index_t first) {
  const auto from = [&](const void* const* matrices) {
    return tessera::MatricesOfGroup{.each = matrices != nullptr ? matrices + first : nullptr};
  };
  const Arguments sizes{
      .m = a.m[group], .n = a.n[group], .k = a.k[group], .lda = a.lda[group], .ldb = a.ldb[group], .ldc = a.ldc[group]};
  return {
      .arguments = tessera::arguments_from_cblas(
          layout, {.transa = static_cast<int>(a.transa[group]), .transb = static_cast<int>(a.transb[group])}, sizes),
      .alpha = static_cast<const T*>(a.alpha)[group],
      .beta = static_cast<const T*>(a.beta)[group],
      .A = from(a.A),
      .B = from(a.B),
      .C = from(a.C),
      .count = a.size[group]};
}

/// That no matrix is null which the group looks at.
void require_matrices(const GemmGroup& group, index_t number) {
  const auto require = [&](const tessera::MatricesOfGroup& matrices, Parameter parameter) {
    const auto is_there = [&] {
      if (matrices.each == nullptr) return matrices.first != nullptr;
      return std::all_of(matrices.each, matrices.each + group.count,
                         [](const void* matrix) { return matrix != nullptr; });
    };
    if (!is_there()) complain(place_of(parameter), tessera::complaint(Routine::gemm, false, parameter), number);
  };
  if (group.multiplies()) {
    require(group.A, Parameter::A);
    require(group.B, Parameter::B);
  }
  if (group.writes()) require(group.C, Parameter::C);
}

/// @param given as the caller describes it
GemmGroup in_columns(GemmGroup given) {
  turn_column_major(given);
  return given;
}

/// @param group as the caller describes it @param first of its products
template <Scalar T>
void require_good(const GemmGroup& group, index_t number, index_t first) {
  constexpr bool is_complex = !std::floating_point<T>;
  constexpr int place_of_size = tessera::gemm_batch_position::group_size + places_before;
  if (const int bad = tessera::first_bad_argument<Routine::gemm, is_complex>(group.arguments); bad != 0) {
    const Parameter parameter = tessera::parameters_of(Routine::gemm)[static_cast<std::size_t>(bad - 1)];
    complain(bad + places_before, tessera::complaint(Routine::gemm, is_complex, parameter), number);
  }
  if (!is_addressable(in_columns(group).call(tessera::scalar_type_of<T>())))
    complain(place_of(Parameter::n), tessera::beyond_memory::matrix, number);
  if (group.count < 0) complain(place_of_size, "group_size is negative", number);
  if (!tessera::may_have_more(first, group.count)) complain(place_of_size, tessera::beyond_memory::count, number);
  require_matrices(group, number);
}

/// Calls body(group, g, first of its products), as the caller describes it, for each.
template <Scalar T, class Body>
void for_each_group(Layout layout, const GroupArrays& arrays, const Body& body) {
  index_t first = 0;
  for (index_t g = 0; g < arrays.count; ++g) {
    const GemmGroup group = group_of<T>(layout, arrays, g, first);
    body(group, g, first);
    first += group.count;
  }
}

template <Scalar T>
GemmBatch batch_of(Layout layout, const GroupArrays& arrays) {
  constexpr int place_of_count = tessera::gemm_batch_position::group_count + places_before;
  require_argument(arrays.count >= 0, place_of_count, "group_count is negative");
  require_argument(arrays.count <= tessera::most_problems, place_of_count, tessera::beyond_memory::count);
  GemmBatchBuilder builder(tessera::scalar_type_of<T>());
  if (arrays.count == 0) return builder.take();
  require_arrays(arrays);
  index_t written = 0;
  for_each_group<T>(layout, arrays, [&](const GemmGroup& group, index_t g, index_t first) {
    require_good<T>(group, g, first);
    if (group.writes()) written += group.count;
  });
  builder.reserve(written);
  for_each_group<T>(layout, arrays, [&](const GemmGroup& group, index_t, index_t) { builder.add(in_columns(group)); });
  return builder.take();
}

/// Computes it and keeps its statistics.
void run(tessera_context ctx, GemmBatch batch, CallTime& time) {
  const std::string name = tessera::letter(batch.type) + std::string("gemm_batch");
  ctx->run_batch(name, time, [&](double* flops) { return ctx->context.run_batch(batch, nullptr, flops, &time); });
}

template <Scalar T>
tessera_status run_groups(tessera_context ctx, tessera_layout layout, const GroupArrays& arrays) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    const Layout order = layout_of(ctx, layout);
    run(ctx, batch_of<T>(order, arrays), time);
  });
}

/// @param position what first_bad_stride() says
const char* complaint_of(const tessera::BatchStrides& strides, int position) {
  namespace at = tessera::gemm_batch_strided_position;
  if (position == at::batch_size) return strides.count < 0 ? "batch_size is negative" : tessera::beyond_memory::count;
  const index_t stride = position == at::stride_a ? strides.a : position == at::stride_b ? strides.b : strides.c;
  return stride < 0 ? "the stride is negative" : tessera::beyond_memory::stride;
}

template <Scalar T>
tessera_status run_strided(tessera_context ctx, tessera_layout layout, const tessera::CblasEnumerators& enumerators,
                           const Arguments& sizes, const tessera::Operands& operands,
                           const tessera::BatchStrides& strides) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    namespace position = tessera::gemm_batch_strided_position;
    constexpr bool is_complex = !std::floating_point<T>;
    const Layout order = layout_of(ctx, layout);
    const Arguments given = tessera::arguments_from_cblas(order, enumerators, sizes);
    const int bad = tessera::first_bad_argument<Routine::gemm, is_complex>(given);
    const int bad_stride = tessera::first_bad_stride(strides, given, sizeof(T));
    const int first = tessera::first_position(bad == 0 ? 0 : position::of_gemm(bad), bad_stride);
    if (first != 0 && first == bad_stride) require_argument(false, first + places_before, complaint_of(strides, first));
    if (first != 0) {
      const Parameter parameter = tessera::parameters_of(Routine::gemm)[static_cast<std::size_t>(bad - 1)];
      require_argument(false, first + places_before, tessera::complaint(Routine::gemm, is_complex, parameter).c_str());
    }
    const auto require_address = [](const void* address, Parameter parameter) {
      const int place = position::of_gemm(tessera::position_of(Routine::gemm, parameter)) + places_before;
      require_argument(address != nullptr, place, tessera::complaint(Routine::gemm, is_complex, parameter).c_str());
    };
    require_address(operands.alpha, Parameter::alpha);
    require_address(operands.beta, Parameter::beta);
    const GemmGroup group = tessera::strided_group<T>(given, operands, strides);
    require_argument(is_addressable(in_columns(group).call(tessera::scalar_type_of<T>())),
                     position::of_gemm(tessera::position_of(Routine::gemm, Parameter::n)) + places_before,
                     tessera::beyond_memory::matrix);
    if (group.multiplies()) {
      require_address(operands.A, Parameter::A);
      require_address(operands.B, Parameter::B);
    }
    if (group.writes()) require_address(operands.C, Parameter::C);
    GemmBatchBuilder builder(tessera::scalar_type_of<T>());
    if (group.writes()) builder.reserve(strides.count);
    builder.add(in_columns(group));
    run(ctx, builder.take(), time);
  });
}

}  // namespace

extern "C" {

#define TESSERA_BATCH(routine, letter, T)                                                                              \
  tessera_status tessera_##letter##routine##_batch(                                                                    \
      tessera_context ctx, tessera_layout layout, const tessera_transpose* transa, const tessera_transpose* transb,    \
      const int64_t* m, const int64_t* n, const int64_t* k, const CArray<T>* alpha, const CArray<T>* const* A,         \
      const int64_t* lda, const CArray<T>* const* B, const int64_t* ldb, const CArray<T>* beta, CArray<T>* const* C,   \
      const int64_t* ldc, int64_t group_count, const int64_t* group_size) {                                            \
    return run_groups<T>(ctx, layout,                                                                                  \
                         {transa, transb, m, n, k, alpha, untyped(A), lda, untyped(B), ldb, beta, untyped(C), ldc,     \
                          group_count, group_size});                                                                   \
  }                                                                                                                    \
  tessera_status tessera_##letter##routine##_batch_strided(                                                            \
      tessera_context ctx, tessera_layout layout, tessera_transpose transa, tessera_transpose transb, int64_t m,       \
      int64_t n, int64_t k, CScalar<T> alpha, const CArray<T>* A, int64_t lda, int64_t stridea, const CArray<T>* B,    \
      int64_t ldb, int64_t strideb, CScalar<T> beta, CArray<T>* C, int64_t ldc, int64_t stridec, int64_t batch_size) { \
    const auto passed = tessera::passed<Routine::routine>(TESSERA_PASSED_GEMM);                                        \
    return run_strided<T>(ctx, layout, passed.enumerators(), passed.sizes(), passed.operands(),                        \
                          {stridea, strideb, stridec, batch_size});                                                    \
  }
#include "calls/routines.def"

}  // extern "C"
