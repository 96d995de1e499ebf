// The private way from the drop-in library (libtessera_blas.so) into libtessera.so; both come from one build. Exported under
// tessera_private_ names, not part of the API.
#pragma once

#include "core/level3.hpp"

/// Computes a checked call on the context that all BLAS symbols share: made from the environment at the first call, never
/// destroyed. `find_next_gemm` is called once, then, and returns the `dgemm_` behind the drop-in library or nullptr; it must
/// live in that library, because RTLD_NEXT is relative to its caller.
/// The BLAS interface has no error channel: if devices fail in a way that leaves C partly written, this says so on standard
/// error and aborts the process rather than return a wrong C.
extern "C" __attribute__((visibility("default"))) void tessera_private_run(const tessera::Level3& call,
                                                                           void* (*find_next_gemm)()) noexcept;
