// The calls that spelt_lapack.cpp has recorded.
#pragma once

/// The last call: its name without prefix and suffix, and its arguments without hidden lengths.
struct SpeltCall {
  const char* name = nullptr;
  const void* arguments[10] = {};
};
inline constexpr int spelt_info = 77;           ///< its info, always
inline constexpr float spelt_workspace = 4711;  ///< its answer to LWORK = -1

extern __attribute__((visibility("default"))) SpeltCall spelt_last;
extern __attribute__((visibility("default"))) int spelt_calls;
