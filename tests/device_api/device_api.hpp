// A library with the functions of tessera/device_blas.h, opened as a program opens one, and calls through them from a Level3.
// Which functions and routines there are: src/device_api/routines.def.
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <vector>

#include "core/arguments.hpp"
#include "core/level3.hpp"
#include "tessera/device_blas.h"

namespace tessera::test {

struct DeviceApi {
  /// @throws std::runtime_error if the library cannot be opened or lacks one of them
  explicit DeviceApi(const std::string& library);

#define TESSERA_FUNCTION(name) decltype(&::name) name = nullptr;
#define TESSERA_ROUTINE(routine, letter, T)                                                 \
  decltype(&::tessera_device_##letter##routine) tessera_device_##letter##routine = nullptr; \
  decltype(&::tessera_device_##letter##routine##_workspace) tessera_device_##letter##routine##_workspace = nullptr;
#include "device_api/routines.def"

  /// The call through the function of its routine and type. @pre there is one
  tessera_status run(tessera_device_handle handle, const Level3& call) const;
  tessera_status workspace(tessera_device_handle handle, const Level3& call, std::size_t* bytes) const;
};

struct DeviceRoutine {
  Routine routine;
  ScalarType type;
};
/// All that the table has.
std::vector<DeviceRoutine> all_device_routines();
/// Without their types.
std::vector<Routine> distinct_device_routines();

}  // namespace tessera::test
