// How a library of ours hands symbols on: each is a jump to the same function of the library behind it, found at its first call. A
// jump, not a call: registers and stack reach that function as the program left them, so that its parameters, hidden string lengths
// and return value, whatever convention a Fortran compiler has for complex ones, need not be known here.
//
// Each symbol has a slot, which holds the address to jump to, and a binder, to which the slot points at
// first. The binder pushes the symbol's number and goes to tessera_bind. This saves the registers that may
// hold arguments, asks tessera_address_of_forwarded for the address, and jumps there. Two threads that bind
// the same symbol store the same address, each in one instruction. System V ABI of x86-64.
//
// An includer defines tessera_address_of_forwarded, and has asm(TESSERA_BINDER TESSERA_FORWARD("name") ...) once.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#error "forwarded symbols are written for x86-64"
#endif

/// @param number of the symbol, in the order in which they are forwarded
/// @return its address behind us. Does not return if there is none.
extern "C" [[gnu::used]] void* tessera_address_of_forwarded(std::size_t number) noexcept;

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
#define TESSERA_BINDER                        \
  ".text\n"                                   \
  ".set tessera_number, 0\n"                  \
  "tessera_bind:\n"                           \
  "  pushq %rax\n"                            \
  "  pushq %rdi\n"                            \
  "  pushq %rsi\n"                            \
  "  pushq %rdx\n"                            \
  "  pushq %rcx\n"                            \
  "  pushq %r8\n"                             \
  "  pushq %r9\n"                             \
  "  pushq %r10\n"                            \
  "  pushq %r11\n"                            \
  "  subq $136, %rsp\n"                       \
  "  movups %xmm0, (%rsp)\n"                  \
  "  movups %xmm1, 16(%rsp)\n"                \
  "  movups %xmm2, 32(%rsp)\n"                \
  "  movups %xmm3, 48(%rsp)\n"                \
  "  movups %xmm4, 64(%rsp)\n"                \
  "  movups %xmm5, 80(%rsp)\n"                \
  "  movups %xmm6, 96(%rsp)\n"                \
  "  movups %xmm7, 112(%rsp)\n"               \
  "  movq 208(%rsp), %rdi\n"                  \
  "  call tessera_address_of_forwarded@PLT\n" \
  "  movups (%rsp), %xmm0\n"                  \
  "  movups 16(%rsp), %xmm1\n"                \
  "  movups 32(%rsp), %xmm2\n"                \
  "  movups 48(%rsp), %xmm3\n"                \
  "  movups 64(%rsp), %xmm4\n"                \
  "  movups 80(%rsp), %xmm5\n"                \
  "  movups 96(%rsp), %xmm6\n"                \
  "  movups 112(%rsp), %xmm7\n"               \
  "  addq $136, %rsp\n"                       \
  "  popq %r11\n"                             \
  "  movq %rax, (%r11)\n"                     \
  "  movq %rax, %r11\n"                       \
  "  popq %r10\n"                             \
  "  popq %r9\n"                              \
  "  popq %r8\n"                              \
  "  popq %rcx\n"                             \
  "  popq %rdx\n"                             \
  "  popq %rsi\n"                             \
  "  popq %rdi\n"                             \
  "  popq %rax\n"                             \
  "  addq $8, %rsp\n"                         \
  "  jmp *%r11\n"
