// The GPUs of the stand-in, and code that all its functions share. One mutex guards all state. Each function holds it
// from beginning to end; the threads of the GPUs release it while they work.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/cuda_standin/standin.hpp"

namespace tessera::cuda_standin {

/// Addresses [begin, end).
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool overlaps(Range other) const { return begin < other.end && other.begin < end; }
  bool holds(Range other) const { return begin <= other.begin && other.end <= end; }
};
inline Range range_of(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + bytes};
}

/// The state of an event since its last record. Shared with the streams that wait for it.
struct Record {
  bool done = false;
  double seconds = 0;  ///< the time of completion
};

struct Operation {
  const char* kind = nullptr;  ///< kind of work that can fail
  /// Does one half of the work, the first (0) or the second (1).
  std::function<void(int half)> work = nullptr;
  std::vector<Range> uses = {};  ///< memory that the work reads and writes
  std::shared_ptr<Record> awaits = nullptr;
  std::uint32_t* number = nullptr;  ///< awaited or, if `writes`, written
  std::uint32_t value = 0;
  bool writes = false;
  std::shared_ptr<Record> completes = nullptr;

  bool is_ready() const;
};

struct Gpu;

}  // namespace tessera::cuda_standin

// The objects behind the handles of CUDA's headers.
struct CUctx_st {
  tessera::cuda_standin::Gpu* gpu;
};
struct CUstream_st {
  tessera::cuda_standin::Gpu* gpu;
  std::deque<tessera::cuda_standin::Operation> operations;
  bool is_busy = false;  ///< with an operation that has been taken off the queue
  bool is_destroyed = false;
  bool is_idle() const { return operations.empty() && !is_busy; }
};
struct CUevent_st {
  tessera::cuda_standin::Gpu* gpu;
  bool has_time;
  std::shared_ptr<tessera::cuda_standin::Record> record;
};
struct cublasContext {
  tessera::cuda_standin::Gpu* gpu;
  cudaStream_t stream = nullptr;
};

namespace tessera::cuda_standin {

struct Gpu {
  int ordinal = 0;
  CUctx_st context{this};
  bool has_context = false;
  cudaError_t broken = cudaSuccess;
  std::list<CUstream_st> streams;         // addresses stay
  CUstream_st* default_stream = nullptr;  ///< one of them, created at its first use
  std::vector<Range> using_now;           ///< memory of the current operation
  std::size_t used_bytes = 0;
  std::map<std::string, std::int64_t> held;
  std::thread thread;
};

/// Memory of a GPU, or page-locked memory.
struct Allocation {
  std::size_t bytes = 0;
  Gpu* gpu = nullptr;
  cudaMemoryType type = cudaMemoryTypeDevice;
  unsigned flags = 0;  ///< of cudaHostAlloc
};

/// Memory of a GPU that can be mapped.
struct Chunk {
  Gpu* gpu = nullptr;
  std::size_t bytes = 0;
};

struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  bool driver_ended = false;  ///< no call works any more
  Settings settings;
  std::deque<Gpu> gpus;
  std::map<std::uintptr_t, Allocation> allocations;  ///< by address
  std::map<std::uintptr_t, Range> reservations;
  std::map<CUmemGenericAllocationHandle, Chunk> chunks;
  std::map<std::uintptr_t, CUmemGenericAllocationHandle> mapped;

  /// The allocation, or the part of mapped memory, that holds the address; nullptr if there is none.
  const std::pair<const std::uintptr_t, Allocation>* allocation_around(std::uintptr_t address) const;
  /// @pre the mutex is held
  /// @return 0 if all of the memory is in use
  std::uintptr_t map_memory(std::size_t bytes);
  bool is_used(Range range) const;
};

Machine& machine();
void note_offence(const std::string& text);
/// Breaks the GPU's contexts. @pre the mutex is held
void break_context(Gpu& gpu, cudaError_t error);

/// This thread's current context; nullptr if there is none.
CUctx_st*& current_context();
/// The GPU of the current context. Without a context the runtime takes GPU 0, which is an offence of the caller.
Gpu& current_gpu(const char* function);

/// One call of a function. It is counted, and fails if a test wants that or the context is broken.
class Call {
 public:
  /// A call that a broken context does not affect.
  explicit Call(const char* function);
  /// @param gpu the GPU whose context the call needs; nullptr: the current one
  Call(const char* function, Gpu* gpu);

  explicit operator bool() const { return error_ == cudaSuccess; }
  cudaError_t error() const { return error_; }
  Gpu& gpu() const { return *gpu_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }

  /// Waits until the stream is idle, or its context is broken.
  void await_idle(const CUstream_st& stream);

 private:
  void begin(const char* function);

  std::unique_lock<std::mutex> lock_;
  Gpu* gpu_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

/// Keeps the error of this thread's last failed call, as the runtime does. A caller must read it before the next call.
cudaError_t keep_error(const char* function, cudaError_t error);
cudaError_t take_error();
/// @pre the mutex is held
void check_error_was_taken(const char* next_function);

/// The stream of a handle; nullptr means the default stream of the current GPU. @pre the mutex is held
CUstream_st& stream_of(cudaStream_t handle, const char* function);

/// @pre the mutex is held
void submit(CUstream_st& stream, Operation operation);

}  // namespace tessera::cuda_standin
