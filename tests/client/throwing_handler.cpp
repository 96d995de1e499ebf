// A C++ program whose error handler throws, as Octave's does: the exception passes through the library's frames to the
// caller.
#include <cblas.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

extern "C" {
void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const double* alpha,
            const double* A, const int* lda, const double* B, const int* ldb, const double* beta, double* C,
            const int* ldc);
__attribute__((visibility("default"))) void xerbla_(const char* name, const int* position, int /*name_length*/) {
  throw std::invalid_argument(std::string(name, 5) + " " + std::to_string(*position));
}
}

namespace {

template <class Call>
bool throws(const char* expected, Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    if (std::strcmp(error.what(), expected) == 0) return true;
    std::fprintf(stderr, "\"%s\" instead of \"%s\"\n", error.what(), expected);
    return false;
  }
  std::fprintf(stderr, "nothing was thrown instead of \"%s\"\n", expected);
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  const bool only_cblas = count > 1 && std::strcmp(arguments[1], "cblas") == 0;
  double A[4] = {}, B[4] = {}, C[4] = {};
  const double one = 1;
  const int two = 2, wrong = -1;
  bool good = true;
  // Nothing was thrown before.
  for (int i = 0; i < 3; ++i) {
    if (!only_cblas) {
      good &= throws("DGEMM 3", [&] { dgemm_("N", "N", &wrong, &two, &two, &one, A, &two, B, &two, &one, C, &two); });
    }
    good &= throws("DGEMM 3", [&] {
      cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, wrong, two, two, one, A, two, B, two, one, C, two);
    });
  }
  return good ? 0 : 1;
}
