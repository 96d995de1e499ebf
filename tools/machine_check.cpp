#include "machine_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "core/error.hpp"
#include "core/loaded_objects.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "kernels/reference/dense_matrix.hpp"
#include "kernels/reference/reference.hpp"
#include "offload/context.hpp"

namespace tessera::tools {
namespace {

using kernels::Dense;
using kernels::identity;
using nlohmann::ordered_json;

/// Libraries have special kernels for small orders. 3, 31 and 200 leave partial blocks.
constexpr index_t orders[] = {3, 31, 64, 200};
constexpr std::chrono::milliseconds time_to_begin(4000);
/// In units of n times the machine epsilon: the threshold of LAPACK's own testers.
constexpr double most_units = 30;

/// The reason why a result is wrong; empty if it is right.
using Finding = std::string;

/// A result that one part of the machine computed.
struct Computed {
  bool on_device = false;
  Finding finding;
};

/// A problem whose result is known.
struct Problem {
  std::string name;      ///< "dgemm NT"
  std::string function;  ///< "dgemm"
  index_t order = 0;
  std::function<Computed(offload::Context&)> compute;
};

template <Scalar T>
using RealOf = decltype(std::abs(T{}));

template <Scalar T>
Dense<T> random_matrix(index_t rows, index_t cols, std::mt19937_64& random) {
  std::uniform_real_distribution<double> number(-1, 1);
  Dense<T> matrix{rows, cols};
  for (T& element : matrix.elements) {
    const double real = number(random);
    element = scalar_cast<T>(AnyScalar(real, number(random)));
  }
  return matrix;
}

/// @param error of numbers whose magnitude is about one
template <Scalar T>
Finding judge(double error, index_t n) {
  const auto rounding = static_cast<double>(std::numeric_limits<RealOf<T>>::epsilon());
  const double allowed = most_units * static_cast<double>(std::max<index_t>(n, 4)) * rounding;
  if (error <= allowed) return {};
  return fmt::format("off by {:.2g}, allowed are {:.2g}", error, allowed);
}
template <Scalar T>
Finding compare(const Dense<T>& result, const Dense<T>& expected) {
  return judge<T>(distance(result, expected), result.cols);
}
Finding judge_info(index_t info) { return info == 0 ? Finding() : fmt::format("info {}, not 0", info); }
Finding first_of(std::initializer_list<Finding> findings) {
  const auto* const first = std::find_if(findings.begin(), findings.end(), [](const auto& f) { return !f.empty(); });
  return first != findings.end() ? *first : Finding();
}

constexpr Level3 products[] = {{.routine = Routine::gemm},
                               {.routine = Routine::gemm, .op_b = Op::conj_trans},
                               {.routine = Routine::gemm, .op_a = Op::conj_trans},
                               {.routine = Routine::symm},
                               {.routine = Routine::hemm},
                               {.routine = Routine::syrk},
                               {.routine = Routine::herk},
                               {.routine = Routine::trmm},
                               {.routine = Routine::trsm},
                               {.routine = Routine::trsm, .side = Side::right, .op_a = Op::conj_trans}};

template <Scalar T>
Problem product(Level3 call, index_t n) {
  std::mt19937_64 random(static_cast<unsigned>(n));
  call.type = scalar_type_of<T>();
  call.m = call.n = call.k = n;
  call.alpha = -0.5;
  call.beta = call.is_triangular() ? 0 : 2;
  call.lda = call.ldb = call.ldc = n;
  Dense<T> A = random_matrix<T>(n, n, random);
  if (call.is_triangular()) {  // well conditioned
    for (T& element : A.elements) element /= RealOf<T>(n);
    for (index_t i = 0; i < n; ++i) A(i, i) += T(1);
  }
  const Dense<T> B = random_matrix<T>(n, n, random), C = random_matrix<T>(n, n, random);
  const auto with = [=](Dense<T>& result) {
    Level3 made = call;
    made.A = A.elements.data();
    made.C = result.elements.data();
    made.B = call.routine == Routine::trmm ? made.C : B.elements.data();
    return made;
  };
  Dense<T> expected = C;
  kernels::reference_level3(with(expected));
  Problem problem{.name = name_of(call), .function = name_of(call), .order = n, .compute = {}};
  if (call.routine == Routine::gemm || call.op_a != Op::no_trans)
    problem.name += fmt::format(" {}{}", "NTC"[static_cast<int>(call.op_a)], "NTC"[static_cast<int>(call.op_b)]);
  problem.compute = [=](offload::Context& context) {
    Dense<T> result = C;
    const bool on_device = context.run(with(result)).has_value();
    return Computed{on_device, compare(result, expected)};
  };
  return problem;
}

/// A well-conditioned matrix. Its large elements are on the diagonal, or below it, so that rows are interchanged.
template <Scalar T>
Dense<T> dominant_matrix(index_t n, bool on_diagonal, std::mt19937_64& random) {
  Dense<T> A = random_matrix<T>(n, n, random);
  const double large = 2 * std::sqrt(static_cast<double>(n)) + 1;
  for (index_t i = 0; i < n; ++i) A(on_diagonal ? i : (i + 1) % n, i) = scalar_cast<T>(large);
  for (T& element : A.elements) element /= static_cast<RealOf<T>>(large);
  return A;
}

/// The factors that a factorization leaves for a solve.
template <Scalar T>
struct Factored {
  Dense<T> A, B;
  std::vector<int> ipiv;
  Dense<T> tau;
};

template <Scalar T>
Problem factorization(Routine routine, index_t n) {
  std::mt19937_64 random(static_cast<unsigned>(n));
  constexpr index_t columns = 3;
  Factored<T> before{dominant_matrix<T>(n, is_hermitian(routine), random), random_matrix<T>(n, columns, random),
                     std::vector<int>(static_cast<std::size_t>(n)), Dense<T>{n, 1}};
  const auto call_on = [=](Factored<T>& matrices) {
    return LapackCall{.routine = routine,
                      .type = scalar_type_of<T>(),
                      .m = n,
                      .n = n,
                      .k = columns,
                      .A = matrices.A.elements.data(),
                      .lda = n,
                      .B = matrices.B.elements.data(),
                      .ldb = n,
                      .tau = matrices.tau.elements.data(),
                      .ipiv = matrices.ipiv.data(),
                      .ipiv_bits = 32};
  };
  index_t found = 0;
  if (!factors(routine)) {
    LapackCall factorize = call_on(before);
    factorize.routine = Routine::getrf;
    kernels::compute_on_cpu(nullptr, factorize, found);
  }
  Factored<T> expected = before;
  const LapackCall by_reference = call_on(expected);
  kernels::compute_on_cpu(nullptr, by_reference, found);
  const std::string name = name_of(by_reference);
  return {.name = name, .function = name, .order = n, .compute = [=](offload::Context& context) {
            Factored<T> result = before;
            offload::LapackRun call{.problem = call_on(result)};
            const bool on_device = context.run(call).has_value();
            return Computed{on_device, first_of({judge_info(call.info),
                                                 result.ipiv == expected.ipiv ? "" : "other pivots than the reference",
                                                 compare(result.A, expected.A), compare(result.tau, expected.tau),
                                                 compare(result.B, expected.B)})};
          }};
}

template <Scalar T>
Dense<T> diagonal(const std::vector<RealOf<T>>& values) {
  const auto n = static_cast<index_t>(values.size());
  Dense<T> D{n, n};
  for (index_t i = 0; i < n; ++i) D(i, i) = T(values[static_cast<std::size_t>(i)]);
  return D;
}

template <Scalar T>
Finding are_orthonormal(const Dense<T>& V) {
  return compare(adjoint(V) * V, identity<T>(V.cols));
}

/// Eigenvalues and eigenvectors of a Hermitian matrix.
template <Scalar T>
Computed solve_eigenproblem(offload::Context& context, const Dense<T>& A) {
  const index_t n = A.rows;
  Dense<T> V = A;
  std::vector<RealOf<T>> values(static_cast<std::size_t>(n));
  offload::LapackRun run{.problem = {.routine = Routine::heevd, .type = scalar_type_of<T>(), .vectors = true, .n = n}};
  run.problem.A = V.elements.data();
  run.problem.lda = n;
  run.problem.values = values.data();
  const bool on_device = context.run(run).has_value();
  return {on_device,
          first_of({judge_info(run.info), std::is_sorted(values.begin(), values.end()) ? "" : "values in disorder",
                    compare(A * V, V * diagonal<T>(values)), are_orthonormal(V)})};
}

/// Singular values and vectors.
template <Scalar T>
Computed decompose(offload::Context& context, const Dense<T>& A) {
  const index_t n = A.cols;
  Dense<T> ignored = A, U{A.rows, n}, VT{n, n};
  std::vector<RealOf<T>> values(static_cast<std::size_t>(n));
  offload::LapackRun run{.problem = {.routine = Routine::gesvd,
                                     .type = scalar_type_of<T>(),
                                     .u = VectorJob::thin,
                                     .vt = VectorJob::thin,
                                     .m = A.rows,
                                     .n = n}};
  run.problem.A = ignored.elements.data();
  run.problem.U = U.elements.data();
  run.problem.VT = VT.elements.data();
  run.problem.lda = run.problem.ldu = A.rows;
  run.problem.ldvt = n;
  run.problem.values = values.data();
  const bool on_device = context.run(run).has_value();
  return {on_device,
          first_of({judge_info(run.info), std::is_sorted(values.rbegin(), values.rend()) ? "" : "values in disorder",
                    compare(U * (diagonal<T>(values) * VT), A), are_orthonormal(U), are_orthonormal(adjoint(VT))})};
}

template <Scalar T>
Problem dense_problem(Routine routine, index_t n) {
  std::mt19937_64 random(static_cast<unsigned>(n));
  const std::string name = letter(scalar_type_of<T>()) + std::string(name_of(routine, scalar_type_of<T>()));
  Problem problem{.name = name, .function = name, .order = n, .compute = {}};
  if (is_svd(routine)) {
    problem.compute = [A = random_matrix<T>(n + 5, n, random)](offload::Context& context) {
      return decompose(context, A);
    };
  } else {
    Dense<T> A = random_matrix<T>(n, n, random);
    for (index_t j = 0; j < n; ++j) {
      A(j, j) = T(std::real(A(j, j)));
      for (index_t i = 0; i < j; ++i) A(i, j) = scalar_cast<T>(std::conj(AnyScalar(A(j, i))));
    }
    problem.compute = [A](offload::Context& context) { return solve_eigenproblem(context, A); };
  }
  return problem;
}

/// The makers of all problems, the small ones first.
std::vector<std::function<Problem()>> all_problems() {
  std::vector<std::function<Problem()>> all;
  for (const index_t n : orders) {
    for (const ScalarType type : scalar_types) {
      dispatch(type, [&]<Scalar T>(T) {
        for (const Level3& form : products) {
          if (exists(form.routine, type)) all.emplace_back([=] { return product<T>(form, n); });
        }
        for (const auto routine : {Routine::potrf, Routine::getrf, Routine::getrs, Routine::geqrf})
          all.emplace_back([=] { return factorization<T>(routine, n); });
        for (const auto routine : {Routine::heevd, Routine::gesvd})
          all.emplace_back([=] { return dense_problem<T>(routine, n); });
      });
    }
  }
  return all;
}

/// One part while it is checked.
class Checked {
 public:
  explicit Checked(const CheckedPart& part)
      : is_device_(part.config.devices != DeviceChoice::none), context_(part.config) {
    result_["name"] = part.name;
    result_["problems"] = 0;
    result_["largest"] = 0;
    result_["lacking"] = result_["left_to_cpu"] = result_["wrong"] = ordered_json::array();
    try {
      if (is_device_) {
        static_cast<void>(context_.runtime());
      } else {
        result_["library"] = context_.cpu_blas()->path();
      }
    } catch (const Error& error) {
      result_["error"] = error.what();
    }
  }

  void compute(const Problem& problem) {
    if (result_.contains("error")) return;
    Finding finding;
    try {
      const Computed computed = problem.compute(context_);
      finding = computed.finding;
      if (computed.on_device != is_device_) add_to("left_to_cpu", problem);
    } catch (const NotAvailable&) {
      return add_to("lacking", problem);
    } catch (const Error& error) {
      finding = error.what();
    }
    result_["largest"] = problem.order;
    if (finding.empty()) {
      result_["problems"] = result_["problems"].get<int>() + 1;
    } else {
      result_["wrong"].push_back(
          {{"routine", problem.name}, {"library", library_of(problem)}, {"n", problem.order}, {"finding", finding}});
    }
  }

  const ordered_json& result() const { return result_; }

 private:
  /// Each routine once.
  void add_to(const char* list, const Problem& problem) {
    ordered_json& names = result_[list];
    if (std::find(names.begin(), names.end(), problem.function) == names.end()) names.push_back(problem.function);
  }
  /// The file that defines the routine: LAPACK's may differ from that of the BLAS.
  std::string library_of(const Problem& problem) {
    if (is_device_) return result_["name"];
    const auto blas = context_.cpu_blas();
    const char* const file = file_of_object(blas->fortran(problem.function.c_str()));
    return file != nullptr ? file : blas->path();
  }

  bool is_device_;
  offload::Context context_;
  ordered_json result_;
};

/// Settings with which one part computes everything, and no file is written.
Config alone(Config config) {
  config.offload = {.general = {.when = Offload::always}, .named = {}};
  config.cpu_worker = CpuWorkerUse::never;
  config.share = Share::off;
  config.local_rank.reset();
  config.calibration = "off";
  config.warm_up = WarmUp::off;
  config.verbose = false;
  config.stats_file.clear();
  config.trace_file.clear();
  config.summary.reset();
  return config;
}

}  // namespace

CheckedPart cpu_part(const Config& config) {
  CheckedPart part{"CPU", alone(config)};
  part.config.devices = DeviceChoice::none;
  return part;
}

CheckedPart device_part(const Config& config, const std::string& id, int ordinal) {
  CheckedPart part{id, alone(config)};
  if (id.starts_with("host")) {
    part.config.devices = DeviceChoice::host;
    part.config.host_devices = 1;
    part.config.host_device = {config.host_device_settings(ordinal)};
  } else {
    part.config.devices = DeviceChoice::plugin;
    part.config.ordinals = {ordinal};
  }
  return part;
}

ordered_json check_machine(const std::vector<CheckedPart>& parts) {
  std::vector<std::unique_ptr<Checked>> checked;
  checked.reserve(parts.size());
  for (const CheckedPart& part : parts) checked.push_back(std::make_unique<Checked>(part));
  const auto last_begin = std::chrono::steady_clock::now() + time_to_begin;
  for (const auto& make : all_problems()) {
    if (std::chrono::steady_clock::now() > last_begin) break;
    const Problem problem = make();
    for (const auto& part : checked) part->compute(problem);
  }
  ordered_json result = ordered_json::array();
  for (const auto& part : checked) result.push_back(part->result());
  return result;
}

std::string check_text(const ordered_json& checked) {
  std::string text;
  const auto to = std::back_inserter(text);
  for (const ordered_json& part : checked) {
    fmt::format_to(to, "{:<8}", part["name"].get<std::string>());
    if (part.contains("error")) {
      fmt::format_to(to, "{}\n", part["error"].get<std::string>());
      continue;
    }
    if (part.contains("library")) fmt::format_to(to, "{}: ", part["library"].get<std::string>());
    fmt::format_to(to, "{} problems up to order {} are right", part["problems"].get<int>(),
                   part["largest"].get<index_t>());
    if (!part["wrong"].empty()) fmt::format_to(to, ", {} are WRONG", part["wrong"].size());
    for (const auto& [list, words] : {std::pair{"lacking", "without"}, std::pair{"left_to_cpu", "the CPU computes"}}) {
      if (!part[list].empty())
        fmt::format_to(to, "; {} {}", words, fmt::join(part[list].get<std::vector<std::string>>(), ", "));
    }
    text += '\n';
    for (const ordered_json& wrong : part["wrong"])
      fmt::format_to(to, "  WRONG {}, n = {}, by {}: {}\n", wrong["routine"].get<std::string>(),
                     wrong["n"].get<index_t>(), wrong["library"].get<std::string>(),
                     wrong["finding"].get<std::string>());
  }
  return text;
}

bool is_right(const ordered_json& checked) {
  return std::all_of(checked.begin(), checked.end(),
                     [](const ordered_json& part) { return part["wrong"].empty() && !part.contains("error"); });
}

}  // namespace tessera::tools
