#include "blas_api/lapack/next_symbol.hpp"

#include <dlfcn.h>
#include <link.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "core/environment.hpp"

namespace tessera::lapack {
namespace {

const void* object_of(void* address) {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// Open already, and from now on until the process ends. nullptr: no such object.
void* kept_open(const char* file) {
  return file != nullptr ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : nullptr;
}
void* kept_open(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? kept_open(info.dli_fname) : nullptr;
}

/// In `library` and what it needs; nothing of ours.
void* others_symbol(void* library, const char* symbol) {
  void* const found = library != nullptr ? dlsym(library, symbol) : nullptr;
  return object_of(found) != object_of(reinterpret_cast<void*>(&next_symbol)) ? found : nullptr;
}

/// Collected first: inside the walk the loader's lock is held.
std::vector<std::string> loaded_objects() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        if (object->dlpi_name != nullptr && object->dlpi_name[0] != '\0')
          static_cast<std::vector<std::string>*>(to)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

}  // namespace

void* next_symbol(const char* symbol, void* caller) {
  if (void* const next = dlsym(RTLD_NEXT, symbol)) {
    static_cast<void>(kept_open(next));
    return next;
  }
  if (void* const next = others_symbol(kept_open(caller), symbol)) return next;
  try {
    for (const std::string& file : loaded_objects()) {
      // Looked at before it is kept: most of them have no LAPACK.
      void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) continue;
      void* const next = others_symbol(library, symbol);
      if (next != nullptr) static_cast<void>(kept_open(next));
      dlclose(library);
      if (next != nullptr) return next;
    }
  } catch (const std::bad_alloc&) {  // then none is found
  }
  return nullptr;
}

unsigned long long loads_so_far() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = object->dlpi_adds;
        return 1;  // each object tells it
      },
      &loads);
  return loads;
}

// As in kernels/host/cpu_blas.cpp: of one element isamax tells 1, of fewer than none 0. Which it is asked for depends on
// how much of the variable it reads.
int integer_bits_of(void* lapack, const char* isamax) {
  static_assert(std::endian::native == std::endian::little);
  using Isamax = std::int32_t (*)(const std::int64_t*, const float*, const std::int64_t*);
  void* const library = kept_open(lapack);
  void* found = library != nullptr ? dlsym(library, isamax) : nullptr;
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, isamax);
  if (found == nullptr) return 0;
  const std::int64_t size = 1 - (std::int64_t{1} << 32), stride = 1;
  const float element = 1;
  return reinterpret_cast<Isamax>(found)(&size, &element, &stride) == 1 ? 32 : 64;
}

namespace {

/// Of a LAPACK's integers; 0: it does not show.
int bits_behind(const LapackFace& face, void* next) {
  return integer_bits_of(next, face.blas.search.scheme.fortran("isamax").c_str());
}

/// A LAPACK that comes later must have the integers that the program has been calling with.
void* find_next(const LapackFace& face, std::string_view name, void* caller) {
  void* const next = face.find(face.blas.search.scheme.fortran(name).c_str(), caller);
  const int known = face.integer_bits.load(std::memory_order_relaxed);
  if (next == nullptr || known == 0) return next;
  const int bits = bits_behind(face, next);
  return bits == 0 || bits == known ? next : nullptr;
}

}  // namespace

void* next_of(const LapackFace& face, std::string_view name, NextSymbol& next, void* caller) {
  void* found = next.found.load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] {
    const ErrnoKept stays;
    const unsigned long long loads = loads_so_far();
    if (next.searched_at.load(std::memory_order_relaxed) == loads) return nullptr;
    found = find_next(face, name, caller);
    if (found != nullptr)
      next.found.store(found, std::memory_order_relaxed);
    else
      next.searched_at.store(loads, std::memory_order_relaxed);
  }
  return found;
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

index_t read_integer(const void* at, int bits) {
  if (at == nullptr) return 0;
  return bits == 64 ? *static_cast<const std::int64_t*>(at) : *static_cast<const std::int32_t*>(at);
}
void write_integer(void* at, int bits, index_t value) {
  if (bits == 64)
    *static_cast<std::int64_t*>(at) = value;
  else
    *static_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
}

}  // namespace tessera::lapack
