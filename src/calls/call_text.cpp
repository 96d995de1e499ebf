#include "calls/call_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tessera {

std::string text_of(const Level3& call) {
  std::string text = name_of(call) + ' ';
  const auto op = [](Op o) { return "NTC"[static_cast<std::size_t>(o)]; };
  if (call.routine == Routine::gemm) {
    text += {op(call.op_a), op(call.op_b)};
  } else {
    if (!call.updates_triangle()) text += call.side == Side::left ? 'L' : 'R';
    text += call.uplo == Uplo::lower ? 'L' : 'U';
    if (call.updates_triangle() || call.is_triangular()) text += op(call.op_a);
    if (call.has_op_b()) text += op(call.op_b);
    if (call.is_triangular()) text += call.diag == Diag::unit ? 'U' : 'N';
  }
  if (!call.updates_triangle()) text += fmt::format(" m={}", call.m);
  text += fmt::format(" n={}", call.n);
  if (call.has_k()) text += fmt::format(" k={}", call.k);
  return text;
}

std::string text_of(const LapackCall& p) {
  std::string letters;
  const auto add = [&](Parameter parameter, const char* values, auto value) {
    if (has(p.routine, parameter)) letters += values[static_cast<std::size_t>(value)];
  };
  if (is_svd(p.routine)) {
    for (const VectorJob job : {p.u, p.vt}) letters += "NSAO"[static_cast<std::size_t>(job)];
  } else {
    add(Parameter::jobz, "NV", p.vectors);
    add(Parameter::jobvr, "NV", p.vectors);
  }
  add(Parameter::side, "LR", p.side);
  add(Parameter::uplo, "UL", p.uplo);
  add(Parameter::trans, is_complex(p.type) ? "NTC" : "NTT", p.op);
  add(Parameter::diag, "NU", p.diag);
  std::string text = name_of(p) + (letters.empty() ? "" : ' ' + letters);
  if (has_m(p.routine)) text += fmt::format(" m={}", p.m);
  text += fmt::format(" n={}", p.n);
  if (has(p.routine, Parameter::nrhs)) text += fmt::format(" nrhs={}", p.k);
  if (has(p.routine, Parameter::k)) text += fmt::format(" k={}", p.k);
  return text;
}

std::string text_of_batch(const Work& batch) {
  const bool solves_systems = is_lapack(batch.routine);
  const auto plural = [](index_t count) { return count == 1 ? "" : "s"; };
  const std::string mean = solves_systems
                               ? fmt::format("n {:.0f}", batch.mean_order())
                               : fmt::format("m*n*k {:.0f}^3", std::cbrt(static_cast<double>(batch.mean_volume())));
  return fmt::format("{}{}_batch of {} {}{}, {} form{}, mean of {}", letter(batch.type), name_of(batch.routine),
                     batch.problems, solves_systems ? "problem" : "product", plural(batch.problems), batch.forms,
                     plural(batch.forms), mean);
}

}  // namespace tessera
