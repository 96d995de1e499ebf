// What `tessera run` puts in front of a program: which of the two preload libraries, and which LAPACK.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "program_report.hpp"

namespace tessera::tools {

enum class LapackChoice {
  automatic,  ///< the program's; its factorizations are taken where devices will be used
  own,        ///< the program's as it is
  reference,  ///< one whose BLAS calls can be caught, and its factorizations are taken
};

struct PlanOptions {
  LapackChoice lapack = LapackChoice::automatic;
  std::string lapack_file;  ///< the LAPACK to use; empty: found
  std::optional<int>
      bits;  ///< 32 or 64: width of the integers behind plain names; as the program's libraries say if not given
  bool devices = false;  ///< some device will compute
};

/// "auto", "own", "reference" or the file of a LAPACK. @throws UsageError if there is no such file
PlanOptions lapack_option(const std::string& text);

struct PreloadPlan {
  std::vector<std::string> preload;  ///< files, in order
  std::string library_path;          ///< folders to put in front of `library_variable`; empty: none
  std::string library_variable;
  std::string library_default;       ///< what they are put in front of if that is not set
  std::vector<std::string> reasons;  ///< in whole sentences
};

/// Whether these settings lead to a device: a GPU seems to be there, or one is asked for. Opens nothing.
bool devices_expected(const Config& config);

/// @throws std::runtime_error if a library that is needed is not there
PreloadPlan plan_preload(const Program& program, const Report& report, const PlanOptions& options);

/// The same for a program of which nothing is known.
PreloadPlan plan_preload(const PlanOptions& options);

/// A LAPACK that calls BLAS by symbols, for integers of `bits`: in the folders of `near` (a program's libraries) and of the
/// system, in these or in their subfolders "lapack" and "lapack64" where Debian keeps it.
std::optional<std::string> find_reference_lapack(int bits, const Program& near);

}  // namespace tessera::tools
