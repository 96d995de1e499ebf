// What is behind the symbols of libtessera_lapack.so: the program's own LAPACK.
#pragma once

#include <atomic>
#include <string_view>

#include "blas_api/face.hpp"
#include "core/scalar.hpp"

namespace tessera::lapack {

/// The next definition of `symbol`: in the scope of the whole program; where LAPACK was opened locally (modules of
/// Python), in the library that calls or those that it needs; or in any library that is loaded. It stays loaded.
/// @param caller an address in the library that calls @return nullptr if there is none
void* next_symbol(const char* symbol, void* caller);

/// The symbols of one spelling. A constant initialiser makes one.
struct LapackFace {
  api::Face blas;  ///< the BLAS that goes with it
  /// Of the program's integers. 0: nobody has looked yet; only plain names may have either. Relaxed: everyone who looks
  /// finds the same.
  std::atomic<int> integer_bits = 0;
  void* (*find)(const char* symbol, void* caller) = next_symbol;  ///< the LAPACK behind
};

/// What has been found behind a symbol.
struct NextSymbol {
  /// nullptr: nobody has looked yet, or there is none: a library may be loaded later. Relaxed: the pointer alone is
  /// passed on, and everyone who looks finds one that will do.
  std::atomic<void*> found = nullptr;
  /// Of a search that has found none: loads_so_far(). Relaxed: at worst somebody searches once more.
  std::atomic<unsigned long long> searched_at = 0;
};

/// Looked for at the first call, and again when something has been loaded since. @param name of the routine, without
/// prefix and suffix @param caller see next_symbol() @return nullptr if there is none
void* next_of(const LapackFace& face, std::string_view name, NextSymbol& next, void* caller);

/// Of the program's integers. Plain names have 32 bits where no LAPACK is behind them, or where it does not show.
/// @param next of one of its symbols
int bits_of(LapackFace& face, void* next);

index_t read_integer(const void* at, int bits);
void write_integer(void* at, int bits, index_t value);

/// Counts what has been loaded so far: while it stays, a search that has found nothing finds nothing again. Never 0.
unsigned long long loads_so_far();

/// The width of the integers of the BLAS that a LAPACK uses, and so of its own. @param lapack one of its functions
/// @param isamax as that BLAS spells it @return 0 if no such function is found
int integer_bits_of(void* lapack, const char* isamax);

}  // namespace tessera::lapack
