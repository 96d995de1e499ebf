// Opens libtessera_bench_cuda.so (bench/cuda_peers.h) once, at the first use.
#pragma once

#include <string>

#include "cuda_peers/cuda_peers.h"

namespace tessera::tools {

/// The module's table, or nullptr with the reason in `why` (not built, not loadable, no driver, no GPU).
const tessera_bench_cuda* cuda_module(std::string& why);

}  // namespace tessera::tools
