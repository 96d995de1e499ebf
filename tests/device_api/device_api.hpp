// A library with the functions of tessera/device_blas.h, device_lapack.h and device_half.h, opened as a program opens
// it. Calls through it are made from a Level3, a Level3Batch, a HalfBatch or a LapackBatch. src/device_api/routines.def
// lists the functions and routines.
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <vector>

#include "calls/arguments.hpp"
#include "calls/lapack.hpp"
#include "calls/level3.hpp"
#include "kernels/half_batch.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/level3_batch.hpp"
#include "tessera/device_blas.h"
#include "tessera/device_half.h"
#include "tessera/device_lapack.h"

namespace tessera::test {

/// The functions of a batch in one routine and type.
enum class BatchForm { pointers, strides, sizes, wide_sizes };
inline constexpr BatchForm all_batch_forms[] = {BatchForm::pointers, BatchForm::strides, BatchForm::sizes,
                                                BatchForm::wide_sizes};
BatchForm form_of(const kernels::Level3Batch& batch);
BatchForm form_of(const kernels::LapackBatch& batch);
constexpr bool has_arrays(BatchForm form) { return form == BatchForm::sizes || form == BatchForm::wide_sizes; }

struct DeviceApi {
  /// @throws std::runtime_error if the library cannot be opened or lacks a function
  explicit DeviceApi(const std::string& library);

#define TESSERA_FUNCTION(name) decltype(&::name) name = nullptr;
#define TESSERA_ROUTINE(routine, letter, T)                                                 \
  decltype(&::tessera_device_##letter##routine) tessera_device_##letter##routine = nullptr; \
  decltype(&::tessera_device_##letter##routine##_workspace) tessera_device_##letter##routine##_workspace = nullptr;
#define TESSERA_FUNCTIONS_OF_BATCH(routine, letter)                                                                    \
  decltype(&::tessera_device_##letter##routine##_batched) tessera_device_##letter##routine##_batched = nullptr;        \
  decltype(&::tessera_device_##letter##routine##_strided_batched) tessera_device_##letter##routine##_strided_batched = \
      nullptr;                                                                                                         \
  decltype(&::tessera_device_##letter##routine##_vbatched) tessera_device_##letter##routine##_vbatched = nullptr;      \
  decltype(&::tessera_device_##letter##routine##_vbatched_64) tessera_device_##letter##routine##_vbatched_64 = nullptr;
#define TESSERA_BATCH(routine, list, letter, T) TESSERA_FUNCTIONS_OF_BATCH(routine, letter)
#define TESSERA_LAPACK(routine, list, letter, T) TESSERA_FUNCTIONS_OF_BATCH(routine, letter)
#define TESSERA_HALF(routine, letters, T, Stored) TESSERA_FUNCTIONS_OF_BATCH(routine, letters)
#define TESSERA_LAPACK_WORKSPACE(routine, letter, T)                \
  decltype(&::tessera_device_##letter##routine##_batched_workspace) \
      tessera_device_##letter##routine##_batched_workspace = nullptr;
#include "device_api/routines.def"
#undef TESSERA_FUNCTIONS_OF_BATCH

  /// Runs the call by the function of its routine and type. @pre that function exists
  tessera_status run(tessera_device_handle handle, const Level3& call) const;
  tessera_status workspace(tessera_device_handle handle, const Level3& call, std::size_t* bytes) const;
  /// Bounds are the sizes in batch.common. @pre `form` is that of the batch, unless the batch has no arrays
  tessera_status run_batch(tessera_device_handle handle, BatchForm form, const kernels::Level3Batch& batch) const;
  /// The same for 16-bit numbers.
  tessera_status run_half(tessera_device_handle handle, BatchForm form, const kernels::HalfBatch& batch) const;
  /// Bounds are the batch's largest sizes. @pre as above
  tessera_status run_lapack(tessera_device_handle handle, BatchForm form, const kernels::LapackBatch& batch) const;
  /// @pre inverts(batch.routine)
  tessera_status lapack_workspace(tessera_device_handle handle, const kernels::LapackBatch& batch,
                                  std::size_t* bytes) const;
};

struct DeviceRoutine {
  Routine routine;
  ScalarType type;
};
/// All routines of the table.
std::vector<DeviceRoutine> all_device_routines();
std::vector<DeviceRoutine> all_batch_routines();
/// All of LAPACK's routines; each exists in every type.
std::vector<Routine> all_lapack_routines();
/// The routines without their types.
std::vector<Routine> distinct(const std::vector<DeviceRoutine>& routines);

}  // namespace tessera::test
