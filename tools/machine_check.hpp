// `tessera info --check`: whether the CPU BLAS and LAPACK, and each device, compute correctly on this machine. Calls
// fall back to that BLAS silently, and some libraries compute wrong results on some processors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace tessera::tools {

/// A part of the machine, as a configuration by which it computes all calls.
struct CheckedPart {
  std::string name;  ///< "CPU" or a device, "cuda:0"
  Config config;
};

/// The CPU alone.
CheckedPart cpu_part(const Config& config);
/// One device of the configuration. @param id "cuda:0" or "host:1"
CheckedPart device_part(const Config& config, const std::string& id, int ordinal);

/// Runs small and middle-sized problems of Level 3 and of LAPACK in all types on each part. Compares the results with
/// those of the reference kernels, or by residuals. The small problems come first; after four seconds none is begun.
/// @return an object for each part: "name", "library" of the CPU, "problems" that were right, "largest" order, routines
/// that are "lacking", those that a device has "left_to_cpu", and "wrong" results. Each of these has "routine",
/// "library", "n" and "finding". The object has an "error" instead if the part could not compute at all.
nlohmann::ordered_json check_machine(const std::vector<CheckedPart>& parts);

/// A line for each part, and one for each wrong result. @param checked by check_machine()
std::string check_text(const nlohmann::ordered_json& checked);
/// Whether all parts could compute, and all results were right.
bool is_right(const nlohmann::ordered_json& checked);

}  // namespace tessera::tools
