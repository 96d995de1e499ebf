// The parts of a batch in host memory: problems that are decided and carried together, and those that are calls of their
// own or the CPU's. A product runs as a call of its own if its volume is one that the policy weighs, or if it is larger
// than a lane of the runtime should be. So does a product that only scales C; the CPU computes it.
#pragma once

#include <vector>

#include "calls/gemm_batch.hpp"
#include "calls/lapack_problems.hpp"

namespace tessera::offload {

/// Whether the product is decided with others. @pre it has an effect
bool is_batched(ScalarType type, const ProductForm& form, const Product& product);

/// Takes those out that are not. @return them, as calls of their own @throws std::bad_alloc, and nothing has changed
std::vector<Level3> take_single_calls(GemmBatch& batch);

/// LAPACK's problems by size, from small to large: those that are packed with many others, those that take lanes of
/// another size, and those that are left to the CPU.
struct BySize {
  LapackProblems small, large, too_large;
};
/// @param batch is used up @throws std::bad_alloc
BySize by_size(LapackProblems&& batch);

}  // namespace tessera::offload
