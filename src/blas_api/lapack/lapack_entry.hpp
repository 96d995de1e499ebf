// What every symbol of LAPACK in libtessera_lapack.so does: what may be for devices goes down to libtessera.so; argument
// errors, questions for workspace and calls that do nothing go on to the next definition, with the caller's own
// arguments, so that xerbla and info are its own.
#pragma once

#include <atomic>
#include <cstddef>

#include "blas_api/lapack/next_symbol.hpp"
#include "core/lapack_call.hpp"

namespace tessera::lapack {

/// One routine in one spelling.
struct Symbol {
  LapackCallRoutine routine;
  ScalarType type;
  const char* name;  ///< without prefix and suffix
  LapackFace& face;
  NextSymbol next = {};
};

/// The arguments as the caller gave them; integers are as wide as its. What a routine does not have stays null.
struct Arguments {
  const char* option = nullptr;  ///< uplo, or trans
  const void *m = nullptr, *n = nullptr, *nrhs = nullptr;
  void* A = nullptr;
  const void* lda = nullptr;
  void* ipiv = nullptr;
  void* B = nullptr;
  const void* ldb = nullptr;
  void *tau = nullptr, *work = nullptr;
  const void* lwork = nullptr;
  void* info = nullptr;
  std::size_t length = 1;  ///< of the option: hidden, and not always passed
};

/// @param caller an address in the code that calls @throws what an error handler of the program throws
void enter(Symbol& symbol, const Arguments& arguments, void* caller);

}  // namespace tessera::lapack
