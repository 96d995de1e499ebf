// How libraries spell the symbols of BLAS. Facts, from the libraries themselves: the plain names of the reference;
// OpenBLAS's suffixes for 64-bit integers (SYMBOLSUFFIX=64_, as Fedora, Julia and the older NumPy wheels have it); the
// extended API of reference LAPACK and MKL (_64); the prefix of the OpenBLAS that NumPy's and SciPy's wheels carry
// (SYMBOLPREFIX=scipy_).
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
  /// Of what OpenBLAS has beside BLAS ("openblas_get_num_threads").
  std::string extension(std::string_view name) const { return std::string(prefix).append(name).append(cblas_suffix); }
  friend bool operator==(const SymbolScheme&, const SymbolScheme&) = default;
};

/// Of either width: only the library itself knows.
inline constexpr SymbolScheme plain_symbols{};
inline constexpr SymbolScheme symbols_64_{"", "_64_", "64_"};
inline constexpr SymbolScheme symbols_64{"", "_64", "_64"};
inline constexpr SymbolScheme scipy_symbols{"scipy_", "_", ""};
inline constexpr SymbolScheme scipy_symbols_64_{"scipy_", "_64_", "64_"};

/// In the order in which a library of unknown spelling is tried.
inline constexpr SymbolScheme all_schemes[] = {plain_symbols, symbols_64_, scipy_symbols, scipy_symbols_64_,
                                               symbols_64};

}  // namespace tessera::kernels
