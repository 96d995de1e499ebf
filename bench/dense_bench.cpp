// Problems of LAPACK that one device solves whole, of square matrices in host memory, through the runtime: eigenvalues,
// singular values, Q of QR. Seconds of each run, what of them were kernels, and whether the results are some; with --cpu
// the CPU's LAPACK, too. Devices and memory are set by TESSERA_* as ever. One JSON object a line on standard output.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/host_matrices.hpp"
#include "bench/measuring.hpp"
#include "kernels/host/dense_lapack.hpp"
#include "routines/dense_solvers.hpp"
#include "runtime/runtime.hpp"

namespace {

using namespace tessera;
using bench::element_at;
using bench::RealPart;
using nlohmann::json;

struct Options : bench::HostMatrixOptions {
  Options() : HostMatrixOptions{.n = {1000, 2000, 4000, 8000}, .runs = 3} {}

  std::string routine = "heevd";
  bool values_only = false;
  bool page_locked = false;
  std::string svd;
  bool cpu = false;
};

const std::map<std::string, DenseRoutine> routines_by_name = {
    {"heevd", DenseRoutine::heevd}, {"gesdd", DenseRoutine::gesdd}, {"ungqr", DenseRoutine::ungqr},
    {"geev", DenseRoutine::geev},   {"trtri", DenseRoutine::trtri}, {"potri", DenseRoutine::potri}};

template <Scalar T>
class Problem {
 public:
  using Vector = std::vector<AnyScalar>;

  Problem(device::Device& device, index_t n, const Options& options) : n_(n) {
    p_.routine = routines_by_name.at(options.routine);
    p_.type = scalar_type_of<T>();
    p_.vectors = !options.values_only;
    p_.m = is_svd(p_.routine) || is_q() ? n : 0;
    p_.n = n;
    p_.k = is_q() ? n : 0;
    if (is_svd(p_.routine) && p_.vectors) p_.u = p_.vt = VectorJob::thin;
    for (const DenseOperand& operand : DenseOperands(p_)) {
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

  const DenseProblem& problem() const { return p_; }

  void reset() {
    T* const A = elements(DenseSlot::A);
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) A[i + j * n_] = element(i, j);
    }
  }

  /// Of what the results promise, for one vector: a number that rounding makes about 1, or 0 where there are no vectors
  /// to tell.
  double residual() {
    const DenseRoutine routine = p_.routine;
    if (!p_.vectors && !is_q()) return 0;
    Vector x(static_cast<std::size_t>(n_));
    for (index_t i = 0; i < n_; ++i) x[at(i)] = AnyScalar(element_at<double>(i, n_, n_));
    switch (routine) {
      case DenseRoutine::heevd:
        return distance(times(apply(DenseSlot::A, x)), apply(DenseSlot::A, scaled(x)));
      case DenseRoutine::gesdd:
        return distance(times(apply_adjoint(DenseSlot::VT, x)), apply(DenseSlot::U, scaled(x)));
      case DenseRoutine::geev:
        return distance(times(apply(DenseSlot::U, x)), apply(DenseSlot::U, turned(x)));
      case DenseRoutine::ungqr:
        return distance(apply_adjoint(DenseSlot::A, apply(DenseSlot::A, x)), x);
      default:
        return distance(routine == DenseRoutine::trtri ? times(apply_lower(x)) : times_both(apply_hermitian(x)), x);
    }
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  bool is_q() const { return p_.routine == DenseRoutine::ungqr; }
  bool is_triangle() const { return p_.routine == DenseRoutine::trtri || p_.routine == DenseRoutine::potri; }
  T* elements(DenseSlot slot) { return reinterpret_cast<T*>(memory_.at(slot)->data()); }
  double real_at(DenseSlot slot, index_t i) {
    return static_cast<double>(reinterpret_cast<RealPart<T>*>(memory_.at(slot)->data())[i]);
  }

  /// Of the matrix that is handed in.
  T element(index_t i, index_t j) const {
    if (is_q()) return reflectors_[at(i + j * n_)];
    if (is_triangle()) {
      if (i < j) return T(0);
      return i == j ? T(static_cast<RealPart<T>>(std::sqrt(static_cast<double>(n_)) + 1)) : element_at<T>(i, j, n_);
    }
    if (!is_hermitian(p_.routine)) return element_at<T>(i, j, n_);
    const T lower = element_at<T>(std::max(i, j), std::min(i, j), n_);
    if (i == j) return T(std::real(lower));
    return i > j ? lower : scalar_cast<T>(std::conj(AnyScalar(lower)));
  }

  void make_reflectors() {
    std::vector<T> A(at(n_ * n_));
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) A[at(i + j * n_)] = element_at<T>(i, j, n_);
    }
    // Any reflectors are some: H = I - tau v v^H with tau = 2 / |v|^2, v = (1, what lies below).
    T* const tau = elements(DenseSlot::tau);
    for (index_t j = 0; j < n_; ++j) {
      double norm = 1;
      for (index_t i = j + 1; i < n_; ++i) norm += std::norm(AnyScalar(A[at(i + j * n_)]));
      tau[j] = T(static_cast<RealPart<T>>(2 / norm));
    }
    reflectors_ = std::move(A);
  }

  Vector times(const Vector& x) const {
    Vector y(x.size());
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) y[at(i)] += AnyScalar(element(i, j)) * x[at(j)];
    }
    return y;
  }
  /// L L^H x
  Vector times_both(const Vector& x) const {
    Vector y(x.size());
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = j; i < n_; ++i) y[at(j)] += std::conj(AnyScalar(element(i, j))) * x[at(i)];
    }
    return times(y);
  }
  Vector apply(DenseSlot slot, const Vector& x) {
    Vector y(x.size());
    const T* const M = elements(slot);
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) y[at(i)] += AnyScalar(M[i + j * n_]) * x[at(j)];
    }
    return y;
  }
  Vector apply_adjoint(DenseSlot slot, const Vector& x) {
    Vector y(x.size());
    const T* const M = elements(slot);
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = 0; i < n_; ++i) y[at(j)] += std::conj(AnyScalar(M[i + j * n_])) * x[at(i)];
    }
    return y;
  }
  /// The lower triangle of A, or the Hermitian matrix of which it has that.
  Vector apply_lower(const Vector& x, bool hermitian = false) {
    Vector y(x.size());
    const T* const M = elements(DenseSlot::A);
    for (index_t j = 0; j < n_; ++j) {
      for (index_t i = j; i < n_; ++i) {
        const AnyScalar value(M[i + j * n_]);
        y[at(i)] += value * x[at(j)];
        if (hermitian && i != j) y[at(j)] += std::conj(value) * x[at(i)];
      }
    }
    return y;
  }
  Vector apply_hermitian(const Vector& x) { return apply_lower(x, true); }

  Vector scaled(Vector x) {
    for (index_t i = 0; i < n_; ++i) x[at(i)] *= real_at(DenseSlot::values, i);
    return x;
  }
  /// By geev's eigenvalues: those of real types come in pairs, whose vectors' parts are columns.
  Vector turned(Vector x) {
    if (is_complex(p_.type)) {
      for (index_t i = 0; i < n_; ++i) x[at(i)] *= AnyScalar(elements(DenseSlot::values)[i]);
      return x;
    }
    for (index_t i = 0; i < n_; ++i) {
      const double real = real_at(DenseSlot::values, i), imaginary = real_at(DenseSlot::imaginary, i);
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
  DenseProblem p_;
  std::map<DenseSlot, std::unique_ptr<device::HostMemory>> memory_;
  std::vector<T> reflectors_;
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
    const double begin_s = device::now_seconds();
    const runtime::JobStatistics job = routines::solve_dense(runtime, problem.problem(), algorithm_of(options.svd));
    seconds.push_back(device::now_seconds() - begin_s);
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
    const double begin_s = device::now_seconds();
    cpu->prepare(problem.problem())(outcome);
    result["cpu_seconds"] = device::now_seconds() - begin_s;
  }
  std::printf("%s\n", result.dump().c_str());
  return info == 0 && residual < 100;
}

bool measure_all(const Options& options) {
  bench::HostMatrixBench on(options);
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

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Problems that one device solves whole, of matrices in host memory");
  options.add_to(app);
  app.add_option("--routine", options.routine, "heevd, gesdd, ungqr, geev, trtri or potri")
      ->check(CLI::IsMember({"heevd", "gesdd", "ungqr", "geev", "trtri", "potri"}));
  app.add_flag("--values-only", options.values_only, "no vectors");
  app.add_flag("--page-locked", options.page_locked, "memory that devices reach at once");
  app.add_option("--svd", options.svd, "force qr or polar")->check(CLI::IsMember({"qr", "polar"}));
  app.add_flag("--cpu", options.cpu, "the CPU's LAPACK, too");
  CLI11_PARSE(app, argc, argv);
  return bench::exit_status_of("dense_bench", [&] { return measure_all(options); });
}
