// The C interface of device_lapack.h: status codes, positions and untouched operands, in every library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "calls/lapack.hpp"
#include "kernels/lapack_batch.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"

namespace tessera {
namespace lapack_api_test {

using kernels::LapackBatch;
using test::BatchForm;
using test::DeviceApi;
using test::has_arrays;
using test::ImplementationKind;
using testing::HasSubstr;

class DeviceLapackApiTest : public ::testing::TestWithParam<ImplementationKind> {};

constexpr index_t order = 4, count = 3, elements = order * order * count;

/// Batches of every routine, type and form over the same memory: unit matrices of order 4, pivots that interchange
/// nothing, and their arrays.
class LapackOperands {
 public:
  explicit LapackOperands(test::Implementation& implementation) : implementation_(implementation) {
    for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
      for (Operand* const operand : {&A_[static_cast<int>(type)], &B_[static_cast<int>(type)]}) {
        dispatch(type, [&]<Scalar T>(T) {
          std::vector<T> units(elements);
          for (index_t i = 0; i < elements; ++i) units[static_cast<std::size_t>(i)] = T(i % 16 % 5 == 0 ? 1 : 0);
          *operand = with_addresses(units, order * order);
        });
      }
    }
    std::vector<int> narrow;
    std::vector<std::int64_t> wide;
    for (index_t i = 0; i < order * count; ++i) {
      narrow.push_back(static_cast<int>(i % order + 1));
      wide.push_back(i % order + 1);
    }
    ipiv_[0] = with_addresses(narrow, order);
    ipiv_[1] = with_addresses(wide, order);
    numbers_[0] = write(std::vector<int>(count, order));
    numbers_[1] = write(std::vector<std::int64_t>(count, order));
    ones_[0] = write(std::vector<int>(count, 1));
    ones_[1] = write(std::vector<std::int64_t>(count, 1));
    info_ = write(std::vector<std::int64_t>(count, 77));
  }

  LapackBatch batch(Routine routine, ScalarType type, BatchForm form) const {
    LapackBatch batch;
    batch.routine = routine;
    batch.type = type;
    batch.max_m = batch.max_n = batch.max_nrhs = order;
    batch.count = count;
    batch.is_wide = form == BatchForm::wide_sizes;
    for (kernels::NumberOfEach* const number :
         {&batch.m, &batch.n, &batch.nrhs, &batch.lda, &batch.ldb, &batch.k1, &batch.k2}) {
      const bool is_one = number == &batch.k1;
      if (!has_arrays(form))
        number->of_all = is_one ? 1 : order;
      else
        *number = {.of_each = (is_one ? ones_ : numbers_)[batch.is_wide ? 1 : 0], .is_wide = batch.is_wide};
    }
    const auto matrix = [&](const Operand& operand, index_t distance) -> kernels::UntypedMatrixOfEach {
      if (form == BatchForm::strides) return {.first = operand.first, .distance = distance};
      return {.of_each = operand.addresses};
    };
    batch.A = matrix(A_[static_cast<int>(type)], order * order);
    batch.B = matrix(B_[static_cast<int>(type)], order * order);
    batch.ipiv = matrix(ipiv_[batch.is_wide ? 1 : 0], order);
    batch.info = info_;
    return batch;
  }

  /// The contents of the matrices in double precision, and of info.
  std::vector<std::byte> contents() const {
    constexpr std::size_t matrix_bytes = elements * sizeof(double), info_bytes = count * 8;
    std::vector<std::byte> bytes(2 * matrix_bytes + info_bytes);
    implementation_.read(bytes.data(), A_[static_cast<int>(ScalarType::d)].first, matrix_bytes);
    implementation_.read(bytes.data() + matrix_bytes, B_[static_cast<int>(ScalarType::d)].first, matrix_bytes);
    implementation_.read(bytes.data() + 2 * matrix_bytes, info_, info_bytes);
    return bytes;
  }
  template <class Integer>
  std::vector<Integer> info() const {
    std::vector<Integer> values(count);
    implementation_.read(reinterpret_cast<std::byte*>(values.data()), info_, count * sizeof(Integer));
    return values;
  }
  void forget_info() const {
    const std::vector<std::int64_t> values(count, 77);
    implementation_.write(info_, reinterpret_cast<const std::byte*>(values.data()), count * 8);
  }

 private:
  struct Operand {
    std::byte* first = nullptr;
    std::byte* addresses = nullptr;
  };
  template <class Element>
  std::byte* write(const std::vector<Element>& values) const {
    std::byte* const memory = implementation_.allocate(values.size() * sizeof(Element));
    implementation_.write(memory, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(Element));
    return memory;
  }
  template <class Element>
  Operand with_addresses(const std::vector<Element>& values, index_t distance) const {
    Operand operand{.first = write(values)};
    std::vector<std::byte*> addresses;
    for (index_t i = 0; i < count; ++i)
      addresses.push_back(operand.first + i * distance * static_cast<index_t>(sizeof(Element)));
    operand.addresses = write(addresses);
    return operand;
  }

  test::Implementation& implementation_;
  Operand A_[4], B_[4], ipiv_[2];
  std::byte *numbers_[2] = {}, *ones_[2] = {}, *info_ = nullptr;
};

using Change = std::function<void(LapackBatch&)>;
struct Bad {
  int position;
  const char* text;
  Change change;
};

const void* moved(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }
Change value(kernels::NumberOfEach LapackBatch::*number, index_t value) {
  return [=](LapackBatch& batch) { (batch.*number).of_all = value; };
}
Change null(kernels::NumberOfEach LapackBatch::*number) {
  return [=](LapackBatch& batch) { (batch.*number).of_each = nullptr; };
}
Change misaligned(kernels::NumberOfEach LapackBatch::*number) {
  return [=](LapackBatch& batch) {
    (batch.*number).of_each = moved((batch.*number).of_each, (batch.*number).is_wide ? 4 : 2);
  };
}
Change null(kernels::UntypedMatrixOfEach LapackBatch::*matrix) {
  return [=](LapackBatch& batch) { (batch.*matrix).of_each = (batch.*matrix).first = nullptr; };
}
/// Moves the matrix by two bytes, to which no element may be aligned.
Change misaligned(kernels::UntypedMatrixOfEach LapackBatch::*matrix) {
  return [=](LapackBatch& batch) {
    const void*& address = (batch.*matrix).first != nullptr ? (batch.*matrix).first : (batch.*matrix).of_each;
    address = moved(address, 2);
  };
}
Change bound(index_t LapackBatch::*size, index_t value) {
  return [=](LapackBatch& batch) { batch.*size = value; };
}

constexpr index_t most = std::numeric_limits<index_t>::max();

/// Every argument of the routines with the most different lists, in the order of the list. Positions count the handle.
std::vector<Bad> bad_arguments(Routine routine, BatchForm form) {
  using B = LapackBatch;
  const bool of_one_size = !has_arrays(form);
  const int s = form == BatchForm::strides ? 1 : 0;
  const auto no_info = [](B& batch) { batch.info = nullptr; };
  const auto misaligned_info = [](B& batch) { batch.info = const_cast<void*>(moved(batch.info, 2)); };
  std::vector<Bad> all;
  if (routine == Routine::getrs && of_one_size) {
    all = {{3, "n is negative", value(&B::n, -1)},
           {3, "larger than pivots", value(&B::n, most / 64)},
           {3, "larger than any memory", value(&B::lda, most / 8)},
           {3, "larger than any memory", value(&B::ldb, most / 8)},
           {4, "nrhs is negative", value(&B::nrhs, -1)},
           {5, "A is null", null(&B::A)},
           {5, "A is not aligned", misaligned(&B::A)},
           {6, "lda is smaller", value(&B::lda, order - 1)},
           {7 + s, "ipiv is not aligned", misaligned(&B::ipiv)},
           {8 + 2 * s, "B is null", null(&B::B)},
           {8 + 2 * s, "B is not aligned", misaligned(&B::B)},
           {9 + 2 * s, "ldb is smaller", value(&B::ldb, order - 1)},
           {10 + 3 * s, "info is not aligned", misaligned_info},
           {11 + 3 * s, "batch_count is negative", bound(&B::count, -1)},
           {11 + 3 * s, "larger than any memory", bound(&B::count, most)}};
    if (form != BatchForm::strides) return all;
    all.push_back({7, "the stride", [](B& batch) { batch.A.distance = most / 8; }});
    all.push_back({9, "the stride", [](B& batch) { batch.ipiv.distance = -most / 8; }});
    all.push_back({12, "the stride", [](B& batch) { batch.B.distance = std::numeric_limits<index_t>::min(); }});
    return all;
  }
  if (routine == Routine::getrs) {
    return {{3, "max_n is negative", bound(&B::max_n, -1)},
            {3, "larger than any memory", bound(&B::max_n, index_t{1} << 40)},
            {4, "max_nrhs is negative", bound(&B::max_nrhs, -1)},
            {5, "n is null", null(&B::n)},
            {5, "n is not aligned", misaligned(&B::n)},
            {6, "nrhs is null", null(&B::nrhs)},
            {7, "A is null", null(&B::A)},
            {8, "lda is null", null(&B::lda)},
            {9, "ipiv is not aligned", misaligned(&B::ipiv)},
            {10, "B is null", null(&B::B)},
            {11, "ldb is null", null(&B::ldb)},
            {11, "ldb is not aligned", misaligned(&B::ldb)},
            {12, "info is not aligned", misaligned_info},
            {13, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::getrf && of_one_size) {
    return {{2, "m is negative", value(&B::m, -1)},
            {2, "larger than pivots", value(&B::m, index_t{1} << 31)},
            {3, "n is negative", value(&B::n, -1)},
            {4, "A is null", null(&B::A)},
            {5, "lda is smaller", value(&B::lda, order - 1)},
            {6 + s, "ipiv is null", null(&B::ipiv)},
            {7 + 2 * s, "info is null", no_info},
            {8 + 2 * s, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::getrf) {
    return {{2, "max_m is negative", bound(&B::max_m, -1)},
            {3, "max_n is negative", bound(&B::max_n, -1)},
            {4, "m is null", null(&B::m)},
            {5, "n is null", null(&B::n)},
            {6, "A is null", null(&B::A)},
            {7, "lda is null", null(&B::lda)},
            {8, "ipiv is null", null(&B::ipiv)},
            {9, "info is null", no_info},
            {10, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::getrf_nopiv) {
    const auto tiny = [](double tiny) { return [=](B& batch) { batch.tiny = tiny; }; };
    const int place = of_one_size ? 6 + s : 8;
    return {{place, "tiny", tiny(-1)},
            {place, "tiny", tiny(std::numeric_limits<double>::quiet_NaN())},
            {place + 1, "info is null", no_info},
            {place + 2, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::potri) {
    if (of_one_size) return {{3, "n is negative", value(&B::n, -1)}, {6 + s, "info is null", no_info}};
    return {{3, "max_n must be known", bound(&B::max_n, 0)},
            {4, "n is null", null(&B::n)},
            {5, "A is null", null(&B::A)},
            {6, "lda is null", null(&B::lda)},
            {7, "info is null", no_info},
            {8, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::getri && of_one_size) return {{6 + 2 * s, "info is null", no_info}};
  if (routine == Routine::getri) return {{2, "max_n must be known", bound(&B::max_n, 0)}, {7, "info is null", no_info}};
  if (routine == Routine::laswp && of_one_size) {
    return {{2, "n is negative", value(&B::n, -1)},
            {4, "lda is smaller", value(&B::lda, order - 1)},
            {5 + s, "k1 is not positive", value(&B::k1, 0)},
            {7 + s, "ipiv is null", null(&B::ipiv)},
            {8 + 2 * s, "incx", bound(&B::incx, most)},
            {8 + 2 * s, "incx", bound(&B::incx, std::numeric_limits<index_t>::min())},
            {9 + 2 * s, "batch_count is negative", bound(&B::count, -1)}};
  }
  if (routine == Routine::laswp) {
    return {{2, "max_n is negative", bound(&B::max_n, -1)},
            {6, "k1 is null", null(&B::k1)},
            {7, "k2 is null", null(&B::k2)},
            {8, "ipiv is null", null(&B::ipiv)},
            {9, "incx", bound(&B::incx, most)},
            {10, "batch_count is negative", bound(&B::count, -1)}};
  }
  return {};
}

TEST_P(DeviceLapackApiTest, BadArgumentsAreNamedAndTouchNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const LapackOperands operands(*library);
  const std::vector<std::byte> before = operands.contents();
  for (const Routine routine : test::all_lapack_routines()) {
    for (const BatchForm form : test::all_batch_forms) {
      const auto expect_refused = [&](tessera_device_handle handle, const LapackBatch& batch, int position) {
        EXPECT_EQ(api.run_lapack(handle, form, batch), TESSERA_INVALID_ARGUMENT);
        EXPECT_EQ(api.tessera_device_last_error_position(), position) << name_of(routine);
      };
      expect_refused(nullptr, operands.batch(routine, ScalarType::d, form), 1);
      for (const Bad& bad : bad_arguments(routine, form)) {
        SCOPED_TRACE(testing::Message() << name_of(routine) << ", form " << static_cast<int>(form) << ": " << bad.text);
        LapackBatch batch = operands.batch(routine, ScalarType::d, form);
        bad.change(batch);
        expect_refused(library->handle(), batch, bad.position);
        EXPECT_THAT(api.tessera_device_last_error(), HasSubstr(bad.text));
      }
    }
  }
  EXPECT_EQ(operands.contents(), before);
}

TEST_P(DeviceLapackApiTest, EnumeratorsThatNameNothing) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const auto position = [&](tessera_status status) {
    EXPECT_EQ(status, TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  tessera_device_handle const handle = library->handle();
  EXPECT_EQ(position(api.tessera_device_dpotrf_batched(handle, static_cast<tessera_uplo>(TESSERA_TRANS), 0, nullptr, 1,
                                                       nullptr, 0)),
            2);
  EXPECT_EQ(position(api.tessera_device_zgetrs_batched(handle, static_cast<tessera_transpose>(114), 0, 0, nullptr, 1,
                                                       nullptr, nullptr, 1, nullptr, 0)),
            2);
}

// Every function runs on unit matrices, and reports success.
TEST_P(DeviceLapackApiTest, EveryFunctionRuns) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const LapackOperands operands(*library);
  std::byte* const workspace = library->allocate(1 << 16);
  library->set_workspace(workspace, 1 << 16);
  for (const Routine routine : test::all_lapack_routines()) {
    for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
      for (const BatchForm form : test::all_batch_forms) {
        operands.forget_info();
        library->run_lapack_batch(operands.batch(routine, type, form));
        if (routine == Routine::laswp) continue;
        if (form == BatchForm::wide_sizes)
          EXPECT_THAT(operands.info<std::int64_t>(), testing::Each(0)) << name_of(routine);
        else
          EXPECT_THAT(operands.info<int>(), testing::Each(0)) << name_of(routine);
      }
    }
  }
  library->set_workspace(nullptr, 0);
}

// Without problems, or with problems of size zero, matrices and pivots need not exist. Info is written, if there are
// problems.
TEST_P(DeviceLapackApiTest, NothingToDoNeedsNoMatrices) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const LapackOperands operands(*library);
  for (const Routine routine : test::all_lapack_routines()) {
    for (const BatchForm form : test::all_batch_forms) {
      SCOPED_TRACE(testing::Message() << name_of(routine) << ", form " << static_cast<int>(form));
      LapackBatch batch = operands.batch(routine, ScalarType::d, form);
      batch.A = batch.B = batch.ipiv = {};
      batch.count = 0;
      batch.info = nullptr;
      EXPECT_EQ(api.run_lapack(library->handle(), form, batch), TESSERA_SUCCESS) << api.tessera_device_last_error();
      if (has_arrays(form)) continue;
      batch.count = count;
      batch.n.of_all = 0;
      EXPECT_EQ(api.run_lapack(library->handle(), form, batch),
                needs_info(routine) ? TESSERA_INVALID_ARGUMENT : TESSERA_SUCCESS);
      operands.forget_info();
      batch.info = operands.batch(routine, ScalarType::d, form).info;
      EXPECT_EQ(api.run_lapack(library->handle(), form, batch), TESSERA_SUCCESS) << api.tessera_device_last_error();
      if (routine == Routine::laswp) continue;
      EXPECT_THAT(operands.info<int>(), testing::Each(0));
    }
  }
}

TEST_P(DeviceLapackApiTest, WorkspaceIsAskedForBySizeAndCount) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const auto bytes_of = [&](index_t max_n, index_t problems) {
    std::size_t bytes = 1;
    EXPECT_EQ(api.tessera_device_dgetri_batched_workspace(library->handle(), max_n, problems, &bytes), TESSERA_SUCCESS);
    return bytes;
  };
  const bool needs_none = GetParam().name == ImplementationKind::reference;
  EXPECT_EQ(bytes_of(0, 5), 0u);
  EXPECT_EQ(bytes_of(5, 0), 0u);
  EXPECT_EQ(bytes_of(5, 7), needs_none ? 0u : 7 * 256u);  // 25 elements, rounded up
  EXPECT_EQ(bytes_of(32, 3), needs_none ? 0u : 3 * 32 * 32 * sizeof(double));
  const auto position = [&](tessera_device_handle handle, index_t max_n, index_t problems, std::size_t* bytes) {
    EXPECT_EQ(api.tessera_device_cpotri_batched_workspace(handle, max_n, problems, bytes), TESSERA_INVALID_ARGUMENT);
    return api.tessera_device_last_error_position();
  };
  std::size_t bytes = 0;
  EXPECT_EQ(position(nullptr, 1, 1, &bytes), 1);
  EXPECT_EQ(position(library->handle(), -1, 1, &bytes), 2);
  EXPECT_EQ(position(library->handle(), most, 1, &bytes), 2);
  EXPECT_EQ(position(library->handle(), 1, -1, &bytes), 3);
  EXPECT_EQ(position(library->handle(), index_t{1} << 28, index_t{1} << 20, &bytes), 3);
  EXPECT_EQ(position(library->handle(), 1, 1, nullptr), 4);
}

// Less than one problem's workspace is refused if any is needed, and nothing is touched.
TEST_P(DeviceLapackApiTest, InversesNeedTheWorkspaceOfOneProblem) {
  TESSERA_OPEN_IMPLEMENTATION(library, test::open_library_implementation, GetParam());
  const DeviceApi& api = library->api();
  const LapackOperands operands(*library);
  const bool needs_none = GetParam().name == ImplementationKind::reference;
  std::byte* const workspace = library->allocate(256);
  for (const Routine routine : {Routine::potri, Routine::getri}) {
    for (const BatchForm form : test::all_batch_forms) {
      const LapackBatch batch = operands.batch(routine, ScalarType::d, form);
      const std::vector<std::byte> before = operands.contents();
      for (const std::size_t bytes : {0, 255}) {
        library->set_workspace(bytes == 0 ? nullptr : workspace, bytes);
        EXPECT_EQ(api.run_lapack(library->handle(), form, batch),
                  needs_none ? TESSERA_SUCCESS : TESSERA_OUT_OF_DEVICE_MEMORY);
        if (needs_none) continue;
        EXPECT_EQ(operands.contents(), before);
      }
      library->set_workspace(workspace, 256);
      EXPECT_EQ(api.run_lapack(library->handle(), form, batch), TESSERA_SUCCESS) << api.tessera_device_last_error();
      library->set_workspace(nullptr, 0);
    }
  }
}

#define TESSERA_INSTANTIATE_LAPACK_API(prefix, kind)                                        \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceLapackApiTest,                                     \
                           ::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                           ::testing::PrintToStringParamName())
TESSERA_INSTANTIATE_LAPACK_API(Reference, reference);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_LAPACK_API(Cuda, cuda);
TESSERA_INSTANTIATE_LAPACK_API(Standin, cuda_standin);
#endif

}  // namespace lapack_api_test
}  // namespace tessera
