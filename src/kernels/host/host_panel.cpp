#include "kernels/host/host_panel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/lapack_batch.hpp"
#include "kernels/plan/panel_steps.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_lapack.hpp"

namespace tessera::kernels {
namespace {

constexpr index_t block_columns = 32;  // a block's work is a negligible part of that of the panel and its updates

/// See plan/panel_steps.hpp.
class HostPanelMachine {
 public:
  explicit HostPanelMachine(const std::function<void(const Level3&)>& compute) : compute_(compute) {}

  void compute(const Level3& call) const { compute_(call); }
  static void add(const Addition& addition) { reference_add(addition); }
  std::byte* workspace(std::size_t bytes) {
    if (workspace_.size() * sizeof(AnyScalar) < bytes) workspace_.resize(bytes / sizeof(AnyScalar) + 1);
    return reinterpret_cast<std::byte*>(workspace_.data());
  }
  static void interchange(const PanelUpdate& update) {
    interchange_rows(update.panel.type, update.C, update.ldc, update.n, pivot_tail(update.panel).pivots,
                     update.panel.n);
  }
  static void copy_unit_triangle(const Panel& panel, void* V) {
    dispatch(panel.type, [&]<Scalar T>(T) {
      const T* const A = static_cast<const T*>(panel.A);
      T* to = static_cast<T*>(V);
      for (index_t j = 0; j < panel.n; ++j) {
        for (index_t i = 0; i < panel.n; ++i, ++to) {
          const bool is_stored = is_in_rows(panel.kind) ? i < j : i > j;
          *to = is_stored ? A[i + j * panel.lda] : T(i == j ? 1 : 0);
        }
      }
    });
  }
  static void prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* to) {
    dispatch(type, [&]<Scalar S>(S) {
      const S* const factors = static_cast<const S*>(tau);
      S* const T = static_cast<S*>(to);
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = 0; i < n; ++i) {
          if (i < j) static_cast<S*>(G)[i + j * n] *= factors[i];
          T[i + j * n] = i == j ? factors[i] : S(0);
        }
      }
    });
  }

 private:
  const std::function<void(const Level3&)>& compute_;
  std::vector<AnyScalar> workspace_;  // of the largest element type, so that it is aligned for all types
};

/// @return the block's info
int factor_block(const Panel& block) {
  int info = 0;
  LapackBatch one;
  one.routine = Routine::getrf;
  one.type = block.type;
  one.count = 1;
  one.m.of_all = one.max_m = block.m;
  one.n.of_all = one.max_n = block.n;
  one.lda.of_all = block.lda;
  one.A.first = block.A;
  one.ipiv.first = pivot_tail(block).pivots;
  one.info = &info;
  reference_lapack_batch(one);
  return info;
}

/// Factors columns [first, first + columns), which are few.
void factor_lu(HostPanelMachine& machine, const Panel& panel, index_t first, index_t columns) {
  std::array<std::int32_t, tail_bytes(PanelKind::lu, ScalarType::d, block_columns) / sizeof(std::int32_t)> tail{};
  Panel block = panel;
  block.m = panel.m - first;
  block.n = columns;
  block.A = plan::element_at(panel.A, panel.lda, panel.type, first, first);
  block.tail = tail.data();
  const PivotTail whole = pivot_tail(panel);
  if (first == 0) *whole.info = 0;
  if (const int info = factor_block(block); info > 0 && *whole.info == 0)
    *whole.info = static_cast<std::int32_t>(first) + info;
  machine.interchange({block, first, plan::element_at(panel.A, panel.lda, panel.type, first, 0), panel.lda});
  const index_t behind = first + columns;
  if (behind < panel.n) {
    plan::apply_lu(
        machine, {block, panel.n - behind, plan::element_at(panel.A, panel.lda, panel.type, first, behind), panel.lda});
  }
  std::transform(pivot_tail(block).pivots, pivot_tail(block).pivots + columns, whole.pivots + first,
                 [first](std::int32_t row) { return row + static_cast<std::int32_t>(first); });
}

}  // namespace

void factor_panel(const Panel& panel, index_t first, index_t columns, const std::function<void(const Level3&)>& compute,
                  const FactorsBlock& factors_qr) {
  HostPanelMachine machine(compute);
  for (index_t done = 0; done < columns; done += block_columns) {
    const index_t size = std::min(block_columns, columns - done);
    if (panel.kind == PanelKind::lu)
      factor_lu(machine, panel, first + done, size);
    else
      plan::factor_qr(machine, panel, first + done, size, factors_qr);
  }
}

void apply_panel(const PanelUpdate& update, const std::function<void(const Level3&)>& compute) {
  HostPanelMachine machine(compute);
  plan::apply_panel(machine, update);
}

void interchange_rows(ScalarType type, void* A, index_t lda, index_t columns, const std::int32_t* pivots,
                      index_t count) {
  dispatch(type, [&]<Scalar T>(T) {
    for (index_t j = 0; j < columns; ++j) {
      T* const column = static_cast<T*>(A) + j * lda;
      for (index_t i = 0; i < count; ++i) std::swap(column[i], column[pivots[i] - 1]);
    }
  });
}

}  // namespace tessera::kernels
