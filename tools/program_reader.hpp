// Finds the program behind a command line - past launchers (mpirun, env, ...), scripts and the interpreters that are known (Python,
// R, Octave) - and reads it with all libraries that the loader would give it. Of the program nothing is run: the loader of
// this machine is asked for the list of libraries, and a known interpreter where its modules are.
#pragma once

#include <string>
#include <vector>

#include "program_report.hpp"

namespace tessera::tools {

/// @param command a program, as a path or as a name that is looked for in PATH, with its arguments
/// @throws UnreadableProgram
Program read_program(const std::vector<std::string>& command);

/// The exports of our preload libraries.
Faces read_faces();

}  // namespace tessera::tools
