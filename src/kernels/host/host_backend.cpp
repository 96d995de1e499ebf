// Opens host devices and runs their tile kernels: the CPU BLAS (or the readable reference) on the device's compute
// streams. A kernel takes as long as the device's modelled speed demands.
#include "kernels/host/host_backend.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "calls/level3.hpp"
#include "core/error.hpp"
#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "device/host/host_device.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "kernels/host/dense_lapack.hpp"
#include "kernels/host/host_dense_solver.hpp"
#include "kernels/host/host_panel.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_batch.hpp"
#include "kernels/reference/reference_lapack.hpp"

namespace tessera::kernels {

namespace {

class HostTileOps final : public TileOps {
 public:
  HostTileOps(device::HostDevice& device, std::shared_ptr<const CpuBlas> blas)
      : device_(device), blas_(std::move(blas)) {}

  void run(int compute_stream, const Level3& call) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    if (!call.only_scales()) {
      check(call.A, call.lda, shape_of_a(call), call.type);
      check(call.B, call.ldb, shape_of_b(call), call.type);
    }
    check(call.C, call.ldc, {call.m, call.n}, call.type);

    std::function<void()> work;
    if (device_.settings().compute) work = [blas = blas_, call] { compute(blas.get(), call); };
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                   modelled_seconds(call.type, flops_of(call)));
  }

  void add(int compute_stream, const Addition& addition) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    check(addition.X, addition.ldx, {addition.m, addition.n}, addition.type);
    check(addition.C, addition.ldc, {addition.m, addition.n}, addition.type);
    std::function<void()> work;
    if (device_.settings().compute) work = [addition] { reference_add(addition); };
    // An addition is bound by memory, and negligible beside a product: the model gives it no time.
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work), 0);
  }

  void mirror(int compute_stream, const Mirroring& tile) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    check(tile.A, tile.lda, {tile.n, tile.n}, tile.type);
    std::function<void()> work;
    if (device_.settings().compute) work = [tile] { reference_mirror(tile); };
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work), 0);  // as add()
  }

  void factor(int compute_stream, const TileFactorization& tile) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    check(tile.A, tile.lda, {tile.n, tile.n}, tile.type);
    std::function<void()> work;
    if (device_.settings().compute) {
      work = [blas = blas_, tile] {
        *tile.info = factor_tile(tile, [&](const Level3& call) { compute(blas.get(), call); });
      };
    }
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                   modelled_seconds(tile.type, flops_of(tile)));
  }

  void factor_panel(int compute_stream, const Panel& panel, index_t first, index_t columns) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    check(panel);
    std::function<void()> work;
    if (device_.settings().compute) {
      work = [blas = blas_, panel, first, columns] {
        kernels::factor_panel(
            panel, first, columns, [&](const Level3& call) { compute(blas.get(), call); },
            [&](const Panel& block, void* tau) { factor_block(blas.get(), block, tau); });
      };
    }
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                   modelled_seconds(panel.type, flops_of(panel, columns)));
  }

  void apply_panel(int compute_stream, const PanelUpdate& update) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    check(update.panel);
    check(update.C, update.ldc, stored_shape(update.panel, update.n), update.panel.type);
    std::function<void()> work;
    if (device_.settings().compute) {
      work = [blas = blas_, update] {
        kernels::apply_panel(update, [&](const Level3& call) { compute(blas.get(), call); });
      };
    }
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                   modelled_seconds(update.panel.type, flops_of(update)));
  }

  void run_batch(int compute_stream, const Level3Batch& batch, double flops) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    for (const NumberOfEach& numbers : {batch.m, batch.n, batch.k, batch.lda, batch.ldb, batch.ldc})
      check_array(numbers.of_each, batch.count, numbers.is_wide ? sizeof(std::int64_t) : sizeof(int));
    for (const UntypedMatrixOfEach& matrices : {batch.A, batch.B, batch.C})
      check_array(matrices.of_each, batch.count, sizeof(void*));
    std::function<void()> work;
    if (device_.settings().compute) {
      work = [this, batch] {
        for (index_t i = 0; i < batch.count; ++i) {
          const Level3 call = problem_of(batch, i);
          if (!call.only_scales()) {
            check(call.A, call.lda, shape_of_a(call), call.type);
            check(call.B, call.ldb, shape_of_b(call), call.type);
          }
          check(call.C, call.ldc, {call.m, call.n}, call.type);
          compute(blas_.get(), call);
        }
      };
    }
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                   modelled_seconds(batch.common.type, flops));
  }

  void run_lapack_batch(int compute_stream, const LapackBatch& batch, const Workspace& /*workspace*/,
                        double flops) override {
    if (compute_stream < 0 || compute_stream >= device::compute_streams) throw InternalError("no such compute stream");
    for (const NumberOfEach& numbers : {batch.m, batch.n, batch.nrhs, batch.lda, batch.ldb})
      check_array(numbers.of_each, batch.count, numbers.is_wide ? sizeof(std::int64_t) : sizeof(int));
    for (const UntypedMatrixOfEach& matrices : {batch.A, batch.B, batch.ipiv})
      check_array(matrices.of_each, batch.count, sizeof(void*));
    check_array(batch.info, batch.count, sizeof(int));
    std::function<void()> work;
    if (device_.settings().compute) {
      work = [this, batch] {
        for (index_t i = 0; i < batch.count; ++i) check_problem(batch, i);
        reference_lapack_batch(batch);
      };
    }
    device_.submit({device::StreamKind::compute, compute_stream}, std::move(work), modelled_seconds(batch.type, flops));
  }

 private:
  static void compute(const CpuBlas* blas, const Level3& call) {
    if (blas != nullptr) {
      blas->run(call);
    } else {
      reference_level3(call);
    }
  }

  /// LAPACK factors finite blocks, so that a whole problem of this device (gels) rounds as its parts do. The readable
  /// loops factor others: OpenBLAS 0.3.21 loses their NaN.
  static void factor_block(const CpuBlas* blas, const Panel& block, void* tau) {
    const StoredShape stored = stored_shape(block, block.n);
    LapackCall call;
    call.routine = is_in_rows(block.kind) ? Routine::gelqf : Routine::geqrf;
    call.type = block.type;
    call.m = stored.rows;
    call.n = stored.cols;
    call.A = block.A;
    call.lda = block.lda;
    call.tau = tau;
    DenseTelling telling;
    measure_here(call, telling);
    index_t found = 0;
    if (std::isfinite(telling.largest[0]))
      compute_on_cpu(blas, call, found);
    else
      reference_qr(block, tau);
  }

  double modelled_seconds(ScalarType type, double flops) const {
    const double rate = device_.settings().flops_per_s[type];
    return rate > 0 ? flops / rate : 0;
  }

  void check_array(const void* array, index_t count, std::size_t bytes) const {
    if (array == nullptr) return;
    const auto run = count * static_cast<index_t>(bytes);
    const device::Block block{static_cast<std::byte*>(const_cast<void*>(array)), run};
    if (!device_.holds(block, {run, 1}))
      throw InternalError("an array of a batch is not in the memory of " + device_.info().name);
  }

  static StoredShape stored_shape(const Panel& panel, index_t columns) {
    return is_in_rows(panel.kind) ? StoredShape{columns, panel.m} : StoredShape{panel.m, columns};
  }
  void check(const Panel& panel) const {
    check(panel.A, panel.lda, stored_shape(panel, panel.n), panel.type);
    check_array(panel.tail, 1, static_cast<std::size_t>(tail_bytes(panel.kind, panel.type, panel.n)));
  }

  void check_problem(const LapackBatch& batch, index_t i) const {
    const index_t n = batch.n.of(i), m = has_m(batch.routine) ? batch.m.of(i) : n;
    check(batch.A.as<std::byte>().of(i), batch.lda.of(i), {m, n}, batch.type);
    if (batch.B.of_each != nullptr)
      check(batch.B.as<std::byte>().of(i), batch.ldb.of(i), {n, batch.nrhs.of(i)}, batch.type);
    if (batch.ipiv.of_each != nullptr) check_array(batch.ipiv.as<int>().of(i), std::min(m, n), sizeof(int));
  }

  /// Rejects an address that is not on the device. It is the caller's error, and a GPU would fail at it, too.
  void check(const void* address, index_t ld, StoredShape shape, ScalarType type) const {
    const auto bytes = static_cast<index_t>(element_bytes(type));
    const device::Block block{static_cast<std::byte*>(const_cast<void*>(address)), ld * bytes};
    if (!device_.holds(block, {shape.rows * bytes, shape.cols}))
      throw InternalError("a tile is not in the memory of " + device_.info().name);
  }

  device::HostDevice& device_;
  std::shared_ptr<const CpuBlas> blas_;
};

/// A reservation of address space for the lifetime of the object.
class AddressSpace {
 public:
  explicit AddressSpace(std::size_t bytes)
      : bytes_(bytes), begin_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~AddressSpace() {
    if (*this) munmap(begin_, bytes_);
  }
  AddressSpace(AddressSpace&& other) noexcept : bytes_(other.bytes_), begin_(std::exchange(other.begin_, MAP_FAILED)) {}
  AddressSpace& operator=(AddressSpace&&) = delete;

  /// Whether the reservation succeeded.
  explicit operator bool() const { return begin_ != MAP_FAILED; }

 private:
  std::size_t bytes_;
  void* begin_;
};

class HostBackend final : public Backend {
 public:
  HostBackend(const Config& config, int count, std::shared_ptr<const CpuBlas> blas,
              const device::DeviceProfile& profile)
      : config_(config), count_(count), blas_(std::move(blas)), profile_(profile) {}

  std::vector<device::DeviceInfo> devices() const override {
    std::vector<device::DeviceInfo> infos;
    // An unused host device costs nothing, neither threads nor memory.
    for (int i = 0; i < count_; ++i)
      infos.push_back(device::HostDevice(i, config_.host_device_settings(i), profile_).info());
    return infos;
  }

  Opened open(const std::vector<int>& ordinals, int /*copy_threads*/) override {
    Opened opened;
    std::vector<int> willing;
    std::vector<AddressSpace> spaces;  // kept for all willing devices until their number is known
    const std::size_t callers_bytes = blas_ ? blas_->bytes_per_caller() : 0;
    if (callers_bytes > 0) spaces.emplace_back(callers_bytes);  // for the calling thread
    for (const int ordinal : ordinals) {
      if (ordinal < 0 || ordinal >= count_) throw NotAvailable("there is no host device " + std::to_string(ordinal));
      const std::size_t bytes = address_bytes(ordinal, callers_bytes);
      if (refuses(ordinal))
        opened.refused.push_back({ordinal, "an attempt to open it fails, as it was told to"});
      else if (callers_bytes > 0 && !spaces.emplace_back(bytes))
        opened.refused.push_back({ordinal, "its memory, its threads and the CPU BLAS's buffers for these take " +
                                               std::to_string(bytes >> 20) +
                                               " MiB of address space, which cannot be had (ulimit -v)"});
      else
        willing.push_back(ordinal);
    }
    spaces.clear();
    auto& accelerators = opened.accelerators;
    accelerators.resize(willing.size());
    side_by_side(willing.size(), [&](std::size_t d) {
      const int ordinal = willing[d];
      const HostDeviceSettings& settings = config_.host_device_settings(ordinal);
      std::this_thread::sleep_for(std::chrono::duration<double>(settings.start_s));
      auto device = std::make_unique<device::HostDevice>(ordinal, settings, profile_);
      auto ops = std::make_unique<HostTileOps>(*device, blas_);
      auto solver = std::make_unique<HostDenseSolver>(*device, blas_);
      accelerators[d] = {std::move(device), std::move(ops), std::move(solver)};
    });
    return opened;
  }

 private:
  // Address space of an open device: its memory, a stack and a heap for each stream and the worker, and a buffer of the
  // CPU BLAS for each compute stream. Heaps count because they may use up the rest before the CPU BLAS allocates.
  std::size_t address_bytes(int ordinal, std::size_t callers_bytes) const {
    constexpr std::size_t heap_bytes = std::size_t{64} << 20;  // glibc's HEAP_MAX_SIZE
    constexpr std::size_t threads = device::stream_count + 1;
    return config_.device_memory_bytes.value_or(config_.host_device_settings(ordinal).memory_bytes) +
           threads * (Thread::stack_bytes() + heap_bytes) + device::compute_streams * callers_bytes;
  }

  // Attempts are counted for the whole process, because a retry after a failure uses another backend object.
  bool refuses(int ordinal) const {
    const std::int64_t refused = config_.host_device_settings(ordinal).refused_opens;
    if (refused == 0) return false;
    static std::mutex mutex;
    static std::map<int, std::int64_t> attempts;
    const std::lock_guard lock(mutex);
    return attempts[ordinal]++ < refused;
  }

  Config config_;
  int count_;
  std::shared_ptr<const CpuBlas> blas_;
  device::DeviceProfile profile_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Config& config, int count, std::shared_ptr<const CpuBlas> blas,
                                           const device::DeviceProfile& profile) {
  return std::make_unique<HostBackend>(config, count, std::move(blas), profile);
}

}  // namespace tessera::kernels
