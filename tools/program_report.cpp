#include "program_report.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <tuple>

#include "blas_names.hpp"

namespace tessera::tools {
namespace {

constexpr auto nowhere = static_cast<std::size_t>(-1);

/// A BLAS has at least 30 such names; a library that wraps some under its own names has fewer.
constexpr std::size_t names_of_a_blas = 24;

/// Prefix, suffix, whether it is a C interface.
using Dress = std::tuple<std::string, std::string, bool>;

/// The role of an object for the others.
struct Role {
  std::set<Dress> blas;  ///< the decorations under which it defines all of Level 3
  bool lapack = false;
  bool lapacke = false;
  bool openblas = false;
  bool tessera = false;
  bool calls_level3 = false;  ///< by references that other objects can define
};

bool names_openblas(const std::string& text) { return text.find("openblas") != std::string::npos; }

Role role_of(const ProgramObject& object) {
  Role role;
  std::map<Dress, std::set<std::string>> defined;
  for (const std::string& symbol : object.defines) {
    const auto name = parse_blas_name(symbol);
    if (!name) continue;
    if (name->lapack) {
      if (name->routine == "dgetrf") (name->c_interface ? role.lapacke : role.lapack) = true;
    } else {
      defined[{name->prefix, name->suffix, name->c_interface}].insert(name->routine);
    }
  }
  for (const auto& [dress, routines] : defined) {
    if (routines.size() >= names_of_a_blas) role.blas.insert(dress);
  }
  for (const std::string& symbol : object.references) {
    if (object.symbolic && object.defines.count(symbol) != 0) continue;
    const auto name = parse_blas_name(symbol);
    role.calls_level3 = role.calls_level3 || (name && !name->lapack);
  }
  role.openblas = names_openblas(object.name()) || names_openblas(object.soname) ||
                  std::any_of(object.needed.begin(), object.needed.end(), names_openblas) ||
                  std::any_of(object.defines.begin(), object.defines.end(), [](const std::string& symbol) {
                    return symbol.find("openblas_get_config") != std::string::npos;
                  });
  role.tessera = object.defines.count("tessera_blas_marker") != 0;
  return role;
}

/// Names like gsl_blas_dgemm are functions that call a BLAS, not a BLAS under another name.
bool is_dressed_blas(const Role& role, const BlasName& name) {
  return !role.calls_level3 && role.blas.count({name.prefix, name.suffix, name.c_interface}) != 0;
}

bool known_dress(const BlasName& name) { return name.prefix.empty() || name.prefix == "scipy_"; }

class Analysis {
 public:
  Analysis(const Program& program, const Faces& faces) : program_(program), faces_(faces) {
    for (const ProgramObject& object : program.objects) roles_.push_back(role_of(object));
  }

  Report run() {
    if (!program_.global.empty()) look_inside(program_.objects[program_.global.front()]);
    for (std::size_t i = 0; i < program_.objects.size(); ++i) {
      if (roles_[i].lapack || roles_[i].lapacke || !roles_[i].blas.empty()) report_.libraries.insert(i);
    }
    collect(program_.global, 0);
    for (const Scope& module : program_.modules) {
      Scope scope = program_.global;
      scope.insert(scope.end(), module.begin(), module.end());
      collect(scope, program_.global.size());
    }
    choose_bits();
    for (Use& use : report_.uses) {
      if (!use.lapack) use.fate = fate_of_level3(use);
    }
    for (Use& use : report_.uses) {
      if (!use.lapack) continue;
      use.fate = fate_of_lapack(use);
      use.whole = is_taken(use);
    }
    conclude();
    return report_;
  }

 private:
  void look_inside(const ProgramObject& main) {
    report_.statically_linked = main.is_static;
    const auto is_level3 = [](const std::string& symbol) {
      const auto name = parse_blas_name(symbol);
      return name && !name->lapack && known_dress(*name);
    };
    if (!main.executable) return;
    report_.blas_inside = std::any_of(main.inside.begin(), main.inside.end(), is_level3) ||
                          std::any_of(main.defines.begin(), main.defines.end(), is_level3) ||
                          (main.stripped && main.names_blas_errors);
  }

  std::size_t first_definition(const Scope& scope, const std::string& symbol) const {
    for (const std::size_t i : scope) {
      if (program_.objects[i].defines.count(symbol) != 0) return i;
    }
    return nowhere;
  }

  /// The uses of scope[from] and later; each object is looked at in the first scope that has it.
  void collect(const Scope& scope, std::size_t from) {
    for (std::size_t position = from; position < scope.size(); ++position) {
      const std::size_t index = scope[position];
      if (!seen_.insert(index).second) continue;
      const ProgramObject& object = program_.objects[index];
      for (const std::string& symbol : object.references) {
        const auto name = parse_blas_name(symbol);
        if (!name) continue;
        // Calls between LAPACK libraries say nothing about the program.
        if (name->lapack && report_.libraries.count(index) != 0) continue;
        Use use{.object = index, .symbol = symbol, .routine = name->routine, .lapack = name->lapack};
        use.plain = name->is_plain();
        use.from = object.symbolic && object.defines.count(symbol) != 0 ? index : first_definition(scope, symbol);
        if (!known_dress(*name) && (use.from == nowhere || !is_dressed_blas(roles_[use.from], *name))) continue;
        if (name->lapack && name->c_interface && use.from != nowhere && !roles_[use.from].lapack) {
          // LAPACKE in a library of its own: the LAPACK under it decides.
          const bool wide = !use.plain;
          const std::size_t under = first_definition(scope, name->prefix + name->routine + (wide ? "_64_" : "_"));
          if (under != nowhere) use.from = under;
        }
        use.bits = !use.plain && name->suffix.find("64") != std::string::npos ? 64
                   : use.plain && use.from != nowhere ? integer_bits_of_library(program_.objects[use.from].name())
                                                      : 32;
        report_.uses.push_back(std::move(use));
      }
    }
  }

  void choose_bits() {
    bool narrow = false;
    bool wide = false;
    for (const Use& use : report_.uses) {
      // BLAS libraries refer to their own names, so only the references of other objects decide.
      if (!use.plain || report_.libraries.count(use.object) != 0) continue;
      (use.bits == 64 ? wide : narrow) = true;
    }
    report_.mixed = narrow && wide;
    report_.bits = wide && !narrow ? 64 : 32;
  }

  const std::set<std::string>& face() const { return report_.bits == 64 ? faces_.ilp64 : faces_.lp64; }

  Fate fate_of_level3(const Use& use) const {
    const ProgramObject& object = program_.objects[use.object];
    if (object.symbolic && object.defines.count(use.symbol) != 0) return Fate::bound_inside;
    if (use.from != nowhere && roles_[use.from].tessera) return Fate::already_tessera;
    if (use.from != nowhere && program_.objects[use.from].executable) return Fate::executable_has_it;
    return face().count(use.symbol) != 0 ? Fate::caught : Fate::renamed;
  }

  Fate fate_of_lapack(const Use& use) const {
    if (use.from == nowhere) return Fate::through_lapack;
    if (program_.objects[use.from].executable) return Fate::executable_has_it;
    bool any = false;
    for (const Use& inner : report_.uses)
      any = any || (inner.object == use.from && !inner.lapack && is_caught(inner.fate));
    if (roles_[use.from].openblas) {
      if (openblas_has_own(use.routine)) return Fate::openblas_lapack;
      return any ? Fate::partly_lapack : Fate::closed_lapack;
    }
    return any ? Fate::through_lapack : Fate::closed_lapack;
  }

  /// Whether a preloaded definition would be used. It precedes all others except those of the executable and of a
  /// caller that binds to itself.
  bool is_taken(const Use& use) const {
    const ProgramObject& object = program_.objects[use.object];
    if (object.symbolic && object.defines.count(use.symbol) != 0) return false;
    if (use.from != nowhere && program_.objects[use.from].executable) return false;
    const auto name = parse_blas_name(use.symbol);
    if (!name || !is_taken_whole(*name)) return false;
    // LAPACKE calls the Fortran names within its own library.
    return !name->c_interface || use.from == nowhere || !program_.objects[use.from].symbolic;
  }

  void conclude() {
    report_.lapack_by_soname = true;
    report_.openblas_by_soname = true;
    for (const Use& use : report_.uses) {
      // Another LAPACK in front helps only if the program calls it by plain names.
      if (!use.lapack || !use.plain || use.from == nowhere || program_.objects[use.from].executable) continue;
      const ProgramObject& from = program_.objects[use.from];
      if (roles_[use.from].openblas) {
        report_.openblas_lapack = true;
        report_.lapack_by_soname = report_.lapack_by_soname && from.soname.rfind("liblapack", 0) == 0;
      }
    }
    for (std::size_t i = 0; i < program_.objects.size(); ++i) {
      const ProgramObject& object = program_.objects[i];
      const bool by_name = std::any_of(object.needed.begin(), object.needed.end(), names_openblas);
      if (by_name && report_.libraries.count(i) == 0) report_.openblas_by_soname = false;
    }
  }

  const Program& program_;
  const Faces& faces_;
  std::vector<Role> roles_;
  std::set<std::size_t> seen_;
  Report report_;
};

}  // namespace

std::string ProgramObject::name() const { return path.substr(path.rfind('/') + 1); }

bool is_caught(Fate fate) {
  return fate == Fate::caught || fate == Fate::already_tessera || fate == Fate::through_lapack ||
         fate == Fate::partly_lapack;
}

bool calls_blas_by_symbol(const ProgramObject& object) {
  const Role role = role_of(object);
  return role.lapack && role.calls_level3 && !role.openblas;
}

int integer_bits_of_library(const std::string& file_name) {
  static const std::regex wide("ilp64|(blas|blas[pom]|lapack|lapacke|blis|blis-mt|scalapack)64|mwblas|mwlapack");
  return std::regex_search(file_name, wide) ? 64 : 32;
}

Report analyse(const Program& program, const Faces& faces) { return Analysis(program, faces).run(); }

}  // namespace tessera::tools
