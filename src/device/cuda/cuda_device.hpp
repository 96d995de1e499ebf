// One GPU as a Device. Its slab is mapped as needed, or comes from one cudaMalloc. It has four compute streams, and one
// stream each for up, down and peer copies; the up and down streams have a side stream each.
//
// Threads: submissions come from one thread at a time (the device's worker); record() and wait() may come from others.
// No call depends on the thread's current device (see cuda_context.hpp).
//
// Failure: a sticky error loses the device permanently. A submission that CUDA refuses for another reason does not
// (error_scope.hpp). If a stream had to wait for a lost device, its work is dropped and its events fail, until
// recover(). After half of a staged copy all submissions are refused until then.
//
// Copies: pageable host memory is legal everywhere. With copy threads it is staged (staging.hpp), and so are scattered
// columns. Without them CUDA stages it, more slowly, and the submission may block until the copy is done. The copy
// engine and a kernel copy large triangles together. A kernel copies small ones and those of peers. Triangles that CUDA
// stages go column by column.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_context.hpp"
#include "device/cuda/cuda_event.hpp"
#include "device/cuda/cuda_staging.hpp"
#include "device/cuda/mapped_memory.hpp"
#include "device/cuda/side_stream.hpp"
#include "device/device.hpp"

namespace tessera::device::cuda {

class CudaDevice final : public Device {
 public:
  /// Creates the context (which takes a few tenths of a second) and the streams. The thread's current device stays.
  /// @param copy_threads see DeviceInfo; they start with the first staged copy
  /// @throws NotAvailable, DeviceLost
  CudaDevice(int ordinal, int copy_threads);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override;
  std::byte* reserve(std::size_t bytes) override;
  std::byte* reserve_addresses(std::size_t bytes) override;
  std::size_t commit(std::size_t bytes) override;
  std::size_t decommit(std::size_t keep_bytes) override;
  void copy_up(Block device_to, Block host_from, Extent extent) override;
  void copy_down(Block host_to, Block device_from, Extent extent) override;
  bool can_copy_slices(Extent extent, SliceKind kind) override;
  void copy_slices_down(Block host_to, Block device_from, Extent extent, const WrittenSlicesPtr& written) override;
  std::byte* take_memory(std::size_t bytes) override;
  void free_memory(std::byte* memory) override;
  bool has_locked(const std::byte* host) const override;
  void copy_within(StreamKind stream, Block to, Block from, Extent extent) override;
  void copy_peer(Block device_to, Device& source, Block source_from, Extent extent) override;
  void copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) override;
  bool can_access(const Device& peer) const override;
  EventPtr record(StreamId stream) override;
  void wait(StreamId stream, const EventPtr& event) override;
  std::unique_ptr<HostPinning> pin_host(std::span<const HostRange> ranges) override;
  PageLocker* page_locker() noexcept override;
  std::unique_ptr<HostMemory> host_memory(std::size_t bytes) override;
  bool on_completion(std::function<void()> listener) override;
  void attach_thread() override;
  bool recover() noexcept override;
  std::string diagnosis() const override;

  int ordinal() const { return info_.ordinal; }
  CUcontext context() const { return context_; }
  cudaStream_t stream(StreamId id) const { return streams_[static_cast<std::size_t>(stream_number(id))]; }

  /// Finds the GPUs whose memory this one can read directly, and those that can read its memory. Called by
  /// Backend::open.
  void find_peers(std::span<CudaDevice* const> opened);
  /// Tries whether memory can be mapped for this GPU and for all GPUs that can read it.
  bool can_map_memory() const;
  /// Makes later calls of reserve_addresses() map memory. Devices that are opened together must agree, because peers
  /// get access in different ways.
  void map_memory() { maps_memory_ = true; }

  /// Must be called before work is submitted.
  /// @return false if the work must be dropped, because the stream waited for a device that is lost
  /// @throws DeviceLost if this device is lost, WorkRefused if it must recover() first
  bool accepts_work(StreamId id);
  /// Declares the device lost. @throws DeviceLost always
  [[noreturn]] void lose(const std::string& reason);
  /// Handles `error`, which a call of CUDA has returned for the reason in the text.
  /// @throws WorkRefused if the device can continue; else DeviceLost, and the device is lost
  [[noreturn]] void fail(cudaError_t error, const std::string& reason);
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// Whether this very process opened the device, not a process from which it was forked.
  bool owned_by_this_process() const;

 private:
  void make_streams();
  void destroy_streams() noexcept;
  /// A new time base. Its stream carries no other work, so this takes microseconds.
  /// @return nullptr if it did not complete within `patience_s`
  std::shared_ptr<const TimeBase> make_base(double patience_s);
  struct Transfer {  // a copy that is being submitted
    const char* what;
    Block to;
    Block from;
    Extent extent;
    cudaMemcpyKind kind;
    const CudaDevice* source;  ///< the GPUs, if the copy is between two of them; else nullptr
    const CudaDevice* target;
    cudaStream_t on;
  };
  void submit_copy(StreamId id, const char* what, Block to, Block from, Extent extent, cudaMemcpyKind kind,
                   const CudaDevice* source = nullptr, const CudaDevice* target = nullptr);
  /// Submits bytes [first, last) of so many columns.
  void submit_rows(const Transfer& transfer, index_t first, index_t last, index_t column, index_t columns);
  /// @pre both blocks are accessible to the GPU
  void submit_triangle(const Transfer& transfer);
  /// @throws as fail(), unless `submitted` is success
  void require(cudaError_t submitted, const char* what);
  /// Lets this GPU access the memory that its peers allocate by cudaMalloc.
  void enable_peers();
  /// Copies between the GPU and host memory, through staging if that is better.
  void copy_host(StreamId id, Block device, Block host, Extent extent);
  /// @param written if the copy goes down in slices, else nullptr
  void copy_staged(CudaStaging& staging, StreamId id, Block device, Block host, Extent extent,
                   const WrittenSlicesPtr& written);
  /// The ring of this direction, created at its first use; nullptr: CUDA must stage. @pre the context is current
  CudaStaging* staging(StagingRing::Direction direction);
  /// The device's current state: a sticky error is returned again. @pre the context is current
  cudaError_t ask() const;
  /// Ends all staged copies. The events recorded after them are not trusted any more.
  void abandon_staging() noexcept;
  /// Refuses work after a failure to stage: half a copy must not remain. @throws WorkRefused, DeviceLost as fail()
  [[noreturn]] void refuse_staged(const std::string& reason);
  /// @throws DeviceLost, WorkRefused, see accepts_work()
  void check_usable();
  bool take_up_waits();
  /// The stream on which an event of `id` is recorded. @pre the mutex is held
  cudaStream_t end_of(StreamId id) const;
  /// Makes the down stream wait for the ends of all staged copies, which later submissions expect.
  void join_down();

  DeviceInfo info_;
  CUcontext context_ = nullptr;
  pid_t process_ = 0;
  index_t max_pitch_bytes_ = 0;
  bool read_only_registration_ = false;
  std::vector<int> peers_;  ///< ordinals whose memory this GPU reaches directly; fixed before the device is used
  std::vector<int> users_;  ///< ordinals of GPUs that use its memory, its own first
  bool maps_memory_ = false;
  std::array<cudaStream_t, stream_count> streams_{};
  std::array<SideStream, 2> sides_;     ///< for triangles, beside the up stream and the down stream
  cudaStream_t base_stream_ = nullptr;  ///< carries nothing but time bases
  /// Waits for the ends of staged copies down. The down stream need not wait, and fills the next slots meanwhile.
  SideStream down_end_;
  std::byte* slab_ = nullptr;  ///< from cudaMalloc
  std::unique_ptr<MappedMemory> mapped_;
  std::mutex beside_mutex_;                            // guards the following member
  std::vector<std::unique_ptr<MappedMemory>> beside_;  ///< of take_memory()
  std::shared_ptr<EventPool> pool_;

  /// Shared by both rings; the submitting thread creates them with the first ring.
  std::unique_ptr<StagingThreads> staging_threads_;
  std::mutex staging_mutex_;                             // guards the pointers to the rings
  std::array<std::unique_ptr<CudaStaging>, 2> staging_;  ///< by direction
  bool staging_failed_ = false;
  /// Staged copies have been abandoned. Set before the pool's era changes, so that no event of the new era is recorded
  /// behind them.
  std::atomic<bool> must_recover_{false};

  // Release in lose() pairs with acquire in lost(): a thread that is refused also sees the writes before the loss.
  std::atomic<bool> lost_{false};

  std::mutex mutex_;  // guards the following members
  std::shared_ptr<const TimeBase> base_;
  double next_base_at_ = 0;
  bool up_waits_ = false;         ///< the up stream has waited for an event since the last staged copy
  bool down_ends_apart_ = false;  ///< the last copy down was staged: submitted work ends on `down_end_`
  std::array<CudaEvent::Causes, stream_count> causes_;  ///< unfinished events of other devices, by stream
};

}  // namespace tessera::device::cuda
