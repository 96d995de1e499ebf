// What is behind the symbols of libtessera_lapack.so: the program's own LAPACK.
#pragma once

namespace tessera::lapack {

/// The next definition of `symbol`: in the scope of the whole program; where LAPACK was opened locally (modules of
/// Python), in the library that calls or those that it needs; or in any library that is loaded. It stays loaded.
/// @param caller an address in the library that calls @return nullptr if there is none
void* next_symbol(const char* symbol, void* caller);

/// Counts what has been loaded so far: while it stays, a search that has found nothing finds nothing again. Never 0.
unsigned long long loads_so_far();

/// The width of the integers of the BLAS that a LAPACK uses, and so of its own. @param lapack one of its functions
/// @param isamax as that BLAS spells it @return 0 if no such function is found
int integer_bits_of(void* lapack, const char* isamax);

}  // namespace tessera::lapack
