// The compute streams of one device, as its worker feeds them: steps whose tiles have been asked for become kernels, and
// kernels that have completed let go of what they read.
//
// Invariant: a replica that a step has asked for is released once, after its kernel has completed; kernels of a stream
// are in its order; no stream is ever waited for by the host. Owned and used by one worker.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/tiles/results.hpp"
#include "runtime/tiles/submission.hpp"
#include "runtime/tiles/workplace.hpp"

namespace tessera::runtime {

class Pipeline {
 public:
  /// Launched kernels: DeviceProfile::backlog_s by the device's rough rate, but at least so many.
  static constexpr std::size_t fewest_kernels = 2;

  Pipeline(const Workplace& place, Results& results) : place_(place), results_(results) {}

  /// @throws InternalError if there is no room for what steps compute apart
  void begin(const TaskPool& job);
  /// Forgets the kernels. @pre they have completed, or the device has recovered
  void clear();

  /// Submits the oldest step that has been asked for; the stream waits for tiles that are still on their way.
  void launch(const TaskPool& job, int stream, Submission& submission);
  /// Lets go of kernels that have completed. @param results of tasks that end with one of them
  /// @return whether there were any
  bool retire(TaskPool& job, std::vector<Result>& results);

  /// Launched and not completed.
  std::size_t kernels_in(std::size_t stream) const { return streams_[stream].kernels.size(); }
  bool is_empty() const;
  Backlog backlog() const;
  /// Whether what has been launched, by all jobs on the device, keeps it busy until we look again.
  bool has_enough() const;
  /// Launched and not completed, of the task with that number.
  std::size_t kernels_of(std::int64_t number) const;
  /// Of a task that was taken before.
  bool has_older_kernel(std::size_t stream, std::int64_t number) const;
  /// Whether a kernel has completed.
  bool has_computed() const { return first_kernel_s_ > 0; }

  std::int64_t steps() const { return steps_; }
  double flops() const { return flops_; }

 private:
  struct Launched {  // a step, as a kernel
    device::EventPtr begun;
    device::EventPtr done;
    cache::Replica* x = nullptr;
    cache::Replica* y = nullptr;
    double flops = 0;
    std::int64_t number = 0;    // of the task, see Submission
    Result result;              // of a task's last step: then the output is complete
    const int* info = nullptr;  // of a step that factors
    index_t rows_before = 0;
  };
  struct Stream {
    std::deque<Launched> kernels;
    std::byte* scratch = nullptr;  // for what steps compute apart
  };

  void submit(const TaskPool& job, const Asked& asked, const Submission& submission, int stream);
  /// The product by a symmetric tile as a gemm. Sees to it that the tile's other triangle is there.
  Level3 as_gemm(const Level3& call, cache::Replica& symmetric, int stream);

  /// Where a step that may break down tells how it ended; nullptr: it cannot.
  int* info_of(const Step& step) const {
    if (!step.may_break_down()) return nullptr;
    return reinterpret_cast<int*>(infos_->data()) + step.rows_before / diagonal_tile_;
  }

  const Workplace& place_;
  Results& results_;
  // One for each tile on the diagonal: after the loss of a device, one that others have read may be factored again,
  // beside those that come after it.
  std::unique_ptr<device::HostMemory> infos_;
  index_t diagonal_tile_ = 1;        // its order
  ScalarType type_ = ScalarType::d;  // of the job
  std::array<Stream, device::compute_streams> streams_;
  double first_kernel_s_ = 0;  // on the clock of the events
  double completed_flops_ = 0;
  std::int64_t steps_ = 0;
  double flops_ = 0;
};

}  // namespace tessera::runtime
