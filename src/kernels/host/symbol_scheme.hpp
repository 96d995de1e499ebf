// How libraries spell the symbols of BLAS. Sources are the libraries themselves:
//   - the plain names of the reference;
//   - OpenBLAS's suffixes for 64-bit integers (SYMBOLSUFFIX=64_), as in Fedora, Julia and older NumPy wheels;
//   - the extended API of reference LAPACK and MKL (_64);
//   - the prefix of the OpenBLAS in the wheels of NumPy and SciPy (SYMBOLPREFIX=scipy_).
#pragma once

#include <string>
#include <string_view>

namespace tessera::kernels {

struct SymbolScheme {
  std::string_view prefix = "";
  std::string_view fortran_suffix = "_";
  std::string_view cblas_suffix = "";

  std::string fortran(std::string_view name) const { return std::string(prefix).append(name).append(fortran_suffix); }
  std::string cblas(std::string_view name) const {
    return std::string(prefix).append("cblas_").append(name).append(cblas_suffix);
  }
  /// The spelling of functions that OpenBLAS has beside the BLAS ("openblas_get_num_threads").
  std::string extension(std::string_view name) const { return std::string(prefix).append(name).append(cblas_suffix); }
  friend bool operator==(const SymbolScheme&, const SymbolScheme&) = default;
};

/// For either width of integers: only the library itself knows its width.
inline constexpr SymbolScheme plain_symbols{};
inline constexpr SymbolScheme symbols_64_{"", "_64_", "64_"};
inline constexpr SymbolScheme symbols_64{"", "_64", "_64"};
inline constexpr SymbolScheme scipy_symbols{"scipy_", "_", ""};
inline constexpr SymbolScheme scipy_symbols_64_{"scipy_", "_64_", "64_"};

/// The order in which the spellings are tried for an unknown library.
inline constexpr SymbolScheme all_schemes[] = {plain_symbols, symbols_64_, scipy_symbols, scipy_symbols_64_,
                                               symbols_64};

}  // namespace tessera::kernels
