// What the own C interfaces say of a bad argument, in the words of their headers.
#pragma once

#include <string>

#include "core/arguments.hpp"

namespace tessera {

/// What stands wrong where an argument is bad or, being an address, null.
inline std::string complaint(Routine routine, bool is_complex, Parameter parameter) {
  const auto short_run = [](const char* name, const char* matrix) {
    return std::string(name) + " is smaller than the stored extent of " + matrix + " (or 1)";
  };
  switch (parameter) {
    case Parameter::side:
      return "side is neither TESSERA_LEFT nor TESSERA_RIGHT";
    case Parameter::uplo:
      return "uplo is neither TESSERA_UPPER nor TESSERA_LOWER";
    case Parameter::transa:
      if (!allows(routine, is_complex, Op::trans)) return "trans is neither TESSERA_NO_TRANS nor TESSERA_CONJ_TRANS";
      if (!allows(routine, is_complex, Op::conj_trans)) return "trans is neither TESSERA_NO_TRANS nor TESSERA_TRANS";
      return std::string(is_rank_update(routine) ? "trans" : "transa") +
             " is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS";
    case Parameter::transb:
      return "transb is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS";
    case Parameter::diag:
      return "diag is neither TESSERA_NON_UNIT nor TESSERA_UNIT";
    case Parameter::m:
      return "m is negative";
    case Parameter::n:
      return "n is negative";
    case Parameter::k:
      return "k is negative";
    case Parameter::alpha:
      return "alpha is null";
    case Parameter::A:
      return "A is null";
    case Parameter::lda:
      return short_run("lda", "A");
    case Parameter::B:
      return "B is null";
    case Parameter::ldb:
      return short_run("ldb", "B");
    case Parameter::beta:
      return "beta is null";
    case Parameter::C:
      return "C is null";
    case Parameter::ldc:
      return short_run("ldc", "C");
    case Parameter::none:
      break;
  }
  return "is not valid";
}

}  // namespace tessera
