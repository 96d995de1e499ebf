// Finds the handlers of bad arguments at the time of the error (dlsym),
// because programs may bring their handlers in late.
//
// In the reference, a CBLAS routine sets RowMajorStrg and CBLAS_CallFromC and calls the Fortran routine, with A, B and
// m, n exchanged if row-major; that one calls xerbla_ with its own position p. If the program has no xerbla_, it is the
// reference's, which sees CBLAS_CallFromC and calls cblas_xerbla(p + 1), and a default cblas_xerbla exchanges the
// positions back in its message if RowMajorStrg is set. So where the reference's flags exist, the same steps are taken.
// Other BLAS libraries (OpenBLAS) have no flags and call xerbla_(p) themselves; many define cblas_xerbla too, without
// ever calling it. There, a cblas_xerbla that is the program's own gets p + 1 unless it has an xerbla_ of its own as
// well.
#include "blas_api/blas/error_exit.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/loaded_objects.hpp"
#include "core/unwinder.hpp"

namespace tessera::blas {
namespace {

/// Positions are 64 bits wide, of which a handler reads as many as its integers have (little-endian, as in
/// cpu_blas.cpp).
using Xerbla = void (*)(const char* name, const std::int64_t* position, std::size_t name_length);
using CblasXerbla = void (*)(std::int64_t position, const char* routine, const char* form, ...);

void* find_xerbla(const Face& face) { return dlsym(RTLD_DEFAULT, face.search.scheme.fortran("xerbla").c_str()); }

/// The error handlers and flags that the process has now.
struct Handlers {
  explicit Handlers(const Face& of) : face(of) {}

  const Face& face;
  void* xerbla = find_xerbla(face);
  void* cblas_xerbla = dlsym(RTLD_DEFAULT, face.search.scheme.cblas("xerbla").c_str());
  int* row_major_flag = static_cast<int*>(dlsym(RTLD_DEFAULT, "RowMajorStrg"));
  int* from_c_flag = static_cast<int*>(dlsym(RTLD_DEFAULT, "CBLAS_CallFromC"));

  bool reference() const { return row_major_flag != nullptr && from_c_flag != nullptr; }
  /// Defined elsewhere than here and in the BLAS behind us.
  bool programs_own(void* handler) const {
    if (handler == nullptr) return false;
    const link_map* const object = object_of(handler);
    const auto in_object_of = [&](const std::string& symbol) {
      return object == object_of(next_definition(symbol.c_str()));
    };
    return object != object_of(reinterpret_cast<void*>(&next_definition)) &&
           !in_object_of(face.search.scheme.fortran("dgemm")) && !in_object_of(face.search.scheme.cblas("dgemm"));
  }
};

/// "DGEMM " with blanks to at least six characters, as Fortran passes it.
std::array<char, 32> fortran_name(RoutineName name) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%c%-5.*s", name.letter, static_cast<int>(name.routine.size()),
                name.routine.data());
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::array<char, 32> cblas_name(RoutineName name) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "cblas_%c%.*s", name.letter, static_cast<int>(name.routine.size()),
                name.routine.data());
  return text;
}

void call_xerbla(void* handler, RoutineName name, int position) {
  const std::int64_t wide = position;
  const auto text = fortran_name(name);
  reinterpret_cast<Xerbla>(handler)(text.data(), &wide, std::strlen(text.data()));
}

/// Without any handler: one line, and on we go.
void default_message(const char* routine, int position) {
  char line[96];
  const int length = std::snprintf(line, sizeof(line), " ** On entry to %s parameter number %d had an illegal value\n",
                                   routine, position);
  // Nothing can be done if standard error is closed.
  static_cast<void>(!write(STDERR_FILENO, line, static_cast<std::size_t>(length)));
}

/// Sets the reference's flags for as long as its handlers run.
class ReferenceFlags {
 public:
  ReferenceFlags(const Handlers& handlers, bool row_major) : handlers_(handlers) { set(row_major ? 1 : 0, 1); }
  ~ReferenceFlags() { set(0, 0); }
  ReferenceFlags(const ReferenceFlags&) = delete;
  ReferenceFlags& operator=(const ReferenceFlags&) = delete;

 private:
  void set(int row_major, int from_c) {
    if (handlers_.row_major_flag != nullptr) *handlers_.row_major_flag = row_major;
    if (handlers_.from_c_flag != nullptr) *handlers_.from_c_flag = from_c;
  }
  const Handlers& handlers_;
};

}  // namespace

void* next_definition(const char* symbol) {
  // RTLD_NEXT is relative to the return address of dlsym. Were this a tail call, that would lie in libtessera.so,
  // behind which the program's BLAS is not to be found; the barrier gives the compiler something to do after the call.
  void* address = dlsym(RTLD_NEXT, symbol);
  __asm__ volatile("" : "+r"(address));
  return address;
}

// Handlers may throw: Octave's does.
void report_fortran(const Face& face, RoutineName name, int position) {
  start_unwinder();
  if (void* const xerbla = find_xerbla(face)) {
    call_xerbla(xerbla, name, position);
  } else {
    default_message(fortran_name(name).data(), position);
  }
}

void report_cblas(const Face& face, RoutineName name, bool row_major, int position) {
  start_unwinder();
  const Handlers handlers(face);
  const ReferenceFlags flags(handlers, row_major);
  const bool to_c = handlers.cblas_xerbla != nullptr && !handlers.reference() &&
                    (handlers.xerbla == nullptr ||
                     (handlers.programs_own(handlers.cblas_xerbla) && !handlers.programs_own(handlers.xerbla)));
  if (to_c) {
    reinterpret_cast<CblasXerbla>(handlers.cblas_xerbla)(position + 1, cblas_name(name).data(), "");
  } else if (handlers.xerbla != nullptr) {
    call_xerbla(handlers.xerbla, name, position);
  } else {
    default_message(cblas_name(name).data(), position + 1);
  }
}

void report_cblas_enum(const Face& face, RoutineName name, bool row_major, int position, int fortran_position,
                       const char* what, int value) {
  start_unwinder();
  const Handlers handlers(face);
  const ReferenceFlags flags(handlers, row_major);
  const bool to_c = handlers.cblas_xerbla != nullptr && (handlers.reference() || handlers.xerbla == nullptr ||
                                                         handlers.programs_own(handlers.cblas_xerbla));
  if (to_c) {
    char form[48];
    std::snprintf(form, sizeof(form), "Illegal %s setting, %%d\n", what);
    reinterpret_cast<CblasXerbla>(handlers.cblas_xerbla)(position, cblas_name(name).data(), form, value);
  } else if (handlers.xerbla != nullptr) {
    call_xerbla(handlers.xerbla, name, fortran_position);
  } else {
    default_message(cblas_name(name).data(), position);
  }
}

}  // namespace tessera::blas
