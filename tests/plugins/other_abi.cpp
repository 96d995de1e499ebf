// A plugin of another version: it refuses the library's.
#include "kernels/backend.hpp"

extern "C" __attribute__((visibility("default"))) tessera::kernels::Backend* tessera_cuda_backend(int abi) {
  return abi == tessera::kernels::backend_abi + 1 ? reinterpret_cast<tessera::kernels::Backend*>(1) : nullptr;
}
