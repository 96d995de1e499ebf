// libtessera_lapack.so: ilaenv_, which LAPACK asks for its block sizes, in front of LAPACK's own; everything but the
// block sizes of block_sizes.hpp is that one's answer. Constructors do nothing; the next ilaenv_ is looked up at the
// first call. LAPACK calls with integers of 32 or 64 bits: the lower halves of what it passes are the same, and the
// answer is given in 64.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "blas_api/lapack/block_sizes.hpp"
#include "blas_api/lapack/next_symbol.hpp"
#include "blas_api/lapack/system_lapack.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"

namespace tessera::lapack {
namespace {

using Ilaenv = std::int64_t (*)(const std::int64_t* ispec, const char* name, const char* opts, const std::int64_t* n1,
                                const std::int64_t* n2, const std::int64_t* n3, const std::int64_t* n4, std::size_t,
                                std::size_t);

/// TESSERA_LAPACK_BLOCK; nothing if it is not set or not a number.
std::optional<std::int32_t> read_setting() {
  const char* text = environment_variable("TESSERA_LAPACK_BLOCK");
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text, &end, 10);
  constexpr std::int64_t most = 1 << 20;
  if (*end == '\0' && value >= 0 && value <= most) return static_cast<std::int32_t>(value);
  log_line(std::string("TESSERA_LAPACK_BLOCK=\"") + text +
           "\" is not valid: expected a whole number from 0 to 1048576; the default is used");
  return std::nullopt;
}

void* find_ilaenv([[maybe_unused]] void* caller) {
#if TESSERA_STANDS_IN
  return system_lapack_function("ilaenv_");
#else
  return next_symbol("ilaenv_", caller);
#endif
}

/// The ilaenv_ behind this one. @return nullptr if there is none
Ilaenv next_ilaenv(void* caller) {
  static constinit NextSymbol next;
  return reinterpret_cast<Ilaenv>(look_up(next, [=] { return find_ilaenv(caller); }));
}

/// The name as far as it is one. A Fortran compiler passes its length; who calls from C may pass none, and what is
/// found there then may be any number. So no more is read than a name may be long, and nothing behind a character that
/// no name has.
std::string_view bounded(const char* name, std::size_t length) {
  constexpr std::size_t longest_name = 16;  // as LAPACK's own ILAENV takes it
  if (name == nullptr) return {};
  const auto belongs_to_name = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = 0;
  while (end < std::min(length, longest_name) && belongs_to_name(name[end])) ++end;
  return {name, end};
}

std::int32_t low_half(const void* integer) { return *static_cast<const std::int32_t*>(integer); }

}  // namespace
}  // namespace tessera::lapack

extern "C" __attribute__((visibility("default"))) std::int64_t ilaenv_(const void* ispec, const char* name,
                                                                       const char* opts, const void* n1, const void* n2,
                                                                       const void* n3, const void* n4,
                                                                       std::size_t name_length,
                                                                       std::size_t opts_length) {
  using namespace tessera::lapack;
  const tessera::ErrnoKept stays;
  const std::string_view routine = bounded(name, name_length);
  const std::int64_t wide[] = {low_half(ispec), low_half(n1), low_half(n2), low_half(n3), low_half(n4)};
  std::int64_t answer = 1;
  if (const Ilaenv next = next_ilaenv(__builtin_return_address(0))) {
    // The upper half means nothing if the next one has 32-bit integers.
    answer = static_cast<std::int32_t>(
        next(&wide[0], name, opts, &wide[1], &wide[2], &wide[3], &wide[4], routine.size(), opts_length));
  }
  constexpr std::int64_t asks_for_block = 1;
  if (wide[0] != asks_for_block) return answer;

  static const std::optional<std::int32_t> setting = read_setting();
  std::string upper(routine);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  const std::int32_t order = order_of({low_half(n1), low_half(n2), low_half(n3), low_half(n4)});
  return block_size(upper, order, static_cast<std::int32_t>(answer), setting);
}
