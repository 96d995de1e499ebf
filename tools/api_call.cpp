#include "api_call.hpp"

#include <cstddef>

namespace tessera::tools {
namespace {

// The API functions of one shape differ in the types of their parameters only (const float*, const void*, ...; scalars
// by value or by address). An argument type that converts to each of them lets one template serve all functions of a
// shape.
// NOLINTBEGIN(google-explicit-constructor): implicit conversion is their purpose
struct Operand {
  explicit Operand(const void* address) : address(const_cast<void*>(address)) {}
  template <class T>
  operator T*() const {
    return static_cast<T*>(address);
  }
  void* address;
};

struct Factor {
  Factor(ScalarType type, AnyScalar value)
      : in_single(type == ScalarType::c),
        single{static_cast<float>(value.real()), static_cast<float>(value.imag())},
        twice{value.real(), value.imag()} {}
  operator float() const { return single[0]; }
  operator double() const { return twice[0]; }
  operator const void*() const { return in_single ? static_cast<const void*>(single) : twice; }
  bool in_single;
  float single[2];
  double twice[2];
};
// NOLINTEND(google-explicit-constructor)

constexpr tessera_layout layout = TESSERA_COL_MAJOR;

tessera_transpose transpose(Op op) {
  return op == Op::no_trans ? TESSERA_NO_TRANS : op == Op::trans ? TESSERA_TRANS : TESSERA_CONJ_TRANS;
}
tessera_side side(const Level3& call) { return call.side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT; }
tessera_uplo uplo(const Level3& call) { return call.uplo == Uplo::upper ? TESSERA_UPPER : TESSERA_LOWER; }
tessera_diag diag(const Level3& call) { return call.diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT; }

template <auto function>
tessera_status gemm(tessera_context context, const Level3& c) {
  return function(context, layout, transpose(c.op_a), transpose(c.op_b), c.m, c.n, c.k, Factor(c.type, c.alpha),
                  Operand(c.A), c.lda, Operand(c.B), c.ldb, Factor(c.type, c.beta), Operand(c.C), c.ldc);
}

template <auto function>
tessera_status gemmt(tessera_context context, const Level3& c) {
  return function(context, layout, uplo(c), transpose(c.op_a), transpose(c.op_b), c.n, c.k, Factor(c.type, c.alpha),
                  Operand(c.A), c.lda, Operand(c.B), c.ldb, Factor(c.type, c.beta), Operand(c.C), c.ldc);
}

template <auto function>
tessera_status symm(tessera_context context, const Level3& c) {
  return function(context, layout, side(c), uplo(c), c.m, c.n, Factor(c.type, c.alpha), Operand(c.A), c.lda,
                  Operand(c.B), c.ldb, Factor(c.type, c.beta), Operand(c.C), c.ldc);
}

template <auto function>
tessera_status syrk(tessera_context context, const Level3& c) {
  return function(context, layout, uplo(c), transpose(c.op_a), c.n, c.k, Factor(c.type, c.alpha), Operand(c.A), c.lda,
                  Factor(c.type, c.beta), Operand(c.C), c.ldc);
}

template <auto function>
tessera_status syr2k(tessera_context context, const Level3& c) {
  return function(context, layout, uplo(c), transpose(c.op_a), c.n, c.k, Factor(c.type, c.alpha), Operand(c.A), c.lda,
                  Operand(c.B), c.ldb, Factor(c.type, c.beta), Operand(c.C), c.ldc);
}

template <auto function>
tessera_status triangular(tessera_context context, const Level3& c) {
  return function(context, layout, side(c), uplo(c), transpose(c.op_a), diag(c), c.m, c.n, Factor(c.type, c.alpha),
                  Operand(c.A), c.lda, Operand(c.C), c.ldc);
}

/// The function that the call names. Real types have no Hermitian routines.
#define TYPES(shape, routine)                                                \
  case Routine::routine:                                                     \
    return c.type == ScalarType::s   ? shape<tessera_s##routine>(context, c) \
           : c.type == ScalarType::d ? shape<tessera_d##routine>(context, c) \
           : c.type == ScalarType::c ? shape<tessera_c##routine>(context, c) \
                                     : shape<tessera_z##routine>(context, c);
#define COMPLEX_TYPES(shape, routine) \
  case Routine::routine:              \
    return c.type == ScalarType::c ? shape<tessera_c##routine>(context, c) : shape<tessera_z##routine>(context, c);

}  // namespace

tessera_status call_tessera(tessera_context context, const Level3& c) {
  switch (c.routine) {
    TYPES(gemm, gemm)
    TYPES(gemmt, gemmt)
    TYPES(symm, symm)
    COMPLEX_TYPES(symm, hemm)
    TYPES(syrk, syrk)
    COMPLEX_TYPES(syrk, herk)
    TYPES(syr2k, syr2k)
    COMPLEX_TYPES(syr2k, her2k)
    TYPES(triangular, trmm)
    TYPES(triangular, trsm)
    default:
      return TESSERA_INTERNAL_ERROR;
  }
}

#undef TYPES
#undef COMPLEX_TYPES

}  // namespace tessera::tools
