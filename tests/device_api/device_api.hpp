// A library with the functions of tessera/device_blas.h, opened as a program opens one, and calls through them from a Level3.
// Which functions and routines there are: src/device_api/routines.def.
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <vector>

#include "core/arguments.hpp"
#include "core/level3.hpp"
#include "kernels/level3_batch.hpp"
#include "tessera/device_blas.h"

namespace tessera::test {

/// The functions that a batch has in one routine and type.
enum class BatchForm { pointers, strides, sizes, wide_sizes };
inline constexpr BatchForm all_batch_forms[] = {BatchForm::pointers, BatchForm::strides, BatchForm::sizes,
                                                BatchForm::wide_sizes};
BatchForm form_of(const kernels::Level3Batch& batch);

struct DeviceApi {
  /// @throws std::runtime_error if the library cannot be opened or lacks one of them
  explicit DeviceApi(const std::string& library);

#define TESSERA_FUNCTION(name) decltype(&::name) name = nullptr;
#define TESSERA_ROUTINE(routine, letter, T)                                                 \
  decltype(&::tessera_device_##letter##routine) tessera_device_##letter##routine = nullptr; \
  decltype(&::tessera_device_##letter##routine##_workspace) tessera_device_##letter##routine##_workspace = nullptr;
#define TESSERA_BATCH(routine, letter, T)                                                                              \
  decltype(&::tessera_device_##letter##routine##_batched) tessera_device_##letter##routine##_batched = nullptr;        \
  decltype(&::tessera_device_##letter##routine##_strided_batched) tessera_device_##letter##routine##_strided_batched = \
      nullptr;                                                                                                         \
  decltype(&::tessera_device_##letter##routine##_vbatched) tessera_device_##letter##routine##_vbatched = nullptr;      \
  decltype(&::tessera_device_##letter##routine##_vbatched_64) tessera_device_##letter##routine##_vbatched_64 = nullptr;
#include "device_api/routines.def"

  /// The call through the function of its routine and type. @pre there is one
  tessera_status run(tessera_device_handle handle, const Level3& call) const;
  tessera_status workspace(tessera_device_handle handle, const Level3& call, std::size_t* bytes) const;
  /// Bounds are the sizes in batch.common. @pre `form` is that of the batch, but where it has no arrays
  tessera_status run_batch(tessera_device_handle handle, BatchForm form, const kernels::Level3Batch& batch) const;
};

struct DeviceRoutine {
  Routine routine;
  ScalarType type;
};
/// All that the table has.
std::vector<DeviceRoutine> all_device_routines();
std::vector<DeviceRoutine> all_batch_routines();
/// Without their types.
std::vector<Routine> distinct(const std::vector<DeviceRoutine>& routines);

}  // namespace tessera::test
