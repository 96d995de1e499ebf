// Problems of LAPACK that one device solves whole, of square matrices in host memory, through the runtime: eigenvalues,
// singular values, Q of QR. Seconds of each run, what of them were kernels, and whether the results are some; with --cpu
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
#include "routines/dense_solvers.hpp"
#include "runtime/runtime.hpp"

namespace tessera::bench {
namespace {

using nlohmann::json;

struct Options : HostMatrixOptions {
  Options() : HostMatrixOptions{.n = {1000, 2000, 4000, 8000}, .runs = 3} {}

  std::string routine = "heevd";
  bool values_only = false;
  bool page_locked = false;
  std::string svd;
  bool cpu = false;

  void add_to(CLI::App& app) {
    HostMatrixOptions::add_to(app);
    add_name(app, "--routine", routine, {"heevd", "gesdd", "ungqr", "geev", "trtri", "potri"}, "");
    app.add_flag("--values-only", values_only, "no vectors");
    app.add_flag("--page-locked", page_locked, "memory that devices reach at once");
    add_name(app, "--svd", svd, {"qr", "polar"}, "forced");
    app.add_flag("--cpu", cpu, "the CPU's LAPACK, too");
  }
};

const std::map<std::string, Routine> routines_by_name = {{"heevd", Routine::heevd}, {"gesdd", Routine::gesdd},
                                                         {"ungqr", Routine::ungqr}, {"geev", Routine::geev},
                                                         {"trtri", Routine::trtri}, {"potri", Routine::potri}};

template <Scalar T>
class Problem {
 public:
  Problem(device::Device& device, index_t n, const Options& options) : n_(n) {
    p_.routine = routines_by_name.at(options.routine);
    p_.type = scalar_type_of<T>();
    p_.vectors = !options.values_only;
    p_.m = is_svd(p_.routine) || is_q() ? n : 0;
    p_.n = n;
    p_.k = is_q() ? n : 0;
    if (is_svd(p_.routine) && p_.vectors) p_.u = p_.vt = VectorJob::thin;
    for (const LapackOperand& operand : LapackOperands(p_)) {
      // Some kernels of OpenBLAS (cgemv of Prescott, 0.3.21) read beyond a matrix, where no page needs to be.
      constexpr std::size_t slack = 65536;
      const auto bytes = static_cast<std::size_t>(operand.bytes()) + slack;
      auto& memory = memory_[operand.slot];
      memory = options.page_locked ? device.host_memory(bytes) : std::make_unique<device::HostMemory>(bytes);
      address_of(p_, operand.slot) = memory->data();
      if (operand.has_ld()) ld_of(p_, operand.slot) = operand.rows;
    }
    if (is_q()) make_reflectors();
  }

  const LapackCall& problem() const { return p_; }

  void reset() {
    T* const A = elements(LapackSlot::A);
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) A[i + j * n_] = element(i, j);
    }
  }

  /// Of what the results promise, for one vector: a number that rounding makes about 1, or 0 where there are no vectors
  /// to tell.
  double residual() {
    const Routine routine = p_.routine;
    if (!p_.vectors && !is_q()) return 0;
    const Vector x = random_vector(n_);
    switch (routine) {
      case Routine::heevd:
        return distance(times(of(LapackSlot::A, x)), of(LapackSlot::A, scaled(x)));
      case Routine::gesdd:
        return distance(times(of(LapackSlot::VT, x, Part::whole, true)), of(LapackSlot::U, scaled(x)));
      case Routine::geev:
        return distance(times(of(LapackSlot::U, x)), of(LapackSlot::U, turned(x)));
      case Routine::ungqr:
        return distance(of(LapackSlot::A, of(LapackSlot::A, x), Part::whole, true), x);
      case Routine::trtri:
        return distance(times(of(LapackSlot::A, x, Part::lower)), x);
      default:  // the inverse of L L^H
        return distance(times(times(of(LapackSlot::A, x, Part::hermitian_lower), true)), x);
    }
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  bool is_q() const { return p_.routine == Routine::ungqr; }
  bool is_triangle() const { return p_.routine == Routine::trtri || p_.routine == Routine::potri; }
  T* elements(LapackSlot slot) { return reinterpret_cast<T*>(memory_.at(slot)->data()); }
  double real_at(LapackSlot slot, index_t i) {
    return static_cast<double>(reinterpret_cast<RealPart<T>*>(memory_.at(slot)->data())[i]);
  }

  /// Of the matrix that is handed in.
  T element(index_t i, index_t j) const {
    if (is_triangle()) {
      if (i < j) return T(0);
      return i == j ? T(static_cast<RealPart<T>>(std::sqrt(static_cast<double>(n_)) + 1)) : element_at<T>(i, j, n_);
    }
    if (!is_hermitian(p_.routine)) return element_at<T>(i, j, n_);
    const T lower = element_at<T>(std::max(i, j), std::min(i, j), n_);
    if (i == j) return T(std::real(lower));
    return i > j ? lower : scalar_cast<T>(std::conj(AnyScalar(lower)));
  }

  /// Any reflectors are some: H = I - tau v v^H with tau = 2 / |v|^2, v = (1, what lies below).
  void make_reflectors() {
    T* const tau = elements(LapackSlot::tau);
    for (index_t j = 0; j < n_; ++j) {
      double norm = 1;
      for (index_t i = j + 1; i < n_; ++i) norm += std::norm(AnyScalar(element(i, j)));
      tau[j] = T(static_cast<RealPart<T>>(2 / norm));
    }
  }

  /// By the matrix that is handed in, or its conjugate transpose.
  Vector times(const Vector& x, bool adjoint = false) const {
    const auto of_a = [this](std::size_t i, std::size_t j) {
      return element(static_cast<index_t>(i), static_cast<index_t>(j));
    };
    return product(is_triangle() ? Part::lower : Part::whole, of_a, x, adjoint);
  }
  /// By what a routine has left in an operand.
  Vector of(LapackSlot slot, const Vector& x, Part part = Part::whole, bool adjoint = false) {
    return product(part, elements_of<T>(elements(slot), n_), x, adjoint);
  }

  Vector scaled(Vector x) {
    for (index_t i = 0; i < n_; ++i) x[at(i)] *= real_at(LapackSlot::values, i);
    return x;
  }
  /// By geev's eigenvalues: those of real types come in pairs, whose vectors' parts are columns.
  Vector turned(Vector x) {
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
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::abs(a[i] - b[i]);
      size += std::abs(a[i]) + std::abs(b[i]);
    }
    return difference / (static_cast<double>(std::numeric_limits<RealPart<T>>::epsilon()) * size *
                         std::sqrt(static_cast<double>(n_)));
  }

  index_t n_;
  LapackCall p_;
  std::map<LapackSlot, std::unique_ptr<device::HostMemory>> memory_;
};

std::optional<kernels::SvdAlgorithm> algorithm_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "polar" ? kernels::SvdAlgorithm::polar : kernels::SvdAlgorithm::qr_iteration;
}

/// @return whether results are right
template <Scalar T>
bool measure(runtime::Runtime& runtime, device::Device& device, index_t n, const Options& options,
             const kernels::DenseLapack* cpu) {
  Problem<T> problem(device, n, options);
  json result = {{"routine", name_of(problem.problem())},
                 {"n", n},
                 {"vectors", problem.problem().vectors},
                 {"memory", options.page_locked ? "page-locked" : "pageable"},
                 {"device", device.info().name}};
  if (!options.svd.empty()) result["svd"] = options.svd;
  std::vector<double> seconds, kernel_seconds, transfer_seconds;
  index_t info = 0;
  for (int run = 0; run < options.runs; ++run) {
    problem.reset();
    runtime::JobStatistics job;
    seconds.push_back(
        seconds_of([&] { job = routines::solve_dense(runtime, problem.problem(), algorithm_of(options.svd)); }));
    info = std::max(info, job.info);
    double kernels = 0, transfers = 0;
    for (const runtime::DeviceStatistics& each : job.devices) {
      kernels += each.kernel_s;
      transfers += each.transfer_s;
    }
    kernel_seconds.push_back(kernels);
    transfer_seconds.push_back(transfers);
    result["flops"] = job.flops;
    result["bytes_up"] = job.bytes_up();
    result["bytes_down"] = job.bytes_down();
  }
  result["seconds"] = seconds;
  result["kernel_seconds"] = kernel_seconds;
  result["transfer_seconds"] = transfer_seconds;
  result["info"] = info;
  const double residual = problem.residual();
  result["residual"] = residual;
  if (cpu != nullptr) {
    problem.reset();
    kernels::DenseOutcome outcome;
    result["cpu_seconds"] = seconds_of([&] { cpu->prepare(problem.problem())(outcome); });
  }
  std::printf("%s\n", result.dump().c_str());
  return info == 0 && residual < 100;
}

bool measure_all(const Options& options) {
  HostMatrixBench on(options);
  std::optional<kernels::DenseLapack> cpu;
  if (options.cpu) {
    const auto blas = kernels::CpuBlas::open(on.config().cpu_blas);
    cpu.emplace([blas](const char* name) { return blas->fortran(name); });
  }
  return on.all([&]<Scalar T>(index_t n, T) {
    return measure<T>(on.runtime(), on.first_device(), n, options, cpu ? &*cpu : nullptr);
  });
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;  // NOLINT(google-build-using-namespace): a program
  return run_program<Options>("dense_bench", "Problems that one device solves whole, of matrices in host memory", argc,
                              argv, measure_all);
}
