// The options of `tessera bench`, and the calls that they name.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "settings_options.hpp"

namespace tessera::tools {

struct BenchOptions {
  SettingsOptions settings;
  std::vector<std::string> routines;
  std::vector<std::string> types = {"d"};
  bool several = false;  ///< `bench all`: routines and types are lists; combinations that do not exist are left out
  std::vector<std::int64_t> n, m, k;
  std::string side = "L", uplo = "L", transa = "N", transb = "N", diag = "N";
  double alpha = 1.1, beta = 0.3;
  std::string host = "auto";
  int repeats = 5;
  std::vector<std::string> peers;
  std::vector<int> cublasxt_blocks = {2048, 4096};
  std::string json_file;
  bool check = false;
  bool in_core = false;
  std::string problems_file;  ///< `bench problems`

  bool wants(const char* peer) const { return std::find(peers.begin(), peers.end(), peer) != peers.end(); }
};

struct Size {
  std::int64_t m = 0, n = 0, k = 0;
};
/// @throws UsageError
std::vector<Size> sizes_of(const BenchOptions& options);

// The parameters that a routine has.
inline bool has_side(const Level3& call) { return !call.has_k(); }
inline bool has_uplo(const Level3& call) { return call.routine != Routine::gemm; }
inline bool has_op_a(const Level3& call) { return call.has_k() || call.is_triangular(); }
inline bool has_op_b(const Level3& call) { return call.has_op_b(); }
inline bool has_diag(const Level3& call) { return call.is_triangular(); }
inline bool has_beta(const Level3& call) { return !call.is_triangular(); }
inline bool has_m(const Level3& call) { return !call.updates_triangle(); }

Level3 routine_call(Routine routine, ScalarType type = ScalarType::d);

/// One for each routine and type, with all but sizes and matrices.
/// @throws UsageError if BLAS has no such routine
std::vector<Level3> cases_of(const BenchOptions& options);
std::vector<ScalarType> types_of(const std::vector<Level3>& cases);

/// The problems of a file, one JSON object a line: routine ("dgemm") and its sizes. If they differ from the defaults of
/// bench, also side, uplo, transa, transb, diag, alpha, beta; lda, ldb, ldc in elements.
/// @return calls without matrices
/// @throws UsageError if the file cannot be read or BLAS has no such routine
std::vector<Level3> problems_of(const std::string& file);

/// The matrix that the bench keeps as B: for trmm and trsm the operand as it was before the call.
StoredShape kept_b(const Level3& call);
/// Bytes from the first element to the end of the last column. @param ld at least the rows
std::size_t bytes_of(const Level3& call, const StoredShape& shape, index_t ld);
/// With leading dimensions that leave no gaps.
Level3 with_size(Level3 call, const Size& size);
/// Every case with every size.
std::vector<Level3> calls_of(const std::vector<Level3>& cases, const std::vector<Size>& sizes);

/// The parameters as letters, in the order of the BLAS arguments: "NT", "LLNU".
std::string variant(const Level3& call);
/// Names and values of the sizes that the routine has.
std::vector<std::pair<std::string, index_t>> dimensions(const Level3& call);
/// "4096" if all sizes are the same, else "4096x8192x100".
std::string size_text(const Level3& call);

}  // namespace tessera::tools
