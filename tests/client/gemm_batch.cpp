// Batches of gemm as Fortran and C programs call them, in one spelling of the symbols. Groups and strides, both layouts
// and all types are compared with loops. With CHECK_ERRORS, also the arguments of the error handlers, which are this
// program's, for bad arguments.
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#define JOINED_AS_IS(prefix, name, suffix) prefix##name##suffix
#define JOINED(prefix, name, suffix) JOINED_AS_IS(prefix, name, suffix)
#define FORTRAN_SYMBOL(name) JOINED(SYMBOL_PREFIX, name, FORTRAN_SUFFIX)
#define CBLAS_SYMBOL(name) JOINED(SYMBOL_PREFIX, cblas_##name, CBLAS_SUFFIX)
using Int = BLAS_INTEGER;

namespace {

template <class T>
constexpr bool is_real = std::is_floating_point_v<T>;
/// As CBLAS passes scalars and elements.
template <class T>
using Scalar = std::conditional_t<is_real<T>, T, const void*>;
template <class T>
using Element = std::conditional_t<is_real<T>, T, void>;

template <class T>
struct Symbols;

}  // namespace

#define DECLARE(letter, T)                                                                                            \
  extern "C" {                                                                                                        \
  void FORTRAN_SYMBOL(letter##gemm_batch)(const char*, const char*, const Int*, const Int*, const Int*, const T*,     \
                                          const T* const*, const Int*, const T* const*, const Int*, const T*,         \
                                          T* const*, const Int*, const Int*, const Int*);                             \
  void FORTRAN_SYMBOL(letter##gemm_batch_strided)(const char*, const char*, const Int*, const Int*, const Int*,       \
                                                  const T*, const T*, const Int*, const Int*, const T*, const Int*,   \
                                                  const Int*, const T*, T*, const Int*, const Int*, const Int*);      \
  void CBLAS_SYMBOL(letter##gemm_batch)(int, const int*, const int*, const Int*, const Int*, const Int*,              \
                                        const Element<T>*, const Element<T>* const*, const Int*,                      \
                                        const Element<T>* const*, const Int*, const Element<T>*, Element<T>* const*,  \
                                        const Int*, Int, const Int*);                                                 \
  void CBLAS_SYMBOL(letter##gemm_batch_strided)(int, int, int, Int, Int, Int, Scalar<T>, const Element<T>*, Int, Int, \
                                                const Element<T>*, Int, Int, Scalar<T>, Element<T>*, Int, Int, Int);  \
  }                                                                                                                   \
  namespace {                                                                                                         \
  template <>                                                                                                         \
  struct Symbols<T> {                                                                                                 \
    static constexpr auto fortran = FORTRAN_SYMBOL(letter##gemm_batch);                                               \
    static constexpr auto fortran_strided = FORTRAN_SYMBOL(letter##gemm_batch_strided);                               \
    static constexpr auto cblas = CBLAS_SYMBOL(letter##gemm_batch);                                                   \
    static constexpr auto cblas_strided = CBLAS_SYMBOL(letter##gemm_batch_strided);                                   \
  };                                                                                                                  \
  }
DECLARE(s, float)
DECLARE(d, double)
DECLARE(c, std::complex<float>)
DECLARE(z, std::complex<double>)

namespace {

int calls = 0;
int wrong = 0;

void expect(bool good, const char* what) {
  if (good) return;
  ++wrong;
  std::printf("wrong: %s\n", what);
}

template <class T>
T value(double real, double imaginary) {
  if constexpr (is_real<T>) {
    return static_cast<T>(real);
  } else {
    return T(static_cast<typename T::value_type>(real), static_cast<typename T::value_type>(imaginary));
  }
}

template <class T>
T conjugate(T x) {
  if constexpr (is_real<T>) {
    return x;
  } else {
    return std::conj(x);
  }
}

template <class T>
Scalar<T> pass(const T& x) {
  if constexpr (is_real<T>) {
    return x;
  } else {
    return &x;
  }
}

template <class T>
auto untyped(const std::vector<T*>& addresses) {
  using E = std::conditional_t<std::is_const_v<T>, const Element<std::remove_const_t<T>>, Element<T>>;
  return reinterpret_cast<E* const*>(addresses.data());
}

constexpr Int m = 5, n = 4, k = 3, ld = 7, per_group = 3, groups = 4;
constexpr Int elements = ld * ld, products = groups * per_group;
constexpr char letters[] = "NTCN";

/// Group g has the transpositions of its number, factors that differ, and k = 0 in the last one.
template <class T>
struct Problem {
  std::vector<T> A = std::vector<T>(products * elements), B = A, C = A;
  char ta[groups + 1] = {}, tb[groups + 1] = {};
  int op_a[groups] = {}, op_b[groups] = {};
  Int ms[groups] = {}, ns[groups] = {}, ks[groups] = {}, lds[groups] = {}, sizes[groups] = {};
  T alphas[groups] = {}, betas[groups] = {};
  std::vector<const T*> a, b;
  std::vector<T*> c;

  Problem() {
    for (std::size_t i = 0; i < A.size(); ++i) {
      A[i] = value<T>(static_cast<double>(i * 7 % 23) - 11, static_cast<double>(i * 3 % 5));
      B[i] = value<T>(static_cast<double>(i * 5 % 19) - 9, static_cast<double>(i * 2 % 7));
      C[i] = value<T>(42, 17);
    }
    for (Int g = 0; g < groups; ++g) {
      ta[g] = letters[g], tb[g] = letters[(g + 1) % groups];
      op_a[g] = number(ta[g]), op_b[g] = number(tb[g]);
      ms[g] = m, ns[g] = n, ks[g] = g == groups - 1 ? 0 : k, lds[g] = ld, sizes[g] = per_group;
      alphas[g] = value<T>(1 + static_cast<double>(g), 0.5);
      betas[g] = value<T>(g % 2 == 0 ? 0 : 2, 0);
      for (Int i = 0; i < per_group; ++i) {
        const auto at = static_cast<std::size_t>((g * per_group + i) * elements);
        a.push_back(A.data() + at), b.push_back(B.data() + at), c.push_back(C.data() + at);
      }
    }
  }
  static int number(char letter) { return letter == 'N' ? 111 : letter == 'T' ? 112 : 113; }

  /// Group g by loops, in this memory. @param share_a all products have the first one's A
  void compute(Int g, bool row_major, bool share_a = false) {
    const auto at = [&](const T* matrix, Int i, Int j) { return row_major ? matrix[i * ld + j] : matrix[i + j * ld]; };
    const auto op = [&](char letter, const T* matrix, Int i, Int j) {
      if (letter == 'N') return at(matrix, i, j);
      return letter == 'T' ? at(matrix, j, i) : conjugate(at(matrix, j, i));
    };
    for (Int p = g * per_group; p < (g + 1) * per_group; ++p) {
      const T* const left = a[static_cast<std::size_t>(share_a ? g * per_group : p)];
      for (Int i = 0; i < m; ++i) {
        for (Int j = 0; j < n; ++j) {
          T sum{};
          for (Int l = 0; l < ks[g]; ++l)
            sum += op(ta[g], left, i, l) * op(tb[g], b[static_cast<std::size_t>(p)], l, j);
          T& element = c[static_cast<std::size_t>(p)][row_major ? i * ld + j : i + j * ld];
          element = alphas[g] * sum + (betas[g] == T{} ? T{} : betas[g] * element);
        }
      }
    }
  }
};

/// Values are small whole numbers and halves: every order of the sums gives the same result.
template <class T>
void check_groups() {
  for (int how = 0; how < 3; ++how) {
    Problem<T> batch, loops;
    const Int count = groups;
    const auto& p = batch;
    if (how == 0) {
      Symbols<T>::fortran(p.ta, p.tb, p.ms, p.ns, p.ks, p.alphas, p.a.data(), p.lds, p.b.data(), p.lds, p.betas,
                          p.c.data(), p.lds, &count, p.sizes);
    } else {
      Symbols<T>::cblas(how == 1 ? 102 : 101, p.op_a, p.op_b, p.ms, p.ns, p.ks, p.alphas, untyped(p.a), p.lds,
                        untyped(p.b), p.lds, p.betas, untyped(p.c), p.lds, count, p.sizes);
    }
    ++calls;
    for (Int g = 0; g < groups; ++g) loops.compute(g, how == 2);
    expect(batch.C == loops.C, how == 0 ? "groups, Fortran" : how == 1 ? "groups, by columns" : "groups, by rows");
  }
}

template <class T>
void check_strided() {
  for (int how = 0; how < 3; ++how) {
    for (Int g = 0; g < groups - 1; ++g) {
      Problem<T> batch, loops;
      const auto& p = batch;
      const auto first = static_cast<std::size_t>(g * per_group);
      const Int rows = m, columns = n, depth = k, leading = ld, apart = elements, none = 0, count = per_group;
      if (how == 0) {
        Symbols<T>::fortran_strided(p.ta + g, p.tb + g, &rows, &columns, &depth, p.alphas + g, p.a[first], &leading,
                                    &none, p.b[first], &leading, &apart, p.betas + g, p.c[first], &leading, &apart,
                                    &count);
      } else {
        Symbols<T>::cblas_strided(how == 1 ? 102 : 101, p.op_a[g], p.op_b[g], m, n, k, pass(p.alphas[g]), p.a[first],
                                  ld, 0, p.b[first], ld, elements, pass(p.betas[g]), p.c[first], ld, elements, count);
      }
      ++calls;
      loops.compute(g, how == 2, true);
      expect(batch.C == loops.C, how == 0 ? "strides, Fortran" : how == 1 ? "strides, by columns" : "strides, by rows");
    }
  }
}

template <class T>
void check_type() {
  check_groups<T>();
  check_strided<T>();
}

}  // namespace

#ifdef CHECK_ERRORS
namespace {
char told[64];
}

extern "C" {
void xerbla_(const char* name, const Int* position, std::size_t length) {
  std::snprintf(told, sizeof(told), "xerbla %.*s %d", static_cast<int>(length), name, static_cast<int>(*position));
}
void cblas_xerbla(Int position, const char* routine, const char* /*form*/, ...) {
  std::snprintf(told, sizeof(told), "cblas_xerbla %s %d", routine, static_cast<int>(position));
}
}

namespace {

/// @param spoil makes an argument of group 1 bad @param position in the Fortran interface, of the column-major call
template <class Spoil>
void expect_complaint(int layout, Spoil spoil, const char* routine, int position) {
  Problem<double> p;
  const std::vector<double> before = p.C;
  Int count = groups;
  spoil(p, count);
  char expected[64];
  const bool to_c = std::strncmp(routine, "cblas", 5) == 0;
  std::snprintf(expected, sizeof(expected), "%s %s %d", to_c ? "cblas_xerbla" : "xerbla", routine, position);
  told[0] = '\0';
  cblas_dgemm_batch(layout, p.op_a, p.op_b, p.ms, p.ns, p.ks, p.alphas, p.a.data(), p.lds, p.b.data(), p.lds, p.betas,
                    p.c.data(), p.lds, count, p.sizes);
  if (std::strcmp(told, expected) != 0) std::printf("\"%s\" instead of \"%s\"\n", told, expected);
  expect(std::strcmp(told, expected) == 0, "what the handler of C is told");
  if (layout == 102 && !to_c) {
    told[0] = '\0';
    dgemm_batch_(p.ta, p.tb, p.ms, p.ns, p.ks, p.alphas, p.a.data(), p.lds, p.b.data(), p.lds, p.betas, p.c.data(),
                 p.lds, &count, p.sizes);
    if (std::strcmp(told, expected) != 0) std::printf("\"%s\" instead of \"%s\"\n", told, expected);
    expect(std::strcmp(told, expected) == 0, "what the handler of Fortran is told");
  }
  expect(p.C == before, "a batch with a bad argument has been computed in part");
}

void check_errors() {
  using P = Problem<double>;
  const auto good = [](P&, Int&) {};
  expect_complaint(100, good, "cblas_dgemm_batch", 1);
  expect_complaint(
      102, [](P& p, Int&) { p.op_a[1] = 7; }, "cblas_dgemm_batch", 2);
  expect_complaint(
      102, [](P& p, Int&) { p.op_b[1] = 7; }, "cblas_dgemm_batch", 3);
  expect_complaint(
      102, [](P& p, Int&) { p.ms[1] = -1; }, "DGEMM_BATCH", 3);
  expect_complaint(
      102, [](P& p, Int&) { p.ns[1] = -1; }, "DGEMM_BATCH", 4);
  expect_complaint(
      102, [](P& p, Int&) { p.ks[1] = -1; }, "DGEMM_BATCH", 5);
  expect_complaint(
      102, [](P&, Int& count) { count = -1; }, "DGEMM_BATCH", 14);
  expect_complaint(
      102, [](P& p, Int&) { p.sizes[1] = -1; }, "DGEMM_BATCH", 15);
  // Sizes whose sum, or whose arrays, no memory can hold.
  constexpr Int most = std::numeric_limits<Int>::max();
  if constexpr (sizeof(Int) == sizeof(std::int64_t)) {
    expect_complaint(
        102, [](P&, Int& count) { count = most; }, "DGEMM_BATCH", 14);
    expect_complaint(
        102, [](P& p, Int&) { p.sizes[1] = most; }, "DGEMM_BATCH", 15);
    expect_complaint(
        101, [](P& p, Int&) { std::fill_n(p.sizes, groups, most / 2 + 1); }, "DGEMM_BATCH", 15);
  }
  // The position in the column-major call that a row-major one becomes.
  expect_complaint(
      101, [](P& p, Int&) { p.ms[1] = -1; }, "DGEMM_BATCH", 4);
  expect_complaint(
      101, [](P& p, Int&) { p.ns[1] = -1; }, "DGEMM_BATCH", 3);
  // One array for all leading dimensions: the first one that is too short.
  expect_complaint(
      102, [](P& p, Int&) { p.lds[1] = 3; }, "DGEMM_BATCH", 10);
  expect_complaint(
      102, [](P& p, Int&) { p.lds[1] = 4; }, "DGEMM_BATCH", 13);

  double C = 42;
  const double one = 1;
  const auto strided = [&](Int lda, Int a, Int ldb, Int b, Int ldc, Int c, Int count, const char* expected) {
    told[0] = '\0';
    cblas_dgemm_batch_strided(102, 111, 111, 1, 1, 1, 1, &one, lda, a, &one, ldb, b, 0, &C, ldc, c, count);
    expect(std::strcmp(told, expected) == 0, expected);
    const Int size = 1;
    const double zero = 0;
    told[0] = '\0';
    dgemm_batch_strided_("N", "N", &size, &size, &size, &one, &one, &lda, &a, &one, &ldb, &b, &zero, &C, &ldc, &c,
                         &count);
    expect(std::strcmp(told, expected) == 0, expected);
  };
  strided(0, -1, 1, 0, 1, 0, 1, "xerbla DGEMM_BATCH_STRIDED 8");
  strided(1, -1, 0, 0, 1, 0, 1, "xerbla DGEMM_BATCH_STRIDED 9");
  strided(1, 0, 0, -1, 1, 0, 1, "xerbla DGEMM_BATCH_STRIDED 11");
  strided(1, 0, 1, -1, 0, 0, 1, "xerbla DGEMM_BATCH_STRIDED 12");
  strided(1, 0, 1, 0, 0, -1, 1, "xerbla DGEMM_BATCH_STRIDED 15");
  strided(1, 0, 1, 0, 1, -1, -1, "xerbla DGEMM_BATCH_STRIDED 16");
  strided(1, 0, 1, 0, 1, 0, -1, "xerbla DGEMM_BATCH_STRIDED 17");
  if constexpr (sizeof(Int) == sizeof(std::int64_t)) {
    strided(1, 1, 1, 1, 1, 1, most, "xerbla DGEMM_BATCH_STRIDED 17");
    strided(1, most, 1, 0, 1, 0, 2, "xerbla DGEMM_BATCH_STRIDED 9");
    strided(1, 0, 1, most / 8, 1, 0, 3, "xerbla DGEMM_BATCH_STRIDED 12");
    strided(1, 0, 1, 0, 1, most / 8, 3, "xerbla DGEMM_BATCH_STRIDED 16");
  }
  expect(C == 42, "C of a strided batch with a bad argument");
}

}  // namespace
#endif

int main() {
  check_type<float>();
  check_type<double>();
  check_type<std::complex<float>>();
  check_type<std::complex<double>>();
#ifdef CHECK_ERRORS
  check_errors();
#endif
  std::printf("calls %d\n", calls);
  return wrong != 0;
}
