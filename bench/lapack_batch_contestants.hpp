// One routine on one copy of a batch, by each of those that have it: Tessera, cuBLAS and cuSOLVER, MAGMA.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/lapack_batch_memory.hpp"
#include "bench/lapack_batch_own.hpp"
#include "bench/lapack_batch_peers.hpp"

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

/// How much memory Tessera can make use of.
template <Scalar T>
std::size_t own_workspace(const LapackCase& c, const OwnDevice& device, const OwnLapack<T>& own) {
  std::size_t bytes = 0;
  const auto query = c.is(BatchRoutine::potri)   ? own.potri_batched_workspace
                     : c.is(BatchRoutine::getri) ? own.getri_batched_workspace
                                                 : nullptr;
  if (query != nullptr) device.check(query(device.handle(), c.n, c.count, &bytes), "workspace");
  return bytes;
}

template <Scalar T>
LapackContestant own_contestant(const LapackProblems<T>& p, const OwnDevice& device, const OwnLapack<T>& own) {
  using Element = typename OwnLapack<T>::Element;
  using Constant = const Element* const*;
  const LapackCase& c = p.what;
  const tessera_device_handle to = device.handle();
  const tessera_uplo uplo = bench::own(c.uplo);
  const auto with = [&](auto function, auto call) {
    if (function == nullptr) {
      const std::string name = "tessera_device_" + c.name() + "_batched";
      throw std::runtime_error(own.library.is_open() ? own.library.name() + " has no " + name : own.library.why_not());
    }
    return LapackContestant{.call = [=, name = c.name(), &device, &p](std::size_t copy) {
      auto* const A = reinterpret_cast<Element* const*>(p.A.at(copy));
      auto* const B = reinterpret_cast<Element* const*>(p.B.at(copy));
      device.check(call(function, A, B, p.pivots.at(copy)), name.c_str());
    }};
  };
  switch (c.routine) {
    case BatchRoutine::getrf:
      return with(own.getrf_batched, [=, &p](auto f, auto A, auto, auto pivots) {
        return f(to, c.n, c.n, A, c.n, pivots, p.info, c.count);
      });
    case BatchRoutine::potrf:
      return with(own.potrf_batched,
                  [=, &p](auto f, auto A, auto, auto) { return f(to, uplo, c.n, A, c.n, p.info, c.count); });
    case BatchRoutine::getrf_nopiv:
      return with(own.getrf_nopiv_batched,
                  [=, &p](auto f, auto A, auto, auto) { return f(to, c.n, c.n, A, c.n, 0, p.info, c.count); });
    case BatchRoutine::getrs:
      return with(own.getrs_batched, [=, &p](auto f, auto A, auto B, auto pivots) {
        return f(to, TESSERA_NO_TRANS, c.n, c.nrhs, Constant(A), c.n, pivots, B, c.n, p.info, c.count);
      });
    case BatchRoutine::potrs:
      return with(own.potrs_batched, [=, &p](auto f, auto A, auto B, auto) {
        return f(to, uplo, c.n, c.nrhs, Constant(A), c.n, B, c.n, p.info, c.count);
      });
    case BatchRoutine::gesv:
      return with(own.gesv_batched, [=, &p](auto f, auto A, auto B, auto pivots) {
        return f(to, c.n, c.nrhs, A, c.n, pivots, B, c.n, p.info, c.count);
      });
    case BatchRoutine::posv:
      return with(own.posv_batched, [=, &p](auto f, auto A, auto B, auto) {
        return f(to, uplo, c.n, c.nrhs, A, c.n, B, c.n, p.info, c.count);
      });
    case BatchRoutine::potri:
      return with(own.potri_batched,
                  [=, &p](auto f, auto A, auto, auto) { return f(to, uplo, c.n, A, c.n, p.info, c.count); });
    case BatchRoutine::getri:
      return with(own.getri_batched,
                  [=, &p](auto f, auto A, auto, auto pivots) { return f(to, c.n, A, c.n, pivots, p.info, c.count); });
  }
  throw std::runtime_error("no such routine");
}

/// cuBLAS and cuSOLVER. cuSOLVER has one right-hand side only, and nobody has potri: there it is two solves with the
/// identity, which go to B.
template <Scalar T>
LapackContestant vendor_contestant(const LapackProblems<T>& p, cublasHandle_t cublas, const Cusolver& cusolver) {
  using Api = VendorLapack<T>;
  using Value = typename Vendor<T>::Value;
  const LapackCase& c = p.what;
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
  const bool asks_cusolver = c.is_cholesky() && !c.inverts();
  const auto its_potrf = asks_cusolver ? cusolver.library().get<typename Api::Potrf>(Api::potrf) : nullptr;
  const auto its_potrs = asks_cusolver ? cusolver.library().get<typename Api::Potrs>(Api::potrs) : nullptr;
  if (asks_cusolver && c.solves() && c.nrhs != 1)
    throw std::runtime_error("cuSOLVER solves for one right-hand side only");
  const auto potrf = [=, &p, to = cusolver.handle()](std::size_t copy) {
    Cusolver::check(its_potrf(to, uplo, n, addresses(p.A.at(copy)), n, p.info, count), "potrf");
  };
  const auto potrs = [=, &p, to = cusolver.handle()](std::size_t copy) {
    Cusolver::check(its_potrs(to, uplo, n, nrhs, addresses(p.A.at(copy)), n, addresses(p.B.at(copy)), n, p.info, count),
                    "potrs");
  };
  switch (c.routine) {
    case BatchRoutine::getrf:
    case BatchRoutine::getrf_nopiv:
      return {.call = getrf};
    case BatchRoutine::potrf:
      return {.call = potrf};
    case BatchRoutine::getrs:
      return {.call = getrs};
    case BatchRoutine::potrs:
      return {.call = potrs};
    case BatchRoutine::gesv:
      return {.call = [=](std::size_t copy) { getrf(copy), getrs(copy); }};
    case BatchRoutine::posv:
      return {.call = [=](std::size_t copy) { potrf(copy), potrs(copy); }};
    case BatchRoutine::potri:
      return {.call =
                  [=, &p](std::size_t copy) {
                    const T one_value = T(1);
                    const Value* const one = vendor_elements(&one_value);
                    const bool lower = p.what.uplo == Uplo::lower;
                    for (const cublasOperation_t op :
                         {lower ? CUBLAS_OP_N : CUBLAS_OP_C, lower ? CUBLAS_OP_C : CUBLAS_OP_N})
                      check(Vendor<T>::trsm_batched(cublas, CUBLAS_SIDE_LEFT, uplo, op, CUBLAS_DIAG_NON_UNIT, n, n, one,
                                                    addresses(p.A.at(copy)), n, addresses(p.B.at(copy)), n, count),
                            "cuBLAS trsm");
                  },
              .result_in_b = true};
    case BatchRoutine::getri:
      return {.call =
                  [=, &p](std::size_t copy) {
                    check(Api::getri(cublas, n, addresses(p.A.at(copy)), n, p.pivots.first(copy),
                                     addresses(p.B.at(copy)), n, p.info, count),
                          "cuBLAS getri");
                  },
              .result_in_b = true};
  }
  throw std::runtime_error("no such routine");
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
    case BatchRoutine::getrf:
      return with("getrf_batched", Magma::Getrf(),
                  [=, &p](auto f, auto A, auto pivots, auto) { return f(n, n, A, n, pivots, p.info, count, queue); });
    case BatchRoutine::getrf_nopiv:
      return with("getrf_nopiv_batched", Magma::GetrfNopiv(),
                  [=, &p](auto f, auto A, auto, auto) { return f(n, n, A, n, p.info, count, queue); });
    case BatchRoutine::potrf:
      return with("potrf_batched", Magma::Potrf(),
                  [=, &p](auto f, auto A, auto, auto) { return f(uplo, n, A, n, p.info, count, queue); });
    case BatchRoutine::getrs:
      return with("getrs_batched", Magma::Getrs(), [=](auto f, auto A, auto pivots, auto B) {
        return f(Magma::no_trans, n, nrhs, A, n, pivots, B, n, count, queue);
      });
    case BatchRoutine::potrs:
      return with("potrs_batched", Magma::Potrs(),
                  [=](auto f, auto A, auto, auto B) { return f(uplo, n, nrhs, A, n, B, n, count, queue); });
    case BatchRoutine::gesv:
      return with("gesv_batched", Magma::Gesv(), [=, &p](auto f, auto A, auto pivots, auto B) {
        return f(n, nrhs, A, n, pivots, B, n, p.info, count, queue);
      });
    case BatchRoutine::posv:
      return with("posv_batched", Magma::Posv(),
                  [=, &p](auto f, auto A, auto, auto B) { return f(uplo, n, nrhs, A, n, B, n, p.info, count, queue); });
    case BatchRoutine::getri: {
      auto contestant = with("getri_outofplace_batched", Magma::Getri(), [=, &p](auto f, auto A, auto pivots, auto B) {
        return f(n, A, n, pivots, B, n, p.info, count, queue);
      });
      contestant.result_in_b = true;
      return contestant;
    }
    case BatchRoutine::potri:
      break;
  }
  throw std::runtime_error("MAGMA has no batched potri");
}

}  // namespace tessera::bench
