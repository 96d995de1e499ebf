// The symbols of BLAS that we do not compute: each is a jump to the same function of the CPU BLAS behind the plain
// face, found at its first call. A jump, not a call: registers and stack reach that function as the program left them,
// so that its parameters, hidden string lengths and return value, whatever convention a Fortran compiler has for
// complex ones, need not be known here.
//
// Per symbol there is a slot (where to jump) and a binder (where the slot points at first: it pushes the symbol's
// number and goes to tessera_bind, which saves the registers that may hold arguments, asks tessera_address_of_forwarded
// for the address, and jumps there). Two threads that bind the same symbol store the same address, each in one
// instruction. System V ABI of x86-64.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "blas_api/bridge.hpp"
#include "blas_api/drop_in/faces.hpp"
#include "core/environment.hpp"

#if !defined(__x86_64__)
#error "forwarded symbols are written for x86-64"
#endif

namespace {

struct Forwarded {
  const char* name;  ///< without prefix and suffix
  bool is_cblas;
};

#define TESSERA_FORWARD_FORTRAN(name) {#name, false},
#define TESSERA_FORWARD_CBLAS(name) {#name, true},
constexpr Forwarded forwarded[] = {
#include "blas_api/drop_in/forwarded.def"
#if TESSERA_ERROR_HANDLERS
#include "blas_api/drop_in/error_handlers.def"
#endif
};
#undef TESSERA_FORWARD_FORTRAN
#undef TESSERA_FORWARD_CBLAS

}  // namespace

/// Does not return if the CPU BLAS has no such function: the program would have failed to start with that BLAS.
extern "C" [[gnu::used]] void* tessera_address_of_forwarded(std::size_t number) noexcept {
  const tessera::ErrnoKept stays;
  const Forwarded& symbol = forwarded[number];
  const tessera::kernels::CpuBlas* const blas = tessera_private_cpu_blas(tessera::api::plain_face);
  void* const address =
      blas == nullptr ? nullptr : (symbol.is_cblas ? blas->cblas(symbol.name) : blas->fortran(symbol.name));
  if (address == nullptr) {
    char line[512];
    const int length = std::snprintf(line, sizeof(line), "tessera: %s has no %s%s; aborting\n",
                                     blas == nullptr ? "the missing CPU BLAS" : blas->path().c_str(),
                                     symbol.is_cblas ? "cblas_" : "", symbol.name);
    static_cast<void>(!write(STDERR_FILENO, line, static_cast<std::size_t>(length)));
    std::abort();
  }
  return address;
}

// On entry to tessera_bind: the symbol's number, then the program's return address, on top of a stack that is a
// multiple of 16 there. rax counts vector arguments of variadic functions (cblas_xerbla); r10 is the static chain. r11
// is anybody's.
#define TESSERA_FORWARD(symbol)                           \
  ".globl " symbol                                        \
  "\n"                                                    \
  ".type " symbol ", @function\n" symbol                  \
  ":\n"                                                   \
  "  endbr64\n"                                           \
  "  jmp *tessera_slot_" symbol                           \
  "(%rip)\n"                                              \
  ".size " symbol ", . - " symbol                         \
  "\n"                                                    \
  "tessera_binder_" symbol                                \
  ":\n"                                                   \
  "  endbr64\n"                                           \
  "  leaq tessera_slot_" symbol                           \
  "(%rip), %r11\n"                                        \
  "  pushq $tessera_number\n"                             \
  "  jmp tessera_bind\n"                                  \
  ".set tessera_number, tessera_number + 1\n"             \
  ".pushsection .data.tessera_slots, \"aw\"\n"            \
  "  .balign 8\n"                                         \
  "tessera_slot_" symbol ": .quad tessera_binder_" symbol \
  "\n"                                                    \
  ".popsection\n"
#define TESSERA_FORWARD_FORTRAN(name) TESSERA_FORWARD(#name "_")
#define TESSERA_FORWARD_CBLAS(name) TESSERA_FORWARD("cblas_" #name)
// NOLINTNEXTLINE(hicpp-no-assembler)
asm(".text\n"
    ".set tessera_number, 0\n"
    "tessera_bind:\n"
    "  pushq %rax\n"
    "  pushq %rdi\n"
    "  pushq %rsi\n"
    "  pushq %rdx\n"
    "  pushq %rcx\n"
    "  pushq %r8\n"
    "  pushq %r9\n"
    "  pushq %r10\n"
    "  pushq %r11\n"
    "  subq $136, %rsp\n"
    "  movups %xmm0, (%rsp)\n"
    "  movups %xmm1, 16(%rsp)\n"
    "  movups %xmm2, 32(%rsp)\n"
    "  movups %xmm3, 48(%rsp)\n"
    "  movups %xmm4, 64(%rsp)\n"
    "  movups %xmm5, 80(%rsp)\n"
    "  movups %xmm6, 96(%rsp)\n"
    "  movups %xmm7, 112(%rsp)\n"
    "  movq 208(%rsp), %rdi\n"
    "  call tessera_address_of_forwarded@PLT\n"
    "  movups (%rsp), %xmm0\n"
    "  movups 16(%rsp), %xmm1\n"
    "  movups 32(%rsp), %xmm2\n"
    "  movups 48(%rsp), %xmm3\n"
    "  movups 64(%rsp), %xmm4\n"
    "  movups 80(%rsp), %xmm5\n"
    "  movups 96(%rsp), %xmm6\n"
    "  movups 112(%rsp), %xmm7\n"
    "  addq $136, %rsp\n"
    "  popq %r11\n"
    "  movq %rax, (%r11)\n"
    "  movq %rax, %r11\n"
    "  popq %r10\n"
    "  popq %r9\n"
    "  popq %r8\n"
    "  popq %rcx\n"
    "  popq %rdx\n"
    "  popq %rsi\n"
    "  popq %rdi\n"
    "  popq %rax\n"
    "  addq $8, %rsp\n"
    "  jmp *%r11\n"
#include "blas_api/drop_in/forwarded.def"
#if TESSERA_ERROR_HANDLERS
#include "blas_api/drop_in/error_handlers.def"
#endif
);

#if TESSERA_ERROR_HANDLERS
/// What the reference's libblas.so.3 exports besides functions: the flags that its CBLAS sets for its error handlers.
extern "C" {
extern __attribute__((visibility("default"))) int RowMajorStrg;
extern __attribute__((visibility("default"))) int CBLAS_CallFromC;
int RowMajorStrg = 0;
int CBLAS_CallFromC = 0;
}
#endif
