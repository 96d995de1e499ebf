// Batches of gemm in host memory (host_batch.hpp): column-major products, and their forms, which are transpositions and
// factors.
//
// Invariant of what GemmBatchBuilder makes: no product is without effect (m, n >= 1, and something changes C).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "calls/arguments.hpp"
#include "calls/host_batch.hpp"
#include "calls/level3.hpp"
#include "core/addressable.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The properties that products of a batch share.
struct ProductForm {
  Op op_a = Op::no_trans;
  Op op_b = Op::no_trans;
  AnyScalar alpha = 1;
  AnyScalar beta = 0;
};

/// C = alpha op_a(A) op_b(B) + beta C with the transpositions and factors of its form.
struct Product {
  index_t m = 0, n = 0, k = 0;
  const void* A = nullptr;
  index_t lda = 0;  ///< elements, as are ldb and ldc
  const void* B = nullptr;
  index_t ldb = 0;
  void* C = nullptr;
  index_t ldc = 0;
  index_t form = 0;  ///< its number in GemmBatch::forms
};

/// Matrices C of different products must not overlap. A and B may be shared.
struct GemmBatch : HostBatch<ProductForm, Product> {
  /// The product as a call of its own.
  Level3 call(const Product& product) const {
    const ProductForm& form = form_of(product);
    return {.type = type,
            .op_a = form.op_a,
            .op_b = form.op_b,
            .m = product.m,
            .n = product.n,
            .k = product.k,
            .alpha = form.alpha,
            .A = product.A,
            .lda = product.lda,
            .B = product.B,
            .ldb = product.ldb,
            .beta = form.beta,
            .C = product.C,
            .ldc = product.ldc};
  }
  Level3 call(index_t number) const { return call(problem(number)); }
};

/// Products of one size, form and leading dimension.
struct GemmGroup {
  Arguments arguments;  ///< checked, column-major
  AnyScalar alpha = 1;
  AnyScalar beta = 0;
  MatricesOfGroup A, B, C;
  index_t count = 0;

  /// The shared properties of its products, as a call without matrices.
  Level3 call(ScalarType type) const {
    return {.type = type,
            .op_a = *arguments.op_a,
            .op_b = *arguments.op_b,
            .m = arguments.m,
            .n = arguments.n,
            .k = arguments.k,
            .alpha = alpha,
            .lda = arguments.lda,
            .ldb = arguments.ldb,
            .beta = beta,
            .ldc = arguments.ldc};
  }
  /// One of its products as a call of its own.
  Level3 call(ScalarType type, index_t product) const {
    Level3 one = call(type);
    one.A = A.of(product);
    one.B = B.of(product);
    one.C = C.writable(product);
    return one;
  }
  /// The products read A, B and C. Matrices that no product reads or writes may be null.
  bool writes() const { return count > 0 && arguments.m > 0 && arguments.n > 0; }
  bool multiplies() const { return writes() && arguments.k > 0 && alpha != AnyScalar(0); }
};

/// Makes of a group as the caller describes it the one that computes the same in column-major order. In place, since
/// programs pass a group for each product.
inline void turn_column_major(GemmGroup& group) {
  if (group.arguments.layout == Layout::col_major) return;
  std::swap(group.A, group.B);
  group.arguments = in_column_major(Routine::gemm, group.arguments);
}

/// As flops_of() of its products, of such a volume in all.
constexpr double flops_of_volume(ScalarType type, index_t volume) {
  return (is_complex(type) ? 8.0 : 2.0) * static_cast<double>(volume);
}

class GemmBatchBuilder : public BatchBuilder<GemmBatch, 5> {
 public:
  explicit GemmBatchBuilder(ScalarType type) { batch_.type = type; }

  /// @param group in column-major order @throws std::bad_alloc
  void add(const GemmGroup& group) {
    if (!group.writes() || (!group.multiplies() && group.beta == AnyScalar(1))) return;
    const ProductForm form{*group.arguments.op_a, *group.arguments.op_b, group.alpha, group.beta};
    Product product{.m = group.arguments.m,
                    .n = group.arguments.n,
                    .k = group.arguments.k,
                    .lda = group.arguments.lda,
                    .ldb = group.arguments.ldb,
                    .ldc = group.arguments.ldc,
                    .form = number_of(form, key_of(form))};
    for (index_t i = 0; i < group.count; ++i) {
      product.A = group.A.of(i);
      product.B = group.B.of(i);
      product.C = group.C.writable(i);
      batch_.problems.push_back(product);
    }
  }

 private:
  // By their bits: factors may be no numbers.
  static Key key_of(const ProductForm& form) {
    const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
    return {bits(form.alpha.real()), bits(form.alpha.imag()), bits(form.beta.real()), bits(form.beta.imag()),
            static_cast<std::uint64_t>(form.op_a) * 4 + static_cast<std::uint64_t>(form.op_b)};
  }
};

// Arguments of the batch interfaces. Positions are those of Intel MKL's Fortran interfaces, from 1, and of OpenBLAS, as
// far as it looks: ?gemm_batch has those of ?gemm, and two more behind; ?gemm_batch_strided has a stride behind each
// leading dimension.
namespace gemm_batch_position {
inline constexpr int group_count = 14;
inline constexpr int group_size = 15;
}  // namespace gemm_batch_position

namespace gemm_batch_strided_position {
inline constexpr int stride_a = 9;
inline constexpr int stride_b = 12;
inline constexpr int stride_c = 16;
inline constexpr int batch_size = 17;

/// Of what stands at `position` in gemm.
constexpr int of_gemm(int position) {
  constexpr int lda = 8, ldb = 10;
  return position <= lda ? position : position <= ldb ? position + 1 : position + 2;
}
}  // namespace gemm_batch_strided_position

/// How far apart the matrices of a strided batch are, in elements, and how many there are.
struct BatchStrides {
  index_t a = 0, b = 0, c = 0;
  index_t count = 0;
};

/// The only group of a strided batch as the caller describes it. @pre the factors are there
template <Scalar T>
GemmGroup strided_group(const Arguments& given, const Operands& operands, const BatchStrides& strides) {
  const auto apart = [](index_t elements) { return distance_in_bytes(elements, sizeof(T)); };
  return {.arguments = given,
          .alpha = *static_cast<const T*>(operands.alpha),
          .beta = *static_cast<const T*>(operands.beta),
          .A = {.first = operands.A, .distance_bytes = apart(strides.a)},
          .B = {.first = operands.B, .distance_bytes = apart(strides.b)},
          .C = {.first = operands.C, .distance_bytes = apart(strides.c)},
          .count = strides.count};
}

/// Arrays of typed addresses, as arrays of addresses.
template <class E>
const void* const* untyped(E* const* addresses) {
  return reinterpret_cast<const void* const*>(addresses);
}

/// Strides may be 0: all products share the matrix. Whether strides lead beyond any memory is asked when the count is good.
/// @param given sizes of a product: of those that write nothing there may be any number, any strides apart
/// @return the position of the first bad one, or of a bad count; 0: all are good
constexpr int first_bad_stride(const BatchStrides& strides, const Arguments& given, std::size_t element_bytes) {
  namespace position = gemm_batch_strided_position;
  if (strides.a < 0) return position::stride_a;
  if (strides.b < 0) return position::stride_b;
  if (strides.c < 0) return position::stride_c;
  if (strides.count < 0) return position::batch_size;
  if (given.m == 0 || given.n == 0) return 0;
  if (strides.count > most_problems) return position::batch_size;
  if (!is_addressable_stride(strides.a, strides.count, element_bytes)) return position::stride_a;
  if (!is_addressable_stride(strides.b, strides.count, element_bytes)) return position::stride_b;
  return is_addressable_stride(strides.c, strides.count, element_bytes) ? 0 : position::stride_c;
}

/// The first of the positions that were found bad (0: none).
constexpr int first_position(int one, int other) {
  if (one == 0 || other == 0) return one + other;
  return one < other ? one : other;
}

}  // namespace tessera
