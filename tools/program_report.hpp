// Which BLAS calls of a program reach a preloaded library, and which cannot. Pure: from lists of symbols to an answer;
// program_reader.hpp makes the lists from files. The rules are those of the dynamic loader: a reference binds to the first
// object of its scope that defines the name, the executable first, then what is preloaded, then the libraries in the order in
// which they were loaded; what a library refers to without a relocation never leaves it.
#pragma once

#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::tools {

/// There is no such program, or nothing can be said of it.
class UnreadableProgram : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What matters here of one executable or shared library.
struct ProgramObject {
  std::string path;
  std::string soname;
  bool executable = false;  ///< the program itself: its definitions come before a preload's
  bool symbolic = false;    ///< linked with -Bsymbolic: binds to its own definitions first
  std::set<std::string> needed;
  /// All that the file tells the loader about its libraries, in order: files of one folder that agree in it get the
  /// same ones.
  std::string loads;
  std::set<std::string> defines;  ///< exported; here and below, no names of C++
  std::set<std::string>
      references;  ///< by relocation or undefined; its own exports too, where another may take their place
  /// Defined, but not exported: a BLAS linked in statically.
  std::set<std::string> inside;
  bool names_blas_errors = false;  ///< holds the texts that only a BLAS has, so that a stripped one is seen
  bool stripped = false;
  /// Relocations were not readable or there is no dynamic section at all.
  bool is_static = false;

  std::string name() const;  ///< file name
};

/// Objects in the order in which the loader searches them, each an index into Program::objects.
using Scope = std::vector<std::size_t>;

struct Program {
  std::string path;
  std::vector<ProgramObject> objects;
  Scope global;
  /// Modules that it opens later (extension modules of interpreters), each with its own libraries: searched after `global`.
  std::vector<Scope> modules;
  /// The variable that says where its libraries are looked for first, and what it is if it is not set: R has its own.
  std::string library_variable = "LD_LIBRARY_PATH";
  std::string library_default;
  std::vector<std::string> notes;  ///< what the reader has to say, in whole sentences
};

/// What the preload libraries export; empty where one is not installed.
struct Faces {
  std::set<std::string> lp64;
  std::set<std::string> ilp64;
};

enum class Fate {
  caught,
  already_tessera,    ///< the library that answers is ours
  executable_has_it,  ///< defined in the program itself, exported or not
  bound_inside,       ///< the library that calls it binds to itself
  renamed,            ///< a name that no preload library has
  openblas_lapack,    ///< LAPACK that OpenBLAS answers without calling BLAS symbols
  closed_lapack,      ///< LAPACK of a library that binds its BLAS calls to itself
  partly_lapack,  ///< OpenBLAS's copy of the reference: its own BLAS calls are caught, LU and Cholesky under it are not
  through_lapack,  ///< LAPACK whose BLAS calls are caught
};

/// One name that one object refers to.
struct Use {
  std::size_t object = 0;
  std::string symbol;
  std::string routine;
  bool lapack = false;
  bool plain = false;                               ///< nothing in the name tells the width of its integers
  int bits = 32;                                    ///< of its integers
  std::size_t from = static_cast<std::size_t>(-1);  ///< object that answers it today; -1: none that is loaded at start
  Fate fate = Fate::caught;
  /// LAPACK that libtessera_lapack.so takes as a whole, where `tessera run` preloads it; whatever its fate is otherwise.
  bool whole = false;
};

bool is_caught(Fate fate);

struct Report {
  std::vector<Use> uses;            ///< by object; of libraries that are BLAS or LAPACK themselves only Level 3
  std::set<std::size_t> libraries;  ///< objects that are BLAS or LAPACK libraries
  int bits = 32;                    ///< of plain names: which of the two preload libraries suits
  bool mixed = false;               ///< plain names of both widths
  bool statically_linked = false;
  bool blas_inside = false;  ///< a BLAS is part of the executable
  /// Names of which the answer is OpenBLAS's LAPACK, so that another LAPACK in front would be of use.
  bool openblas_lapack = false;
  /// All LAPACK is reached under a name of its own (liblapack.so.3), which another file can take the place of.
  bool lapack_by_soname = false;
  /// Nothing but BLAS and LAPACK libraries asks for OpenBLAS by name: another libblas.so.3 would keep it away.
  bool openblas_by_soname = false;
};

Report analyse(const Program& program, const Faces& faces);

/// A LAPACK that is not OpenBLAS's, and whose calls of Level 3 others can answer.
bool calls_blas_by_symbol(const ProgramObject& object);

/// 32 or 64, by the file name of a BLAS: libopenblas64.so.0, libmkl_intel_ilp64.so.2, ... have 64-bit integers.
int integer_bits_of_library(const std::string& file_name);

}  // namespace tessera::tools
