// `tessera info --check`: whether the CPU BLAS and LAPACK, and each device, compute right on this machine. Calls fall back to that
// BLAS silently, and some libraries are wrong on some processors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace tessera::tools {

/// A part of the machine, as a configuration that has all calls computed by it.
struct CheckedPart {
  std::string name;  ///< "CPU" or a device, "cuda:0"
  Config config;
};

/// The CPU alone.
CheckedPart cpu_part(const Config& config);
/// One device of the configuration. @param id "cuda:0" or "host:1"
CheckedPart device_part(const Config& config, const std::string& id, int ordinal);

/// Has each part compute small and middle-sized problems of Level 3 and of LAPACK in all types, and compares the results with those
/// of the reference kernels, or by residuals. The small problems come first; after four seconds none is begun.
/// @return an object for each part: "name", "library" of the CPU, "problems" that were right, "largest" order, routines that are
/// "lacking", those that a device has "left_to_cpu", and "wrong", each with "routine", "library", "n" and "finding"; or an "error" that kept it from computing at all
nlohmann::ordered_json check_machine(const std::vector<CheckedPart>& parts);

/// A line for each part, and one for each thing that is wrong. @param checked by check_machine()
std::string check_text(const nlohmann::ordered_json& checked);
/// All parts could compute, and nothing was found to be wrong.
bool is_right(const nlohmann::ordered_json& checked);

}  // namespace tessera::tools
