// The errors of CUDA that lose a device.
#include "device/cuda/error_scope.hpp"

#include <gtest/gtest.h>

namespace tessera::device::cuda {
namespace error_scope_test {

TEST(ErrorScope, ErrorsOfKernelsAndHardwareStay) {
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorLaunchTimeout, cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction, cudaErrorMisalignedAddress, cudaErrorInvalidPc, cudaErrorAssert,
        cudaErrorECCUncorrectable, cudaErrorContextIsDestroyed, cudaErrorCudartUnloading, cudaErrorUnknown}) {
    EXPECT_TRUE(is_sticky(error)) << error;
    EXPECT_FALSE(survives(error, cudaSuccess)) << error;
  }
}

TEST(ErrorScope, ErrorsOfOneCallDoNot) {
  for (const cudaError_t error :
       {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorInvalidConfiguration,
        cudaErrorLaunchOutOfResources, cudaErrorInvalidResourceHandle, cudaErrorStreamCaptureUnsupported,
        cudaErrorStreamCaptureImplicit, cudaErrorNotSupported}) {
    EXPECT_FALSE(is_sticky(error)) << error;
    EXPECT_TRUE(survives(error, cudaSuccess)) << error;
    EXPECT_TRUE(survives(error, cudaErrorNotReady)) << error;
    EXPECT_TRUE(survives(error, cudaErrorStreamCaptureUnsupported)) << error;
  }
}

TEST(ErrorScope, WhatComesAgainIsBelieved) {
  EXPECT_FALSE(survives(cudaErrorInvalidValue, cudaErrorIllegalAddress));
  EXPECT_FALSE(survives(cudaSuccess, cudaErrorLaunchFailure));
  EXPECT_FALSE(survives(cudaErrorInvalidResourceHandle, cudaErrorInvalidResourceHandle));
}

TEST(ErrorScope, AnswersThatBelongToACapture) {
  EXPECT_TRUE(is_of_a_capture(cudaErrorStreamCaptureUnsupported));
  EXPECT_TRUE(is_of_a_capture(cudaErrorCapturedEvent));
  EXPECT_TRUE(is_of_a_capture(cudaErrorStreamCaptureWrongThread));
  EXPECT_FALSE(is_of_a_capture(cudaErrorNotReady));
  EXPECT_FALSE(is_of_a_capture(cudaErrorTimeout));
  EXPECT_FALSE(is_of_a_capture(cudaSuccess));
}

}  // namespace error_scope_test
}  // namespace tessera::device::cuda
