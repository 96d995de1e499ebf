// A call in words, for reports.
#pragma once

#include <string>

#include "calls/lapack_call.hpp"
#include "calls/level3.hpp"
#include "calls/work.hpp"

namespace tessera {

/// The letters of the Fortran call, in its order, and the sizes: "dtrsm LUNN m=20 n=30".
std::string text_of(const Level3& call);
/// Likewise, with the letters of the jobs: "dsyevd VL n=20", "dgesdd SS m=20 n=30", "dgels N m=30 n=20 nrhs=2".
std::string text_of(const LapackCall& call);
/// "dgemm_batch of 100000 products, 2 forms, mean of m*n*k 32^3", "dgesv_batch of 1000 problems, 1 form, mean of n 24"
std::string text_of_batch(const Work& batch);

}  // namespace tessera
