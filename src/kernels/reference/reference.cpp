// All ten routines as two loop nests: products that accumulate, and triangular matrices that are applied to one vector
// after the other.
#include "kernels/reference/reference.hpp"

#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

enum class Structure { general, symmetric, hermitian, triangular, unit_triangular };

template <class Number>
Number real_part(Number value) {
  return Number(std::real(value));
}
template <class Number>
Number conjugate(Number value) {
  if constexpr (std::floating_point<Number>) {
    return value;
  } else {
    return std::conj(value);
  }
}

constexpr bool in_triangle(Uplo uplo, index_t i, index_t j) { return uplo == Uplo::lower ? i >= j : i <= j; }

/// A matrix by its elements, converted to Accumulator. It reads only the stored elements that the routine may read.
template <class Accumulator, Scalar T>
struct Matrix {
  const T* elements = nullptr;
  index_t ld = 0;
  bool transposed = false;
  bool conjugated = false;
  Structure structure = Structure::general;
  Uplo uplo = Uplo::lower;  ///< of the storage; unused for a general matrix

  Accumulator operator()(index_t i, index_t j) const {
    if (transposed) std::swap(i, j);
    const Accumulator value = stored(i, j);
    return conjugated ? conjugate(value) : value;
  }

  Matrix transpose() const {
    Matrix result = *this;
    result.transposed = !transposed;
    return result;
  }
  Matrix adjoint() const {
    Matrix result = transpose();
    result.conjugated = !conjugated;
    return result;
  }
  /// Whether the triangular matrix, after a transposition, is lower triangular.
  bool is_lower() const { return (uplo == Uplo::lower) != transposed; }

 private:
  Accumulator stored(index_t i, index_t j) const {
    const auto at = [this](index_t row, index_t col) { return Accumulator(elements[row + col * ld]); };
    switch (structure) {
      case Structure::general:
      case Structure::triangular:
        break;
      case Structure::unit_triangular:
        return i == j ? Accumulator(1) : at(i, j);
      case Structure::symmetric:
        return in_triangle(uplo, i, j) ? at(i, j) : at(j, i);
      case Structure::hermitian:
        if (i == j) return real_part(at(i, i));
        return in_triangle(uplo, i, j) ? at(i, j) : conjugate(at(j, i));
    }
    return at(i, j);
  }
};

template <class Accumulator, Scalar T>
class Reference {
 public:
  explicit Reference(const Level3& call)
      : call_(call), alpha_(scalar_cast<T>(call.alpha)), beta_(scalar_cast<T>(call.beta)) {
    // The interface takes these factors as real.
    if (call.routine == Routine::herk) alpha_ = real_part(alpha_);
    if (is_hermitian_update()) beta_ = real_part(beta_);
  }

  void run() const {
    if (call_.m == 0 || call_.n == 0) return;
    if (call_.is_triangular()) {
      if (alpha_ == Accumulator(0)) {
        set_to_zero();
      } else {
        for_each_vector();
      }
      return;
    }
    if (alpha_ == Accumulator(0) || (call_.has_k() && call_.k == 0)) {
      if (beta_ != Accumulator(1)) update([](index_t, index_t) { return Accumulator(0); });
      return;
    }
    accumulate();
  }

 private:
  using Operand = Matrix<Accumulator, T>;

  bool is_hermitian_update() const { return call_.is_rank_update() && call_.is_hermitian(); }

  static Operand operand(const void* elements, index_t ld, Op op) {
    return {static_cast<const T*>(elements), ld, op != Op::no_trans, op == Op::conj_trans};
  }
  Operand A(Structure structure, Op op) const {
    Operand result = operand(call_.A, call_.lda, op);
    result.structure = structure;
    result.uplo = call_.uplo;
    return result;
  }

  T& C(index_t i, index_t j) const { return static_cast<T*>(call_.C)[i + j * call_.ldc]; }

  void accumulate() const {
    switch (call_.routine) {
      case Routine::gemm:
      case Routine::gemmt:
        return update(product(A(Structure::general, call_.op_a), operand(call_.B, call_.ldb, call_.op_b), call_.k));
      case Routine::symm:
      case Routine::hemm: {
        const Operand a = A(call_.is_hermitian() ? Structure::hermitian : Structure::symmetric, Op::no_trans);
        const Operand b = operand(call_.B, call_.ldb, Op::no_trans);
        return call_.side == Side::left ? update(product(a, b, call_.m)) : update(product(b, a, call_.n));
      }
      case Routine::syrk:
      case Routine::herk: {
        const Operand a = A(Structure::general, call_.op_a);
        return update(product(a, other_side(a), call_.k));
      }
      case Routine::syr2k:
      case Routine::her2k: {
        const Operand a = A(Structure::general, call_.op_a);
        const Operand b = operand(call_.B, call_.ldb, call_.op_a);
        const Accumulator second_alpha = call_.is_hermitian() ? conjugate(alpha_) : alpha_;
        return update([&, first = sum(a, other_side(b), call_.k), second = sum(b, other_side(a), call_.k)](
                          index_t i, index_t j) { return alpha_ * first(i, j) + second_alpha * second(i, j); });
      }
      default:
        return;
    }
  }

  Operand other_side(const Operand& matrix) const {
    return call_.is_hermitian() ? matrix.adjoint() : matrix.transpose();
  }

  /// Element (i, j) of X Y.
  static auto sum(const Operand& X, const Operand& Y, index_t length) {
    return [=](index_t i, index_t j) {
      Accumulator result(0);
      for (index_t l = 0; l < length; ++l) result += X(i, l) * Y(l, j);
      return result;
    };
  }
  auto product(const Operand& X, const Operand& Y, index_t length) const {
    return [alpha = alpha_, elements = sum(X, Y, length)](index_t i, index_t j) { return alpha * elements(i, j); };
  }

  /// C = added + beta C, in all of C or in its triangle.
  template <class Added>
  void update(const Added& added) const {
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) {
        if (call_.updates_triangle() && !in_triangle(call_.uplo, i, j)) continue;
        const bool is_real = is_hermitian_update() && i == j;
        T& c = C(i, j);
        Accumulator result = added(i, j);
        if (beta_ != Accumulator(0)) {
          const Accumulator before(c);
          result += scaled(is_real ? real_part(before) : before);
        }
        c = static_cast<T>(is_real ? real_part(result) : result);
      }
    }
  }

  /// The value times beta. A real factor multiplies the parts of a number separately, so that an infinite part does not
  /// make the other one a NaN.
  Accumulator scaled(Accumulator value) const {
    return is_hermitian_update() ? value * std::real(beta_) : beta_ * value;
  }

  void set_to_zero() const {
    for (index_t j = 0; j < call_.n; ++j) {
      for (index_t i = 0; i < call_.m; ++i) C(i, j) = T(0);
    }
  }

  /// op(A) from the left acts on each column; from the right, its transpose acts on each row.
  void for_each_vector() const {
    const bool left = call_.side == Side::left;
    const index_t length = left ? call_.m : call_.n;
    const Operand a = A(call_.diag == Diag::unit ? Structure::unit_triangular : Structure::triangular, call_.op_a);
    const Operand matrix = left ? a : a.transpose();
    const bool is_product = call_.routine == Routine::trmm;
    const auto* const from = static_cast<const T*>(is_product ? call_.B : call_.C);
    const index_t from_ld = is_product ? call_.ldb : call_.ldc;
    std::vector<Accumulator> vector(static_cast<std::size_t>(length));
    for (index_t v = 0; v < (left ? call_.n : call_.m); ++v) {
      for (index_t i = 0; i < length; ++i) {
        vector[static_cast<std::size_t>(i)] = Accumulator(left ? from[i + v * from_ld] : from[v + i * from_ld]);
      }
      if (is_product) {
        multiply(matrix, vector);
      } else {
        substitute(matrix, vector);
      }
      for (index_t i = 0; i < length; ++i) {
        (left ? C(i, v) : C(v, i)) = static_cast<T>(vector[static_cast<std::size_t>(i)]);
      }
    }
  }

  /// x = alpha M x. It starts at the end whose element no later step reads.
  void multiply(const Operand& M, std::vector<Accumulator>& x) const {
    for_each_row(M, !M.is_lower(), x, [&](Accumulator& element, Accumulator off_diagonal, Accumulator diagonal) {
      element = alpha_ * (off_diagonal + diagonal * element);
    });
  }

  /// Solves M y = alpha x; y overwrites x. It starts at the end whose equation has one unknown.
  void substitute(const Operand& M, std::vector<Accumulator>& x) const {
    for (Accumulator& element : x) element *= alpha_;
    for_each_row(M, M.is_lower(), x, [](Accumulator& element, Accumulator off_diagonal, Accumulator diagonal) {
      element = (element - off_diagonal) / diagonal;
    });
  }

  /// Calls step(x_i, sum of M_il x_l over l != i in the triangle, M_ii) for each row, starting with the first or the
  /// last.
  template <class Step>
  static void for_each_row(const Operand& M, bool first_row_first, std::vector<Accumulator>& x, const Step& step) {
    const auto length = static_cast<index_t>(x.size());
    for (index_t t = 0; t < length; ++t) {
      const index_t i = first_row_first ? t : length - 1 - t;
      Accumulator off_diagonal(0);
      const index_t begin = M.is_lower() ? 0 : i + 1;
      const index_t end = M.is_lower() ? i : length;
      for (index_t l = begin; l < end; ++l) off_diagonal += M(i, l) * x[static_cast<std::size_t>(l)];
      step(x[static_cast<std::size_t>(i)], off_diagonal, M(i, i));
    }
  }

  const Level3& call_;
  Accumulator alpha_;
  Accumulator beta_;
};

}  // namespace

void reference_level3(const Level3& call) {
  dispatch(call.type, [&]<Scalar T>(T) { Reference<T, T>(call).run(); });
}

void oracle_level3(const Level3& call) {
  dispatch(call.type, [&]<Scalar T>(T) { Reference<Wide<T>, T>(call).run(); });
}

void reference_add(const Addition& a) {
  dispatch(a.type, [&]<Scalar T>(T) {
    const T factor = scalar_cast<T>(a.factor);
    const auto* X = static_cast<const T*>(a.X);
    auto* C = static_cast<T*>(a.C);
    for (index_t j = 0; j < a.n; ++j) {
      const index_t end = a.part == Part::upper ? j + 1 : a.m;
      for (index_t i = a.part == Part::lower ? j : 0; i < end; ++i) {
        T x = X[i + j * a.ldx];
        if (a.hermitian && i == j) x = T(std::real(x));
        C[i + j * a.ldc] += factor * x;
      }
    }
  });
}

void reference_mirror(const Mirroring& tile) {
  dispatch(tile.type, [&]<Scalar T>(T) {
    auto* A = static_cast<T*>(tile.A);
    for (index_t j = 0; j < tile.n; ++j) {
      if (tile.hermitian) A[j + j * tile.lda] = T(std::real(A[j + j * tile.lda]));
      for (index_t i = j + 1; i < tile.n; ++i) {
        T& below = A[i + j * tile.lda];
        T& above = A[j + i * tile.lda];
        T image = tile.stored == Part::lower ? below : above;
        if constexpr (!std::floating_point<T>) image = tile.hermitian ? std::conj(image) : image;
        (tile.stored == Part::lower ? above : below) = image;
      }
    }
  });
}

}  // namespace tessera::kernels
