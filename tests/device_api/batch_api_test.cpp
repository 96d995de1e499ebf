// The C interface of batches in device_blas.h: status codes, positions and untouched operands, in every library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "calls/arguments.hpp"
#include "kernels/level3_batch.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"

namespace tessera {
namespace batch_api_test {

using kernels::Level3Batch;
using test::BatchForm;
using test::DeviceApi;
using test::has_arrays;
using test::ImplementationKind;
using testing::HasSubstr;

class DeviceBatchApiTest : public ::testing::TestWithParam<ImplementationKind> {};

constexpr index_t order = 4, count = 3, elements = order * order * count;

/// Batches of every routine, type and form over the same memory: matrices of order 4 and their arrays. All elements are
/// one, so that every write shows.
class Operands {
 public:
  explicit Operands(test::Implementation& implementation) : implementation_(implementation) {
    for (std::byte*& matrix : matrices_) {
      matrix = write(std::vector<std::complex<double>>(elements, {1, 1}));
      std::vector<std::byte*> addresses;
      for (index_t i = 0; i < count; ++i)
        addresses.push_back(matrix + i * order * order * static_cast<index_t>(sizeof(std::complex<double>)));
      addresses_.push_back(write(addresses));
    }
    narrow_ = write(std::vector<int>(count, order));
    wide_ = write(std::vector<std::int64_t>(count, order));
    info_ = write(std::vector<std::int64_t>(count, 77));
  }

  Level3Batch batch(const test::DeviceRoutine& routine, BatchForm form) const {
    Level3Batch batch;
    batch.common = {.routine = routine.routine, .type = routine.type, .m = order, .n = order, .k = order};
    batch.common.beta = 2;
    batch.count = count;
    for (kernels::NumberOfEach* const number : {&batch.m, &batch.n, &batch.k, &batch.lda, &batch.ldb, &batch.ldc}) {
      if (!has_arrays(form))
        number->of_all = order;
      else
        *number = {.of_each = form == BatchForm::sizes ? narrow_ : wide_, .is_wide = form == BatchForm::wide_sizes};
    }
    std::size_t at = 0;
    for (kernels::UntypedMatrixOfEach* const matrix : {&batch.A, &batch.B, &batch.C}) {
      if (form == BatchForm::strides)
        *matrix = {.first = matrices_[at], .distance = order * order};
      else
        *matrix = {.of_each = addresses_[at]};
      ++at;
    }
    if (has_arrays(form)) batch.info = info_;
    return batch;
  }

  std::vector<std::byte> contents() const {
    constexpr std::size_t matrix_bytes = elements * sizeof(std::complex<double>), info_bytes = count * 8;
    std::vector<std::byte> bytes(matrix_bytes + info_bytes);
    implementation_.read(bytes.data(), matrices_[2], matrix_bytes);
    implementation_.read(bytes.data() + matrix_bytes, info_, info_bytes);
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

const void* moved(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }

using Change = std::function<void(Level3Batch&)>;
struct Bad {
  int position;
  const char* text;
  Change change;
};

constexpr index_t huge = index_t{1} << 40;

Change null(kernels::UntypedMatrixOfEach Level3Batch::*matrix) {
  return [=](Level3Batch& batch) { (batch.*matrix).of_each = (batch.*matrix).first = nullptr; };
}
Change null(kernels::NumberOfEach Level3Batch::*number) {
  return [=](Level3Batch& batch) { (batch.*number).of_each = nullptr; };
}
/// Moves the matrix by half of its required alignment.
Change misaligned(kernels::UntypedMatrixOfEach Level3Batch::*matrix) {
  return [=](Level3Batch& batch) {
    auto& address = (batch.*matrix).first != nullptr ? (batch.*matrix).first : (batch.*matrix).of_each;
    address = moved(address, (batch.*matrix).first != nullptr ? element_bytes(batch.common.type) / 2 : 4);
  };
}
Change misaligned(kernels::NumberOfEach Level3Batch::*number) {
  return [=](Level3Batch& batch) {
    (batch.*number).of_each = moved((batch.*number).of_each, (batch.*number).is_wide ? 4 : 2);
  };
}
Change value(kernels::NumberOfEach Level3Batch::*number, index_t value) {
  return [=](Level3Batch& batch) { (batch.*number).of_all = value; };
}
Change bound(index_t Level3::*size, index_t value) {
  return [=](Level3Batch& batch) { batch.common.*size = value; };
}
Change problems(index_t value) {
  return [=](Level3Batch& batch) { batch.count = value; };
}

/// Every argument of the three routines that differ most, in the order of the argument list. Positions count the
/// handle.
std::vector<Bad> bad_arguments(Routine routine, BatchForm form) {
  using B = Level3Batch;
  const bool of_one_size = !has_arrays(form);
  const index_t most = std::numeric_limits<index_t>::max();
  const Change misaligned_info = [](B& batch) { batch.info = const_cast<void*>(moved(batch.info, 2)); };
  const Change long_stride = [=](B& batch) { batch.A.distance = most / 8; };
  if (routine == Routine::gemm && of_one_size) {
    const int s = form == BatchForm::strides ? 1 : 0;
    std::vector<Bad> all = {{4, "m is negative", value(&B::m, -1)},
                            {5, "n is negative", value(&B::n, -1)},
                            {5, "larger than any memory", value(&B::ldc, most / 8)},
                            {5, "larger than any memory", value(&B::lda, most / 8)},
                            {5, "larger than any memory", value(&B::ldb, most / 8)},
                            {6, "k is negative", value(&B::k, -1)},
                            {8, "A is null", null(&B::A)},
                            {8, "A is not aligned", misaligned(&B::A)},
                            {9, "lda is smaller", value(&B::lda, order - 1)},
                            {10 + s, "B is null", null(&B::B)},
                            {10 + s, "B is not aligned", misaligned(&B::B)},
                            {11 + s, "ldb is smaller", value(&B::ldb, order - 1)},
                            {13 + 2 * s, "C is null", null(&B::C)},
                            {13 + 2 * s, "C is not aligned", misaligned(&B::C)},
                            {14 + 2 * s, "ldc is smaller", value(&B::ldc, order - 1)},
                            {15 + 3 * s, "batch_count is negative", problems(-1)},
                            {15 + 3 * s, "larger than any memory", problems(most)}};
    if (form != BatchForm::strides) return all;
    all.push_back({10, "the stride", long_stride});
    all.push_back({10, "the stride", [=](B& batch) { batch.A.distance = std::numeric_limits<index_t>::min(); }});
    all.push_back({13, "the stride", [=](B& batch) { batch.B.distance = -most / 8; }});
    all.push_back({17, "the stride", [=](B& batch) { batch.C.distance = most / 8; }});
    return all;
  }
  if (routine == Routine::gemm) {
    return {{4, "max_m is negative", bound(&Level3::m, -1)},
            {5, "max_n is negative", bound(&Level3::n, -1)},
            {5, "larger than any memory", [](B& batch) { batch.common.m = batch.common.n = huge; }},
            {5, "larger than any memory", [](B& batch) { batch.common.m = batch.common.k = huge; }},
            {5, "larger than any memory", [](B& batch) { batch.common.k = batch.common.n = huge; }},
            {6, "max_k is negative", bound(&Level3::k, -1)},
            {7, "m is null", null(&B::m)},
            {7, "m is not aligned", misaligned(&B::m)},
            {8, "n is null", null(&B::n)},
            {8, "n is not aligned", misaligned(&B::n)},
            {9, "k is null", null(&B::k)},
            {9, "k is not aligned", misaligned(&B::k)},
            {11, "A is null", null(&B::A)},
            {11, "A is not aligned", misaligned(&B::A)},
            {12, "lda is null", null(&B::lda)},
            {12, "lda is not aligned", misaligned(&B::lda)},
            {13, "B is null", null(&B::B)},
            {13, "B is not aligned", misaligned(&B::B)},
            {14, "ldb is null", null(&B::ldb)},
            {14, "ldb is not aligned", misaligned(&B::ldb)},
            {16, "C is null", null(&B::C)},
            {16, "C is not aligned", misaligned(&B::C)},
            {17, "ldc is null", null(&B::ldc)},
            {17, "ldc is not aligned", misaligned(&B::ldc)},
            {18, "batch_count is negative", problems(-1)},
            {18, "larger than any memory", problems(most)},
            {19, "info is not aligned", misaligned_info}};
  }
  if (routine == Routine::syrk && of_one_size) {
    const int s = form == BatchForm::strides ? 1 : 0;
    return {{4, "n is negative", value(&B::n, -1)},        {4, "larger than any memory", value(&B::ldc, most / 8)},
            {5, "k is negative", value(&B::k, -1)},        {7, "A is null", null(&B::A)},
            {8, "lda is smaller", value(&B::lda, 3)},      {10 + s, "C is null", null(&B::C)},
            {11 + s, "ldc is smaller", value(&B::ldc, 3)}, {12 + 2 * s, "batch_count is negative", problems(-1)}};
  }
  if (routine == Routine::syrk) {
    return {{4, "max_n is negative", bound(&Level3::n, -1)},
            {4, "larger than any memory", bound(&Level3::n, huge)},
            {5, "max_k is negative", bound(&Level3::k, -1)},
            {6, "n is null", null(&B::n)},
            {7, "k is null", null(&B::k)},
            {9, "A is null", null(&B::A)},
            {10, "lda is null", null(&B::lda)},
            {12, "C is null", null(&B::C)},
            {13, "ldc is null", null(&B::ldc)},
            {14, "batch_count is negative", problems(-1)},
            {15, "info is not aligned", misaligned_info}};
  }
  if (of_one_size) {  // trsm
    const int s = form == BatchForm::strides ? 1 : 0;
    return {{6, "m is negative", value(&B::m, -1)},
            {7, "n is negative", value(&B::n, -1)},
            {7, "larger than any memory", value(&B::ldc, most / 8)},
            {9, "A is null", null(&B::A)},
            {10, "lda is smaller", value(&B::lda, order - 1)},
            {11 + s, "B is null", null(&B::C)},
            {11 + s, "B is not aligned", misaligned(&B::C)},
            {12 + s, "ldb is smaller", value(&B::ldc, order - 1)},
            {13 + 2 * s, "batch_count is negative", problems(-1)}};
  }
  return {{6, "max_m is negative", bound(&Level3::m, -1)},
          {7, "max_n is negative", bound(&Level3::n, -1)},
          {8, "m is null", null(&B::m)},
          {9, "n is null", null(&B::n)},
          {11, "A is null", null(&B::A)},
          {12, "lda is null", null(&B::lda)},
          {13, "B is null", null(&B::C)},
          {14, "ldb is null", null(&B::ldc)},
          {15, "batch_count is negative", problems(-1)},
          {16, "info is not aligned", misaligned_info}};
}

TEST_P(DeviceBatchApiTest, BadArgumentsAreNamedAndTouchNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  const std::vector<std::byte> before = operands.contents();
  for (const test::DeviceRoutine& routine : test::all_batch_routines()) {
    for (const BatchForm form : test::all_batch_forms) {
      const auto expect_refused = [&](tessera_device_handle handle, const Level3Batch& batch, int position) {
        EXPECT_EQ(api.run_batch(handle, form, batch), TESSERA_INVALID_ARGUMENT);
        EXPECT_EQ(api.tessera_device_last_error_position(), position) << name_of(batch.common);
      };
      expect_refused(nullptr, operands.batch(routine, form), 1);
      if (routine.routine != Routine::gemm && routine.routine != Routine::syrk && routine.routine != Routine::trsm)
        continue;
      for (const Bad& bad : bad_arguments(routine.routine, form)) {
        SCOPED_TRACE(bad.text);
        Level3Batch batch = operands.batch(routine, form);
        bad.change(batch);
        expect_refused(library->handle(), batch, bad.position);
        EXPECT_THAT(api.tessera_device_last_error(), HasSubstr(bad.text));
      }
    }
  }
  EXPECT_EQ(operands.contents(), before);
}

TEST_P(DeviceBatchApiTest, EnumeratorsThatNameNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const auto position_of_trsm = [&](int side, int uplo, int trans, int diag) {
    EXPECT_EQ(api.tessera_device_dtrsm_vbatched(library->handle(), static_cast<tessera_side>(side),
                                                static_cast<tessera_uplo>(uplo), static_cast<tessera_transpose>(trans),
                                                static_cast<tessera_diag>(diag), 0, 0, nullptr, nullptr, 1, nullptr,
                                                nullptr, nullptr, nullptr, 0, nullptr),
              TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  EXPECT_EQ(position_of_trsm(140, TESSERA_LOWER, TESSERA_TRANS, TESSERA_UNIT), 2);
  EXPECT_EQ(position_of_trsm(TESSERA_RIGHT, TESSERA_RIGHT, TESSERA_TRANS, TESSERA_UNIT), 3);
  EXPECT_EQ(position_of_trsm(TESSERA_RIGHT, TESSERA_LOWER, 0, TESSERA_UNIT), 4);
  EXPECT_EQ(position_of_trsm(TESSERA_RIGHT, TESSERA_LOWER, TESSERA_TRANS, 133), 5);
  // A Hermitian routine has no plain transpose, and a symmetric one no conjugate transpose.
  EXPECT_EQ(api.tessera_device_zherk_batched(library->handle(), TESSERA_LOWER, TESSERA_TRANS, 1, 1, 1, nullptr, 1, 0,
                                             nullptr, 1, 0),
            TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 3);
  const std::complex<double> one(1);
  EXPECT_EQ(api.tessera_device_zsyrk_strided_batched(library->handle(), TESSERA_LOWER, TESSERA_CONJ_TRANS, 1, 1, &one,
                                                     nullptr, 1, 1, &one, nullptr, 1, 1, 0),
            TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 3);
}

TEST_P(DeviceBatchApiTest, ComplexFactorsMustBeThere) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const std::complex<double> one(1);
  const auto position_of_gemm = [&](const void* alpha, const void* beta) {
    EXPECT_EQ(api.tessera_device_zgemm_batched(library->handle(), TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 1, alpha,
                                               nullptr, 1, nullptr, 1, beta, nullptr, 1, 0),
              TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  EXPECT_EQ(position_of_gemm(nullptr, &one), 7);
  EXPECT_EQ(position_of_gemm(&one, nullptr), 12);
  EXPECT_EQ(
      api.tessera_device_cher2k_vbatched(library->handle(), TESSERA_UPPER, TESSERA_NO_TRANS, 0, 0, nullptr, nullptr,
                                         nullptr, nullptr, nullptr, nullptr, nullptr, 1, nullptr, nullptr, 0, nullptr),
      TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(api.tessera_device_last_error_position(), 8);
}

// Without problems, or with problems of size zero, no operand need exist. The call does not know sizes in arrays.
TEST_P(DeviceBatchApiTest, NothingToDoNeedsNoOperands) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  for (const test::DeviceRoutine& routine : test::all_batch_routines()) {
    for (const BatchForm form : test::all_batch_forms) {
      Level3Batch nothing;
      nothing.common = {.routine = routine.routine, .type = routine.type};
      for (kernels::NumberOfEach* const number :
           {&nothing.m, &nothing.n, &nothing.k, &nothing.lda, &nothing.ldb, &nothing.ldc})
        number->of_all = order;
      EXPECT_EQ(api.run_batch(library->handle(), form, nothing), TESSERA_SUCCESS) << api.tessera_device_last_error();
      if (has_arrays(form)) continue;
      nothing.count = count;
      for (const bool rows : {false, true}) {
        if (rows && updates_triangle(routine.routine)) continue;
        Level3Batch batch = nothing;
        (rows ? batch.m : batch.n).of_all = 0;
        EXPECT_EQ(api.run_batch(library->handle(), form, batch), TESSERA_SUCCESS) << api.tessera_device_last_error();
      }
    }
  }
}

// All problems are good, and every function computes them.
TEST_P(DeviceBatchApiTest, EveryFunctionRuns) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const Operands operands(*library);
  for (const test::DeviceRoutine& routine : test::all_batch_routines()) {
    for (const BatchForm form : test::all_batch_forms) {
      EXPECT_EQ(api.run_batch(library->handle(), form, operands.batch(routine, form)), TESSERA_SUCCESS)
          << api.tessera_device_last_error();
    }
  }
}

TEST_P(DeviceBatchApiTest, WorkspaceIsAskedForByCount) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  std::size_t bytes = 1;
  EXPECT_EQ(api.tessera_device_batch_workspace(library->handle(), 1000, &bytes), TESSERA_SUCCESS);
  EXPECT_LE(bytes, std::size_t{1} << 20);
  EXPECT_EQ(api.tessera_device_batch_workspace(library->handle(), 0, &bytes), TESSERA_SUCCESS);
  EXPECT_EQ(bytes, 0u);
  const auto position = [&](tessera_device_handle handle, index_t problems, std::size_t* to) {
    EXPECT_EQ(api.tessera_device_batch_workspace(handle, problems, to), TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  EXPECT_EQ(position(nullptr, 1, &bytes), 1);
  EXPECT_EQ(position(library->handle(), -1, &bytes), 2);
  EXPECT_EQ(position(library->handle(), std::numeric_limits<index_t>::max(), &bytes), 2);
  EXPECT_EQ(position(library->handle(), 1, nullptr), 3);
}

#define TESSERA_INSTANTIATE_BATCH_API(prefix, kind)                                         \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceBatchApiTest,                                      \
                           ::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                           ::testing::PrintToStringParamName())
TESSERA_INSTANTIATE_BATCH_API(Reference, reference);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_BATCH_API(Cuda, cuda);
TESSERA_INSTANTIATE_BATCH_API(Standin, cuda_standin);
#endif

}  // namespace batch_api_test
}  // namespace tessera
