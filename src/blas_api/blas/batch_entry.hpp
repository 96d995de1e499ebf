// The batch symbols of the drop-in libraries, in the Fortran and the CBLAS interface of Intel MKL, which
// OpenBLAS has, too. All arguments of all groups are checked before anything is computed. Error handlers
// are told the position of the first bad one: in the Fortran interface its own (calls/gemm_batch.hpp),
// and in CBLAS, as for single products, that in the column-major call.
#pragma once

#include <cstdint>
#include <new>

#include "blas_api/blas/level3_entry.hpp"
#include "calls/gemm_batch.hpp"
#include "offload/bridge.hpp"
#include "offload/call_time.hpp"

namespace tessera::blas {

using tessera::untyped;  // by the symbols, too

/// The arrays of a call but for the transpositions: an entry for each group, or, of matrices, for each product.
template <class Integer>
struct BatchArrays {
  const Integer *m, *n, *k;
  const void* alpha;
  const void* const* A;
  const Integer* lda;
  const void* const* B;
  const Integer* ldb;
  const void* beta;
  const void* const* C;
  const Integer* ldc;
  const Integer* size;

  Arguments sizes_of(index_t group) const {
    return {.m = m[group], .n = n[group], .k = k[group], .lda = lda[group], .ldb = ldb[group], .ldc = ldc[group]};
  }

  /// @param arguments checked, as the caller gave them @param first of the group's products
  template <Scalar T>
  GemmGroup group(const Arguments& arguments, index_t number, index_t first) const {
    GemmGroup group{.arguments = arguments,
                    .alpha = static_cast<const T*>(alpha)[number],
                    .beta = static_cast<const T*>(beta)[number],
                    .A = {.each = A + first},
                    .B = {.each = B + first},
                    .C = {.each = C + first},
                    .count = size[number]};
    turn_column_major(group);
    return group;
  }
};

/// Computes the groups. @param group_at(g, first) the group, column-major, whose products begin there
/// @param entered_s when the symbol was entered
template <Scalar T, class GroupAt>
void run_groups(Face& face, double entered_s, index_t groups, GroupAt group_at) {
  constexpr ScalarType type = scalar_type_of<T>();
  const auto for_each_group = [&](auto&& body) {
    index_t first = 0;
    for (index_t g = 0; g < groups; ++g) {
      const GemmGroup group = group_at(g, first);
      body(group);
      first += group.count;
    }
  };
  try {
    index_t products = 0;
    for_each_group([&](const GemmGroup& group) { products += group.writes() ? group.count : 0; });
    GemmBatchBuilder builder(type);
    builder.reserve(products);
    for_each_group([&](const GemmGroup& group) { builder.add(group); });
    GemmBatch batch = builder.take();
    if (batch.size() > 0) tessera_private_run_batch(batch, face, entered_s);
  } catch (const std::exception&) {  // no memory: one after the other, which needs none
    for_each_group([&](const GemmGroup& group) {
      for (index_t i = 0; i < group.count; ++i) tessera_private_run(group.call(type, i), face);
    });
  }
}

/// The first bad position of a group. @param arguments column-major @param products of the groups before; those of a good
/// group are added
template <Scalar T>
int first_bad_of_group(const Arguments& arguments, index_t size, index_t& products) {
  if (const int bad = first_bad_argument<Routine::gemm, !std::floating_point<T>>(arguments); bad != 0) return bad;
  if (size < 0 || !may_have_more(products, size)) return gemm_batch_position::group_size;
  products += size;
  return 0;
}

/// @param letters of the transpositions
template <Scalar T, class Integer>
void batch_from_fortran(Face& face, const char* transa, const char* transb, const BatchArrays<Integer>& arrays,
                        index_t groups) {
  const double entered_s = device::now_seconds();
  constexpr RoutineName name = {letter(scalar_type_of<T>()), "gemm_batch"};
  const auto arguments_of = [&](index_t g) {
    Arguments arguments = arrays.sizes_of(g);
    arguments.op_a = op_from_letter(transa[g]);
    arguments.op_b = op_from_letter(transb[g]);
    return arguments;
  };
  if (groups < 0 || groups > most_problems) return report_fortran(face, name, gemm_batch_position::group_count);
  index_t products = 0;
  for (index_t g = 0; g < groups; ++g) {
    const int bad = first_bad_of_group<T>(arguments_of(g), arrays.size[g], products);
    if (bad != 0) return report_fortran(face, name, bad);
  }
  run_groups<T>(face, entered_s, groups,
                [&](index_t g, index_t first) { return arrays.template group<T>(arguments_of(g), g, first); });
}

/// Tells the error handlers of an enumerator that is none. @return whether there is one
inline bool report_bad_enumerator(Face& face, RoutineName name, const Arguments& given, const CblasEnumerators& raw) {
  CheckedEnumerator bad;
  for_each_parameter<Routine::gemm>([&]<Parameter parameter>() {
    const CheckedEnumerator e = enumerator_at<Routine::gemm, parameter>(given, raw);
    if (!e.good) bad = e;
    return e.good;
  });
  if (bad.good) return false;
  report_cblas_enum(face, name, given.layout == Layout::row_major, bad.position, bad.fortran_position, bad.what,
                    bad.value);
  return true;
}

template <Scalar T, class Integer>
void batch_from_cblas(Face& face, int layout, const int* transa, const int* transb, const BatchArrays<Integer>& arrays,
                      index_t groups) {
  const double entered_s = device::now_seconds();
  constexpr RoutineName name = {letter(scalar_type_of<T>()), "gemm_batch"};
  const std::optional<Layout> order = layout_from_cblas(layout);
  if (!order) return report_cblas_enum(face, name, false, 1, 0, "layout", layout);
  const bool row_major = *order == Layout::row_major;
  const auto arguments_of = [&](index_t g) {
    return arguments_from_cblas(*order, {.transa = transa[g], .transb = transb[g]}, arrays.sizes_of(g));
  };
  if (groups < 0 || groups > most_problems)
    return report_cblas(face, name, row_major, gemm_batch_position::group_count);
  index_t products = 0;
  for (index_t g = 0; g < groups; ++g) {
    const Arguments given = arguments_of(g);
    if (report_bad_enumerator(face, name, given, {.transa = transa[g], .transb = transb[g]})) return;
    const int bad = first_bad_of_group<T>(in_column_major(Routine::gemm, given), arrays.size[g], products);
    if (bad != 0) return report_cblas(face, name, row_major, bad);
  }
  run_groups<T>(face, entered_s, groups,
                [&](index_t g, index_t first) { return arrays.template group<T>(arguments_of(g), g, first); });
}

/// Computes a strided batch. @param given checked, as the caller gave them
template <Scalar T>
void run_strided(Face& face, double entered_s, const Arguments& given, const Operands& operands,
                 const BatchStrides& strides) {
  run_groups<T>(face, entered_s, 1, [&](index_t, index_t) {
    GemmGroup group = strided_group<T>(given, operands, strides);
    turn_column_major(group);
    return group;
  });
}

/// The first bad position of a strided batch. @param arguments column-major, as are the strides
template <Scalar T>
int first_bad_of_strided(const Arguments& arguments, const BatchStrides& strides) {
  const int bad = first_bad_argument<Routine::gemm, !std::floating_point<T>>(arguments);
  return first_position(bad == 0 ? 0 : gemm_batch_strided_position::of_gemm(bad),
                        first_bad_stride(strides, arguments, sizeof(T)));
}

template <Scalar T>
void strided_from_fortran(Face& face, const Arguments& arguments, const Operands& operands,
                          const BatchStrides& strides) {
  const double entered_s = device::now_seconds();
  if (const int bad = first_bad_of_strided<T>(arguments, strides); bad != 0)
    return report_fortran(face, {letter(scalar_type_of<T>()), "gemm_batch_strided"}, bad);
  run_strided<T>(face, entered_s, arguments, operands, strides);
}

template <Scalar T>
void strided_from_cblas(Face& face, int layout, const CblasEnumerators& raw, const Arguments& sizes,
                        const Operands& operands, const BatchStrides& strides) {
  const double entered_s = device::now_seconds();
  constexpr RoutineName name = {letter(scalar_type_of<T>()), "gemm_batch_strided"};
  const std::optional<Layout> order = layout_from_cblas(layout);
  if (!order) return report_cblas_enum(face, name, false, 1, 0, "layout", layout);
  const Arguments given = arguments_from_cblas(*order, raw, sizes);
  if (report_bad_enumerator(face, name, given, raw)) return;
  BatchStrides in_columns = strides;
  if (*order == Layout::row_major) std::swap(in_columns.a, in_columns.b);
  if (const int bad = first_bad_of_strided<T>(in_column_major(Routine::gemm, given), in_columns); bad != 0)
    return report_cblas(face, name, *order == Layout::row_major, bad);
  run_strided<T>(face, entered_s, given, operands, strides);
}

}  // namespace tessera::blas
