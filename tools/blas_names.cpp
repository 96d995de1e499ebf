#include "blas_names.hpp"

#include <algorithm>
#include <array>

namespace tessera::tools {
namespace {

constexpr std::array level3 = {
#define TESSERA_ROUTINE(routine, list, letter, T) std::string_view(#letter #routine),
#define TESSERA_SYNONYM(spelling, routine, letter, T) std::string_view(#letter #spelling),
#include "calls/routines.def"
};

/// The routines that also have batches.
constexpr std::array batched = {
#define TESSERA_BATCH(routine, letter, T) std::string_view(#letter #routine),
#include "calls/routines.def"
};

/// The routines that libtessera_lapack.so defines.
constexpr std::array taken_whole = {
#define TESSERA_CALL(routine, name, letter, T, arguments, letters) std::string_view(#letter #name),
#include "calls/lapack_symbols.def"
#undef TESSERA_CALL
};

/// LAPACK routines without the letter of the type. Those that OpenBLAS implements itself come first.
constexpr std::array<std::string_view, 12> openblas_stems = {"getrf", "gesv",  "getrs", "getf2", "potrf", "potri",
                                                             "potf2", "lauum", "lauu2", "trtri", "trti2", "trtrs"};
constexpr std::array<std::string_view, 77> reference_stems = {
    "geqrf", "geqp3", "gelqf", "geqlf", "gerqf", "orgqr", "ungqr", "orglq", "unglq", "orgql", "ungql", "ormqr", "unmqr",
    "ormlq", "unmlq", "ormtr", "unmtr", "ormbr", "unmbr", "orgbr", "ungbr", "orgtr", "ungtr", "orghr", "unghr", "getri",
    "gesvx", "gecon", "gels",  "gelsd", "gelsy", "gelss", "gesvd", "gesdd", "gebrd", "gehrd", "geev",  "geevx", "gees",
    "geesx", "ggev",  "gges",  "larfb", "posv",  "posvx", "potrs", "pbtrf", "gbtrf", "gbsv",  "pbsv",  "sytrf", "hetrf",
    "sysv",  "hesv",  "sytrs", "hetrs", "sytri", "hetri", "sytrd", "hetrd", "syev",  "heev",  "syevd", "heevd", "syevr",
    "heevr", "syevx", "heevx", "sygst", "hegst", "sygv",  "hegv",  "sygvd", "hegvd", "sygvx", "hegvx", "trsyl"};

/// Longest first, because the others end with "_", too.
constexpr std::array<std::string_view, 5> suffixes = {"_64_", "_64", "64_", "_", ""};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_type_letter(char c) { return c == 's' || c == 'd' || c == 'c' || c == 'z'; }

bool is_lapack(std::string_view routine) {
  return routine.size() > 1 && is_type_letter(routine[0]) &&
         (has(openblas_stems, routine.substr(1)) || has(reference_stems, routine.substr(1)));
}

}  // namespace

bool openblas_has_own(std::string_view routine) {
  return routine.size() > 1 && is_type_letter(routine[0]) && has(openblas_stems, routine.substr(1));
}

bool is_taken_whole(const BlasName& name) {
  if (!has(taken_whole, name.routine)) return false;
  if (!name.prefix.empty() && name.prefix != "scipy_") return false;
  if (name.c_interface) return true;
  return name.suffix == "_" || name.suffix == "_64_" || (name.prefix.empty() && name.suffix.empty());
}

std::optional<BlasName> parse_blas_name(std::string_view symbol) {
  for (const std::string_view suffix : suffixes) {
    if (!symbol.ends_with(suffix)) continue;
    std::string_view core = symbol.substr(0, symbol.size() - suffix.size());
    constexpr std::string_view work = "_work";  // LAPACKE_dgetrf_work: the caller provides the workspace
    if (core.find("LAPACKE_") != std::string_view::npos && core.ends_with(work)) core.remove_suffix(work.size());
    std::string_view batch;
    for (const std::string_view ending : {"_batch_strided", "_batch"}) {
      if (!batch.empty() || !core.ends_with(ending)) continue;
      batch = ending;
      core.remove_suffix(ending.size());
    }
    const std::size_t underscore = core.rfind('_');
    const std::string_view routine = underscore == std::string_view::npos ? core : core.substr(underscore + 1);
    std::string_view before = core.substr(0, core.size() - routine.size());
    BlasName name{.routine = std::string(routine) + std::string(batch), .prefix = {}, .suffix = std::string(suffix)};
    name.lapack = batch.empty() && is_lapack(routine);
    if (!name.lapack && (!has(level3, routine) || (!batch.empty() && !has(batched, routine)))) continue;
    for (const std::string_view interface : {"cblas_", "LAPACKE_"}) {
      if (!before.ends_with(interface)) continue;
      before.remove_suffix(interface.size());
      name.c_interface = true;
    }
    name.prefix = before;
    return name;
  }
  return std::nullopt;
}

}  // namespace tessera::tools
