#include "runtime/dense_driver.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace tessera::runtime {
namespace {

JobStatistics describe(const DenseProblem& problem) {
  const DenseTraffic traffic = traffic_of(problem);
  return {.routine = name_of(problem),
          .m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .flops = dense_flops(problem),
          .compulsory_up = traffic.up,
          .compulsory_down = traffic.down,
          .devices = {}};
}

/// Those that work and solve problems, the quickest first; of equal ones that with most memory.
std::vector<std::size_t> candidates(DeviceSet& devices, const std::vector<bool>& loaded, ScalarType type) {
  const std::vector<DeviceRoom> rooms = devices.rooms();
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < rooms.size(); ++d) {
    if (rooms[d].bytes > 0 && loaded[d]) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const double rate_a = rooms[a].info->flops_per_s[type], rate_b = rooms[b].info->flops_per_s[type];
    return rate_a != rate_b ? rate_a > rate_b : rooms[a].bytes > rooms[b].bytes;
  });
  return order;
}

/// One device after the other.
class Search {
 public:
  Search(DeviceSet& devices, HostCopies* copies, const DenseProblem& problem,
         std::optional<kernels::SvdAlgorithm> algorithm, DenseRecord& record)
      : devices_(devices), copies_(copies), problem_(problem), algorithm_(algorithm), record_(record) {}

  /// @return whether the device has solved it; if not, the next one may
  bool try_on(std::size_t d) {
    const kernels::Accelerator& accelerator = devices_.accelerator(d);
    DeviceMemory& memory = devices_.memory(d);
    std::optional<DenseJob> job;
    try {
      job.emplace(problem_, *accelerator.device, *accelerator.solver, memory.slab(), algorithm_, copies_);
    } catch (const OutOfDeviceMemory& error) {
      lacks_room_ = error.what();
      return false;
    } catch (const DeviceLost& error) {
      devices_.lose(d, error.what());
      return false;
    } catch (const WorkRefused& error) {
      error_ = error.what();
      return false;
    }
    if (job->bytes() > memory.room_bytes() || !devices_.provide_to(d, job->bytes())) {
      lacks_room_ = "a device has no room for the " + std::to_string(job->bytes()) + " bytes of " + name_of(problem_);
      return false;
    }
    if (has_tried_) record_.count_restart();
    has_tried_ = true;
    return run(d, *job);
  }

  [[noreturn]] void give_up() const {
    if (!lacks_room_.empty()) throw OutOfDeviceMemory(lacks_room_);
    throw NoDeviceLeft("no device has solved " + name_of(problem_) + (error_.empty() ? "" : ": " + error_));
  }

 private:
  bool run(std::size_t d, DenseJob& job) {
    const auto failed = [&](const std::exception& error) {
      if (!job.is_usable()) devices_.lose(d, error.what());
      record_.add(d, job, false);
      if (!job.is_intact())
        throw DeviceLost("a device failed while it wrote results over their input: " + std::string(error.what()));
    };
    try {
      record_.statistics().info = job.run();
      record_.add(d, job, true);
      return true;
    } catch (const NotAvailable& error) {
      failed(error);
      throw;
    } catch (const OutOfDeviceMemory& error) {
      failed(error);
      lacks_room_ = error.what();
    } catch (const Error& error) {  // lost, or it refuses the work
      failed(error);
      error_ = error.what();
    } catch (const std::bad_alloc& error) {
      failed(error);
      throw;
    }
    return false;
  }

  DeviceSet& devices_;
  HostCopies* copies_;
  const DenseProblem& problem_;
  const std::optional<kernels::SvdAlgorithm> algorithm_;
  DenseRecord& record_;
  bool has_tried_ = false;
  std::string lacks_room_, error_;
};

}  // namespace

DenseRecord::DenseRecord(const DenseProblem& problem, std::span<const kernels::Accelerator> accelerators)
    : Record(describe(problem), accelerators), problem_(problem) {}

void DenseRecord::add(std::size_t d, DenseJob& job, bool is_done) {
  DeviceStatistics& sum = statistics_.devices[d];
  sum.bytes_up += job.bytes_up();
  sum.bytes_down += job.bytes_down();
  if (is_done) {
    ++sum.tasks;
    ++sum.steps;
    sum.flops += dense_flops(problem_);
  }
  try {
    const std::vector<device::Operation> operations = job.take_operations();
    operations_[d].insert(operations_[d].end(), operations.begin(), operations.end());
  } catch (const std::bad_alloc&) {  // results are what they should be: only times are missing
  }
}

std::vector<bool> load_solvers(DeviceSet& devices) {
  std::vector<bool> loaded = devices.usable();
  std::string why;
  for (std::size_t d = 0; d < loaded.size(); ++d) {
    kernels::DenseSolver* const solver = devices.accelerator(d).solver.get();
    if (!loaded[d]) continue;
    try {
      if (solver == nullptr) throw NotAvailable("a device solves no problems whole");
      solver->load();
    } catch (const Error& error) {
      loaded[d] = false;
      why = error.what();
      if (dynamic_cast<const DeviceLost*>(&error) != nullptr) devices.lose(d, error.what());
    }
  }
  if (std::find(loaded.begin(), loaded.end(), true) != loaded.end()) return loaded;
  if (why.empty()) throw NoDeviceLeft("no device works any more");
  throw NotAvailable(why);
}

void solve_on_one(DeviceSet& devices, const std::vector<bool>& loaded, HostCopies* copies, const DenseProblem& problem,
                  std::optional<kernels::SvdAlgorithm> algorithm, DenseRecord& record) {
  const std::vector<std::size_t> order = candidates(devices, loaded, problem.type);
  Search search(devices, copies, problem, algorithm, record);
  for (const std::size_t d : order) {
    if (search.try_on(d)) return;
  }
  search.give_up();
}

}  // namespace tessera::runtime
