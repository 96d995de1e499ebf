#include "bench_cases.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "commands.hpp"

namespace tessera::tools {
namespace {

Routine routine_of(const std::string& name) {
  return *std::find_if(level3_routines.begin(), level3_routines.end(),
                       [&](Routine one) { return name == name_of(one); });
}

ScalarType type_of(char type) {
  return type == 's' ? ScalarType::s : type == 'd' ? ScalarType::d : type == 'c' ? ScalarType::c : ScalarType::z;
}

Op op_of(const std::string& letter) {
  return letter == "N" ? Op::no_trans : letter == "T" ? Op::trans : Op::conj_trans;
}

/// One routine in one type, with all but sizes and matrices.
/// @throws UsageError if BLAS has no such routine
Level3 case_of(Routine routine, ScalarType type, const BenchOptions& options) {
  Level3 call = routine_call(routine, type);
  if (!exists(routine, type)) throw UsageError(fmt::format("--type: {} exists for c and z only", name_of(routine)));
  if (has_side(call)) call.side = options.side == "L" ? Side::left : Side::right;
  if (has_uplo(call)) call.uplo = options.uplo == "L" ? Uplo::lower : Uplo::upper;
  if (has_op_a(call)) call.op_a = op_of(options.transa);
  if (has_op_b(call)) call.op_b = op_of(options.transb);
  if (has_diag(call)) call.diag = options.diag == "U" ? Diag::unit : Diag::non_unit;
  if (call.is_rank_update() && is_complex(type)) {
    const Op wrong = call.is_hermitian() ? Op::trans : Op::conj_trans;
    if (call.op_a == wrong)
      throw UsageError(fmt::format("--transa: {} does not have {}", name_of(call), options.transa));
  }
  // The scalar as the type can hold it.
  const auto factor = [type](double value) {
    return AnyScalar(type == ScalarType::s || type == ScalarType::c ? static_cast<float>(value) : value);
  };
  call.alpha = factor(options.alpha);
  if (has_beta(call)) call.beta = factor(options.beta);
  return call;
}

}  // namespace

std::vector<Size> sizes_of(const BenchOptions& options) {
  const auto at = [&options](const std::vector<std::int64_t>& values, std::size_t index, const char* name) {
    if (values.empty()) return options.n[index];
    if (values.size() == 1) return values[0];
    if (values.size() != options.n.size()) {
      throw UsageError(fmt::format("{}: {} values for {} values of --n", name, values.size(), options.n.size()));
    }
    return values[index];
  };
  std::vector<Size> sizes;
  for (std::size_t index = 0; index < options.n.size(); ++index) {
    sizes.push_back({at(options.m, index, "--m"), options.n[index], at(options.k, index, "--k")});
  }
  return sizes;
}

Level3 routine_call(Routine routine, ScalarType type) {
  Level3 call;
  call.routine = routine;
  call.type = type;
  return call;
}

std::vector<Level3> cases_of(const BenchOptions& options) {
  std::vector<Level3> cases;
  for (const std::string& type_letter : options.types) {
    const ScalarType type = type_of(type_letter[0]);
    for (const std::string& name : options.routines) {
      const Routine routine = routine_of(name);
      const bool has_peers = routine != Routine::gemmt || !options.wants("cublasxt");
      if (options.several && (!exists(routine, type) || !has_peers)) continue;
      if (!has_peers) throw UsageError("--peer: cublasXt has no gemmt");
      cases.push_back(case_of(routine, type, options));
    }
  }
  if (cases.empty()) throw UsageError("--type: none of these routines exists for it");
  return cases;
}

namespace {

Level3 problem_of(const nlohmann::json& line) {
  BenchOptions options;
  const auto name = line.at("routine").get<std::string>();
  if (name.size() < 2 || std::string("sdcz").find(name[0]) == std::string::npos) throw UsageError(name);
  const auto routine = std::find_if(level3_routines.begin(), level3_routines.end(),
                                    [&](Routine one) { return name.substr(1) == name_of(one); });
  if (routine == level3_routines.end()) throw UsageError("no such routine: " + name);
  for (const auto& [key, letter] :
       {std::pair{"side", &options.side}, std::pair{"uplo", &options.uplo}, std::pair{"transa", &options.transa},
        std::pair{"transb", &options.transb}, std::pair{"diag", &options.diag}})
    *letter = line.value(key, *letter);
  options.alpha = line.value("alpha", options.alpha);
  options.beta = line.value("beta", options.beta);
  const auto n = line.at("n").get<index_t>();
  Level3 call = with_size(case_of(*routine, type_of(name[0]), options), {line.value("m", n), n, line.value("k", n)});
  if (std::min({call.m, call.n, call.has_k() ? call.k : 1}) < 1) throw UsageError(name + " without sizes");
  const auto widen = [&](const char* key, index_t& ld) {
    const index_t wanted = line.value(key, ld);
    if (wanted < ld) throw UsageError(fmt::format("{}: {} is less than {}", name, key, ld));
    ld = wanted;
  };
  widen("lda", call.lda);
  widen("ldb", call.ldb);
  widen("ldc", call.ldc);
  if (call.is_triangular()) call.ldb = call.ldc;
  return call;
}

}  // namespace

std::vector<Level3> problems_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw UsageError(file + ": cannot be read");
  std::vector<Level3> problems;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    try {
      problems.push_back(problem_of(nlohmann::json::parse(line)));
    } catch (const std::exception& error) {
      throw UsageError(fmt::format("{}, line {}: {}", file, problems.size() + 1, error.what()));
    }
  }
  if (problems.empty()) throw UsageError(file + ": no problems");
  return problems;
}

std::vector<ScalarType> types_of(const std::vector<Level3>& cases) {
  std::vector<ScalarType> types;
  for (const Level3& one : cases) {
    if (std::find(types.begin(), types.end(), one.type) == types.end()) types.push_back(one.type);
  }
  return types;
}

StoredShape kept_b(const Level3& call) { return call.is_triangular() ? StoredShape{call.m, call.n} : shape_of_b(call); }

std::size_t bytes_of(const Level3& call, const StoredShape& shape, index_t ld) {
  return static_cast<std::size_t>(ld * shape.cols) * element_bytes(call.type);
}

Level3 with_size(Level3 call, const Size& size) {
  call.m = has_m(call) ? size.m : size.n;
  call.n = size.n;
  call.k = call.has_k() ? size.k : 0;
  call.lda = shape_of_a(call).rows;
  call.ldb = std::max<index_t>(1, kept_b(call).rows);
  call.ldc = call.m;
  return call;
}

std::vector<Level3> calls_of(const std::vector<Level3>& cases, const std::vector<Size>& sizes) {
  std::vector<Level3> calls;
  for (const Level3& one : cases) {
    for (const Size& size : sizes) calls.push_back(with_size(one, size));
  }
  return calls;
}

std::string variant(const Level3& call) {
  constexpr char ops[] = "NTC";
  std::string text;
  if (has_side(call)) text += call.side == Side::left ? 'L' : 'R';
  if (has_uplo(call)) text += call.uplo == Uplo::lower ? 'L' : 'U';
  if (has_op_a(call)) text += ops[static_cast<std::size_t>(call.op_a)];
  if (has_op_b(call)) text += ops[static_cast<std::size_t>(call.op_b)];
  if (has_diag(call)) text += call.diag == Diag::unit ? 'U' : 'N';
  return text;
}

std::vector<std::pair<std::string, index_t>> dimensions(const Level3& call) {
  std::vector<std::pair<std::string, index_t>> result;
  if (has_m(call)) result.emplace_back("m", call.m);
  result.emplace_back("n", call.n);
  if (call.has_k()) result.emplace_back("k", call.k);
  return result;
}

std::string size_text(const Level3& call) {
  std::string text;
  bool same = true;
  for (const auto& [name, value] : dimensions(call)) {
    text += (text.empty() ? "" : "x") + fmt::to_string(value);
    same = same && value == call.n;
  }
  return same ? fmt::to_string(call.n) : text;
}

}  // namespace tessera::tools
