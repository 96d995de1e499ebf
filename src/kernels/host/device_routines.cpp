// The device routines on host memory, by the readable reference: a call has been computed when it returns, and there
// are no streams.
#include "kernels/device_routines.hpp"

#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_batch.hpp"
#include "kernels/reference/reference_half.hpp"
#include "kernels/reference/reference_lapack.hpp"

namespace tessera::kernels {
namespace {

class HostDeviceRoutines final : public DeviceRoutines {
 public:
  void set_stream(void* /*stream*/) override {}
  void set_workspace(void* /*memory*/, std::size_t /*bytes*/) override {}
  std::size_t workspace_bytes(const Level3& /*call*/) const override { return 0; }
  void run(const Level3& call) override { reference_level3(call); }
  std::size_t batch_workspace_bytes(index_t /*count*/) const override { return 0; }
  void run_batch(const Level3Batch& batch) override { reference_level3_batch(batch); }
  void run_half_batch(const HalfBatch& batch) override { reference_half_batch(batch); }
  std::size_t lapack_workspace_bytes(const LapackBatch& /*batch*/) const override { return 0; }
  void run_lapack_batch(const LapackBatch& batch) override { reference_lapack_batch(batch); }
};

}  // namespace

std::unique_ptr<DeviceRoutines> make_device_routines() { return std::make_unique<HostDeviceRoutines>(); }

}  // namespace tessera::kernels
