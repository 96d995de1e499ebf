// Calls of LAPACK's Fortran interface, as programs make them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calls/lapack_fortran.hpp"

namespace tessera::test {

inline constexpr Routine all_entries[] = {
    Routine::heev,  Routine::heevd, Routine::heevr, Routine::heevx, Routine::hegv,  Routine::hegvd, Routine::gesdd,
    Routine::gesvd, Routine::geev,  Routine::gels,  Routine::gelsd, Routine::ungqr, Routine::unmqr, Routine::unmlq,
    Routine::unmtr, Routine::unmbr, Routine::larfb, Routine::trtrs, Routine::trtri, Routine::lauum, Routine::getri,
    Routine::potri, Routine::sytrf, Routine::sytrs, Routine::sysv,  Routine::hetrf, Routine::hetrs, Routine::hesv};

/// A call of LAPACK's in which everything is good, for a test to spoil.
template <class Int>
class LapackCallToSpoil {
 public:
  LapackCallToSpoil(Routine entry, ScalarType type) : entry_(entry), type_(type) {
    const Int most = 1000000;
    for (const auto& [parameter, value] : std::map<Parameter, Int>{{itype, 1},
                                                                   {m, 20},
                                                                   {n, 10},
                                                                   {k, 5},
                                                                   {nrhs, 5},
                                                                   {lda, 20},
                                                                   {ldb, 20},
                                                                   {ldt, 5},
                                                                   {ldwork, 20},
                                                                   {ldu, 20},
                                                                   {ldvt, 20},
                                                                   {ldleft, 20},
                                                                   {il, 1},
                                                                   {iu, 3},
                                                                   {lwork, most},
                                                                   {lrwork, most},
                                                                   {liwork, most}})
      integers_[parameter] = value;
    if (entry == Routine::geev) {
      for (const Parameter size : {n, lda, ldu, ldleft}) integers_[size] *= 20;
    }
    for (const auto& [parameter, value] : std::map<Parameter, char>{{jobz, 'N'},
                                                                    {jobu, 'A'},
                                                                    {jobvt, 's'},
                                                                    {jobvl, 'N'},
                                                                    {jobvr, 'v'},
                                                                    {range, 'A'},
                                                                    {uplo, 'l'},
                                                                    {side, 'L'},
                                                                    {trans, 'N'},
                                                                    {diag, 'U'},
                                                                    {vect, 'q'},
                                                                    {direct, 'f'},
                                                                    {storev, 'C'}})
      letters_[parameter] = value;
  }

  LapackCallToSpoil& set(Parameter parameter, Int value) {
    integers_[parameter] = value;
    return *this;
  }
  LapackCallToSpoil& letter(Parameter parameter, char value) {
    letters_[parameter] = value;
    return *this;
  }
  bool has(Parameter parameter) const {
    const Parameters parameters = parameters_of(entry_, is_complex(type_));
    return std::find(parameters.begin(), parameters.end(), parameter) != parameters.end();
  }
  std::optional<FortranCall> read() {
    std::vector<void*> arguments;
    for (const Parameter parameter : parameters_of(entry_, is_complex(type_))) {
      if (parameter == none) break;
      arguments.push_back(address(parameter));
    }
    const FortranCall call = fortran_call_of<Int>(entry_, type_, arguments);
    if (call.bad_position != 0 || call.does_nothing) return std::nullopt;
    return call;
  }
  void* address(Parameter parameter) {
    if (integers_.contains(parameter)) return &integers_[parameter];
    if (letters_.contains(parameter)) return &letters_[parameter];
    if (parameter == vl) return real_bytes(type_) == 4 ? static_cast<void*>(&low_s_) : &low_;
    if (parameter == vu) return real_bytes(type_) == 4 ? static_cast<void*>(&high_s_) : &high_;
    if (parameter == none) return nullptr;
    return &memory_[static_cast<std::size_t>(parameter) * 64];
  }

  double low_ = -1, high_ = 2;
  float low_s_ = -1, high_s_ = 2;

 private:
  using enum Parameter;

  Routine entry_;
  ScalarType type_;
  std::map<Parameter, Int> integers_;
  std::map<Parameter, char> letters_;
  std::vector<double> memory_ = std::vector<double>(64 * 64);
};

template <class F>
void for_each_interface(F&& f) {
  for (const Routine entry : all_entries) {
    for (const ScalarType type : scalar_types) {
      if (!exists(entry, type)) continue;
      SCOPED_TRACE("entry " + std::to_string(static_cast<int>(entry)) + " of type " + letter(type));
      f(entry, type, std::int32_t{});
      f(entry, type, std::int64_t{});
    }
  }
}

}  // namespace tessera::test
