#include "kernels/reference/reference_qr.hpp"

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "kernels/reference/reference.hpp"

namespace tessera::kernels {
namespace {

template <Scalar T>
using RealOf = decltype(std::real(T{}));

template <Scalar T>
T conjugate(T x) {
  if constexpr (std::floating_point<T>) {
    return x;
  } else {
    return std::conj(x);
  }
}

/// The Euclidean norm. Sums of squares neither overflow nor underflow in the wider type.
template <Scalar T>
RealOf<T> norm_of(const T* x, index_t n) {
  long double sum = 0;
  for (index_t i = 0; i < n; ++i) sum += std::norm(Wide<T>(x[i]));
  return static_cast<RealOf<T>>(std::sqrt(sum));
}

/// Finds H with H^H (alpha, x) = (beta, 0), H = I - tau (1, v) (1, v)^H and real beta. v replaces x, and beta replaces
/// alpha.
/// @return tau
template <Scalar T>
T reflect(T& alpha, T* x, index_t n) {
  using Real = RealOf<T>;
  Real norm = norm_of(x, n);
  if (norm == 0 && std::imag(alpha) == 0) return T(0);
  const auto length = [&] { return std::hypot(std::real(alpha), std::hypot(std::imag(alpha), norm)); };
  const auto signed_length = [&] { return -std::copysign(length(), std::real(alpha)); };
  const auto scale = [&](T factor) {
    for (index_t i = 0; i < n; ++i) x[i] *= factor;
  };
  // If beta is too small it is inaccurate, and quotients by it overflow. The numbers are scaled up, and beta is scaled
  // back at the end.
  constexpr Real least = std::numeric_limits<Real>::min() / std::numeric_limits<Real>::epsilon();
  constexpr int most_times = 20;
  Real beta = signed_length();
  int times = 0;
  for (; std::abs(beta) < least && times < most_times; ++times) {
    scale(T(1 / least));
    alpha *= 1 / least;
    norm = norm_of(x, n);
    beta = signed_length();
  }
  const T tau = (T(beta) - alpha) / beta;
  scale(T(1) / (alpha - T(beta)));
  for (; times > 0; --times) beta *= least;
  alpha = beta;
  return tau;
}

template <Scalar T>
void factor_columns(const Panel& panel, T* tau) {
  T* const A = static_cast<T*>(panel.A);
  for (index_t k = 0; k < panel.n; ++k) {
    const index_t rest = panel.m - k - 1;
    T* const diagonal = A + k + k * panel.lda;
    T* const v = diagonal + 1;
    tau[k] = reflect(*diagonal, v, rest);
    for (index_t j = k + 1; j < panel.n; ++j) {
      T* const column = A + k + j * panel.lda;
      T sum = column[0];
      for (index_t i = 0; i < rest; ++i) sum += conjugate(v[i]) * column[i + 1];
      sum *= conjugate(tau[k]);
      column[0] -= sum;
      for (index_t i = 0; i < rest; ++i) column[i + 1] -= v[i] * sum;
    }
  }
}

/// Factors the adjoint, whose columns are the panel's rows.
template <Scalar T>
void factor_rows(const Panel& panel, T* tau) {
  T* const A = static_cast<T*>(panel.A);
  std::vector<T> columns(static_cast<std::size_t>(panel.m * panel.n));
  const auto for_each_pair = [&](auto f) {
    for (index_t j = 0; j < panel.m; ++j) {
      for (index_t i = 0; i < panel.n; ++i) f(A[i + j * panel.lda], columns[static_cast<std::size_t>(j + i * panel.m)]);
    }
  };
  for_each_pair([](const T& stored, T& adjoint) { adjoint = conjugate(stored); });
  Panel adjoint = panel;
  adjoint.A = columns.data();
  adjoint.lda = panel.m;
  factor_columns(adjoint, tau);
  for_each_pair([](T& stored, const T& adjoint) { stored = conjugate(adjoint); });
}

}  // namespace

void reference_qr(const Panel& panel, void* tau) {
  dispatch(panel.type, [&]<Scalar T>(T) {
    is_in_rows(panel.kind) ? factor_rows<T>(panel, static_cast<T*>(tau))
                           : factor_columns<T>(panel, static_cast<T*>(tau));
  });
}

}  // namespace tessera::kernels
