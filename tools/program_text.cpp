#include "program_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "text_table.hpp"

namespace tessera::tools {

using nlohmann::ordered_json;

namespace {

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::caught:
      return "caught";
    case Fate::already_tessera:
      return "already_tessera";
    case Fate::executable_has_it:
      return "executable_has_it";
    case Fate::bound_inside:
      return "bound_inside";
    case Fate::renamed:
      return "renamed";
    case Fate::openblas_lapack:
      return "openblas_lapack";
    case Fate::closed_lapack:
      return "closed_lapack";
    case Fate::partly_lapack:
      return "partly_lapack";
    case Fate::through_lapack:
      return "through_lapack";
  }
  return "";
}

const char* why(Fate fate) {
  switch (fate) {
    case Fate::caught:
      return "";
    case Fate::already_tessera:
      return "the library that answers is Tessera already";
    case Fate::executable_has_it:
      return "it is part of the executable, which comes before everything that is preloaded";
    case Fate::bound_inside:
      return "that library binds its calls to itself";
    case Fate::renamed:
      return "no library of Tessera has these names";
    case Fate::openblas_lapack:
      return "OpenBLAS's LAPACK computes them without calling a BLAS symbol";
    case Fate::closed_lapack:
      return "the library with this LAPACK binds its BLAS calls to itself";
    case Fate::partly_lapack:
      return "the BLAS calls that it makes, but not those of the LU and Cholesky routines under it";
    case Fate::through_lapack:
      return "by the BLAS calls that it makes";
  }
  return "";
}

std::string listed(const ordered_json& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i > 0 ? " " : "") + names[i].get<std::string>();
  }
  if (names.size() > most) text += fmt::format(" ... ({} in all)", names.size());
  return text;
}

/// One line for each group of names that is caught or not, with the reason. Names that several objects use appear once.
ordered_json verdict_of(const ordered_json& rows, bool caught) {
  std::vector<std::string> fates;
  for (const ordered_json& row : rows) {
    const std::string fate = row["fate"];
    const bool counts = !row["library"].get<bool>() && row["caught"].get<bool>() == caught;
    if (counts && std::find(fates.begin(), fates.end(), fate) == fates.end()) fates.push_back(fate);
  }
  ordered_json decision = ordered_json::array();
  for (const std::string& fate : fates) {
    std::vector<std::string> names;
    std::string reason;
    for (const ordered_json& row : rows) {
      if (row["fate"] != fate || row["library"].get<bool>()) continue;
      reason = row["why"];
      for (const ordered_json& name : row["names"]) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
    decision.push_back({{"names", names}, {"fate", fate}, {"why", reason}});
  }
  return decision;
}

}  // namespace

ordered_json describe_program(const Program& program, const Report& report, const PreloadPlan& plan) {
  // One row for the names that one object takes from another one with the same outcome.
  using Key = std::tuple<std::size_t, bool, std::size_t, Fate, bool>;
  std::map<Key, std::pair<int, std::vector<std::string>>> groups;
  for (const Use& use : report.uses) {
    auto& [bits, names] = groups[{use.object, use.lapack, use.from, use.fate, use.plain}];
    bits = use.bits;
    names.push_back(use.symbol);
  }
  const bool lapack_replaced =
      !plan.library_path.empty() || std::any_of(plan.preload.begin(), plan.preload.end(), [](const std::string& file) {
        return file.find("liblapack") != std::string::npos;
      });
  ordered_json rows = ordered_json::array();
  for (const auto& [key, group] : groups) {
    const auto& [object, lapack, from, fate, plain] = key;
    const bool replaced = lapack_replaced && lapack && plain && fate != Fate::executable_has_it;
    ordered_json row;
    row["object"] = program.objects[object].path;
    row["library"] = report.libraries.count(object) != 0;
    row["kind"] = lapack ? "LAPACK" : "Level 3";
    row["names"] = group.second;
    row["from"] = from < program.objects.size() ? program.objects[from].path : "";
    row["integer_bits"] = group.first;
    row["caught"] = replaced || is_caught(fate);
    row["fate"] = name_of(replaced ? Fate::through_lapack : fate);
    row["why"] = replaced ? "by the BLAS calls of the LAPACK that is put in its place" : why(fate);
    rows.push_back(row);
  }
  ordered_json description;
  description["program"] = program.path;
  description["statically_linked"] = report.statically_linked;
  description["blas_inside"] = report.blas_inside;
  description["verdict"] = {{"caught", verdict_of(rows, true)}, {"not_caught", verdict_of(rows, false)}};
  description["integer_bits"] = report.bits;
  description["mixed_integers"] = report.mixed;
  description["objects"] = rows;
  description["preload"] = plan.preload;
  description["library_path"] = plan.library_path;
  std::set<std::string> whole;
  for (const Use& use : report.uses) {
    if (use.whole && report.libraries.count(use.object) == 0) whole.insert(use.symbol);
  }
  description["caught_whole"] = whole;
  description["openblas_lapack_stays"] = report.openblas_lapack && !lapack_replaced;
  description["reasons"] = plan.reasons;
  description["notes"] = program.notes;
  return description;
}

std::string program_text(const ordered_json& description, const std::string& name) {
  std::string text;
  const ordered_json& caught = description["verdict"]["caught"];
  const ordered_json& missed = description["verdict"]["not_caught"];
  constexpr std::size_t most = 12;
  const auto sentence = [](const ordered_json& part) {
    const std::string reason = part["why"];
    return "  " + listed(part["names"], most) + (reason.empty() ? "" : ": " + reason) + "\n";
  };
  if (description["statically_linked"].get<bool>()) {
    text +=
        fmt::format("`tessera run` will catch nothing: {} is statically linked, and nothing can be preloaded.\n", name);
    text += description["blas_inside"].get<bool>()
                ? "It has a BLAS in it. Link it with a shared BLAS (-lblas) instead.\n"
                : "No BLAS was seen in it.\n";
    return text;
  }
  if (!caught.empty()) {
    text += "`tessera run` will catch:\n";
    for (const ordered_json& part : caught) text += sentence(part);
  } else {
    text += fmt::format("`tessera run` will catch nothing of {}{}\n", name,
                        missed.empty() ? ": it calls no Level-3 BLAS." : ".");
  }
  if (!missed.empty()) {
    text += "It will not catch:\n";
    for (const ordered_json& part : missed) text += sentence(part);
  }
  if (description["blas_inside"].get<bool>()) {
    text +=
        "A BLAS is linked into the executable; what it calls there cannot be caught. Link it with a shared BLAS "
        "(-lblas) instead.\n";
  }
  const ordered_json& whole = description["caught_whole"];
  if (!caught.empty() || !whole.empty()) {
    text += fmt::format("\nUse: tessera run -- {}\n", name);
    if (!whole.empty())
      text += "With devices these are caught as a whole, whosever LAPACK it is:\n  " + listed(whole, most) + "\n";
    for (const ordered_json& reason : description["reasons"]) text += "  " + reason.get<std::string>() + "\n";
  }
  if (!description["notes"].empty()) {
    text += "\n";
    for (const ordered_json& note : description["notes"]) text += note.get<std::string>() + "\n";
  }
  if (!description["objects"].empty()) {
    TextTable table({"object", "calls", "names", "answered now by", "integers", "caught"});
    for (const ordered_json& row : description["objects"]) {
      const std::string from = row["from"];
      const std::string object = row["object"];
      table.add_row({object.substr(object.rfind('/') + 1), row["kind"], listed(row["names"], 3),
                     from.empty()            ? "-"
                     : from == row["object"] ? "itself"
                                             : from,
                     fmt::format("{} bit", row["integer_bits"].get<int>()), row["caught"].get<bool>() ? "yes" : "no"});
    }
    text += "\n" + table.text();
  }
  return text;
}

}  // namespace tessera::tools
