// A LAPACK in all spellings that computes nothing: it records its calls. Plain names have integers of PLAIN_BITS.
#include <complex>
#include <cstdint>
#include <cstring>

#include "tests/lapack/spelt_lapack.hpp"

SpeltCall spelt_last = {};
int spelt_calls = 0;

namespace {

template <class... Arguments>
void remember(const char* name, Arguments... arguments) {
  spelt_last = {name, {reinterpret_cast<const void*>(arguments)...}};
  ++spelt_calls;
}
void tell(void* info) {
  const std::int32_t told = spelt_info;
  std::memcpy(info, &told, sizeof(told));
}
/// The answer of geqrf and gelqf to a query. LWORK is read as 32 bits, the lower ones of either width.
template <class T>
void answer(const void* lwork, void* work) {
  std::int32_t size = 0;
  std::memcpy(&size, lwork, sizeof(size));
  if (size == -1) *static_cast<T*>(work) = T(spelt_workspace);
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))
#define TESSERA_FORTRAN(name) name##_
#include "tests/lapack/spelt_lapack.inc"
#define TESSERA_FORTRAN(name) name##_64_
#include "tests/lapack/spelt_lapack.inc"
#define TESSERA_FORTRAN(name) scipy_##name##_
#include "tests/lapack/spelt_lapack.inc"
#define TESSERA_FORTRAN(name) scipy_##name##_64_
#include "tests/lapack/spelt_lapack.inc"

/// The library finds the width of plain integers by this function.
VISIBLE std::int32_t isamax_(const void* n, const float* /*x*/, const void* /*incx*/) {
  std::int64_t wide = 0;
  std::memcpy(&wide, n, sizeof(wide));
  const std::int64_t size = PLAIN_BITS == 64 ? wide : static_cast<std::int32_t>(wide);
  return size >= 1 ? 1 : 0;
}
