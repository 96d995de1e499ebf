// Factorizations that find a minor that is not positive definite, while several tiles are factored at once. After the
// loss of a device, one tile is factored again beside those that follow it.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"

namespace tessera::runtime {
namespace breakdown_test {

constexpr index_t tile = 8;

/// The tiles on the diagonal of a matrix, each factored by itself.
class Diagonal final : public TaskGraph {
 public:
  explicit Diagonal(index_t tiles)
      : A_(std::make_unique<double[]>(static_cast<std::size_t>(tile * tile * tiles * tiles))) {
    routine = "dpotrf";
    m = n = k = tile * tiles;
    tiling = {tile, tile, tile};
    task_count = working_slots = tiles;
    slot_bytes = tile * tile * sizeof(double);
    derive();
    for (TaskId task = 0; task < tiles; ++task) work.flops += of(task).flops;
  }

  Output output(TaskId task) const override {
    return {.tile = {.address = reinterpret_cast<std::byte*>(A_.get() + task * tile * (m + 1)),
                     .rows = tile,
                     .cols = tile,
                     .ld = m,
                     .part = Part::lower},
            .reads_old = true};
  }
  index_t step_count(TaskId) const override { return 1; }
  Step step(TaskId task, index_t) const override {
    return {.kernel = kernels::TileFactorization{.n = tile}, .rows_before = task * tile};
  }
  index_t home(TaskId, index_t) const override { return 0; }

 private:
  std::unique_ptr<double[]> A_;
};

/// Tells what it finds when it is asked, and takes long: everything is told before anybody looks.
class EarlyOps final : public kernels::TileOps {
 public:
  EarlyOps(device::HostDevice& device, std::vector<int> infos) : device_(device), infos_(std::move(infos)) {}

  void factor(int compute_stream, const kernels::TileFactorization& found) override {
    *found.info = infos_[factored_++];
    device_.submit({device::StreamKind::compute, compute_stream}, {}, 0.02);
  }
  void run(int, const Level3&) override { refuse(); }
  void add(int, const kernels::Addition&) override { refuse(); }
  void mirror(int, const kernels::Mirroring&) override { refuse(); }
  void factor_panel(int, const kernels::Panel&, index_t, index_t) override { refuse(); }
  void apply_panel(int, const kernels::PanelUpdate&) override { refuse(); }
  void run_batch(int, const kernels::Level3Batch&, double) override { refuse(); }
  void run_lapack_batch(int, const kernels::LapackBatch&, const kernels::Workspace&, double) override { refuse(); }

 private:
  static void refuse() { throw InternalError("there are only factorizations"); }

  device::HostDevice& device_;
  const std::vector<int> infos_;
  std::size_t factored_ = 0;
};

/// @param infos of the tiles
index_t info_of(const std::vector<int>& infos) {
  test::OpenedDevices opened = test::open_host_devices(1);
  auto& device = dynamic_cast<device::HostDevice&>(opened.device(0));
  opened.accelerators[0].ops = std::make_unique<EarlyOps>(device, infos);
  Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
  const Diagonal graph(static_cast<index_t>(infos.size()));
  const auto statistics = runtime.run(graph, runtime.machines(ScalarType::d).front(), CpuHelp{});
  EXPECT_TRUE(statistics);
  return statistics ? statistics->info : -1;
}

TEST(Breakdown, IsThatOfTheTileItself) {
  EXPECT_EQ(info_of({0, 0}), 0);
  EXPECT_EQ(info_of({0, 3}), tile + 3);
  EXPECT_EQ(info_of({3, 0}), 3);
}

}  // namespace breakdown_test
}  // namespace tessera::runtime
