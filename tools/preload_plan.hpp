// The plan of `tessera run` for a program: which of the two preload libraries, and which LAPACK.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "program_report.hpp"

namespace tessera::tools {

enum class LapackChoice {
  automatic,  ///< the program's; its factorizations are intercepted if devices will be used
  own,        ///< the program's, unchanged
  reference,  ///< one whose BLAS calls can be caught; its factorizations are intercepted
};

struct PlanOptions {
  LapackChoice lapack = LapackChoice::automatic;
  std::string lapack_file;  ///< the LAPACK to use; empty: found
  std::optional<int> bits;  ///< 32 or 64: width of the integers of plain names; default: by the program's libraries
  bool devices = false;     ///< whether some device will compute
  bool pool = false;        ///< whether large memory of malloc comes from the pool
};

/// "auto", "own", "reference" or the file of a LAPACK. @throws UsageError if there is no such file
PlanOptions lapack_option(const std::string& text);

struct PreloadPlan {
  std::vector<std::string> preload;  ///< files, in order
  std::string library_path;          ///< folders to prepend to `library_variable`; empty: none
  std::string library_variable;
  std::string library_default;       ///< its value if it is not set
  std::vector<std::string> reasons;  ///< messages in whole sentences
};

/// Whether these settings select a device: a GPU seems to be there, or one is requested. Opens nothing.
bool devices_expected(const Config& config);

/// @throws std::runtime_error if a required library is missing
PreloadPlan plan_preload(const Program& program, const Report& report, const PlanOptions& options);

/// The same for an unknown program.
PreloadPlan plan_preload(const PlanOptions& options);

/// Finds a LAPACK that calls BLAS by symbols, for integers of `bits`. Searches the folders of `near` (a program's
/// libraries) and of the system, and their subfolders "lapack" and "lapack64", where Debian keeps it.
std::optional<std::string> find_reference_lapack(int bits, const Program& near);

}  // namespace tessera::tools
