#include "runtime/batches/gemm_chunks.hpp"

#include <span>
#include <string>

#include "runtime/batches/packing.hpp"

namespace tessera::runtime {
namespace {

using packing::Use;

class Products {
 public:
  static constexpr std::size_t operands = 3;  // A, B, C
  static constexpr std::size_t with_ld = 3;

  Products(ScalarType type, std::span<const ProductForm> forms, std::span<const Product> products)
      : type_(type), forms_(forms), products_(products) {}

  index_t size() const { return static_cast<index_t>(products_.size()); }
  bool has_same_form(index_t i, index_t j) const { return product(i).form == product(j).form; }

  packing::Roles<operands> roles(index_t i) const {
    const auto element = static_cast<index_t>(element_bytes(type_));
    const bool reads_c = form_of(i).beta != AnyScalar(0);
    return {{{.use = Use::read, .element_bytes = element},
             {.use = Use::read, .element_bytes = element},
             {.use = reads_c ? Use::update : Use::write, .element_bytes = element}}};
  }
  packing::Operands<operands> operands_of(index_t i) const {
    const Product& p = product(i);
    const ProductForm& form = form_of(i);
    const bool plain_a = form.op_a == Op::no_trans, plain_b = form.op_b == Op::no_trans;
    return {{{.at = p.A, .ld = p.lda, .rows = plain_a ? p.m : p.k, .cols = plain_a ? p.k : p.m},
             {.at = p.B, .ld = p.ldb, .rows = plain_b ? p.k : p.n, .cols = plain_b ? p.n : p.k},
             {.at = p.C, .ld = p.ldc, .rows = p.m, .cols = p.n}}};
  }
  packing::Sizes sizes_of(index_t i) const {
    const Product& p = product(i);
    return {p.m, p.n, p.k};
  }
  double flops_of(index_t i) const {
    const Product& p = product(i);
    return flops_of_volume(type_, p.m * p.n * p.k);
  }
  static index_t workspace_bytes(index_t /*i*/) { return 0; }
  static bool has_info() { return false; }
  static void set_info(index_t /*i*/, int /*info*/) {}

  kernels::Level3Batch batch_of(index_t i, const packing::ChunkArrays<Products>& arrays) const {
    const ProductForm& form = form_of(i);
    const auto& [m, n, k] = arrays.largest;
    return {.common = {.type = type_,
                       .op_a = form.op_a,
                       .op_b = form.op_b,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = form.alpha,
                       .beta = form.beta},
            .count = arrays.count,
            .m = arrays.sizes[0],
            .n = arrays.sizes[1],
            .k = arrays.sizes[2],
            .lda = arrays.ld[0],
            .ldb = arrays.ld[1],
            .ldc = arrays.ld[2],
            .A = arrays.matrices[0],
            .B = arrays.matrices[1],
            .C = arrays.matrices[2]};
  }
  std::string name() const { return letter(type_) + std::string(kernel_name()); }
  static const char* kernel_name() { return "gemm_batch"; }

 private:
  const Product& product(index_t i) const { return products_[static_cast<std::size_t>(i)]; }
  const ProductForm& form_of(index_t i) const { return forms_[static_cast<std::size_t>(product(i).form)]; }

  ScalarType type_;
  std::span<const ProductForm> forms_;
  std::span<const Product> products_;
};

}  // namespace

std::unique_ptr<PackableBatch> packable(const GemmBatch& batch) {
  return std::make_unique<packing::Packable<Products>>(Products(batch.type, batch.forms, batch.problems));
}

index_t packed_bytes(ScalarType type, const ProductForm& form, const Product& product) {
  Product one = product;
  one.form = 0;
  return packing::Packable<Products>(Products(type, {&form, 1}, {&one, 1})).packed_bytes(0);
}

}  // namespace tessera::runtime
