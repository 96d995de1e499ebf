// The C API and its C++ veneer: results in every combination, errors and their text, settings, contexts that have no
// devices. Statistics are in c_api_statistics_test.cpp.
#include "tessera/tessera.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <complex>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tessera/tessera.hpp"
#include "tests/blas_api/compared_product.hpp"
#include "tests/test_plugin.hpp"

namespace tessera {
namespace c_api_test {

using test::compare_with_oracle;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* on_devices = "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16 ";

template <class T>
class CApiGemm : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CApiGemm, Scalars);

TYPED_TEST(CApiGemm, AgreesWithTheOracleInEveryCombination) {
  using T = TypeParam;
  const T other = scalar_cast<T>(AnyScalar(1.25, -0.5));
  for (const int devices : {1, 2, 3}) {
    const Context context("TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_DEVICES=host:" + std::to_string(devices));
    unsigned seed = 0;
    for (const tessera_layout layout : {TESSERA_COL_MAJOR, TESSERA_ROW_MAJOR}) {
      for (const tessera_transpose ta : {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS}) {
        for (const tessera_transpose tb : {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS}) {
          for (const T beta : {T(0), T(1), other}) {
            ASSERT_NO_FATAL_FAILURE(compare_with_oracle<T>(context, layout, ta, tb, 37, 29, 41, other, beta, ++seed))
                << "layout " << layout << " ops " << ta << "," << tb << " beta " << beta << " devices " << devices;
            EXPECT_EQ(context.last_job_stats().devices, devices);
          }
        }
      }
    }
  }
}

TYPED_TEST(CApiGemm, AgreesWithTheOracleOnTheCpu) {
  using T = TypeParam;
  const Context context("TESSERA_DEVICES=none");
  unsigned seed = 100;
  for (const tessera_layout layout : {TESSERA_COL_MAJOR, TESSERA_ROW_MAJOR}) {
    for (const T alpha : {T(0), T(1)}) {
      for (const T beta : {T(0), T(1), T(2)}) {
        compare_with_oracle<T>(context, layout, TESSERA_TRANS, TESSERA_NO_TRANS, 7, 5, 3, alpha, beta, ++seed);
        compare_with_oracle<T>(context, layout, TESSERA_NO_TRANS, TESSERA_CONJ_TRANS, 7, 5, 0, alpha, beta, ++seed);
      }
    }
  }
  EXPECT_EQ(context.last_job_stats().devices, 0);
}

/// A good dgemm call whose arguments a test spoils one by one.
struct Call {
  tessera_context ctx = nullptr;
  int layout = TESSERA_COL_MAJOR, ta = TESSERA_NO_TRANS, tb = TESSERA_NO_TRANS;
  index_t m = 2, n = 3, k = 4, lda = 2, ldb = 4, ldc = 2;
  bool null_a = false, null_b = false, null_c = false;
  std::vector<double> A = std::vector<double>(64, 1), B = A, C = A;

  tessera_status run(double alpha = 1, double beta = 0) {
    return tessera_dgemm(ctx, static_cast<tessera_layout>(layout), static_cast<tessera_transpose>(ta),
                         static_cast<tessera_transpose>(tb), m, n, k, alpha, null_a ? nullptr : A.data(), lda,
                         null_b ? nullptr : B.data(), ldb, beta, null_c ? nullptr : C.data(), ldc);
  }
  void expect_bad(int position, const std::string& text) {
    const std::vector<double> before = C;
    EXPECT_EQ(run(), TESSERA_INVALID_ARGUMENT) << text;
    EXPECT_EQ(tessera_last_error_position(), position) << text;
    EXPECT_THAT(tessera_last_error(), HasSubstr(text));
    EXPECT_THAT(tessera_last_error(), HasSubstr("argument " + std::to_string(position)));
    EXPECT_EQ(C, before);
  }
};

TEST(CApiErrors, EveryArgumentHasItsPosition) {
  const Context context("TESSERA_DEVICES=none");
  Call good;
  good.ctx = context.handle();
  ASSERT_EQ(good.run(), TESSERA_SUCCESS);
  EXPECT_STREQ(tessera_last_error(), "");
  EXPECT_EQ(tessera_last_error_position(), 0);

  Call().expect_bad(1, "ctx");
  const auto spoil = [&](auto change) {
    Call call = good;
    change(call);
    return call;
  };
  spoil([](Call& c) { c.layout = 100; }).expect_bad(2, "layout");
  spoil([](Call& c) { c.ta = 110; }).expect_bad(3, "transa");
  spoil([](Call& c) { c.tb = 114; }).expect_bad(4, "transb");
  spoil([](Call& c) { c.m = -1; }).expect_bad(5, "m is negative");
  spoil([](Call& c) { c.n = -1; }).expect_bad(6, "n is negative");
  spoil([](Call& c) { c.k = -1; }).expect_bad(7, "k is negative");
  spoil([](Call& c) { c.null_a = true; }).expect_bad(9, "A is null");
  spoil([](Call& c) { c.lda = 1; }).expect_bad(10, "lda");
  spoil([](Call& c) { c.null_b = true; }).expect_bad(11, "B is null");
  spoil([](Call& c) { c.ldb = 3; }).expect_bad(12, "ldb");
  spoil([](Call& c) { c.null_c = true; }).expect_bad(14, "C is null");
  spoil([](Call& c) { c.ldc = 1; }).expect_bad(15, "ldc");
  for (index_t Call::*const ld : {&Call::lda, &Call::ldb, &Call::ldc})
    spoil([&](Call& c) { c.*ld = std::numeric_limits<index_t>::max(); }).expect_bad(6, "larger than any memory");
  // Row-major positions are those of the caller's own arguments.
  const auto row_major = [&](auto change) {
    return spoil([&](Call& c) {
      c.layout = TESSERA_ROW_MAJOR;
      c.lda = 4;
      c.ldb = c.ldc = 3;
      change(c);
    });
  };
  EXPECT_EQ(row_major([](Call&) {}).run(), TESSERA_SUCCESS);
  row_major([](Call& c) { c.lda = 3; }).expect_bad(10, "lda");
  row_major([](Call& c) { c.ldb = 2; }).expect_bad(12, "ldb");
  row_major([](Call& c) { c.ldc = 2; }).expect_bad(15, "ldc");
  row_major([](Call& c) { c.m = c.n = -1; }).expect_bad(5, "m is negative");
}

TEST(CApiErrors, NullIsFineWhereNothingIsRead) {
  const Context context("TESSERA_DEVICES=none");
  Call call;
  call.ctx = context.handle();
  call.null_a = call.null_b = true;
  EXPECT_EQ(call.run(0, 2), TESSERA_SUCCESS);
  EXPECT_EQ(call.C[0], 2);
  call.null_c = true;
  call.m = 0;
  EXPECT_EQ(call.run(), TESSERA_SUCCESS);
}

TEST(CApiErrors, NullScalarsOfComplexCalls) {
  const Context context("TESSERA_DEVICES=none");
  std::vector<std::complex<double>> matrix(4);
  const std::complex<double> one = 1;
  const auto call = [&](const void* alpha, const void* beta) {
    return tessera_zgemm(context.handle(), TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 2, 2, 2, alpha,
                         matrix.data(), 2, matrix.data(), 2, beta, matrix.data(), 2);
  };
  EXPECT_EQ(call(nullptr, &one), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 8);
  EXPECT_EQ(call(&one, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 13);
}

TEST(CApiErrors, SettingsAreChecked) {
  tessera_context ctx = nullptr;
  EXPECT_EQ(tessera_create_with(&ctx, "TESSERA_TILE=0"), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(ctx, nullptr);
  EXPECT_THAT(tessera_last_error(), HasSubstr("TESSERA_TILE"));
  EXPECT_EQ(tessera_create_with(&ctx, "TESSERA_NOTHING=0"), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("valid names are"));
  EXPECT_EQ(tessera_create_with(nullptr, ""), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 1);
  EXPECT_EQ(tessera_destroy(nullptr), TESSERA_SUCCESS);
  try {
    const Context context("TESSERA_OFFLOAD=perhaps");
    FAIL();
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status(), TESSERA_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), HasSubstr("TESSERA_OFFLOAD"));
  }
}

TEST(CApiErrors, ErrorsBelongToTheirThread) {
  tessera_create_with(nullptr, "");
  ASSERT_STRNE(tessera_last_error(), "");
  std::thread([] { EXPECT_STREQ(tessera_last_error(), ""); }).join();
  EXPECT_STRNE(tessera_last_error(), "");
}

TEST(CApiDevices, NamedDevicesThatAreNotThereAreAnEarlyError) {
  tessera_context ctx = nullptr;
  EXPECT_EQ(tessera_create_with(&ctx, "TESSERA_DEVICES=cuda TESSERA_CUDA_PLUGIN=/nonexistent/plugin.so"),
            TESSERA_NOT_AVAILABLE);
  EXPECT_EQ(ctx, nullptr);
  EXPECT_THAT(tessera_last_error(), HasSubstr("/nonexistent/plugin.so"));
}

TEST(CApiDevices, AutomaticWithoutPluginComputesOnTheCpuAndSaysSoOnce) {
  const std::string settings =
      "TESSERA_DEVICES=auto TESSERA_OFFLOAD=always TESSERA_CUDA_PLUGIN=/nonexistent/plugin.so ";
  for (const bool verbose : {false, true}) {
    testing::internal::CaptureStderr();
    {
      const Context context(settings + (verbose ? "TESSERA_VERBOSE=1" : "TESSERA_VERBOSE=0"));
      for (int repeat = 0; repeat < 2; ++repeat) {
        compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 20, 20, 20, 1, 0,
                                    1);
      }
      EXPECT_EQ(context.last_job_stats().devices, 0);
      EXPECT_THAT(context.devices(), testing::AllOf(StartsWith("cpu "), HasSubstr("/nonexistent/plugin.so")));
    }
    const std::string text = testing::internal::GetCapturedStderr();
    if (!verbose) {
      EXPECT_EQ(text, "");
      continue;
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
    EXPECT_THAT(text, StartsWith("tessera: devices cannot be used, the CPU BLAS answers: "));
    EXPECT_THAT(text, HasSubstr("dgemm NN m=20 n=20 k=20 on the CPU BLAS (the devices could not be opened)"));
  }
}

TEST(CApiDevices, ASmallCallDoesNotLookForDevices) {
  testing::internal::CaptureStderr();
  const Context context(
      "TESSERA_DEVICES=auto TESSERA_OFFLOAD=auto TESSERA_VERBOSE=1 TESSERA_CUDA_PLUGIN=/nonexistent/x.so");
  compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 20, 20, 20, 1, 0, 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("too small for devices"));
  EXPECT_THAT(text, testing::Not(HasSubstr("plugin")));
}

TEST(CApiDevices, TooLittleMemoryIsAnErrorAndLeavesCUntouched) {
  tessera_context ctx = nullptr;
  tessera_status status =
      tessera_create_with(&ctx, (std::string(on_devices) + "TESSERA_HOST_DEVICE=memory=512").c_str());
  if (status == TESSERA_SUCCESS) {
    Call call;
    call.ctx = ctx;
    call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 8;
    const std::vector<double> before = call.C;
    status = call.run();
    EXPECT_EQ(call.C, before);
  }
  EXPECT_EQ(status, TESSERA_OUT_OF_DEVICE_MEMORY);
  EXPECT_STRNE(tessera_last_error(), "");
  tessera_destroy(ctx);
}

// Something that a device refuses once concerns one call, of which the CPU does what is left.
TEST(CApiDevices, ADeviceThatRefusesSomethingServesTheNextCall) {
  testing::internal::CaptureStderr();
  const Context context(
      "TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_VERBOSE=1 "
      "TESSERA_HOST_DEVICE=refuse=3");
  for (int call = 0; call < 2; ++call)
    compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 40, 40, 40, 1, 0, 1);
  const std::string text = testing::internal::GetCapturedStderr();
  const std::size_t second = text.rfind("tessera: dgemm");
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_THAT(text.substr(0, second), HasSubstr(",cpu ("));
  EXPECT_THAT(text.substr(second), HasSubstr("on host:0 ("));
}

TEST(CApiDevices, AWrongCpuBlasIsReportedAndTheDefaultUsed) {
  testing::internal::CaptureStderr();
  const Context context("TESSERA_DEVICES=none TESSERA_CPU_BLAS=/nonexistent/libblas.so");
  compare_with_oracle<float>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 4, 4, 4, 1, 0, 1);
  compare_with_oracle<float>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 4, 4, 4, 1, 0, 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, StartsWith("tessera: TESSERA_CPU_BLAS=\"/nonexistent/libblas.so\" is not valid"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

/// The plugin's devices refuse all memory and say how much was asked for.
TEST(CApiDevices, RanksTakeTheirPartsOfDevicesAndMemory) {
  const std::string plugin = test::test_plugin("full_devices");
  const auto asked = [&](const std::string& settings) -> std::string {
    try {
      return Context("TESSERA_DEVICES=cuda TESSERA_CUDA_PLUGIN=" + plugin + " " + settings).devices();
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  EXPECT_EQ(asked("TESSERA_SHARE=off"), "test:0 has no 720000 bytes");  // of what is free
  EXPECT_EQ(asked("TESSERA_SHARE=1/2"), "test:2 has no 720000 bytes");
  EXPECT_EQ(asked("TESSERA_SHARE=5/8"), "test:2 has no 400000 bytes");  // of the whole, with one other
  EXPECT_EQ(asked("TESSERA_SHARE=5/8 TESSERA_DEVICE_MEMORY=4096"), "test:2 has no 4096 bytes");
  EXPECT_EQ(asked("TESSERA_SHARE=5/8 TESSERA_DEVICES=cuda:1,3"), "test:1 has no 720000 bytes");
}

TEST(CApiDevices, DescribesWhatItComputesOn) {
  EXPECT_THAT(Context(on_devices).devices(), testing::AllOf(StartsWith("host:0 "), HasSubstr("\nhost:1 ")));
  EXPECT_THAT(Context("TESSERA_DEVICES=host:5 TESSERA_SHARE=1/2").devices(),
              testing::AllOf(StartsWith("host:2 "), HasSubstr("\nhost:3 "), HasSubstr("\nhost:4 ")));
  EXPECT_THAT(Context("TESSERA_DEVICES=none").devices(), testing::AllOf(StartsWith("cpu "), HasSubstr("no devices")));
  EXPECT_THAT(Context(std::string(on_devices) + "TESSERA_OFFLOAD=never").devices(), HasSubstr("TESSERA_OFFLOAD=never"));
}

TEST(CApiDevices, AChildAfterForkComputesOnTheCpu) {
  const Context context(on_devices);
  compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 40, 40, 40, 1, 0, 1);
  ASSERT_EQ(context.last_job_stats().devices, 2);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<double> A(1600, 1), B(1600, 2), C(1600, 0);
    gemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 40, 40, 40, 1.0, A.data(), 40, B.data(), 40,
         0.0, C.data(), 40);
    const bool good = C == std::vector<double>(1600, 80) && context.last_job_stats().devices == 0;
    tessera_destroy(context.handle());
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CApiWarmUp, HasEachDeviceCompute) {
  const Context context("TESSERA_DEVICES=host:3");
  context.warm_up();
  tessera_job_stats stats = {};
  stats.struct_size = sizeof(stats);
  EXPECT_NE(tessera_last_job_stats(context.handle(), &stats), TESSERA_SUCCESS);  // it is nobody's call
  // One that fails at its first operation is found, whichever it is.
  for (const char* settings :
       {"fail=0;memory=64MiB", "memory=64MiB;fail=0;memory=64MiB", "memory=64MiB;memory=64MiB;fail=0"}) {
    const Context failing("TESSERA_DEVICES=host:3 TESSERA_HOST_DEVICE=" + std::string(settings));
    EXPECT_EQ(tessera_warm_up(failing.handle()), TESSERA_DEVICE_LOST) << settings;
  }
  // Nothing to open is no mistake.
  Context("TESSERA_DEVICES=none").warm_up();
  Context("TESSERA_DEVICES=auto TESSERA_CUDA_PLUGIN=/nowhere").warm_up();
}

TEST(CApiThreads, CallsOfSeveralThreadsOnOneContext) {
  const Context context(on_devices);
  std::atomic<int> failures = 0;  // relaxed would do: joined before it is read
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned repeat = 0; repeat < 5; ++repeat) {
        compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_TRANS, TESSERA_NO_TRANS, 33, 20, 25, 1.5, 0.5,
                                    t * 10 + repeat);
        if (testing::Test::HasFailure()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(CApiErrno, StaysAsItWas) {
  constexpr int value = 4711;
  tessera_context context = nullptr;
  const double one[4] = {1, 1, 1, 1};
  double C[4] = {};
  for (const char* const where : {"TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always", "TESSERA_DEVICES=none"}) {
    errno = value;
    ASSERT_EQ(tessera_create_with(&context, where), TESSERA_SUCCESS);
    EXPECT_EQ(errno, value) << where;
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(tessera_dgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 2, 2, 2, 1, one, 2, one,
                              2, 0, C, 2),
                TESSERA_SUCCESS);
      EXPECT_EQ(errno, value) << where;
    }
    EXPECT_NE(tessera_dgemm(nullptr, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 2, 2, 2, 1, one, 2, one, 2,
                            0, C, 2),
              TESSERA_SUCCESS);
    EXPECT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
    EXPECT_EQ(errno, value) << where;
  }
  EXPECT_NE(tessera_create_with(&context, "TESSERA_CUDA_PLUGIN=/nonexistent TESSERA_DEVICES=cuda"), TESSERA_SUCCESS);
  EXPECT_EQ(errno, value);
}

TEST(CApiVersion, IsTheHeadersOne) {
  EXPECT_EQ(tessera_version(), std::to_string(TESSERA_VERSION_MAJOR) + "." + std::to_string(TESSERA_VERSION_MINOR) +
                                   "." + std::to_string(TESSERA_VERSION_PATCH));
}

}  // namespace c_api_test
}  // namespace tessera
