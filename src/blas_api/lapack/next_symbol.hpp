// The search for the definitions behind the symbols of libtessera_lapack.so: those of the program's own LAPACK.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/environment.hpp"
#include "core/loaded_objects.hpp"
#include "core/scalar.hpp"
#include "offload/call_time.hpp"
#include "offload/face.hpp"

namespace tessera::lapack {

/// The next definition of `symbol`: in the scope of the whole program; where LAPACK was opened locally (modules of
/// Python), in the library that calls or those that it needs; or in any library that is loaded. It stays loaded.
/// @param caller an address in the library that calls @return nullptr if there is none
void* next_symbol(const char* symbol, void* caller);

/// In the object with this handle and what it needs, but nothing of ours. @param handle may be null
void* others_symbol(void* handle, const char* symbol);

/// The symbols of one spelling. A constant initialiser makes one.
struct LapackFace {
  offload::Face blas;  ///< the BLAS that goes with it
  /// Of the program's integers. 0: nobody has looked yet; only plain names may have either. Relaxed: everyone who looks
  /// finds the same.
  std::atomic<int> integer_bits = 0;
  void* (*find)(const char* symbol, void* caller) = next_symbol;  ///< the LAPACK behind
};

/// The definition that has been found behind a symbol.
struct NextSymbol {
  /// nullptr: nobody has looked yet, or there is none: a library may be loaded later. Relaxed: the pointer alone is
  /// passed on, and everyone who looks finds one that will do.
  std::atomic<void*> found = nullptr;
  /// loads_so_far() at the last search that found none; while that stays, another
  /// search finds none. Relaxed: at worst somebody searches once more.
  std::atomic<unsigned long long> searched_at = 0;
};

/// Looked for by `find` at the first call, and again when something has been loaded since. @return nullptr if there is none
template <class Find>
void* look_up(NextSymbol& next, const Find& find) {
  void* found = next.found.load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] {
    const ErrnoKept stays;
    const unsigned long long loads = loads_so_far();
    if (next.searched_at.load(std::memory_order_relaxed) == loads) return nullptr;
    found = find();
    if (found != nullptr)
      next.found.store(found, std::memory_order_relaxed);
    else
      next.searched_at.store(loads, std::memory_order_relaxed);
  }
  return found;
}

/// look_up() of a routine. @param name without prefix and suffix @param caller see next_symbol()
void* next_of(const LapackFace& face, const char* name, NextSymbol& next, void* caller);

/// The time at which a symbol was entered whose next definition must be looked for: the search is a
/// part of the call. 0: it has been found, and the call begins where it is decided.
inline double entered_s(const NextSymbol& next) {
  return next.found.load(std::memory_order_relaxed) == nullptr ? device::now_seconds() : 0;
}

/// Of the program's integers. Plain names have 32 bits where no LAPACK is behind them, or where it does not show.
/// @param next of one of its symbols
int bits_of(LapackFace& face, void* next);

inline index_t read_integer(const void* at, int bits) {
  if (at == nullptr) return 0;
  return bits == 64 ? *static_cast<const std::int64_t*>(at) : *static_cast<const std::int32_t*>(at);
}
void write_integer(void* at, int bits, index_t value);

}  // namespace tessera::lapack
