// Panels of LU, QR and LQ in host memory, for host devices and for the CPU when it finishes a job that devices have left.
#pragma once

#include <functional>

#include "calls/level3.hpp"
#include "kernels/panel.hpp"
#include "kernels/reference/reference_qr.hpp"

namespace tessera::kernels {

/// Factors a few columns of QR, or rows of LQ, and writes their coefficients to tau.
using FactorsBlock = std::function<void(const Panel& block, void* tau)>;

/// Factors columns [first, first + columns) of the panel at once, and applies them to all others. With the last columns
/// the tail is complete. Readable loops factor blocks of columns, and compute(call) does the rest.
/// @param factors_qr takes the place of the readable loops of QR and LQ
/// @pre the columns before them have been factored. @throws std::bad_alloc. Thread-safe
void factor_panel(const Panel& panel, index_t first, index_t columns, const std::function<void(const Level3&)>& compute,
                  const FactorsBlock& factors_qr = reference_qr);

/// Applies the panel at once to the matrix beside it. @throws std::bad_alloc. Thread-safe
void apply_panel(const PanelUpdate& update, const std::function<void(const Level3&)>& compute);

/// Interchanges rows of a matrix by as many pivots of the panel's kind (PivotTail), starting with the first one.
void interchange_rows(ScalarType type, void* A, index_t lda, index_t columns, const std::int32_t* pivots,
                      index_t count);

}  // namespace tessera::kernels
