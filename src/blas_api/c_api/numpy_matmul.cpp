// The inner loops of numpy.matmul, with stacks as batches. python/tessera_blas/_numpy_matmul.py puts them in the place of
// NumPy's own.
//
// NumPy's loop multiplies the matrices of a stack one after the other, on one processor. Here a stack that has work for
// more goes on as one batch. Matrices one below the other that are multiplied by the same matrix are one product. NumPy's
// own loop does all else, and whatever fails here.
//
// A loop is a PyUFuncGenericFunction of numpy/ufuncobject.h. It is declared here, so that the build needs no NumPy.
#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include "calls/gemm_batch.hpp"
#include "core/environment.hpp"
#include "offload/context.hpp"
#include "offload/work.hpp"

namespace {

using tessera::index_t;
using tessera::Op;

/// @param sizes the number of products, m, k, n @param strides in bytes: of A, B and C from product to product, then of A, B
/// and C from row to row and from column to column
using Loop = void (*)(char** matrices, const std::intptr_t* sizes, const std::intptr_t* strides, void* data);

/// Smaller stacks take less time in NumPy's loop, on any machine.
struct Least {
  index_t count = 8;
  index_t side = 8;  ///< of each matrix: NumPy's loop is as quick as memory for vectors
  index_t volume_of_each = index_t{24} * 24 * 24;
  index_t volume = index_t{1} << 22;
  /// As one product, of which only the call itself takes longer.
  index_t volume_of_one = index_t{1} << 15;
};
constexpr Least usual_stack;
constexpr Least any_stack{.count = 2, .side = 1, .volume_of_each = 1, .volume = 1, .volume_of_one = 1};

std::array<Loop, 4> numpys_own;                    // by type; NumPy sets each one before ours takes its place
std::atomic<const Least*> least_of_all = nullptr;  // nullptr: all stacks are NumPy's own

/// A stack of matrices as their rows lie.
struct Stack {
  Op op = Op::no_trans;  ///< of what is stored by rows
  index_t ld = 0;
  tessera::MatricesOfGroup matrices;
};

/// @return nothing if a BLAS cannot take them
std::optional<Stack> stack_of(const char* first, index_t rows, index_t cols, std::intptr_t apart, std::intptr_t down,
                              std::intptr_t right, std::intptr_t element) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(first) % sizeof(float) == 0;
  if (!is_aligned || apart < 0 || apart % element != 0) return std::nullopt;
  const auto spans = [element](std::intptr_t stride, index_t run, index_t others) {
    return others == 1 || (stride % element == 0 && stride / element >= run);
  };
  Stack stack{.matrices = {.first = first, .distance_bytes = apart}};
  if ((right == element || cols == 1) && spans(down, cols, rows)) {
    stack.ld = rows == 1 ? cols : down / element;
  } else if ((down == element || rows == 1) && spans(right, rows, cols)) {
    stack.op = Op::trans;
    stack.ld = cols == 1 ? rows : right / element;
  } else {
    return std::nullopt;
  }
  return stack;
}

/// The products of one stack. A is m x k, B k x n.
struct Products {
  index_t count = 0, m = 0, k = 0, n = 0;
  std::intptr_t element = 0;
  Stack A, B, C;

  index_t volume() const { return m * k * n; }
  /// Makes one product of matrices one below the other. @return whether they are
  bool join() {
    const auto follow = [this](const Stack& stack) {
      return stack.op == Op::no_trans && stack.matrices.distance_bytes == m * stack.ld * element;
    };
    const bool has_one_b = B.matrices.distance_bytes == 0;
    if (!has_one_b || !follow(A) || !follow(C)) return false;
    m *= count;
    count = 1;
    return true;
  }
  tessera::GemmGroup group() const {
    return {.arguments = {.layout = tessera::Layout::row_major,
                          .op_a = A.op,
                          .op_b = B.op,
                          .m = m,
                          .n = n,
                          .k = k,
                          .lda = A.ld,
                          .ldb = B.ld,
                          .ldc = C.ld},
            .A = A.matrices,
            .B = B.matrices,
            .C = C.matrices,
            .count = count};
  }
};

/// @return nothing if they are NumPy's own
std::optional<Products> products_of(const Least& least, char** matrices, const std::intptr_t* sizes,
                                    const std::intptr_t* strides, std::intptr_t element) {
  const index_t count = sizes[0], m = sizes[1], k = sizes[2], n = sizes[3];
  if (count < least.count || std::min({m, k, n}) < 1) return std::nullopt;
  if (m > tessera::most_problems / k || m * k > tessera::most_problems / n) return std::nullopt;
  const auto A = stack_of(matrices[0], m, k, strides[0], strides[3], strides[4], element);
  const auto B = stack_of(matrices[1], k, n, strides[1], strides[5], strides[6], element);
  const auto C = stack_of(matrices[2], m, n, strides[2], strides[7], strides[8], element);
  if (!A || !B || !C || C->op != Op::no_trans || C->matrices.distance_bytes == 0) return std::nullopt;
  Products products{count, m, k, n, element, *A, *B, *C};
  const double volume = static_cast<double>(products.volume()) * static_cast<double>(count);
  if (volume >= static_cast<double>(least.volume_of_one) && products.join()) return products;
  if (std::min({m, k, n}) < least.side || products.volume() < least.volume_of_each ||
      volume < static_cast<double>(least.volume))
    return std::nullopt;
  return products;
}

/// Larger products keep all processors busy one by one. Only devices take them together.
constexpr index_t most_on_cpu = index_t{64} * 64 * 64;

/// @return whether they have been computed
template <tessera::Scalar T>
bool run(const Products& products) {
  tessera::GemmGroup group = products.group();
  turn_column_major(group);
  tessera::offload::Context& context = tessera::offload::shared_context();
  const tessera::ScalarType type = tessera::scalar_type_of<T>();
  if (group.count == 1) {
    context.run(group.call(type, 0), tessera::offload::Fallback::cpu_blas);
    return true;
  }
  tessera::GemmBatchBuilder builder(type);
  builder.reserve(group.count);
  builder.add(group);
  tessera::GemmBatch batch = builder.take();
  if (products.volume() > most_on_cpu && !context.would_offload(tessera::offload::work_of(batch, 0, batch.size())))
    return false;
  context.run_batch(batch);
  return true;
}

template <tessera::Scalar T>
void multiply(char** matrices, const std::intptr_t* sizes, const std::intptr_t* strides, void* data) noexcept {
  const tessera::ErrnoKept stays;
  if (const Least* const least = least_of_all.load(std::memory_order_relaxed); least != nullptr && sizes[0] > 1) {
    try {
      const auto products = products_of(*least, matrices, sizes, strides, sizeof(T));
      if (products && run<T>(*products)) return;
    } catch (const std::exception&) {  // A and B are as they were
    }
  }
  numpys_own[static_cast<std::size_t>(tessera::scalar_type_of<T>())](matrices, sizes, strides, data);
}

constexpr std::array<Loop, 4> loops = {multiply<float>, multiply<double>, multiply<std::complex<float>>,
                                       multiply<std::complex<double>>};

}  // namespace

#define TESSERA_PRIVATE extern "C" __attribute__((visibility("default")))

/// The loop with batches in front of NumPy's own.
/// @param type 0 to 3: s, d, c, z
/// @param numpys receives the address where NumPy's loop has to be before ours takes its place, and must stay
/// @return the same address each time
TESSERA_PRIVATE void* tessera_private_numpy_matmul(int type, void** numpys) noexcept {
  const auto number = static_cast<std::size_t>(type);
  *numpys = &numpys_own[number];
  return reinterpret_cast<void*>(loops[number]);
}

/// Which stacks become batches: 0: none, as at first; 1: those that are sooner so; 2: all, which rules may send to devices.
/// Thread-safe.
TESSERA_PRIVATE void tessera_private_numpy_stacks(int which) noexcept {
  least_of_all.store(which == 0 ? nullptr : which == 1 ? &usual_stack : &any_stack, std::memory_order_relaxed);
}
