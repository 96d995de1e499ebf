// Reads the data that program_report.hpp needs from an ELF file, with libelf. No code of the file is ever run.
#pragma once

#include <optional>
#include <string>

#include "program_report.hpp"

namespace tessera::tools {

/// Thrown if the file is no ELF object of this machine, or is damaged.
class NotReadable : public UnreadableProgram {
 public:
  using UnreadableProgram::UnreadableProgram;
};

/// @param look_for_text whether to search the constants for texts that only a BLAS has (costs a pass over the file)
/// @throws NotReadable
ProgramObject read_elf(const std::string& path, bool look_for_text);

/// The loader that an executable names. @return nothing if it names none
std::optional<std::string> interpreter_of(const std::string& path);

}  // namespace tessera::tools
