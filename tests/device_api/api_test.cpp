// The C interface of device_blas.h: status codes, positions and untouched operands, for every function of the table and
// in every library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"

namespace tessera {
namespace api_test {

using test::DeviceApi;
using test::ImplementationKind;
using testing::HasSubstr;

class DeviceApiTest : public ::testing::TestWithParam<ImplementationKind> {};

constexpr index_t order = 5, columns = 4, elements = 64;

/// Operands of every type: all elements are one, in device memory.
struct Operands {
  explicit Operands(test::Implementation& to) : implementation(to), A(make()), B(make()) {}

  std::byte* make() const {
    std::byte* const memory = implementation.allocate(elements * sizeof(std::complex<double>));
    const std::vector<std::complex<double>> ones(elements, {1, 1});
    implementation.write(memory, reinterpret_cast<const std::byte*>(ones.data()), elements * sizeof ones[0]);
    return memory;
  }
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(elements * sizeof(std::complex<double>));
    implementation.read(bytes.data(), B, bytes.size());
    return bytes;
  }
  Level3 call(const test::DeviceRoutine& routine) const {
    Level3 call{.routine = routine.routine, .type = routine.type, .m = order, .n = columns};
    call.A = A;
    call.lda = order;
    call.C = B;
    call.ldc = order;
    return call;
  }

  test::Implementation& implementation;
  std::byte* const A;
  std::byte* const B;
};

void* moved(void* address, std::size_t bytes) { return static_cast<std::byte*>(address) + bytes; }
const void* moved(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }

// Positions count the handle: side 2, uplo 3, transa 4, diag 5, m 6, n 7, alpha 8, A 9, lda 10, B 11, ldb 12.
TEST_P(DeviceApiTest, BadArgumentsAreNamedAndTouchNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  const std::vector<std::byte> before = operands.contents();
  struct Bad {
    int position;
    const char* text;
    std::function<void(Level3&)> change;
  };
  const std::vector<Bad> all = {
      {6, "m is negative", [](Level3& call) { call.m = -1; }},
      {7, "n is negative", [](Level3& call) { call.n = -1; }},
      {7, "larger than any memory",
       [](Level3& call) {
         call.n = index_t{1} << 40;
         call.ldc = index_t{1} << 40;
       }},
      {9, "A is null", [](Level3& call) { call.A = nullptr; }},
      {9, "not aligned", [](Level3& call) { call.A = moved(call.A, element_bytes(call.type) / 2); }},
      {10, "lda is smaller", [](Level3& call) { call.lda = order - 1; }},
      {10, "lda is smaller",
       [](Level3& call) {
         call.side = Side::right;
         call.lda = columns - 1;
       }},
      {11, "B is null", [](Level3& call) { call.C = nullptr; }},
      {11, "not aligned", [](Level3& call) { call.C = moved(call.C, element_bytes(call.type) / 2); }},
      {11, "not aligned", [](Level3& call) { call.C = moved(call.C, 1); }},
      {11, "B is null",
       [](Level3& call) {
         call.alpha = 0;
         call.C = nullptr;
       }},
      {12, "ldb is smaller", [](Level3& call) { call.ldc = order - 1; }},
      {6, "m is negative",
       [](Level3& call) {  // the first of several bad arguments
         call.m = -1;
         call.A = nullptr;
         call.ldc = 0;
       }},
  };
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    for (const Bad& bad : all) {
      Level3 call = operands.call(routine);
      bad.change(call);
      EXPECT_EQ(api.run(library->handle(), call), TESSERA_INVALID_ARGUMENT) << bad.text;
      EXPECT_EQ(api.tessera_device_last_error_position(), bad.position);
      EXPECT_THAT(api.tessera_device_last_error(), HasSubstr(bad.text));
    }
    EXPECT_EQ(api.run(nullptr, operands.call(routine)), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(api.tessera_device_last_error_position(), 1);
  }
  EXPECT_EQ(operands.contents(), before);
}

TEST_P(DeviceApiTest, EnumeratorsThatNameNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  auto* const A = reinterpret_cast<float*>(operands.A);
  auto* const B = reinterpret_cast<float*>(operands.B);
  const auto position = [&](int side, int uplo, int trans, int diag) {
    EXPECT_EQ(api.tessera_device_strsm(library->handle(), static_cast<tessera_side>(side),
                                       static_cast<tessera_uplo>(uplo), static_cast<tessera_transpose>(trans),
                                       static_cast<tessera_diag>(diag), order, columns, 1, A, order, B, order),
              TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  EXPECT_EQ(position(140, TESSERA_LOWER, TESSERA_TRANS, TESSERA_UNIT), 2);
  EXPECT_EQ(position(TESSERA_RIGHT, TESSERA_RIGHT, TESSERA_TRANS, TESSERA_UNIT), 3);
  EXPECT_EQ(position(TESSERA_RIGHT, TESSERA_LOWER, 0, TESSERA_UNIT), 4);
  EXPECT_EQ(position(TESSERA_RIGHT, TESSERA_LOWER, TESSERA_TRANS, 133), 5);
}

TEST_P(DeviceApiTest, ComplexAlphaMustBeThere) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  for (const auto function : {api.tessera_device_ztrsm, api.tessera_device_ztrmm}) {
    EXPECT_EQ(function(library->handle(), TESSERA_LEFT, TESSERA_LOWER, TESSERA_TRANS, TESSERA_UNIT, order, columns,
                       nullptr, operands.A, order, operands.B, order),
              TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(api.tessera_device_last_error_position(), 8);
  }
}

TEST_P(DeviceApiTest, NothingToDoNeedsNoOperands) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const Operands operands(*library);
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    for (const bool rows : {false, true}) {
      Level3 call = operands.call(routine);
      (rows ? call.m : call.n) = 0;
      call.A = call.C = nullptr;
      EXPECT_EQ(library->api().run(library->handle(), call), TESSERA_SUCCESS);
    }
    Level3 zero = operands.call(routine);
    zero.alpha = 0;
    zero.A = moved(zero.A, 1);  // not read
    EXPECT_EQ(library->api().run(library->handle(), zero), TESSERA_SUCCESS);
  }
}

TEST_P(DeviceApiTest, SuccessForgetsTheLastError) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  EXPECT_EQ(api.tessera_device_set_stream(nullptr, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 1);
  EXPECT_THAT(api.tessera_device_last_error(), HasSubstr("handle is null"));
  errno = ERANGE;
  EXPECT_EQ(api.tessera_device_set_workspace(library->handle(), nullptr, 0), TESSERA_SUCCESS);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(api.tessera_device_last_error_position(), 0);
  EXPECT_STREQ(api.tessera_device_last_error(), "");
}

TEST_P(DeviceApiTest, HandlesAreMadeAndDestroyed) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  EXPECT_EQ(api.tessera_device_create(nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 1);
  EXPECT_EQ(api.tessera_device_destroy(nullptr), TESSERA_SUCCESS);
  errno = ERANGE;
  tessera_device_handle second = nullptr;
  ASSERT_EQ(api.tessera_device_create(&second), TESSERA_SUCCESS) << api.tessera_device_last_error();
  EXPECT_NE(second, nullptr);
  EXPECT_NE(second, library->handle());
  // The default stream.
  const Operands operands(*library);
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    EXPECT_EQ(api.run(second, operands.call(routine)), TESSERA_SUCCESS) << api.tessera_device_last_error();
  }
  EXPECT_EQ(errno, ERANGE);
  static_cast<void>(operands.contents());  // waits until all submitted work is done
  EXPECT_EQ(api.tessera_device_destroy(second), TESSERA_SUCCESS);
}

TEST_P(DeviceApiTest, WorkspaceIsChecked) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  std::byte* const memory = library->allocate(1024);
  EXPECT_EQ(api.tessera_device_set_workspace(nullptr, memory, 512), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 1);
  EXPECT_EQ(api.tessera_device_set_workspace(library->handle(), nullptr, 1), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 2);
  EXPECT_EQ(api.tessera_device_set_workspace(library->handle(), memory + 128, 512), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 2);
  EXPECT_THAT(api.tessera_device_last_error(), HasSubstr("256"));
  EXPECT_EQ(api.tessera_device_set_workspace(library->handle(), memory + 256, 512), TESSERA_SUCCESS);
  EXPECT_EQ(api.tessera_device_set_workspace(library->handle(), memory, 0), TESSERA_SUCCESS);
}

TEST_P(DeviceApiTest, WorkspaceIsAskedForWithoutOperands) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    std::size_t bytes = 1;
    Level3 call{.routine = routine.routine, .type = routine.type, .m = 2000, .n = 3};
    EXPECT_EQ(api.workspace(library->handle(), call, &bytes), TESSERA_SUCCESS);
    EXPECT_LE(bytes, std::size_t{1} << 24);
    call.m = 0;
    EXPECT_EQ(api.workspace(library->handle(), call, &bytes), TESSERA_SUCCESS);
    EXPECT_EQ(bytes, 0u);
    call.m = -1;
    EXPECT_EQ(api.workspace(library->handle(), call, &bytes), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(api.tessera_device_last_error_position(), 6);
    call.m = call.n = std::numeric_limits<index_t>::max();
    EXPECT_EQ(api.workspace(library->handle(), call, &bytes), TESSERA_INVALID_ARGUMENT);
    call.m = call.n = 5;
    EXPECT_EQ(api.workspace(library->handle(), call, nullptr), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(api.tessera_device_last_error_position(), 8);
    EXPECT_EQ(api.workspace(nullptr, call, &bytes), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(api.tessera_device_last_error_position(), 1);
  }
}

#define TESSERA_INSTANTIATE_API(prefix, kind)                                                                      \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceApiTest, ::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                           ::testing::PrintToStringParamName())
TESSERA_INSTANTIATE_API(Reference, reference);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_API(Cuda, cuda);
TESSERA_INSTANTIATE_API(Standin, cuda_standin);
#endif

}  // namespace api_test
}  // namespace tessera
