// The readable QR factorization of a block column, by unblocked loops in the precision of its type. R, V and tau are
// those of LAPACK 3.12 (geqr2, larfg). An LQ panel is factored as its adjoint is (gelq2).
#pragma once

#include "kernels/panel.hpp"

namespace tessera::kernels {

/// Factors the panel where it lies. @param tau receives its n coefficients
void reference_qr(const Panel& panel, void* tau);

}  // namespace tessera::kernels
