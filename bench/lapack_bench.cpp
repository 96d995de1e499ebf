// Times LAPACK routines and checks their results. Linked with liblapack.so.3 and libblas.so.3 by these names, so that
// LD_PRELOAD and LD_LIBRARY_PATH decide whose they are; calls nothing of Tessera.
// Results are checked with a random vector x, A * x against the product of the factors with x, relative to
// n * |A| * |x| * eps; below 30 is correct. Prints one line of JSON for each size.
// usage: lapack_bench ROUTINE N[,N...] [REPEATS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/linear_maps.hpp"
#include "bench/frame/timing.hpp"
#define PROGRAM "lapack_bench"
#include "bench/program.h"

extern "C" {
using length = std::size_t;  // of a character argument
void dpotrf_(const char* uplo, const int* n, double* A, const int* lda, int* info, length);
void dgetrf_(const int* m, const int* n, double* A, const int* lda, int* pivots, int* info);
void dgesv_(const int* n, const int* nrhs, double* A, const int* lda, int* pivots, double* B, const int* ldb,
            int* info);
void dgetri_(const int* n, double* A, const int* lda, const int* pivots, double* work, const int* lwork, int* info);
void dpotri_(const char* uplo, const int* n, double* A, const int* lda, int* info, length);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* A, const int* lda, int* info, length, length);
void dgeqrf_(const int* m, const int* n, double* A, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void dormqr_(const char* side, const char* trans, const int* m, const int* n, const int* k, double* A, const int* lda,
             const double* tau, double* C, const int* ldc, double* work, const int* lwork, int* info, length, length);
void dgels_(const char* trans, const int* m, const int* n, const int* nrhs, double* A, const int* lda, double* B,
            const int* ldb, double* work, const int* lwork, int* info, length);
void dgelsd_(const int* m, const int* n, const int* nrhs, double* A, const int* lda, double* B, const int* ldb,
             double* s, const double* rcond, int* rank, double* work, const int* lwork, int* iwork, int* info);
void dsyev_(const char* jobz, const char* uplo, const int* n, double* A, const int* lda, double* w, double* work,
            const int* lwork, int* info, length, length);
void dsygv_(const int* type, const char* jobz, const char* uplo, const int* n, double* A, const int* lda, double* B,
            const int* ldb, double* w, double* work, const int* lwork, int* info, length, length);
void dgesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, double* A, const int* lda, double* s,
             double* U, const int* ldu, double* Vt, const int* ldvt, double* work, const int* lwork, int* info, length,
             length);
}

namespace tessera::bench {
namespace {

using Matrix = std::vector<double>;  // n x n, column by column

struct Problem {
  int n = 0, info = 0;
  Matrix A, F;                       ///< as it was, and as it is overwritten
  Matrix B, U, V;                    ///< further operands and results of a routine
  std::vector<double> vector, work;  ///< vector: n values
  std::vector<int> pivots;
};

/// @param symmetric  diagonally dominant besides, so that the matrix is positive definite
Matrix random_matrix(int n, bool symmetric) {
  const auto order = static_cast<std::size_t>(n);
  Matrix A(order * order);
  if (!symmetric) {
    for (double& value : A) value = random_number();
    return A;
  }
  for (std::size_t j = 0; j < order; ++j) {
    for (std::size_t i = j; i < order; ++i) A[i + j * order] = A[j + i * order] = random_number();
    A[j + j * order] += n;
  }
  return A;
}

// -- checks: the residual for a vector x --

Vector times(const Matrix& M, const Vector& x, Part part = Part::whole, bool transposed = false) {
  return product(
      part, [&M, n = x.size()](std::size_t i, std::size_t j) { return M[i + j * n]; }, x, transposed);
}
double norm(const Problem& p, const Matrix& M) {
  const auto n = static_cast<std::size_t>(p.n);
  return norm1(
      Part::whole, [&](std::size_t i, std::size_t j) { return M[i + j * n]; }, n);
}
Vector scaled(const std::vector<double>& values, Vector x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= values[i];
  return x;
}
/// |y - z| relative to n * size * |x| * eps
double difference(Vector y, const Vector& z, double size, const Vector& x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] -= z[i];
  return largest_of(y) /
         (static_cast<double>(y.size()) * size * largest_of(x) * std::numeric_limits<double>::epsilon());
}

double check_potrf(Problem& p, const Vector& x) {
  return difference(times(p.A, x), times(p.F, times(p.F, x, Part::lower, true), Part::lower), norm(p, p.A), x);
}
double check_getrf(Problem& p, const Vector& x) {
  Vector y = times(p.F, times(p.F, x, Part::upper), Part::unit_lower);
  for (std::size_t i = y.size(); i-- > 0;) std::swap(y[i], y[static_cast<std::size_t>(p.pivots[i] - 1)]);
  return difference(times(p.A, x), y, norm(p, p.A), x);
}
/// A * (solutions * x) against B * x
double check_solutions(Problem& p, const Vector& x) {
  return difference(times(p.A, times(p.U, x)), times(p.B, x), norm(p, p.A) * norm(p, p.U), x);
}
/// A * (inverse * x) against x
double check_inverse(Problem& p, Part matrix, Part inverse, const Vector& x) {
  return difference(times(p.A, times(p.F, x, inverse), matrix), x, norm(p, p.A) * norm(p, p.F), x);
}
double check_getri(Problem& p, const Vector& x) { return check_inverse(p, Part::whole, Part::whole, x); }
double check_potri(Problem& p, const Vector& x) { return check_inverse(p, Part::whole, Part::hermitian_lower, x); }
double check_trtri(Problem& p, const Vector& x) { return check_inverse(p, Part::lower, Part::lower, x); }
double check_geqrf(Problem& p, const Vector& x) {
  std::vector<double> y;
  for (const AnyScalar& value : times(p.F, x, Part::upper)) y.push_back(value.real());
  const int one = 1;
  p.work.resize(std::max(p.work.size(), 128 * y.size()));
  const int lwork = static_cast<int>(p.work.size());
  dormqr_("L", "N", &p.n, &one, &p.n, p.F.data(), &p.n, p.vector.data(), y.data(), &p.n, p.work.data(), &lwork, &p.info,
          1, 1);
  return difference(times(p.A, x), Vector(y.begin(), y.end()), norm(p, p.A), x);
}
/// A * (V * x) against V * (w * x), or B times that
double check_eigenvectors(Problem& p, const Vector& x) {
  const Vector y = times(p.F, scaled(p.vector, x));
  return difference(times(p.A, times(p.F, x)), p.B.empty() ? y : times(p.B, y), norm(p, p.A) * norm(p, p.F), x);
}
double check_gesvd(Problem& p, const Vector& x) {
  return difference(times(p.A, x), times(p.U, scaled(p.vector, times(p.V, x))), norm(p, p.A), x);
}

// -- calls --

/// Asks for the workspace first, and calls with it. @param call (work, lwork)
template <class Call>
void with_work(Problem& p, const Call& call) {
  double wanted = 0;
  const int ask = -1;
  call(&wanted, &ask);
  p.work.resize(std::max(p.work.size(), static_cast<std::size_t>(wanted)));
  const int lwork = static_cast<int>(p.work.size());
  call(p.work.data(), &lwork);
}

void call_potrf(Problem& p) { dpotrf_("L", &p.n, p.F.data(), &p.n, &p.info, 1); }
void call_getrf(Problem& p) { dgetrf_(&p.n, &p.n, p.F.data(), &p.n, p.pivots.data(), &p.info); }
void call_gesv(Problem& p) {
  p.U = p.B;
  dgesv_(&p.n, &p.n, p.F.data(), &p.n, p.pivots.data(), p.U.data(), &p.n, &p.info);
}
/// Least squares have as many unknowns and right-hand sides as equations here.
void call_gels(Problem& p) {
  p.U = p.B;
  with_work(p, [&](double* work, const int* lwork) {
    dgels_("N", &p.n, &p.n, &p.n, p.F.data(), &p.n, p.U.data(), &p.n, work, lwork, &p.info, 1);
  });
}
void call_gelsd(Problem& p) {
  const double rcond = -1;
  int rank = 0;
  std::vector<int> iwork(1, 1);  // whose first element says how many there have to be
  p.U = p.B;
  with_work(p, [&](double* work, const int* lwork) {
    iwork.resize(static_cast<std::size_t>(std::max(iwork[0], 1)));
    dgelsd_(&p.n, &p.n, &p.n, p.F.data(), &p.n, p.U.data(), &p.n, p.vector.data(), &rcond, &rank, work, lwork,
            iwork.data(), &p.info);
  });
}
void call_getri(Problem& p) {
  call_getrf(p);
  if (p.info != 0) return;
  with_work(p, [&](double* work, const int* lwork) {
    dgetri_(&p.n, p.F.data(), &p.n, p.pivots.data(), work, lwork, &p.info);
  });
}
void call_potri(Problem& p) {
  call_potrf(p);
  if (p.info == 0) dpotri_("L", &p.n, p.F.data(), &p.n, &p.info, 1);
}
void call_trtri(Problem& p) { dtrtri_("L", "N", &p.n, p.F.data(), &p.n, &p.info, 1, 1); }
void call_geqrf(Problem& p) {
  with_work(p, [&](double* work, const int* lwork) {
    dgeqrf_(&p.n, &p.n, p.F.data(), &p.n, p.vector.data(), work, lwork, &p.info);
  });
}
void call_syev(Problem& p) {
  with_work(p, [&](double* work, const int* lwork) {
    dsyev_("V", "L", &p.n, p.F.data(), &p.n, p.vector.data(), work, lwork, &p.info, 1, 1);
  });
}
void call_sygv(Problem& p) {
  const int type = 1;
  p.U = p.B;
  with_work(p, [&](double* work, const int* lwork) {
    dsygv_(&type, "V", "L", &p.n, p.F.data(), &p.n, p.U.data(), &p.n, p.vector.data(), work, lwork, &p.info, 1, 1);
  });
}
void call_gesvd(Problem& p) {
  with_work(p, [&](double* work, const int* lwork) {
    dgesvd_("A", "A", &p.n, &p.n, p.F.data(), &p.n, p.vector.data(), p.U.data(), &p.n, p.V.data(), &p.n, work, lwork,
            &p.info, 1, 1);
  });
}

enum class Shape { general, symmetric };
enum class Beside { nothing, right_sides, vectors };  // right_sides: B, and U that is overwritten; vectors: U and V

struct Routine {
  const char* name;
  void (*call)(Problem&);
  double (*check)(Problem&, const Vector& x);
  Shape shape;
  Beside beside;
  double flops;  ///< times n^3; 0: not told, because it depends on the data
};

constexpr Routine routines[] = {
    {"dpotrf", call_potrf, check_potrf, Shape::symmetric, Beside::nothing, 1.0 / 3},
    {"dgetrf", call_getrf, check_getrf, Shape::general, Beside::nothing, 2.0 / 3},
    {"dgesv", call_gesv, check_solutions, Shape::general, Beside::right_sides, 8.0 / 3},
    {"dgetri", call_getri, check_getri, Shape::general, Beside::nothing, 2},
    {"dpotri", call_potri, check_potri, Shape::symmetric, Beside::nothing, 1},
    {"dtrtri", call_trtri, check_trtri, Shape::symmetric, Beside::nothing, 1.0 / 3},
    {"dgeqrf", call_geqrf, check_geqrf, Shape::general, Beside::nothing, 4.0 / 3},
    {"dsyev", call_syev, check_eigenvectors, Shape::symmetric, Beside::nothing, 0},
    {"dsygv", call_sygv, check_eigenvectors, Shape::symmetric, Beside::right_sides, 0},
    {"dgesvd", call_gesvd, check_gesvd, Shape::general, Beside::vectors, 0},
    {"dgels", call_gels, check_solutions, Shape::general, Beside::right_sides, 13.0 / 3},
    {"dgelsd", call_gelsd, check_solutions, Shape::general, Beside::right_sides, 0},
};

bool measure(const Routine& routine, int n, int repeats) {
  const bool is_symmetric = routine.shape == Shape::symmetric;
  Problem p;
  p.n = n;
  if (routine.beside == Beside::right_sides) p.B = random_matrix(n, is_symmetric);
  p.A = random_matrix(n, is_symmetric);
  if (routine.beside != Beside::nothing) p.U.resize(p.A.size());
  if (routine.beside == Beside::vectors) p.V.resize(p.A.size());
  p.vector.resize(static_cast<std::size_t>(n));
  p.pivots.resize(static_cast<std::size_t>(n));
  double best = HUGE_VAL;
  for (int i = 0; i < repeats && p.info == 0; ++i) {
    p.F = p.A;
    best = std::min(best, seconds_of([&] { routine.call(p); }));
  }
  double residual = -1;  // JSON has no NaN
  if (p.info == 0 && repeats > 0) {
    Vector x(static_cast<std::size_t>(n));
    for (AnyScalar& value : x) value = random_number();
    residual = routine.check(p, x);
  }
  const bool is_correct = residual >= 0 && residual < 30;
  std::printf(
      "{\"routine\": \"%s\", \"n\": %d, \"seconds\": %.6g, \"gflops\": %.6g, \"residual\": %.3g, \"correct\": %s}\n",
      routine.name, n, best, routine.flops * std::pow(n, 3) / best * 1e-9, std::isnan(residual) ? -1 : residual,
      is_correct ? "true" : "false");
  std::fflush(stdout);
  return is_correct;
}

int run(int argc, char** argv) {
  const auto* const routine = std::find_if(std::begin(routines), std::end(routines), [&](const Routine& one) {
    return argc >= 3 && std::strcmp(argv[1], one.name) == 0;
  });
  if (routine == std::end(routines)) {
    std::fprintf(stderr, "usage: lapack_bench ROUTINE N[,N...] [REPEATS]\nROUTINE is one of");
    for (const Routine& one : routines) std::fprintf(stderr, " %s", one.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 1;
  bool is_correct = repeats > 0;
  for (char* size = std::strtok(argv[2], ","); size != nullptr; size = std::strtok(nullptr, ",")) {
    const int n = std::atoi(size);
    if (n <= 0) {
      std::fprintf(stderr, "lapack_bench: no size: %s\n", size);
      return 2;
    }
    is_correct = measure(*routine, n, repeats) && is_correct;
  }
  return is_correct ? 0 : 1;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) { return tessera::bench::run(argc, argv); }
