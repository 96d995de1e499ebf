// The C interface of device_half.h: status codes, positions, untouched operands and conversions on the host, in every
// library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "core/half.hpp"
#include "kernels/half_batch.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"

namespace tessera {
namespace half_api_test {

using kernels::HalfBatch;
using kernels::Level3Batch;
using test::BatchForm;
using test::DeviceApi;
using test::has_arrays;
using test::ImplementationKind;
using testing::HasSubstr;

class DeviceHalfApiTest : public ::testing::TestWithParam<ImplementationKind> {};

constexpr index_t order = 4, count = 3;

/// Batches over the same memory, in which all numbers are 1.
class Operands {
 public:
  explicit Operands(test::Implementation& implementation) : implementation_(implementation) {
    for (std::byte*& matrix : matrices_) {
      matrix = write(std::vector<Half>(2 * order * order * count, Half{0x3c00}));
      std::vector<std::byte*> addresses;
      for (index_t i = 0; i < count; ++i) addresses.push_back(matrix + i * order * order * 4);
      addresses_.push_back(write(addresses));
    }
    narrow_ = write(std::vector<int>(count, order));
    wide_ = write(std::vector<std::int64_t>(count, order));
    info_ = write(std::vector<std::int64_t>(count, 77));
  }

  HalfBatch batch(HalfType type, BatchForm form) const {
    HalfBatch batch{.stored = type};
    Level3Batch& of = batch.products;
    of.common = {.routine = Routine::gemm, .type = kernels::sums_of(type), .m = order, .n = order, .k = order};
    of.common.beta = 2;
    of.count = count;
    for (kernels::NumberOfEach* const number : {&of.m, &of.n, &of.k, &of.lda, &of.ldb, &of.ldc}) {
      if (!has_arrays(form))
        number->of_all = order;
      else
        *number = {.of_each = form == BatchForm::sizes ? narrow_ : wide_, .is_wide = form == BatchForm::wide_sizes};
    }
    std::size_t at = 0;
    for (kernels::UntypedMatrixOfEach* const matrix : {&of.A, &of.B, &of.C}) {
      if (form == BatchForm::strides)
        *matrix = {.first = matrices_[at], .distance = order * order};
      else
        *matrix = {.of_each = addresses_[at]};
      ++at;
    }
    if (has_arrays(form)) of.info = info_;
    return batch;
  }

  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(4 * order * order * count + 8 * count);
    implementation_.read(bytes.data(), matrices_[2], 4 * order * order * count);
    implementation_.read(bytes.data() + 4 * order * order * count, info_, 8 * count);
    return bytes;
  }

 private:
  template <class T>
  std::byte* write(const std::vector<T>& values) const {
    std::byte* const memory = implementation_.allocate(values.size() * sizeof(T));
    implementation_.write(memory, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T));
    return memory;
  }

  test::Implementation& implementation_;
  std::byte* matrices_[3] = {};
  std::vector<std::byte*> addresses_;
  std::byte *narrow_ = nullptr, *wide_ = nullptr, *info_ = nullptr;
};

struct Bad {
  int position;
  const char* text;
  std::function<void(Level3Batch&)> change;
};

const void* moved(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }

std::vector<Bad> bad_arguments(BatchForm form, std::size_t element) {
  using B = Level3Batch;
  constexpr index_t most = std::numeric_limits<index_t>::max();
  if (has_arrays(form)) {
    return {{4, "max_m is negative", [](B& b) { b.common.m = -1; }},
            {5, "larger than any memory", [](B& b) { b.common.m = b.common.n = index_t{1} << 40; }},
            {7, "m is null", [](B& b) { b.m.of_each = nullptr; }},
            {9, "k is not aligned", [](B& b) { b.k.of_each = moved(b.k.of_each, 2); }},
            {11, "A is null", [](B& b) { b.A.of_each = nullptr; }},
            {14, "ldb is null", [](B& b) { b.ldb.of_each = nullptr; }},
            {16, "C is not aligned", [](B& b) { b.C.of_each = moved(b.C.of_each, 4); }},
            {18, "batch_count is negative", [](B& b) { b.count = -1; }},
            {19, "info is not aligned", [](B& b) { b.info = const_cast<void*>(moved(b.info, 2)); }}};
  }
  const int s = form == BatchForm::strides ? 1 : 0;
  std::vector<Bad> all = {{4, "m is negative", [](B& b) { b.m.of_all = -1; }},
                          {6, "k is negative", [](B& b) { b.k.of_all = -1; }},
                          {8, "A is null", [](B& b) { b.A = {}; }},
                          {9, "lda is smaller", [](B& b) { b.lda.of_all = order - 1; }},
                          {10 + s, "B is null", [](B& b) { b.B = {}; }},
                          {11 + s, "ldb is smaller", [](B& b) { b.ldb.of_all = order - 1; }},
                          {13 + 2 * s, "C is null", [](B& b) { b.C = {}; }},
                          {14 + 2 * s, "ldc is smaller", [](B& b) { b.ldc.of_all = order - 1; }},
                          {5, "larger than any memory", [](B& b) { b.ldc.of_all = most / 4; }},
                          {15 + 3 * s, "batch_count is negative", [](B& b) { b.count = -1; }}};
  if (form == BatchForm::strides) {
    all.push_back({8, "A is not aligned", [=](B& b) { b.A.first = moved(b.A.first, element / 2); }});
    all.push_back({15, "C is not aligned", [=](B& b) { b.C.first = moved(b.C.first, element / 2); }});
    all.push_back({17, "the stride", [](B& b) { b.C.distance = most / 4; }});
  }
  return all;
}

TEST_P(DeviceHalfApiTest, BadArgumentsAreNamedAndTouchNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  const std::vector<std::byte> before = operands.contents();
  for (const HalfType type : half_types) {
    for (const BatchForm form : test::all_batch_forms) {
      const auto expect_refused = [&](tessera_device_handle handle, const HalfBatch& batch, int position) {
        EXPECT_EQ(api.run_half(handle, form, batch), TESSERA_INVALID_ARGUMENT);
        EXPECT_EQ(api.tessera_device_last_error_position(), position) << letters(type);
      };
      expect_refused(nullptr, operands.batch(type, form), 1);
      for (const Bad& bad : bad_arguments(form, element_bytes(type))) {
        SCOPED_TRACE(bad.text);
        HalfBatch batch = operands.batch(type, form);
        bad.change(batch.products);
        expect_refused(library->handle(), batch, bad.position);
        EXPECT_THAT(api.tessera_device_last_error(), HasSubstr(bad.text));
      }
    }
  }
  EXPECT_EQ(operands.contents(), before);
}

TEST_P(DeviceHalfApiTest, EnumeratorsAndComplexFactors) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  EXPECT_EQ(api.tessera_device_hgemm_batched(library->handle(), static_cast<tessera_transpose>(0), TESSERA_TRANS, 1, 1,
                                             1, 1, nullptr, 1, nullptr, 1, 0, nullptr, 1, 0),
            TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 2);
  const float one[2] = {1, 0};
  const auto position_of_null = [&](const void* alpha, const void* beta) {
    EXPECT_EQ(api.tessera_device_hcgemm_batched(library->handle(), TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 1, alpha,
                                                nullptr, 1, nullptr, 1, beta, nullptr, 1, 0),
              TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  EXPECT_EQ(position_of_null(nullptr, one), 7);
  EXPECT_EQ(position_of_null(one, nullptr), 12);
}

// No operand is read.
TEST_P(DeviceHalfApiTest, EmptyBatchesAndProblems) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const Operands operands(*library);
  const std::vector<std::byte> before = operands.contents();
  for (const HalfType type : half_types) {
    for (const BatchForm form : test::all_batch_forms) {
      HalfBatch batch = operands.batch(type, form);
      batch.products.count = 0;
      batch.products.A = batch.products.B = batch.products.C = {};
      EXPECT_EQ(library->api().run_half(library->handle(), form, batch), TESSERA_SUCCESS);
      if (has_arrays(form)) continue;
      batch.products.count = count;
      batch.products.n.of_all = 0;
      EXPECT_EQ(library->api().run_half(library->handle(), form, batch), TESSERA_SUCCESS);
    }
  }
  EXPECT_EQ(operands.contents(), before);
}

TEST_P(DeviceHalfApiTest, NumbersOnTheHost) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  EXPECT_EQ(api.tessera_device_float_to_half(1.5F), 0x3e00);
  EXPECT_EQ(api.tessera_device_half_to_float(0xc400), -4.0F);
  EXPECT_EQ(api.tessera_device_float_to_half(1e6F), 0x7c00);
  EXPECT_EQ(api.tessera_device_float_to_bfloat16(1.5F), 0x3fc0);
  EXPECT_EQ(api.tessera_device_bfloat16_to_float(0xc080), -4.0F);
  EXPECT_TRUE(std::isnan(api.tessera_device_half_to_float(api.tessera_device_float_to_half(NAN))));
}

#define TESSERA_INSTANTIATE_HALF_API(prefix, kind)                                                                     \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceHalfApiTest, ::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                           ::testing::PrintToStringParamName())
TESSERA_INSTANTIATE_HALF_API(Reference, reference);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_HALF_API(Cuda, cuda);
TESSERA_INSTANTIATE_HALF_API(Standin, cuda_standin);
#endif

}  // namespace half_api_test
}  // namespace tessera
