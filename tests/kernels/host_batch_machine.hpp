// Batches (src/kernels/block) on host threads, one thread block after the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/block/gemm_block.hpp"
#include "kernels/block/product_batch.hpp"
#include "kernels/block/tile_schedule.hpp"
#include "kernels/block/triangular_batch.hpp"
#include "kernels/block/triangular_sweep.hpp"
#include "tests/kernels/host_block_machine.hpp"

namespace tessera::test {

/// Two warps beside each other.
template <Scalar T>
using BatchBlock = kernels::block::GemmShape<kernels::block::PartOf<T>, kernels::block::parts_of<T>, 16, 32, 1, 2, 2>;

/// Whether something of the block is updated.
template <class Shape, class E>
bool is_updated(const kernels::block::BlockProduct<E>& product, index_t row, index_t column) {
  using kernels::block::Region;
  if (product.does_nothing || row >= product.m || column >= product.n) return false;
  const index_t last_row = row + Shape::rows - 1, last_column = column + Shape::columns - 1;
  return product.updated == Region::full ||
         (product.updated == Region::lower ? last_row >= column : row <= last_column);
}

/// Computes by the kernel for the form.
template <class Shape>
void run_gemm_block(const kernels::block::BlockProduct<typename Shape::E>& product, kernels::block::Operands operands,
                    index_t row, index_t column) {
  using kernels::block::GemmBlock;
  using kernels::block::Operands;
  if (!is_updated<Shape>(product, row, column)) return;
  const auto memory = std::make_unique<kernels::block::GemmMemory<Shape>>();
  run_block<Shape>([&]<class Machine>(const Machine& machine) {
    if (operands == Operands::plain)
      GemmBlock<Shape, Machine, Operands::plain>(product, *memory, row, column, machine).run();
    else
      GemmBlock<Shape, Machine, Operands::any>(product, *memory, row, column, machine).run();
  });
}

/// Computes a strip of a problem of any size.
template <class Strip, bool is_solve>
void run_sweep(const kernels::block::TriangularSystem<typename Strip::E>& system) {
  using Machine = HostWarps<Strip::warps, true>;
  using Sweep = kernels::block::TriangularSweep<Strip, Machine, is_solve>;
  if (system.order == 0) return;
  for (index_t column = 0; column < system.columns; column += Strip::columns) {
    const auto memory = std::make_unique<typename Sweep::Memory>();
    run_block<Strip, Machine>([&](const Machine& machine) { Sweep(system, *memory, column, machine).run(); });
  }
}

/// The good problems. `info` receives the results of the checks. @pre Batch has form, positions, problem()
template <class Batch>
std::vector<index_t> good_problems(const Batch& batch, void* info, bool is_wide) {
  std::vector<index_t> good;
  for (index_t i = 0; i < batch.count; ++i) {
    const int bad = info != nullptr ? bad_argument(batch.form, batch.positions, batch.problem(i)) : 0;
    if (bad == 0) good.push_back(i);
    if (info == nullptr) continue;
    if (is_wide)
      static_cast<std::int64_t*>(info)[i] = -bad;
    else
      static_cast<int*>(info)[i] = -bad;
  }
  return good;
}

template <Scalar T>
void run_products_by_blocks(const kernels::Level3Batch& given) {
  using Shape = BatchBlock<T>;
  const auto batch = kernels::block::product_batch<typename Shape::R, Shape::parts>(given);
  for (const index_t i : good_problems(batch, given.info, given.n.is_wide)) {
    const auto product = product_of(batch.form, batch.problem(i));
    using Blocks = kernels::block::BlocksOfProduct<Shape::rows, Shape::columns>;
    typename Blocks::Place at;
    for (index_t number = 0; Blocks::find(product, number, at); ++number) {
      run_gemm_block<Shape>(product, kernels::block::operands_of(batch.form), at.first_row, at.first_column);
    }
  }
}

/// @pre alpha is not zero
template <Scalar T>
void run_triangles_by_strips(const kernels::Level3Batch& given) {
  using Strip = SmallStrip<T, 8>;
  const auto batch = kernels::block::triangular_batch<typename Strip::R, Strip::parts>(given);
  for (const index_t i : good_problems(batch, given.info, given.n.is_wide)) {
    const auto system = system_of(batch.form, batch.problem(i));
    if (given.common.routine == Routine::trsm)
      run_sweep<Strip, true>(system);
    else
      run_sweep<Strip, false>(system);
  }
}

}  // namespace tessera::test
