// One routine on one copy of a batch, by each of those that have it: Tessera, cuBLAS and cuSOLVER, MAGMA.
#pragma once

#include <complex>
#include <concepts>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/lapack_batch_memory.hpp"
#include "bench/lapack_batch_peers.hpp"
#include "tessera/device_lapack.h"

namespace tessera::bench {

struct LapackContestant {
  std::string name{};
  std::function<void(std::size_t copy)> call;
  bool result_in_b = false;     ///< the inverse
  bool inverts_matrix = false;  ///< factors itself, and takes what is in A for the matrix
};

/// All that can run a case, and of those that cannot why.
struct LapackContestants {
  std::vector<LapackContestant> all;
  std::map<std::string, std::string> without;

  /// @param make  gives the contestant; throws if there is none
  template <class Make>
  void add(const char* name, Make make) {
    try {
      LapackContestant contestant = make();
      contestant.name = name;
      all.push_back(std::move(contestant));
    } catch (const std::exception& error) {
      without[name] = error.what();
    }
  }
};

/// Tessera's functions.
template <Routine routine, class T>
constexpr auto own_lapack = nullptr;
template <Routine routine, class T>
constexpr auto own_lapack_workspace = nullptr;
#define TESSERA_LAPACK(routine, list, letter, T) \
  template <>                                    \
  inline constexpr auto own_lapack<Routine::routine, T> = &tessera_device_##letter##routine##_batched;
#define TESSERA_LAPACK_WORKSPACE(routine, letter, T)                \
  template <>                                                       \
  inline constexpr auto own_lapack_workspace<Routine::routine, T> = \
      &tessera_device_##letter##routine##_batched_workspace;
#include "device_api/routines.def"

/// How much memory Tessera can make use of.
template <Scalar T>
std::size_t own_workspace(const LapackCase& c, tessera_device_handle to) {
  std::size_t bytes = 0;
  if (c.inverts()) {
    const auto query =
        c.is_cholesky() ? own_lapack_workspace<Routine::potri, T> : own_lapack_workspace<Routine::getri, T>;
    check(query(to, c.n, c.count, &bytes), "workspace");
  }
  return bytes;
}

template <Scalar T>
LapackContestant own_contestant(const LapackProblems<T>& p, tessera_device_handle to) {
  using Element = std::conditional_t<std::floating_point<T>, T, void>;
  using Constant = const Element* const*;
  const LapackCase& c = p.what;
  const tessera_uplo uplo = own(c.uplo);
  const auto with = [&](auto call) {
    return LapackContestant{.call = [call, name = c.name(), &p](std::size_t copy) {
      auto* const A = reinterpret_cast<Element* const*>(p.A.at(copy));
      auto* const B = reinterpret_cast<Element* const*>(p.B.at(copy));
      check(call(A, B, p.pivots.at(copy)), name.c_str());
    }};
  };
  switch (c.routine) {
    using enum Routine;
    case getrf:
      return with([=, &p](auto A, auto, auto pivots) {
        return own_lapack<getrf, T>(to, c.n, c.n, A, c.n, pivots, p.info, c.count);
      });
    case potrf:
      return with([=, &p](auto A, auto, auto) { return own_lapack<potrf, T>(to, uplo, c.n, A, c.n, p.info, c.count); });
    case getrf_nopiv:
      return with(
          [=, &p](auto A, auto, auto) { return own_lapack<getrf_nopiv, T>(to, c.n, c.n, A, c.n, 0, p.info, c.count); });
    case getrs:
      return with([=, &p](auto A, auto B, auto pivots) {
        return own_lapack<getrs, T>(to, TESSERA_NO_TRANS, c.n, c.nrhs, Constant(A), c.n, pivots, B, c.n, p.info,
                                    c.count);
      });
    case potrs:
      return with([=, &p](auto A, auto B, auto) {
        return own_lapack<potrs, T>(to, uplo, c.n, c.nrhs, Constant(A), c.n, B, c.n, p.info, c.count);
      });
    case gesv:
      return with([=, &p](auto A, auto B, auto pivots) {
        return own_lapack<gesv, T>(to, c.n, c.nrhs, A, c.n, pivots, B, c.n, p.info, c.count);
      });
    case posv:
      return with([=, &p](auto A, auto B, auto) {
        return own_lapack<posv, T>(to, uplo, c.n, c.nrhs, A, c.n, B, c.n, p.info, c.count);
      });
    case potri:
      return with([=, &p](auto A, auto, auto) { return own_lapack<potri, T>(to, uplo, c.n, A, c.n, p.info, c.count); });
    case getri:
      return with([=, &p](auto A, auto, auto pivots) {
        return own_lapack<getri, T>(to, c.n, A, c.n, pivots, p.info, c.count);
      });
    default:
      break;
  }
  throw std::runtime_error("no such routine");
}

/// cuBLAS's inverses of factored matrices, which go to B. It has no potri: that is two solves with the identity.
template <Scalar T>
LapackContestant vendor_inverse(const LapackProblems<T>& p, cublasHandle_t cublas) {
  using Value = typename Vendor<T>::Value;
  const auto call = [&p, cublas](std::size_t copy) {
    const auto n = static_cast<int>(p.what.n), count = static_cast<int>(p.what.count);
    auto** const A = reinterpret_cast<Value**>(p.A.at(copy));
    auto** const B = reinterpret_cast<Value**>(p.B.at(copy));
    if (!p.what.is_cholesky())
      return check(VendorLapack<T>::getri(cublas, n, A, n, p.pivots.first(copy), B, n, p.info, count), "cuBLAS getri");
    const T one = T(1);
    const bool lower = p.what.uplo == Uplo::lower;
    for (const cublasOperation_t op : {lower ? CUBLAS_OP_N : CUBLAS_OP_C, lower ? CUBLAS_OP_C : CUBLAS_OP_N})
      check(Vendor<T>::trsm_batched(cublas, CUBLAS_SIDE_LEFT, vendor(p.what.uplo), op, CUBLAS_DIAG_NON_UNIT, n, n,
                                    vendor_elements(&one), A, n, B, n, count),
            "cuBLAS trsm");
  };
  return {.call = call, .result_in_b = true};
}

/// cuBLAS, and cuSOLVER, which has one right-hand side only.
template <Scalar T>
LapackContestant vendor_contestant(const LapackProblems<T>& p, cublasHandle_t cublas, const Cusolver& cusolver) {
  using Api = VendorLapack<T>;
  using Value = typename Vendor<T>::Value;
  const LapackCase& c = p.what;
  if (c.inverts()) return vendor_inverse(p, cublas);
  const auto n = static_cast<int>(c.n), nrhs = static_cast<int>(c.nrhs), count = static_cast<int>(c.count);
  const cublasFillMode_t uplo = vendor(c.uplo);
  const auto addresses = [](T** of) { return reinterpret_cast<Value**>(of); };
  const auto getrf = [=, &p](std::size_t copy) {
    int* const pivots = p.what.has_pivots() ? p.pivots.first(copy) : nullptr;
    check(Api::getrf(cublas, n, addresses(p.A.at(copy)), n, pivots, p.info, count), "cuBLAS getrf");
  };
  const auto getrs = [=, &p](std::size_t copy) {
    int info = 0;
    check(Api::getrs(cublas, CUBLAS_OP_N, n, nrhs, addresses(p.A.at(copy)), n, p.pivots.first(copy),
                     addresses(p.B.at(copy)), n, &info, count),
          "cuBLAS getrs");
  };
  const auto its_potrf = c.is_cholesky() ? cusolver.library().get<typename Api::Potrf>(Api::potrf) : nullptr;
  const auto its_potrs = c.is_cholesky() ? cusolver.library().get<typename Api::Potrs>(Api::potrs) : nullptr;
  if (c.is_cholesky() && c.solves() && c.nrhs != 1)
    throw std::runtime_error("cuSOLVER solves for one right-hand side only");
  const auto potrf = [=, &p, to = cusolver.handle()](std::size_t copy) {
    Cusolver::check(its_potrf(to, uplo, n, addresses(p.A.at(copy)), n, p.info, count), "potrf");
  };
  const auto potrs = [=, &p, to = cusolver.handle()](std::size_t copy) {
    Cusolver::check(its_potrs(to, uplo, n, nrhs, addresses(p.A.at(copy)), n, addresses(p.B.at(copy)), n, p.info, count),
                    "potrs");
  };
  switch (c.routine) {
    case Routine::getrf:
    case Routine::getrf_nopiv:
      return {.call = getrf};
    case Routine::potrf:
      return {.call = potrf};
    case Routine::getrs:
      return {.call = getrs};
    case Routine::potrs:
      return {.call = potrs};
    case Routine::gesv:
      return {.call = [=](std::size_t copy) { getrf(copy), getrs(copy); }};
    case Routine::posv:
      return {.call = [=](std::size_t copy) { potrf(copy), potrs(copy); }};
    default:
      throw std::runtime_error("no such routine");
  }
}

/// cuBLAS's inverses of matrices that are not factored before.
template <Scalar T>
LapackContestant vendor_matinv(const LapackProblems<T>& p, cublasHandle_t cublas) {
  using Value = typename Vendor<T>::Value;
  if (p.what.n > 32) throw std::runtime_error("only for n <= 32");
  return {.call =
              [&p, cublas](std::size_t copy) {
                const auto n = static_cast<int>(p.what.n);
                check(VendorLapack<T>::matinv(cublas, n, reinterpret_cast<Value**>(p.A.at(copy)), n,
                                              reinterpret_cast<Value**>(p.B.at(copy)), n, p.info,
                                              static_cast<int>(p.what.count)),
                      "cuBLAS matinv");
              },
          .result_in_b = true,
          .inverts_matrix = true};
}

template <Scalar T>
LapackContestant magma_contestant(const LapackProblems<T>& p, const Magma& magma) {
  const LapackCase& c = p.what;
  const auto n = static_cast<int>(c.n), nrhs = static_cast<int>(c.nrhs), count = static_cast<int>(c.count);
  const int uplo = Magma::uplo(c.uplo);
  void* const queue = magma.queue();
  /// @param call  gets the function, the addresses of A, of pivots and of B
  const auto with = [&]<class Function>(const char* name, Function, auto call) {
    const auto function = magma.get<Function>(c.type, name);
    return LapackContestant{.call = [=, &p](std::size_t copy) {
      Magma::check(call(function, p.A.at(copy), p.pivots.at(copy), p.B.at(copy)), name);
    }};
  };
  switch (c.routine) {
    using enum Routine;
    case getrf:
      return with("getrf_batched", Magma::Getrf(),
                  [=, &p](auto f, auto A, auto pivots, auto) { return f(n, n, A, n, pivots, p.info, count, queue); });
    case getrf_nopiv:
      return with("getrf_nopiv_batched", Magma::GetrfNopiv(),
                  [=, &p](auto f, auto A, auto, auto) { return f(n, n, A, n, p.info, count, queue); });
    case potrf:
      return with("potrf_batched", Magma::Potrf(),
                  [=, &p](auto f, auto A, auto, auto) { return f(uplo, n, A, n, p.info, count, queue); });
    case getrs:
      return with("getrs_batched", Magma::Getrs(), [=](auto f, auto A, auto pivots, auto B) {
        return f(Magma::no_trans, n, nrhs, A, n, pivots, B, n, count, queue);
      });
    case potrs:
      return with("potrs_batched", Magma::Potrs(),
                  [=](auto f, auto A, auto, auto B) { return f(uplo, n, nrhs, A, n, B, n, count, queue); });
    case gesv:
      return with("gesv_batched", Magma::Gesv(), [=, &p](auto f, auto A, auto pivots, auto B) {
        return f(n, nrhs, A, n, pivots, B, n, p.info, count, queue);
      });
    case posv:
      return with("posv_batched", Magma::Posv(),
                  [=, &p](auto f, auto A, auto, auto B) { return f(uplo, n, nrhs, A, n, B, n, p.info, count, queue); });
    case getri: {
      auto contestant = with("getri_outofplace_batched", Magma::Getri(), [=, &p](auto f, auto A, auto pivots, auto B) {
        return f(n, A, n, pivots, B, n, p.info, count, queue);
      });
      contestant.result_in_b = true;
      return contestant;
    }
    default:
      break;
  }
  throw std::runtime_error("MAGMA has no batched potri");
}

}  // namespace tessera::bench
