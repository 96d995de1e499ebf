#include "runtime/whole/whole_job.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/error.hpp"
#include "core/error_text.hpp"

namespace tessera::runtime {
namespace {

JobStatistics describe(const LapackCall& problem) {
  const LapackTraffic traffic = traffic_of(problem);
  return {.routine = name_of(problem),
          .m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .flops = flops_of(problem),
          .compulsory_up = static_cast<std::int64_t>(traffic.up),
          .compulsory_down = static_cast<std::int64_t>(traffic.down),
          .devices = {}};
}

}  // namespace

WholeJob::WholeJob(DeviceSet& devices, HostCopies* copies, const LapackCall& problem,
                   std::optional<kernels::SvdAlgorithm> algorithm)
    : Job(describe(problem), devices.names()),
      devices_(devices),
      copies_(copies),
      problem_(problem),
      algorithm_(algorithm),
      may_try_(devices.size(), false) {}

void WholeJob::load() {
  may_try_ = devices_.usable();
  std::string why;
  for (std::size_t d = 0; d < may_try_.size(); ++d) {
    kernels::DenseSolver* const solver = devices_.accelerator(d).solver.get();
    if (!may_try_[d]) continue;
    try {
      if (solver == nullptr) throw NotAvailable("a device solves no problems whole");
      solver->load(problem_.routine);
    } catch (const Error& error) {
      may_try_[d] = false;
      why = error.what();
      if (dynamic_cast<const DeviceLost*>(&error) != nullptr) devices_.lose(d, error.what());
    }
  }
  if (std::find(may_try_.begin(), may_try_.end(), true) != may_try_.end()) return;
  if (why.empty()) throw NoDeviceLeft("no device works any more");
  throw NotAvailable(why);
}

std::vector<WrittenArea> WholeJob::only_written() const {
  std::vector<WrittenArea> areas;
  if (has_unknown_end()) return areas;
  for (const LapackOperand& operand : LapackOperands(problem_)) {
    if (operand.reads || !operand.writes) continue;
    areas.push_back(
        {{operand.address, operand.ld * operand.element_bytes},
         {operand.rows * operand.element_bytes, operand.cols, operand.written_part, operand.element_bytes}});
  }
  return areas;
}

std::vector<device::Touched> touched_by(const LapackCall& problem, bool knows_end) {
  std::vector<device::Touched> touched;
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (operand.bytes() == 0) continue;
    using Use = device::Touched::Use;
    if (operand.slot == LapackSlot::U && !knows_end) continue;
    const Use use = !operand.writes                      ? Use::read
                    : operand.written_part != Part::full ? Use::written_in_part
                                                         : Use::written;
    touched.push_back({matrix_of(operand, operand.rows, operand.cols), use});
  }
  return touched;
}

std::vector<device::Touched> WholeJob::touched() const { return touched_by(problem_, !has_unknown_end()); }

// The quickest that may try; of equal ones that with most memory.
std::optional<std::size_t> WholeJob::next_device(std::span<const DeviceCapacity> capacities) const {
  const auto rank = [&](std::size_t d) {
    return std::pair(capacities[d].info->flops_per_s[problem_.type], capacities[d].bytes);
  };
  std::optional<std::size_t> best;
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    if (capacities[d].bytes > 0 && may_try_[d] && (!best || rank(d) > rank(*best))) best = d;
  }
  return best;
}

DeviceNeeds WholeJob::needs(std::span<const DeviceCapacity> capacities) {
  return {next_device(capacities) ? DeviceNeeds::Kind::alone : DeviceNeeds::Kind::none};
}

// Solvers tell what a problem takes while nobody else uses their devices.
std::vector<std::size_t> WholeJob::slab_bytes(const Admission::Stay& /*stay*/) {
  devices_.review();
  std::vector<std::size_t> bytes(devices_.size());
  const std::vector<DeviceCapacity> capacities = devices_.capacities();
  while (const auto d = next_device(capacities)) {
    may_try_[*d] = false;
    if (!prepare(*d)) continue;
    bytes[*d] = attempt_->bytes();
    break;
  }
  return bytes;
}

/// @return whether the device can try the problem
bool WholeJob::prepare(std::size_t d) {
  const kernels::Accelerator& accelerator = devices_.accelerator(d);
  const DeviceMemory& memory = devices_.memory(d);
  device_ = d;
  if (!lack_.empty()) out_of_memory_ = std::exchange(lack_, {});
  try {
    attempt_.emplace(problem_, *accelerator.device, *accelerator.solver, memory.slab(), algorithm_, copies_);
  } catch (const OutOfDeviceMemory& error) {
    out_of_memory_ = error.what();
    return false;
  } catch (const DeviceLost& error) {
    devices_.lose(d, error.what());
    return false;
  } catch (const WorkRefused& error) {
    error_ = error.what();
    return false;
  }
  // That is so until the attempt begins.
  lack_ = "a device has no memory for the " + std::to_string(attempt_->bytes()) + " bytes of " + name_of(problem_);
  return attempt_->bytes() <= memory.capacity_bytes();
}

bool WholeJob::attempt(const Admission::Stay& /*stay*/, std::span<DeviceFate> fates) {
  const auto failed = [&](const std::exception& error) {
    fates[device_] = {attempt_->is_usable() ? DeviceFate::Kind::erred : DeviceFate::Kind::lost,
                      text_of(std::current_exception())};
    add(false);
    if (!attempt_->is_intact())
      throw DeviceLost("a device failed while it wrote results over their input: " + std::string(error.what()));
  };
  lack_.clear();
  try {
    statistics().info = attempt_->run();
    add(true);
    is_solved_ = true;
  } catch (const NotAvailable& error) {
    failed(error);
    throw;
  } catch (const OutOfDeviceMemory& error) {
    failed(error);
    out_of_memory_ = error.what();
  } catch (const Error& error) {  // lost, or it refuses the work
    failed(error);
    error_ = error.what();
  } catch (const std::bad_alloc& error) {
    failed(error);
    throw;
  }
  attempt_.reset();
  return true;
}

// Adds the work of the attempt's device.
void WholeJob::add(bool is_done) {
  DeviceStatistics& sum = of_device(device_);
  sum.bytes_up += attempt_->bytes_up();
  sum.bytes_down += attempt_->bytes_down();
  if (is_done) {
    ++sum.tasks;
    ++sum.steps;
    sum.flops += flops_of(problem_);
  }
  try {
    keep_operations(device_, attempt_->take_operations());
  } catch (const std::bad_alloc&) {  // results are what they should be: only times are missing
  }
}

void WholeJob::finish_on_cpu() {
  if (is_solved_) return;
  if (!lack_.empty()) throw OutOfDeviceMemory(lack_);
  if (!out_of_memory_.empty()) throw OutOfDeviceMemory(out_of_memory_);
  throw NoDeviceLeft("no device has solved " + name_of(problem_) + (error_.empty() ? "" : ": " + error_));
}

}  // namespace tessera::runtime
