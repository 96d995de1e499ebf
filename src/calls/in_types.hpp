// The rows of the lists of routines (routines.def, device_api/routines.def) expand to `row` for each type. Its last two arguments
// are the letter and the C++ type. C programs may include this, too.
#pragma once

#define TESSERA_IN_REAL_TYPES(row, ...) row(__VA_ARGS__, s, float) row(__VA_ARGS__, d, double)
#define TESSERA_IN_COMPLEX_TYPES(row, ...) \
  row(__VA_ARGS__, c, std::complex<float>) row(__VA_ARGS__, z, std::complex<double>)
#define TESSERA_IN_ALL_TYPES(row, ...) \
  TESSERA_IN_REAL_TYPES(row, __VA_ARGS__) TESSERA_IN_COMPLEX_TYPES(row, __VA_ARGS__)
