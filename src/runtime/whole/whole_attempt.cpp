#include "runtime/whole/whole_attempt.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {
namespace {

using device::EventPtr;
using device::EventStatus;
using device::StreamId;
using device::StreamKind;

constexpr std::size_t alignment = 256;
constexpr StreamId up{StreamKind::up}, down{StreamKind::down}, compute_stream{StreamKind::compute, 0};

/// A number that no routine tells.
constexpr std::int32_t untold = std::numeric_limits<std::int32_t>::min();

void await(const EventPtr& event) {
  using std::chrono::microseconds;
  const auto is_over = [&] { return event->status() != EventStatus::pending; };
  if (!yield_until(is_over, microseconds(200))) {
    while (!is_over()) std::this_thread::sleep_for(microseconds(50));
  }
  if (event->status() == EventStatus::failed) throw DeviceLost("a device failed while it solved a problem");
}

void check_norms(const LapackCall& problem, const Norms& norms, const kernels::DenseTelling& telling) {
  for (const double largest : telling.largest) {
    if (largest == 0 || (largest >= norms.least && largest <= norms.most)) continue;
    throw UnsuitableNumbers(name_of(problem) + ": the largest element is " + std::to_string(largest));
  }
  // Then LAPACK sets all of B to zero, residuals, too.
  if (is_least_squares(problem.routine) && telling.largest[0] == 0)
    throw UnsuitableNumbers(name_of(problem) + ": A is zero");
}

/// The polar algorithm moves the matrix away from singular ones. It may do so as far as its elements are rounded.
bool is_perturbed(const LapackCall& problem, const kernels::DenseOutcome& outcome, double largest) {
  const double eps = real_bytes(problem.type) == sizeof(float) ? std::numeric_limits<float>::epsilon()
                                                               : std::numeric_limits<double>::epsilon();
  return !(outcome.perturbation <= largest * eps);
}

}  // namespace

WholeLayout::WholeLayout(const LapackCall& problem, std::byte* memory, kernels::DenseSolver& solver,
                         std::optional<kernels::SvdAlgorithm> algorithm)
    : memory_(memory), algorithm_(kernels::SvdAlgorithm::qr_iteration), on_device_(problem) {
  place(problem);
  if (finds_singular_values(problem.routine)) algorithm_ = algorithm.value_or(solver.choose_svd(on_device_));
  // There is memory for QR iteration, too, which may have to repeat the work of the other algorithm.
  space_ = solver.space(on_device_, kernels::SvdAlgorithm::qr_iteration);
  if (algorithm_ == kernels::SvdAlgorithm::polar) {
    const kernels::DenseSpace space = solver.space(on_device_, algorithm_);
    space_ = {std::max(space.device_bytes, space_.device_bytes), std::max(space.host_bytes, space_.host_bytes)};
  }
}

void WholeLayout::place(const LapackCall& problem) {
  for (VectorJob* const job : {&on_device_.u, &on_device_.vt}) {
    if (*job == VectorJob::overwrite) *job = VectorJob::thin;
  }
  std::size_t offset = alignment;  // behind the telling
  static_assert(sizeof(kernels::DenseTelling) <= alignment);
  for (const LapackOperand& operand : LapackOperands(problem)) {
    // Imaginary parts follow the real ones at once, which is how cuSOLVER writes them.
    if (operand.slot != LapackSlot::imaginary) offset = (offset + alignment - 1) / alignment * alignment;
    address_of(on_device_, operand.slot) = memory_ + offset;
    if (operand.has_ld()) ld_of(on_device_, operand.slot) = std::max<index_t>(operand.rows, 1);
    operands_.push_back({operand, memory_ + offset});
    offset += static_cast<std::size_t>(operand.bytes());
  }
  workspace_offset_ = (offset + alignment - 1) / alignment * alignment;
  for (Placed& input : operands_) {
    for (Placed& result : operands_) {
      if (!input.operand.reads || !result.operand.writes || input.operand.address != result.operand.address) continue;
      input.is_overwritten = true;
      result.overwrites = true;
    }
  }
}

WholeAttempt::WholeAttempt(const LapackCall& problem, device::Device& device, kernels::DenseSolver& solver,
                           std::byte* memory, std::optional<kernels::SvdAlgorithm> algorithm, HostCopies* copies)
    : problem_(problem),
      device_(device),
      solver_(solver),
      copies_(copies),
      layout_(problem, memory, solver, algorithm) {
  kept_.reserve(layout_.operands().size());
}

WholeAttempt::~WholeAttempt() {
  if (copies_ != nullptr) copies_->stop_copying(this);
}

index_t WholeAttempt::run() {
  try {
    return solve();
  } catch (...) {
    recover();
    throw;
  }
}

index_t WholeAttempt::solve() {
  if (layout_.space().host_bytes > 0)
    host_workspace_ = std::make_unique<device::HostMemory>(layout_.space().host_bytes);
  upload();
  keep_inputs();
  if (const auto norms = norms_for_devices(problem_)) measure(*norms);
  const kernels::DenseTelling measured = telling_;
  compute(layout_.algorithm());
  if (layout_.algorithm() == kernels::SvdAlgorithm::polar &&
      (telling_.info != 0 || is_perturbed(problem_, outcome_, telling_.largest[0]))) {
    telling_ = measured;  // without what the first algorithm made of the solution
    upload();
    compute(kernels::SvdAlgorithm::qr_iteration);
  }
  if (telling_.info < 0) throw InternalError(name_of(problem_) + ": info " + std::to_string(telling_.info));
  if (problem_.routine == Routine::hegvd && telling_.info > problem_.n) return telling_.info;
  if (telling_.info > 0) throw UnsuitableNumbers(name_of(problem_) + ": info " + std::to_string(telling_.info));
  if (is_least_squares(problem_.routine) && !std::isfinite(telling_.largest[1]))
    throw UnsuitableNumbers(name_of(problem_) + ": A lacks rank, or the solution is too large");
  if (problem_.found != nullptr) *problem_.found = outcome_.found;
  download(false);
  await_copies();
  overwrites_now_ = true;
  download(true);
  return 0;
}

// Copies and what computes, with the time that it took. @param submit returns the bytes that move
EventPtr WholeAttempt::timed(StreamId stream, const char* kernel, const std::function<index_t()>& submit) {
  EventPtr begin = device_.record(stream);
  device::Operation operation{.stream = stream, .kernel = kernel};
  operation.bytes = submit();
  if (kernel != nullptr) operation.flops = flops_of(problem_);
  EventPtr end = device_.record(stream);
  log_.add(operation, std::move(begin), end);
  return end;
}

void WholeAttempt::upload() {
  telling_ = {.largest = {telling_.largest[0], telling_.largest[1]}, .info = untold};
  const EventPtr end = timed(up, nullptr, [&] {
    constexpr index_t telling_bytes = sizeof(telling_);
    device_.copy_up({reinterpret_cast<std::byte*>(layout_.telling()), telling_bytes},
                    {reinterpret_cast<std::byte*>(&telling_), telling_bytes}, {telling_bytes, 1});
    index_t bytes = telling_bytes;
    for (const WholeLayout::Placed& placed : layout_.operands()) {
      const LapackOperand& from = placed.operand;
      if (from.read_bytes() == 0) continue;
      device_.copy_up({placed.on_device, from.rows * from.element_bytes}, {from.address, from.ld * from.element_bytes},
                      {from.read_rows * from.element_bytes, from.read_cols, from.read_part, from.element_bytes});
      bytes += from.read_bytes();
    }
    bytes_up_ += bytes;
    return bytes;
  });
  device_.wait(compute_stream, end);
}

void WholeAttempt::keep_inputs() {
  if (copies_ == nullptr) return;
  for (const WholeLayout::Placed& placed : layout_.operands()) {
    if (!placed.is_overwritten) continue;
    const LapackOperand& from = placed.operand;
    const cache::HostTile tile{from.address, from.read_rows, from.read_cols, from.ld, from.read_part};
    if (auto copy = copies_->copy(this, tile, from.element_bytes, HostCopies::When::due, copied_))
      kept_.push_back({&placed, std::move(copy)});
  }
}

void WholeAttempt::measure(const Norms& norms) {
  const EventPtr end = timed(compute_stream, "norms", [&] {
    solver_.measure(compute_stream.index, layout_.on_device(), layout_.telling());
    return 0;
  });
  device_.wait(down, end);
  read_telling();
  check_norms(problem_, norms, telling_);
}

void WholeAttempt::compute(kernels::SvdAlgorithm algorithm) {
  const EventPtr end = timed(compute_stream, name_of(problem_.routine, problem_.type), [&] {
    const kernels::DenseWorkspace workspace{layout_.workspace(), host_workspace_ ? host_workspace_->data() : nullptr,
                                            layout_.space()};
    solver_.run(compute_stream.index, layout_.on_device(), algorithm, workspace, layout_.telling(), &outcome_);
    return 0;
  });
  device_.wait(down, end);
  read_telling();
  if (telling_.info == untold) throw InternalError(name_of(problem_) + " has told no info");
}

void WholeAttempt::read_telling() {
  constexpr index_t bytes = sizeof(telling_);
  device_.copy_down({reinterpret_cast<std::byte*>(&telling_), bytes},
                    {reinterpret_cast<std::byte*>(layout_.telling()), bytes}, {bytes, 1});
  await(device_.record(down));
  bytes_down_ += bytes;
}

// Results that take the place of inputs, or the others.
void WholeAttempt::download(bool overwriting) {
  const EventPtr end = timed(down, nullptr, [&] {
    index_t bytes = 0;
    for (const WholeLayout::Placed& placed : layout_.operands()) {
      LapackOperand to = placed.operand;
      if (!to.writes || placed.overwrites != overwriting) continue;
      const index_t pitch = to.rows * to.element_bytes;
      if (problem_.routine == Routine::heevr) {
        if (to.slot == LapackSlot::values) to.rows = std::min(to.rows, outcome_.found);
        if (to.slot == LapackSlot::U) to.cols = std::min(to.cols, outcome_.found);
      }
      if (to.written_bytes() == 0) continue;
      device_.copy_down({to.address, to.ld * to.element_bytes}, {placed.on_device, pitch},
                        {to.rows * to.element_bytes, to.cols, to.written_part, to.element_bytes});
      bytes += to.written_bytes();
    }
    bytes_down_ += bytes;
    return bytes;
  });
  await(end);
}

void WholeAttempt::await_copies() {
  const auto are_whole = [&] {
    return std::all_of(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.copy->is_whole(); });
  };
  for (;;) {
    const std::uint64_t seen = copied_.version();
    if (are_whole()) return;
    copied_.wait(seen, std::chrono::milliseconds(10));
  }
}

// The device writes nothing any more when it has recovered, or never will.
void WholeAttempt::recover() noexcept {
  is_usable_ = device_.recover();
  if (!overwrites_now_) return;
  for (const WholeLayout::Placed& placed : layout_.operands()) {
    if (!placed.is_overwritten) continue;
    const auto kept =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.placed == &placed; });
    if (kept == kept_.end() || !kept->copy->restore()) is_intact_ = false;
  }
}

std::vector<device::Operation> WholeAttempt::take_operations() {
  log_.resolve();
  return log_.take_finished();
}

}  // namespace tessera::runtime
