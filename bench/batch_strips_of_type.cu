// Measures one type: batches of triangular solves and products in place, whose sizes are uniform up to each size of the
// table, by the strips of every candidate.
// Compiled once per type, with TESSERA_BLOCKS_TYPE one of s, d, c, z.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <utility>

#include "bench/batch_blocks.hpp"
#include "bench/device_timer.hpp"
#include "bench/square_batch.hpp"
#include "kernels/cuda/sweep_kernel.cuh"
#include "kernels/plan/block_candidates.hpp"

namespace tessera::bench {
namespace {

using kernels::cuda::SweepLaunch;
using kernels::plan::SweepStrips;

template <Scalar T, bool is_solve>
class StripChooser {
 public:
  /// Of the class of sizes.
  template <std::size_t at>
  std::string best() const {
    constexpr index_t size = kernels::plan::block_sizes[at];
    constexpr auto candidates = kernels::plan::strip_candidates<scalar_type_of<T>(), size>();
    const SquareBatch<T> on(is_solve ? Routine::trsm : Routine::trmm, size, false);
    SweepStrips best{};
    double least = 1e9;
    [&]<std::size_t... of>(std::index_sequence<of...>) { (measure<candidates[of], at>(on, best, least), ...); }
    (std::make_index_sequence<candidates.size()>());
    return text_of(best);
  }

 private:
  template <SweepStrips strips, std::size_t at>
  void measure(const SquareBatch<T>& on, SweepStrips& best, double& least) const {
    using Setup = kernels::cuda::detail::SetupOfStrips<T, strips, at>;
    constexpr std::size_t multiprocessor_bytes = 227 << 10;
    if constexpr ((kernels::cuda::detail::sweep_bytes<Setup> + 1024) * strips.residents <= multiprocessor_bytes) {
      check(kernels::cuda::detail::load_sweep<Setup, is_solve>(), "load");
      SweepLaunch how;
      how.strips = (on.most() + strips.columns - 1) / strips.columns;
      const auto launch = [&] {
        check(kernels::cuda::detail::launch_sweep<Setup, is_solve>(on.batch(), how, nullptr), "launch");
      };
      const double seconds = timer_.seconds({{"strips", launch}})[0];
      std::printf("%c %4d %s %-16s %9.2f us %9.1f GFLOP/s\n", letter(scalar_type_of<T>()), static_cast<int>(on.most()),
                  is_solve ? "trsm" : "trmm", text_of(strips).c_str(), seconds * 1e6, on.flops() / seconds * 1e-9);
      if (seconds < least) least = seconds, best = strips;
    }
  }

  Timer timer_{nullptr, 0.002, 3};
};

template <Scalar T, bool is_solve>
void write_best(std::ostream& table) {
  const StripChooser<T, is_solve> chooser;
  const char* separator = "{{";
  [&]<std::size_t... at>(std::index_sequence<at...>) {
    ((table << separator << chooser.template best<at>(), separator = ", "), ...);
  }
  (std::make_index_sequence<kernels::plan::block_sizes.size()>());
  table << "}},\n";
}

}  // namespace

template <>
void choose_strips<ScalarType::TESSERA_BLOCKS_TYPE>(bool is_solve, std::ostream& table) {
  dispatch(ScalarType::TESSERA_BLOCKS_TYPE, [&]<Scalar T>(T) {
    if constexpr (scalar_type_of<T>() == ScalarType::TESSERA_BLOCKS_TYPE)
      is_solve ? write_best<T, true>(table) : write_best<T, false>(table);
  });
}

}  // namespace tessera::bench
