// A job as TESSERA_STATS and tessera_last_job_json() describe it (docs/statistics.md), read back for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/statistics.hpp"

namespace tessera::tools {

using runtime::DeviceStatistics;
using runtime::JobStatistics;

/// Missing numbers count as 0, so that files of older and newer versions can be read. The place where the job waited
/// for devices to start is not read.
/// @throws nlohmann::json::exception if a field has the wrong type
JobStatistics job_from_json(const nlohmann::ordered_json& json);

/// Table with one row per device and a last one for the sum.
std::string device_table(const std::vector<DeviceStatistics>& devices);

}  // namespace tessera::tools
