// Reads what program_report.hpp needs out of an ELF file, with libelf. Nothing of the file is ever run.
#pragma once

#include <optional>
#include <string>

#include "program_report.hpp"

namespace tessera::tools {

/// The file is no ELF object of this machine, or is damaged.
class NotReadable : public UnreadableProgram {
 public:
  using UnreadableProgram::UnreadableProgram;
};

/// @param look_for_text also search the constants for texts that only a BLAS has (costs a pass over the file)
/// @throws NotReadable
ProgramObject read_elf(const std::string& path, bool look_for_text);

/// The loader that an executable asks for. @return nothing if it asks for none
std::optional<std::string> interpreter_of(const std::string& path);

}  // namespace tessera::tools
