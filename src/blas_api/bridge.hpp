// The private way from the drop-in libraries into libtessera.so; all come from one build. Exported under tessera_private_
// names, not part of the API.
#pragma once

#include "blas_api/face.hpp"
#include "core/dense_problem.hpp"
#include "core/gemm_batch.hpp"
#include "core/lapack_call.hpp"
#include "core/level3.hpp"

/// Computes a checked call on the context that all BLAS symbols share: made from the environment at the first call, never
/// destroyed. The BLAS interface has no error channel: if devices fail in a way that leaves C partly written, this says so on
/// standard error and aborts the process rather than return a wrong C.
extern "C" __attribute__((visibility("default"))) void tessera_private_run(const tessera::Level3& call,
                                                                           tessera::api::Face& face) noexcept;

/// The same for a batch, which is used up (core/gemm_batch.hpp). @param entered_s when its symbol was entered, on the clock of
/// device::now_seconds(); here and below 0 stands for now
extern "C" __attribute__((visibility("default"))) void tessera_private_run_batch(tessera::GemmBatch& batch,
                                                                                 tessera::api::Face& face,
                                                                                 double entered_s) noexcept;

namespace tessera::api {
/// The program's own LAPACK, with the arguments of one call. It sets call.info.
struct NextLapack {
  void (*compute)(const NextLapack& self, LapackCall& call) noexcept;
};

/// The same for a problem that a device may solve whole. It writes all that LAPACK returns; @return its info
struct NextDense {
  index_t (*compute)(const NextDense& self) noexcept;
};
}  // namespace tessera::api

/// The same for a call of LAPACK whose sizes are good and that does something. What devices do not compute is computed by `next`
/// or, where that is null, or the CPU BLAS is cut (core/process.hpp), by the LAPACK behind `face`. @return whether `next` did not
extern "C" __attribute__((visibility("default"))) bool tessera_private_run_lapack(tessera::LapackCall& call,
                                                                                  tessera::api::Face& face,
                                                                                  const tessera::api::NextLapack* next,
                                                                                  double entered_s) noexcept;

/// The same for a problem that a device may solve whole, if its results are right then; what is not is computed by `next`.
/// @param info and @param found (heevr: eigenvalues) are set @return whether `next` did not
extern "C" __attribute__((visibility("default"))) bool tessera_private_run_dense(
    const tessera::DenseProblem& problem, tessera::index_t& info, tessera::index_t& found, tessera::api::Face& face,
    const tessera::api::NextDense& next, double entered_s) noexcept;

/// The CPU BLAS behind `face`; nullptr, after a line on standard error, if there is none.
extern "C" __attribute__((visibility("default"))) const tessera::kernels::CpuBlas* tessera_private_cpu_blas(
    tessera::api::Face& face) noexcept;

/// Around a call that goes on to the program's LAPACK, for which forks and the end of the process wait (core/process.hpp).
/// What LAPACK calls of ours meanwhile is decided as ever. @param face of that LAPACK, whose CPU BLAS is opened if nobody has:
/// what must be known of it before a fork may hold for its LAPACK, too
extern "C" __attribute__((visibility("default"))) void tessera_private_enter_lapack(tessera::api::Face& face) noexcept;
extern "C" __attribute__((visibility("default"))) void tessera_private_leave_lapack() noexcept;

/// To be called when a drop-in library has been loaded: forks wait from now on for threads that are inside the CPU BLAS, before the
/// handlers of libraries that are loaded already run (core/process.hpp).
extern "C" __attribute__((visibility("default"))) void tessera_private_enter() noexcept;

/// To be called while libraries are torn down, before the CPU BLAS is: no other thread gets into it any more (core/process.hpp).
extern "C" __attribute__((visibility("default"))) void tessera_private_leave() noexcept;
