// How large the blocks of LAPACK's routines should be where their Level-3 calls run on devices. Pure.
//
// A blocked factorisation of order n updates the trailing matrix once per block column, with k = the block size: C
// crosses the host link n / block times. LAPACK's 32 or 64 suit a cache; eight times that moves an eighth. The price
// is in the panels, which stay on the CPU: their growth limits the block of each routine below.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace tessera::lapack {

/// The blocks that suit a routine, by the name that it gives ILAENV ("DGETRF").
struct BlockLimits {
  std::string_view stem;  ///< without the letter of the type
  std::int32_t part;      ///< the block is this part of the order, in powers of two
  std::int32_t wanted;    ///< and no more than that
  std::int32_t most;      ///< the limit for any setting
};

/// @return nullptr for routines that are better left alone
inline const BlockLimits* limits_of(std::string_view name) {
  constexpr std::int32_t any = INT32_MAX;
  static constexpr BlockLimits limits[] = {
      // Panels are recursive (xGETRF2, xPOTRF2) or matrix products (xGETRI): Level 3 whatever the size. The first two were
      // measured (docs/lapack.md).
      {"GETRF", 8, 2048, any},
      {"POTRF", 8, 2048, any},
      {"GETRI", 16, 512, any},
      // Diagonal blocks go through Level 2: n * block^2 operations.
      {"TRTRI", 16, 256, 256},
      {"LAUUM", 16, 256, 256},
      {"SYGST", 16, 256, 256},
      {"HEGST", 16, 256, 256},
      // Whole panels go through Level 2: n^2 * block operations.
      {"GEQRF", 64, 128, 128},
      {"GELQF", 64, 128, 128},
      {"GEQLF", 64, 128, 128},
      {"GERQF", 64, 128, 128},
      {"ORGQR", 64, 128, 128},
      {"UNGQR", 64, 128, 128},
      {"ORGLQ", 64, 128, 128},
      {"UNGLQ", 64, 128, 128},
      {"SYTRD", 64, 128, 128},
      {"HETRD", 64, 128, 128},
      {"GEBRD", 64, 128, 128},
  };
  // Not here because their block is limited by arrays of fixed size: xORMQR and its kin, xGEHRD, xGBTRF, xPBTRF, xTREVC3.
  if (name.size() < 6) return nullptr;
  for (const BlockLimits& routine : limits) {
    if (name.substr(1, 5) == routine.stem && name.find_first_not_of(' ', 6) == std::string_view::npos) return &routine;
  }
  return nullptr;
}

/// The smaller side of a matrix of which ILAENV is told these sizes; negative ones say nothing. 0 if all are.
inline std::int32_t order_of(std::initializer_list<std::int32_t> sizes) {
  std::int32_t order = -1;
  for (const std::int32_t size : sizes) {
    if (size >= 0 && (order < 0 || size < order)) order = size;
  }
  return std::max(order, 0);
}

/// @param order    the smaller side of the matrix
/// @param own      what LAPACK itself says
/// @param setting  TESSERA_LAPACK_BLOCK; 0 leaves everything alone
/// Workspace stays consistent: of the routines above those that have one ask here for its size as well, and take a smaller
/// block if they are given less.
inline std::int32_t block_size(std::string_view name, std::int32_t order, std::int32_t own,
                               std::optional<std::int32_t> setting) {
  const BlockLimits* limits = limits_of(name);
  if (limits == nullptr) return own;
  if (setting) return *setting == 0 ? own : std::min(*setting, limits->most);
  // Below this the update is computed on the CPU, where LAPACK's own choice is right.
  constexpr std::int32_t smallest_order = 2048;
  if (order < smallest_order) return own;
  const auto part =
      static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>((order - 1) / limits->part + 1)));
  return std::max(own, std::min(part, limits->wanted));
}

}  // namespace tessera::lapack
