// The private way from the drop-in libraries into libtessera.so; all come from one build. Exported under tessera_private_
// names, not part of the API.
#pragma once

#include "calls/gemm_batch.hpp"
#include "calls/lapack_call.hpp"
#include "calls/level3.hpp"
#include "offload/face.hpp"

/// Computes a checked call on the context that all BLAS symbols share: made from the environment at the first call, never
/// destroyed. The BLAS interface has no error channel: if devices fail in a way that leaves C partly written, this says so on
/// standard error and aborts the process rather than return a wrong C.
extern "C" __attribute__((visibility("default"))) void tessera_private_run(const tessera::Level3& call,
                                                                           tessera::offload::Face& face) noexcept;

/// Lets a call of so many multiply-adds into the CPU BLAS if nothing is to be decided about it, and nobody wants to be told. The
/// symbol then passes its arguments on as they are. tessera_private_leave_lapack() must follow. @return whether it has been let in
extern "C" __attribute__((visibility("default"))) bool tessera_private_enter_small(tessera::index_t volume) noexcept;

/// tessera_private_run() for a batch, which is used up (calls/gemm_batch.hpp). @param entered_s when its symbol was entered, on the clock of
/// device::now_seconds(); here and below 0 stands for now
extern "C" __attribute__((visibility("default"))) void tessera_private_run_batch(tessera::GemmBatch& batch,
                                                                                 tessera::offload::Face& face,
                                                                                 double entered_s) noexcept;

namespace tessera::offload {
/// The program's own LAPACK, with the arguments of one call. It writes all that LAPACK returns; @return its info
struct NextLapack {
  index_t (*compute)(const NextLapack& self) noexcept;
};
}  // namespace tessera::offload

/// The same for a call of LAPACK with good arguments that does something. `next` computes what devices do not compute,
/// or not correctly. The LAPACK behind `face` does where `next` is null or the CPU BLAS is cut (core/process.hpp).
/// @param info and @param found (eigenvalues or the rank) are set @return whether `next` did not
extern "C" __attribute__((visibility("default"))) bool tessera_private_run_lapack(
    const tessera::LapackCall& problem, tessera::index_t& info, tessera::index_t& found, tessera::offload::Face& face,
    const tessera::offload::NextLapack* next, double entered_s) noexcept;

/// The CPU BLAS behind `face`; nullptr, after a line on standard error, if there is none.
extern "C" __attribute__((visibility("default"))) const tessera::kernels::CpuBlas* tessera_private_cpu_blas(
    tessera::offload::Face& face) noexcept;

/// Opens the CPU BLAS behind `face` if it is not open, before a call goes on to the LAPACK there: the facts that a fork needs of it
/// may hold for its LAPACK, too.
extern "C" __attribute__((visibility("default"))) void tessera_private_open_cpu_blas(
    tessera::offload::Face& face) noexcept;

/// To be called around a call of the program's LAPACK, or of the BLAS behind it; forks and the end of the process wait for it
/// (core/process.hpp). Calls that LAPACK makes to our symbols meanwhile are decided as usual.
extern "C" __attribute__((visibility("default"))) void tessera_private_enter_lapack() noexcept;
extern "C" __attribute__((visibility("default"))) void tessera_private_leave_lapack() noexcept;

/// To be called when a drop-in library has been loaded: forks wait from now on for threads that are inside the CPU BLAS, before the
/// handlers of libraries that are loaded already run (core/process.hpp).
extern "C" __attribute__((visibility("default"))) void tessera_private_enter() noexcept;

/// To be called while libraries are torn down, before the CPU BLAS is: no other thread gets into it any more (core/process.hpp).
extern "C" __attribute__((visibility("default"))) void tessera_private_leave() noexcept;
