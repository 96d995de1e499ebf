// Panels of LU and QR in host memory: on host devices, and where the CPU finishes what devices have left.
#pragma once

#include <functional>

#include "core/level3.hpp"
#include "kernels/panel.hpp"

namespace tessera::kernels {

/// Factors columns [first, first + columns) of the panel now, and applies them to all others; with the last ones the
/// tail is complete. Blocks of columns by readable loops, the rest by compute(call), whoever that is.
/// @pre the columns before them have been factored. @throws std::bad_alloc. Thread-safe
void factor_panel(const Panel& panel, index_t first, index_t columns,
                  const std::function<void(const Level3&)>& compute);

/// Applies the panel to the matrix beside it now. @throws std::bad_alloc. Thread-safe
void apply_panel(const PanelUpdate& update, const std::function<void(const Level3&)>& compute);

/// Rows of a matrix with so many columns, by that many pivots of the panel's kind (PivotTail), the first one first.
void interchange_rows(ScalarType type, void* A, index_t lda, index_t columns, const std::int32_t* pivots,
                      index_t count);

}  // namespace tessera::kernels
