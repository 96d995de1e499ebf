// Finds which BLAS calls of a program reach a preloaded library, and which cannot. Pure: it works on lists of symbols,
// which program_reader.hpp makes from files. The rules are those of the dynamic loader. A reference binds to the first
// object of its scope that defines the name. The scope is the executable, then preloaded libraries, then the other
// libraries in the order of loading. A reference without a relocation always binds within its own library.
#pragma once

#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::tools {

/// Thrown if there is no such program, or if it cannot be analysed.
class UnreadableProgram : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The data of one executable or shared library that the analysis needs.
struct ProgramObject {
  std::string path;
  std::string soname;
  bool executable = false;  ///< the program itself: its definitions precede preloaded ones
  bool symbolic = false;    ///< linked with -Bsymbolic: binds to its own definitions first
  std::set<std::string> needed;
  /// The file's entries for the loader about its libraries, in order. Files of one folder with equal entries get the
  /// same libraries.
  std::string loads;
  std::set<std::string> defines;  ///< exported; here and below without C++ names
  std::set<std::string>
      references;  ///< by relocation or undefined; its own exports, too, if another definition may replace them
  /// Defined, but not exported: a BLAS linked in statically.
  std::set<std::string> inside;
  bool names_blas_errors = false;  ///< contains texts that only a BLAS has, which reveal a stripped one
  bool stripped = false;
  /// Whether relocations were not readable or there is no dynamic section.
  bool is_static = false;

  std::string name() const;  ///< file name
};

/// Objects in the order in which the loader searches them, each an index into Program::objects.
using Scope = std::vector<std::size_t>;

struct Program {
  std::string path;
  std::vector<ProgramObject> objects;
  Scope global;
  /// Modules that it opens later (extension modules of interpreters), each with its own libraries: searched after
  /// `global`.
  std::vector<Scope> modules;
  /// The variable with the folders that are searched for its libraries first, and its default: R has its own.
  std::string library_variable = "LD_LIBRARY_PATH";
  std::string library_default;
  std::vector<std::string> notes;  ///< the reader's remarks, in whole sentences
};

/// The names that the preload libraries export; empty for one that is not installed.
struct Faces {
  std::set<std::string> lp64;
  std::set<std::string> ilp64;
};

enum class Fate {
  caught,
  already_tessera,    ///< the library that defines it is ours
  executable_has_it,  ///< defined in the program itself, exported or not
  bound_inside,       ///< the library that calls it binds to itself
  renamed,            ///< a name that no preload library has
  openblas_lapack,    ///< LAPACK that OpenBLAS computes without calling BLAS symbols
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
  bool plain = false;                               ///< the name does not show the width of its integers
  int bits = 32;                                    ///< of its integers
  std::size_t from = static_cast<std::size_t>(-1);  ///< object that defines it without a preload; -1: none that is
                                                    ///< loaded at start
  Fate fate = Fate::caught;
  /// Whether libtessera_lapack.so intercepts the whole LAPACK routine if `tessera run` preloads it. Independent of
  /// `fate`.
  bool whole = false;
};

bool is_caught(Fate fate);

struct Report {
  std::vector<Use> uses;            ///< by object; for libraries that are BLAS or LAPACK themselves only Level 3
  std::set<std::size_t> libraries;  ///< objects that are BLAS or LAPACK libraries
  int bits = 32;                    ///< of plain names: the preload library to use
  bool mixed = false;               ///< plain names of both widths
  bool statically_linked = false;
  bool blas_inside = false;  ///< a BLAS is part of the executable
  /// Whether OpenBLAS's LAPACK defines some names, so that another LAPACK in front would help.
  bool openblas_lapack = false;
  /// Whether all LAPACK is loaded under its own name (liblapack.so.3), which another file can replace.
  bool lapack_by_soname = false;
  /// Whether only BLAS and LAPACK libraries need OpenBLAS by name: with another libblas.so.3 it would not be loaded.
  bool openblas_by_soname = false;
};

Report analyse(const Program& program, const Faces& faces);

/// Whether it is a LAPACK other than OpenBLAS's, whose calls of Level 3 can bind to other objects.
bool calls_blas_by_symbol(const ProgramObject& object);

/// 32 or 64, by the file name of a BLAS: libopenblas64.so.0, libmkl_intel_ilp64.so.2, ... have 64-bit integers.
int integer_bits_of_library(const std::string& file_name);

}  // namespace tessera::tools
