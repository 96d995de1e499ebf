#include "calls/work.hpp"

namespace tessera {
namespace {

/// Elements that a call reads of its inputs, and those of its result.
struct Elements {
  double read = 0;
  double result = 0;
};

Elements elements_of(const Level3& call) {
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  const auto triangle = [](double order) { return order * (order + 1) / 2; };
  const double of_a = triangle(call.side == Side::left ? m : n);
  switch (call.routine) {
    case Routine::gemm:
      return {m * k + k * n, m * n};
    case Routine::symm:
    case Routine::hemm:
      return {of_a + m * n, m * n};
    case Routine::syrk:
    case Routine::herk:
      return {n * k, triangle(n)};
    case Routine::syr2k:
    case Routine::her2k:
    case Routine::gemmt:
      return {2 * n * k, triangle(n)};
    default:
      return {of_a, m * n};
  }
}

}  // namespace

Work work_of(const Level3& call) {
  const Elements elements = elements_of(call);
  const bool reads_result = call.is_triangular() || call.beta != AnyScalar(0);
  const auto bytes = static_cast<double>(element_bytes(call.type));
  return {.flops = flops_of(call),
          .up = (elements.read + (reads_result ? elements.result : 0)) * bytes,
          .down = elements.result * bytes,
          .routine = call.routine,
          .type = call.type,
          .volume = volume_of(call),
          .product = call,
          .page_locked = (elements.read + elements.result) * bytes};
}

}  // namespace tessera
