// `tessera info --program`: the report on a program as JSON and, made from that, in plain words.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "preload_plan.hpp"
#include "program_report.hpp"

namespace tessera::tools {

nlohmann::ordered_json describe_program(const Program& program, const Report& report, const PreloadPlan& plan);

/// @param name the user's name for the program
std::string program_text(const nlohmann::ordered_json& description, const std::string& name);

}  // namespace tessera::tools
