// The fixture of tests of the device routines on a GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/device/backends.hpp"
#include "tests/test_plugin.hpp"

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

namespace tessera::test {

inline bool has_gpu() {
  int count = 0;
  const bool has = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  static_cast<void>(cudaGetLastError());
  return has;
}

class CudaDeviceApi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (has_gpu()) return;
    ASSERT_FALSE(cuda_required()) << "no CUDA device";
    GTEST_SKIP() << "no CUDA device";
  }
  static std::string library() { return (library_folder() / "libtessera_device.so").string(); }
};

}  // namespace tessera::test
