// A program whose own kernel traps on the GPU that Tessera computes on, in the context that both share. Products before
// it, and after it, are right. Exit status: 0 so it is, 77 no GPU, else what is printed.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace {

__global__ void trap_now() { asm volatile("trap;"); }

[[noreturn]] void leave(int status, const std::string& why) {
  std::printf("%s\n", why.c_str());
  std::fflush(stdout);
  _exit(status);  // a broken context is not to be taken down
}

/// C = A B + C with small whole numbers, so that the result is exact. @return devices that took part
int multiply(tessera_context context, int n) {
  const auto elements = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  std::vector<double> A(elements), B(elements), C(elements, 3.0);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(n);
      A[at] = i % 5;  // every column is the same, and so is every column of the product
      B[at] = 2;
    }
  }
  const tessera_status status = tessera_dgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n,
                                              1, A.data(), n, B.data(), n, 1, C.data(), n);
  if (status != TESSERA_SUCCESS) leave(1, std::string("dgemm: ") + tessera_last_error());
  for (std::size_t at = 0; at < elements; ++at) {
    if (C[at] != 3 + 2.0 * n * static_cast<double>(at % static_cast<std::size_t>(n) % 5))
      leave(1, "a product is wrong");
  }
  tessera_job_stats stats = {};
  stats.struct_size = sizeof stats;
  return tessera_last_job_stats(context, &stats) == TESSERA_SUCCESS ? stats.devices : 0;
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) leave(77, "no CUDA device");
  tessera_context context = nullptr;
  const char* const settings =
      "TESSERA_DEVICES=cuda:0 TESSERA_OFFLOAD=always TESSERA_CPU_WORKER=off TESSERA_CALIBRATION=off";
  if (tessera_create_with(&context, settings) != TESSERA_SUCCESS) leave(1, tessera_last_error());
  if (multiply(context, 1500) != 1) leave(1, "the GPU computed nothing before");
  cudaSetDevice(0);
  trap_now<<<1, 1>>>();
  if (cudaDeviceSynchronize() == cudaSuccess) leave(1, "the kernel did not trap");
  for (const int n : {1500, 1500, 3000}) static_cast<void>(multiply(context, n));
  leave(0, "good");
}
