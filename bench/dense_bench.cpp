// Problems of LAPACK on square matrices in host memory, through the runtime: factorizations by all devices, others by the
// one that solves them whole. Seconds of each run, what of them were kernels, and whether the results are some; with --cpu
// the CPU's LAPACK, too. Devices and memory are set by TESSERA_* as ever. One JSON object a line on standard output.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/frame/host_matrices.hpp"
#include "bench/frame/timing.hpp"
#include "kernels/host/dense_lapack.hpp"
#include "routines/by_factors.hpp"
#include "routines/dense_solvers.hpp"
#include "runtime/runtime.hpp"

namespace tessera::bench {
namespace {

using nlohmann::json;

struct Options : HostMatrixOptions {
  Options() : HostMatrixOptions{.n = {1000, 2000, 4000, 8000}, .runs = 3} {}

  std::string routine = "heevd";
  std::string uplo = "L";
  index_t tile = 0;
  bool values_only = false;
  bool pageable = false;
  std::string svd;
  bool cpu = false;

  void add_to(CLI::App& app) {
    HostMatrixOptions::add_to(app);
    add_name(app, "--routine", routine,
             {"potrf", "getrf", "geqrf", "gelqf", "heevd", "gesdd", "ungqr", "geev", "trtri", "potri"}, "");
    add_name(app, "--uplo", uplo, {"L", "U"}, "");
    app.add_option("--tile", tile, "columns of a tile, 0: chosen");
    app.add_flag("--values-only", values_only, "no vectors");
    app.add_flag("--pageable", pageable, "memory as programs have it");
    add_name(app, "--svd", svd, {"qr", "polar"}, "forced");
    app.add_flag("--cpu", cpu, "the CPU's LAPACK, too");
  }
  std::optional<kernels::SvdAlgorithm> algorithm() const {
    if (svd.empty()) return std::nullopt;
    return svd == "polar" ? kernels::SvdAlgorithm::polar : kernels::SvdAlgorithm::qr_iteration;
  }
};

Routine routine_named(const std::string& name) {
  return std::find_if(routine_rows.begin(), routine_rows.end(),
                      [&](const RoutineRow& row) { return is_called(row.routine, ScalarType::z, name); })
      ->routine;
}

template <Scalar T>
class Problem {
 public:
  Problem(device::Device& device, index_t n, const Options& options) : n_(n) {
    p_.routine = routine_named(options.routine);
    p_.type = scalar_type_of<T>();
    p_.vectors = !options.values_only;
    p_.uplo = options.uplo == "L" ? Uplo::lower : Uplo::upper;
    p_.m = has_m(p_.routine) ? n : 0;
    p_.n = n;
    p_.k = forms_q(p_.routine) ? n : 0;
    if (is_svd(p_.routine) && p_.vectors) p_.u = p_.vt = VectorJob::thin;
    for (const LapackOperand& operand : LapackOperands(p_)) {
      // Some kernels of OpenBLAS (cgemv of Prescott, 0.3.21) read beyond a matrix, where no page needs to be.
      constexpr std::size_t slack = 65536;
      const auto bytes = static_cast<std::size_t>(operand.bytes()) + slack;
      auto& memory = memory_[operand.slot];
      memory = options.pageable ? std::make_unique<device::HostMemory>(bytes) : device.host_memory(bytes);
      address_of(p_, operand.slot) = memory->data();
      if (operand.has_ld()) ld_of(p_, operand.slot) = operand.rows;
    }
    if (forms_q(p_.routine)) make_reflectors();
  }

  const LapackCall& problem() const { return p_; }

  /// Elements that nobody reads are NaN.
  void reset() {
    for_columns(at(n_), threads_for(at(n_)), [&](std::size_t j, std::size_t) {
      T* const column = elements(LapackSlot::A) + j * at(n_);
      std::fill(column, column + n_, T(std::numeric_limits<RealPart<T>>::quiet_NaN()));
      for (std::size_t i = first_row(part(), j); i < last_row(part(), j, at(n_)); ++i) column[i] = element(i, j);
    });
  }

  runtime::JobStatistics run(runtime::Runtime& runtime, const Options& options) const {
    if (factors(p_.routine)) return routines::factor(runtime, p_, options.tile, {});
    return routines::solve_dense(runtime, p_, options.algorithm(), options.tile);
  }

  /// Of what the results promise, for one vector: relative to n eps, or 0 where there are no vectors to tell.
  double residual() {
    if ((is_eigenproblem(p_.routine) || is_svd(p_.routine)) && !p_.vectors) return 0;
    const Vector x = random_vector(n_);
    const bool lower = p_.uplo == Uplo::lower;
    const Part triangle = triangle_of(p_.uplo);
    const LapackSlot A = LapackSlot::A;
    switch (p_.routine) {
      using enum Routine;
      case potrf:
        return distance(of(A, of(A, x, triangle, lower), triangle, !lower), times(x));
      case getrf:
        return distance(of(A, of(A, x, Part::upper), Part::unit_lower), interchanged(times(x)));
      case geqrf:
        return distance(times_q(of(A, x, Part::upper)), times(x));
      case gelqf:
        return distance(of(A, times_q(x), Part::lower), times(x));
      case heevd:
        return distance(times(of(A, x)), of(A, scaled(x)));
      case gesdd:
        return distance(times(of(LapackSlot::VT, x, Part::whole, true)), of(LapackSlot::U, scaled(x)));
      case geev:
        return distance(times(of(LapackSlot::U, x)), of(LapackSlot::U, turned(x)));
      case ungqr:
        return distance(of(A, of(A, x), Part::whole, true), x);
      case trtri:
        return distance(times(of(A, x, triangle)), x);
      default:  // the inverse of L L^H or U^H U
        return distance(times(times(of(A, x, hermitian_of(p_.uplo)), lower), !lower), x);
    }
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  bool is_triangle() const { return p_.routine == Routine::trtri || p_.routine == Routine::potri; }
  /// Of A that is handed in.
  Part part() const {
    if (is_triangle()) return triangle_of(p_.uplo);
    return is_hermitian(p_.routine) ? hermitian_of(p_.uplo) : Part::whole;
  }
  T* elements(LapackSlot slot) const { return reinterpret_cast<T*>(memory_.at(slot)->data()); }
  double real_at(LapackSlot slot, index_t i) const {
    return static_cast<double>(reinterpret_cast<RealPart<T>*>(elements(slot))[i]);
  }

  /// Of the matrix that is handed in: random, but for the diagonal. Triangles and what Cholesky factors are dominated by it.
  T element(std::size_t i, std::size_t j) const {
    const T random = element_at<T>(static_cast<index_t>(i), static_cast<index_t>(j), n_);
    if (i != j || part() == Part::whole) return random;
    if (is_triangle()) return T(static_cast<RealPart<T>>(std::sqrt(static_cast<double>(n_)) + 1));
    return T(p_.routine == Routine::potrf ? static_cast<RealPart<T>>(n_) : std::real(random));
  }

  /// Any reflectors are some: H = I - tau v v^H with tau = 2 / |v|^2, v = (1, what lies below).
  void make_reflectors() {
    T* const tau = elements(LapackSlot::tau);
    for (std::size_t j = 0; j < at(n_); ++j) {
      double norm = 1;
      for (std::size_t i = j + 1; i < at(n_); ++i) norm += std::norm(AnyScalar(element(i, j)));
      tau[j] = T(static_cast<RealPart<T>>(2 / norm));
    }
  }

  /// By the matrix that is handed in, or its conjugate transpose.
  Vector times(const Vector& x, bool adjoint = false) const {
    return product(
        part(), [this](std::size_t i, std::size_t j) { return element(i, j); }, x, adjoint);
  }
  /// By what a routine has left in an operand.
  Vector of(LapackSlot slot, const Vector& x, Part part = Part::whole, bool adjoint = false) const {
    return product(part, elements_of<T>(elements(slot), n_), x, adjoint);
  }
  /// By the Q of QR or LQ: by reflectors from the last to the first one, or by their adjoints from the first one on. The
  /// conjugates of LQ's vectors lie in rows.
  Vector times_q(Vector y) const {
    const bool in_rows = is(p_.routine, tessera::in_rows);
    const T *const A = elements(LapackSlot::A), *const tau = elements(LapackSlot::tau);
    for (index_t step = 0; step < n_; ++step) {
      const index_t k = in_rows ? step : n_ - 1 - step;
      const auto v = [&](index_t i) {
        return in_rows ? std::conj(AnyScalar(A[k + i * n_])) : AnyScalar(A[i + k * n_]);
      };
      AnyScalar sum = y[at(k)];
      for (index_t i = k + 1; i < n_; ++i) sum += std::conj(v(i)) * y[at(i)];
      sum *= in_rows ? std::conj(AnyScalar(tau[k])) : AnyScalar(tau[k]);
      y[at(k)] -= sum;
      for (index_t i = k + 1; i < n_; ++i) y[at(i)] -= v(i) * sum;
    }
    return y;
  }
  Vector interchanged(Vector x) const {
    const auto* const ipiv = static_cast<const std::int64_t*>(p_.ipiv);
    for (index_t i = 0; i < n_; ++i) std::swap(x[at(i)], x[at(ipiv[i] - 1)]);
    return x;
  }

  Vector scaled(Vector x) const {
    for (index_t i = 0; i < n_; ++i) x[at(i)] *= real_at(LapackSlot::values, i);
    return x;
  }
  /// By geev's eigenvalues: those of real types come in pairs, whose vectors' parts are columns.
  Vector turned(Vector x) const {
    if (is_complex(p_.type)) {
      for (index_t i = 0; i < n_; ++i) x[at(i)] *= AnyScalar(elements(LapackSlot::values)[i]);
      return x;
    }
    for (index_t i = 0; i < n_; ++i) {
      const double real = real_at(LapackSlot::values, i), imaginary = real_at(LapackSlot::imaginary, i);
      if (imaginary == 0) {
        x[at(i)] *= real;
        continue;
      }
      const AnyScalar first = x[at(i)], second = x[at(i + 1)];
      x[at(i)] = real * first + imaginary * second;
      x[at(i + 1)] = real * second - imaginary * first;
      ++i;
    }
    return x;
  }

  double distance(const Vector& a, const Vector& b) const {
    const auto eps = static_cast<double>(std::numeric_limits<RealPart<T>>::epsilon());
    return distance1(a, b) / (static_cast<double>(n_) * eps * (norm1(a) + norm1(b)));
  }

  index_t n_;
  LapackCall p_;
  std::map<LapackSlot, std::unique_ptr<device::HostMemory>> memory_;
};

/// @return whether results are right
template <Scalar T>
bool measure(HostMatrixBench& on, index_t n, const Options& options, const kernels::CpuBlas* cpu) {
  Problem<T> problem(on.first_device(), n, options);
  json result = {{"routine", name_of(problem.problem())},   {"n", n},
                 {"vectors", problem.problem().vectors},    {"memory", options.pageable ? "pageable" : "page-locked"},
                 {"device", on.first_device().info().name}, {"devices", on.devices()}};
  if (!options.svd.empty()) result["svd"] = options.svd;
  for (int run = 0; run < options.runs; ++run) {
    problem.reset();
    runtime::JobStatistics job;
    result["seconds"].push_back(seconds_of([&] { job = problem.run(on.runtime(), options); }));
    const runtime::DeviceStatistics all = job.total();
    result["job_seconds"].push_back(job.device_s);
    result["kernel_seconds"].push_back(all.kernel_s);
    result["transfer_seconds"].push_back(all.transfer_s);
    result["tile"] = job.tile_n;
    result["flops"] = job.flops;
    result["info"] = job.info;
    result["restarts"] = job.restarts;
    result["bytes_up"] = all.bytes_up;
    result["bytes_down"] = all.bytes_down;
    result["bytes_peer"] = all.bytes_peer;
    result["compulsory_bytes"] = job.compulsory_up;
  }
  const double residual = problem.residual();
  result["residual"] = residual;
  if (cpu != nullptr) {
    problem.reset();
    kernels::DenseOutcome outcome;
    result["cpu_seconds"] = seconds_of([&] {
      kernels::DenseLapack::compute([&](const char* name) { return cpu->fortran(name); }, cpu->integer_bits(),
                                    problem.problem(), outcome);
    });
  }
  std::printf("%s\n", result.dump().c_str());
  return result["info"] == 0 && residual < 3;
}

bool measure_all(const Options& options) {
  HostMatrixBench on(options);
  const auto cpu = options.cpu ? kernels::CpuBlas::open(on.config().cpu_blas) : nullptr;
  return on.all([&]<Scalar T>(index_t n, T) { return measure<T>(on, n, options, cpu.get()); });
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>("dense_bench", "Problems of LAPACK on matrices in host memory", argc, argv, measure_all);
}
