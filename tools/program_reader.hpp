// Finds the program behind a command line: past launchers (mpirun, env, ...), scripts and known interpreters (Python,
// R, Octave). Reads it with all libraries that the loader would load for it. The program itself is not run. Only the
// loader of this machine is called, for the list of libraries, and a known interpreter, for the folders of its modules.
#pragma once

#include <string>
#include <vector>

#include "program_report.hpp"

namespace tessera::tools {

/// @param command a program with its arguments: a path, or a name to be searched in PATH
/// @throws UnreadableProgram
Program read_program(const std::vector<std::string>& command);

/// The exports of our preload libraries.
Faces read_faces();

}  // namespace tessera::tools
