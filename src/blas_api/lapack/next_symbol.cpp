#include "blas_api/lapack/next_symbol.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <new>
#include <string>

#include "blas_api/lapack/in_lapack.hpp"
#include "core/environment.hpp"
#include "core/integer_width.hpp"
#include "core/loaded_objects.hpp"

namespace tessera::lapack {

void* others_symbol(void* handle, const char* symbol) {
  void* const found = handle != nullptr ? dlsym(handle, symbol) : nullptr;
  return object_of(found) != object_of(reinterpret_cast<void*>(&others_symbol)) ? found : nullptr;
}

void* next_symbol(const char* symbol, void* caller) {
  if (void* const next = dlsym(RTLD_NEXT, symbol)) {
    static_cast<void>(keep_loaded(file_of_object(next)));
    return next;
  }
  if (void* const next = others_symbol(keep_loaded(file_of_object(caller)), symbol)) return next;
  try {
    for (const std::string& file : loaded_objects()) {
      // Looked at before it is kept: most of them have no LAPACK.
      void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) continue;
      void* const next = others_symbol(library, symbol);
      if (next != nullptr) static_cast<void>(keep_loaded(file_of_object(next)));
      dlclose(library);
      if (next != nullptr) return next;
    }
  } catch (const std::bad_alloc&) {  // then none is found
  }
  return nullptr;
}

namespace {

/// Of the integers of the BLAS that a LAPACK uses, and so of its own; 0: it does not show. @param next one of its functions
int bits_behind(const LapackFace& face, void* next) {
  const std::string isamax = face.blas.search.scheme.fortran("isamax");
  tessera_private_enter_lapack();  // the end of the process waits for the answer
  const InLapack asking;
  void* const library = keep_loaded(file_of_object(next));
  const int bits = integer_bits_by(library != nullptr ? dlsym(library, isamax.c_str()) : nullptr);
  return bits != 0 ? bits : integer_bits_by(dlsym(RTLD_DEFAULT, isamax.c_str()));
}

/// A LAPACK that comes later must have the integers that the program has been calling with.
void* find_next(const LapackFace& face, const char* name, void* caller) {
  void* const next = face.find(face.blas.search.scheme.fortran(name).c_str(), caller);
  const int known = face.integer_bits.load(std::memory_order_relaxed);
  if (next == nullptr || known == 0) return next;
  const int bits = bits_behind(face, next);
  return bits == 0 || bits == known ? next : nullptr;
}

}  // namespace

void* next_of(const LapackFace& face, const char* name, NextSymbol& next, void* caller) {
  return look_up(next, [&] { return find_next(face, name, caller); });
}

int bits_of(LapackFace& face, void* next) {
  int bits = face.integer_bits.load(std::memory_order_relaxed);
  if (bits == 0) [[unlikely]] {
    const ErrnoKept stays;
    constexpr int usual = 32;
    const int behind = next != nullptr ? bits_behind(face, next) : 0;
    bits = behind != 0 ? behind : usual;
    face.integer_bits.store(bits, std::memory_order_relaxed);
  }
  return bits;
}

void write_integer(void* at, int bits, index_t value) {
  if (bits == 64)
    *static_cast<std::int64_t*>(at) = value;
  else
    *static_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
}

}  // namespace tessera::lapack
