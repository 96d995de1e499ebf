#include "offload/device_start.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <string_view>
#include <system_error>
#include <typeinfo>
#include <utility>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/error_text.hpp"
#include "core/gpu_list.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/plugin_loader.hpp"
#include "offload/quietly.hpp"

namespace tessera::offload {
namespace {

constexpr std::chrono::milliseconds look_for_quiet{50};
/// Calls may come again and again while devices are measured.
constexpr int most_attempts = 3;

/// Without a driver there is no device file: nvidiactl; dxg under WSL; nvmap on boards that have the GPU in the
/// processor.
bool has_gpu_device_file() {
  const auto there = [](const char* file) { return access(file, F_OK) == 0; };
  return there("/dev/nvidiactl") || there("/dev/dxg") || there("/dev/nvmap");
}

/// GPUs of which nothing but name and place is known.
device::DeviceInfo likely_gpu(int ordinal, const ListedGpu& listed) {
  device::DeviceInfo info = offload::likely_gpu();
  info.ordinal = ordinal;
  info.name = listed.model;
  info.pci_bus_id = listed.pci_bus_id;
  return info;
}

/// The kernel lists all GPUs of the machine, also in a container that was given some of them: as device files.
std::vector<ListedGpu> gpus_with_device_file() {
  std::vector<ListedGpu> gpus = list_gpus();
  std::erase_if(gpus, [](const ListedGpu& gpu) {
    return gpu.device_minor >= 0 && access(fmt::format("/dev/nvidia{}", gpu.device_minor).c_str(), F_OK) != 0;
  });
  return gpus;
}

/// The GPUs that this process sees, as far as that can be told without CUDA.
/// @param named ordinals of those that it wants; empty: all
std::vector<device::DeviceInfo> listed_devices(const std::vector<int>& named) {
  const char* const shown = environment_variable("CUDA_VISIBLE_DEVICES");
  const std::optional<std::vector<ListedGpu>> visible = visible_gpus(gpus_with_device_file(), shown);
  std::vector<ListedGpu> gpus = visible.value_or(std::vector<ListedGpu>(1));
  // Where the driver has a device file but no list, it is taken to have one GPU, unless the program is to see none.
  const bool may_see_some = shown == nullptr || (*shown != '\0' && std::string_view(shown) != "-1");
  if (gpus.empty() && may_see_some && has_gpu_device_file()) gpus.resize(1);
  std::vector<device::DeviceInfo> devices;
  for (const ListedGpu& gpu : gpus) devices.push_back(likely_gpu(static_cast<int>(devices.size()), gpu));
  // GPUs that were named are tried in any case.
  for (const int ordinal : named) {
    if (ordinal >= static_cast<int>(gpus.size())) devices.push_back(likely_gpu(ordinal, {}));
  }
  return devices;
}

/// "rank 1 of 4 on this host (Open MPI): cuda:2 cuda:3"
std::string to_text(const LocalRank& place, const std::string& backend, const KnownDevices& devices) {
  std::string text = fmt::format("rank {} of {} on this host ({}):", place.rank, place.ranks, place.launcher);
  for (const int ordinal : devices.ordinals) text += fmt::format(" {}:{}", backend, ordinal);
  if (devices.sharers > 1) text += fmt::format(", shared by {} ranks", devices.sharers);
  return text;
}

/// How pageable memory goes to and from these devices.
device::Staging staging_of(const std::vector<device::DeviceInfo>& devices) {
  return devices.empty() ? device::Staging() : devices.front().profile.staging;
}

}  // namespace

DeviceStart::~DeviceStart() {
  const std::uint64_t self = process::identity();
  if (background_in_.load(std::memory_order_relaxed) == self && background_) {
    std::unique_lock lock(background_->mutex);
    background_->stopping = true;
    background_->changed.notify_all();
    background_->changed.wait(lock, [this] { return !background_->begun || background_->ended; });
  }
  const std::uint64_t owner = owner_.load(std::memory_order_relaxed);
  // In a child the worker threads do not exist, and there as in a process that is ending the driver must not be called:
  // leave everything where it is.
  if (owner != 0 && (owner != self || process::ending())) {
    static_cast<void>(runtime_.release());
    static_cast<void>(backend_.release());
  }
  for (const auto& known : kept_known_) delete known.load(std::memory_order_relaxed);
}

const KnownDevices& DeviceStart::known_devices() {
  if (const KnownDevices* const known = known_.load(std::memory_order_acquire)) return *known;
  const KnownDevices& seen = publish(look(), 0);
  if (config_.verbose && seen.record.rates && seen.file)
    log_line(fmt::format("rates of the devices: {}", seen.file->path()));
  return seen;
}

// Of two threads that look at once, one throws its own away.
const KnownDevices& DeviceStart::publish(KnownDevices known, std::size_t place) {
  auto mine = std::make_unique<const KnownDevices>(std::move(known));
  const KnownDevices* kept = nullptr;
  if (kept_known_[place].compare_exchange_strong(kept, mine.get(), std::memory_order_acq_rel)) kept = mine.release();
  const KnownDevices* before = nullptr;
  // An earlier look does not replace the facts of open devices.
  if (place == 1) {
    known_.store(kept, std::memory_order_release);
  } else if (!known_.compare_exchange_strong(before, kept, std::memory_order_acq_rel)) {
    return *before;
  }
  return *kept;
}

KnownDevices DeviceStart::look() const {
  if (config_.devices == DeviceChoice::host)
    return known_of(kernels::make_host_backend(config_, config_.host_devices, nullptr)->devices());
  std::vector<device::DeviceInfo> devices = listed_devices(config_.ordinals);
  // A plugin that was named is tried in any case, and so are GPUs that were.
  const bool sought = config_.devices == DeviceChoice::automatic && config_.plugin_file.empty();
  if (devices.empty() && sought) {
    KnownDevices nothing;
    nothing.possible = false;
    return nothing;
  }
  if (devices.empty()) devices.push_back(likely_gpu(0, {}));
  return known_of(std::move(devices));
}

/// Leaves those of `devices` that the settings choose. @return which part of those that are named it is
DeviceShare DeviceStart::choose_devices(std::vector<device::DeviceInfo>& devices) const {
  if (config_.devices == DeviceChoice::plugin && !config_.ordinals.empty()) {
    std::erase_if(devices, [&](const device::DeviceInfo& d) {
      const auto& wanted = config_.ordinals;
      return std::find(wanted.begin(), wanted.end(), d.ordinal) == wanted.end();
    });
  }
  const DeviceShare share = config_.device_share(static_cast<int>(devices.size()));
  devices = {devices.begin() + share.first, devices.begin() + share.first + share.count};
  return share;
}

int DeviceStart::copy_threads_of(const std::vector<device::DeviceInfo>& devices) const {
  const device::Staging staging = staging_of(devices);
  return config_.copy_threads_of(std::max(static_cast<int>(devices.size()), 1),
                                 CpuSpeed::available_processors(config_.local_ranks()), staging.most_threads,
                                 staging.fewest_threads);
}

KnownDevices DeviceStart::known_of(std::vector<device::DeviceInfo> devices) const {
  const DeviceShare share = choose_devices(devices);
  return known_of(devices, share.sharers, copy_threads_of(devices));
}

KnownDevices DeviceStart::known_of(const std::vector<device::DeviceInfo>& devices, int sharers,
                                   int copy_threads) const {
  const bool host = config_.devices == DeviceChoice::host;
  KnownDevices known;
  known.sharers = sharers;
  for (const device::DeviceInfo& device : devices) known.ordinals.push_back(device.ordinal);
  known.copy_threads = copy_threads;
  Rates& rates = known.rates;
  rates = rates_of(devices);
  if (!host && known.copy_threads > 0) {
    rates.page_lock_bytes_per_s = 0;
    const double carried = staging_of(devices).thread_bytes_per_s * rates.devices * known.copy_threads;
    const double one_way = rates.links.up > 0 ? std::min(rates.links.up, carried) : carried;
    rates.links = {one_way, one_way, carried};
  }

  // Host devices are settings: what is learnt of them is kept where a file is named for it. Ranks that measure at once
  // would each find a part of what the host gives.
  const CalibrationFile file(config_.calibration, devices, known.copy_threads, version_of_driver());
  if (const auto record = file.read()) {
    known.record = *record;
    if (record->rates) {
      rates.flops_per_s = record->rates->flops_per_s;
      rates.links = record->rates->page_locked.up > 0 && known.copy_threads == 0 ? record->rates->page_locked
                                                                                 : record->rates->pageable;
    }
    if (!host && record->start_up_s > 0) rates.start_up_s = record->start_up_s;
  }
  const bool alone = config_.local_ranks() == 1 && sharers == 1;
  const bool is_kept = !CalibrationFile::is_off(config_.calibration) && (!host || !config_.calibration.empty());
  if (config_.offload.weighs() && alone && is_kept) known.file = file;
  return known;
}

std::string DeviceStart::version_of_driver() const {
  return config_.devices == DeviceChoice::host ? "" : driver_version();
}

double DeviceStart::until_open_s() {
  if (stage() != Stage::closed) return 0;
  const double all_s = known_devices().rates.start_up_s;
  const double begun_at_s = begun_at_s_.load(std::memory_order_relaxed);
  if (begun_at_s <= 0) return all_s;
  // A start that is overdue by some time may take as long once more. So nobody waits longer than it has been overdue.
  const double left_s = all_s - (device::now_seconds() - begun_at_s);
  return std::max(std::abs(left_s), 0.1 * all_s);
}

std::optional<Reason> DeviceStart::why_forbidden() const {
  const std::uint64_t owner = owner_.load(std::memory_order_relaxed);
  if (owner != 0 && owner != process::identity()) return Reason::forked;
  if (process::ending()) return Reason::ending;
  return std::nullopt;
}

void DeviceStart::open(const Context& context, double patience_s, First first) {
  std::uint64_t nobody = 0;
  owner_.compare_exchange_strong(nobody, process::identity(), std::memory_order_relaxed);
  if (why_forbidden()) return;
  const std::unique_lock lock(open_mutex_, std::chrono::duration<double>(patience_s));
  if (lock && stage_.load(std::memory_order_relaxed) == Stage::closed) open_here(context, first);
}

// @pre the caller holds open_mutex_, and no devices are open
void DeviceStart::open_here(const Context& context, First first) {
  const process::Pass driving(process::Work::driving);
  if (!driving || why_forbidden()) return;
  runtime_.reset();  // of an attempt that failed
  begun_at_s_.store(device::now_seconds(), std::memory_order_relaxed);
  try {
    find_and_open(context);
    if (first == First::loads_kernels) quietly([this] { runtime_->warm_up(); });  // calls find out what does not work
    stage_.store(Stage::open, std::memory_order_release);
  } catch (const std::bad_alloc&) {  // the next call may find memory
    begun_at_s_.store(0, std::memory_order_relaxed);
    throw;
  } catch (...) {
    remember_failure();
    stage_.store(Stage::failed, std::memory_order_release);
  }
}

void DeviceStart::open_backend(const Context& context) {
  if (config_.devices == DeviceChoice::host) {
    std::shared_ptr<const kernels::CpuBlas> blas;
    try {
      blas = context.cpu_blas();
    } catch (const NotAvailable&) {  // the host devices' readable reference computes the tiles then
    }
    backend_ = kernels::make_host_backend(config_, config_.host_devices, blas);
  } else {
    backend_ = kernels::open_plugin(config_.plugin_file, *config_.backend);
  }
}

void DeviceStart::find_and_open(const Context& context) {
  const double begin_s = device::now_seconds();
  open_backend(context);
  std::vector<device::DeviceInfo> devices = backend_->devices();
  for (const int ordinal : config_.ordinals) {
    const bool there = std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d.ordinal == ordinal; });
    if (!there) throw NotAvailable(fmt::format("there is no {} device {}", config_.backend->title, ordinal));
  }
  if (devices.empty()) throw NotAvailable(fmt::format("there is no {} device", config_.backend->title));
  const DeviceShare share = choose_devices(devices);
  const int copy_threads = copy_threads_of(devices);
  std::vector<int> ordinals;
  for (const device::DeviceInfo& device : devices) ordinals.push_back(device.ordinal);
  load_s_ = device::now_seconds() - begin_s;

  const double open_begin_s = device::now_seconds();
  kernels::Opened opened = backend_->open(ordinals, copy_threads);
  open_s_ = device::now_seconds() - open_begin_s;
  if (opened.accelerators.empty()) throw NotAvailable(opened.refused.front().reason);
  for (const kernels::Opened::Refusal& refused : opened.refused) {
    log_line_once(fmt::format("{}:{}", devices.front().backend, refused.ordinal),
                  fmt::format("is not used: {}", refused.reason));
    std::erase_if(devices, [&](const device::DeviceInfo& device) { return device.ordinal == refused.ordinal; });
  }
  runtime_ =
      std::make_unique<runtime::Runtime>(std::move(opened.accelerators), config_, context.compute, share.sharers);
  // Not before nothing can fail any more: another attempt may find other devices.
  const KnownDevices& found = publish(known_of(devices, share.sharers, copy_threads), 1);
  if (config_.verbose && config_.local_rank) log_line(to_text(*config_.local_rank, devices.front().backend, found));
  const kernels::Backend& backend = *backend_;
  process::watch(&typeid(backend));  // the driver has registered by now what it does at exit
}

void DeviceStart::remember_failure() {
  const Failure* const before = failure_.load(std::memory_order_relaxed);
  auto failure = std::make_unique<Failure>();
  failure->error = std::current_exception();
  failure->text = text_of(failure->error);
  failure->patience_s = before == nullptr ? first_patience_s : std::min(2 * before->patience_s, longest_patience_s);
  failure->until_s = device::now_seconds() + failure->patience_s;
  // A program that has GPUs or asks for host devices would otherwise never learn why they idle. Once is enough, however
  // many contexts there are.
  const bool host = config_.devices == DeviceChoice::host;
  if (host || has_gpu_device_file() || (config_.verbose && before == nullptr))
    log_line_once(host ? "host devices" : "devices",
                  fmt::format("cannot be used, the CPU BLAS answers: {}", failure->text));
  failures_.push_back(std::move(failure));
  failure_.store(failures_.back().get(), std::memory_order_release);
}

runtime::Runtime* DeviceStart::opened() const { return stage() == Stage::open ? runtime_.get() : nullptr; }

runtime::Runtime* DeviceStart::runtime() const {
  runtime::Runtime* const opened = this->opened();
  return opened != nullptr && !opened->devices().empty() ? opened : nullptr;
}

void DeviceStart::keep(const std::function<void(MachineRecord&)>& change) {
  const KnownDevices& known = known_devices();
  const process::Pass whole(process::Work::driving);  // the end of the process waits for a file that is being written
  if (!known.file || !whole) return;
  try {
    const std::string obstacle = known.file->obstacle();
    if (!obstacle.empty()) throw NotAvailable(obstacle);
    MachineRecord record = known.file->read().value_or(MachineRecord());
    change(record);
    known.file->write(record);
    if (config_.verbose) log_line(fmt::format("what was learnt of this machine is kept in {}", known.file->path()));
  } catch (const std::exception& error) {  // without it all works as well
    // A user who has named a file is told.
    if (config_.verbose || !config_.calibration.empty())
      log_line_once(fmt::format("{}: what was learnt of this machine is not kept:", known.file->path()), error.what());
  }
}

void DeviceStart::measure() {
  const KnownDevices& known = known_devices();
  runtime::Runtime* const devices = runtime();
  if (devices == nullptr || !known.file || known.record.rates) return;
  if (measured_.exchange(true, std::memory_order_relaxed)) return;
  try {
    const runtime::Calibration rates = devices->calibrate();
    keep([&](MachineRecord& record) { record.rates = rates; });
  } catch (const std::exception& error) {
    if (config_.verbose) log_line(fmt::format("the devices were not measured: {}", error.what()));
  }
}

std::pair<std::string, runtime::Calibration> DeviceStart::calibrate() {
  runtime::Runtime* const devices = runtime();
  if (devices == nullptr) throw NotAvailable("there are no devices to measure");
  std::vector<device::DeviceInfo> infos;
  for (const device::Device* const device : devices->devices()) infos.push_back(device->info());
  const CalibrationFile file(config_.calibration, infos, known_devices().copy_threads, version_of_driver());
  MachineRecord record = file.read().value_or(MachineRecord());
  record.rates = devices->calibrate();
  record.start_up_s = load_s_ + open_s_;
  file.write(record);
  return {file.path(), *record.rates};
}

void DeviceStart::serve_in_background(Context context, bool opens) {
  const std::uint64_t self = process::identity();
  std::uint64_t before = background_in_.load(std::memory_order_relaxed);
  if (before == self) return;
  auto made = std::make_shared<BackgroundThread>();  // first what may lack memory
  if (!background_in_.compare_exchange_strong(before, self, std::memory_order_relaxed)) return;
  background_ = std::move(made);
  background_seen_.store(background_.get(), std::memory_order_release);
  try {
    start_thread([this, background = background_, context = std::move(context), opens] {
      if (opens) pass_loader();  // opening loads libraries
      {
        const std::lock_guard lock(background->mutex);
        if (background->stopping) return;
        background->begun = true;
      }
      try {
        serve(context, opens);
      } catch (const std::exception&) {  // no memory, or the process is ending: calls do what is needed by themselves
      }
      const std::lock_guard lock(background->mutex);
      background->ended = true;
      background->changed.notify_all();
    }).detach();
  } catch (const std::exception&) {  // likewise
  }
}

void DeviceStart::try_again(const std::function<Context()>& context) {
  if (device::now_seconds() < last_failure().until_s || wanted_again_.exchange(true)) return;
  serve_in_background(context(), false);  // if nobody has
  // A thread that does not wait yet will see what is wanted when it does.
  if (BackgroundThread* const background = background_seen_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(background->mutex);
    background->changed.notify_all();
  }
}

/// @return false if there is nothing to wait for any more
bool DeviceStart::await_next_attempt() {
  std::unique_lock lock(background_->mutex);
  background_->changed.wait(lock, [this] { return background_->stopping || wanted_again_; });
  return !background_->stopping && !process::ending();
}

void DeviceStart::serve(const Context& context, bool opens) {
  if (opens) open(context, 0, First::loads_kernels);
  while (stage() == Stage::failed) {
    if (!await_next_attempt()) return;
    {
      const std::lock_guard lock(open_mutex_);
      open_here(context);
    }
    wanted_again_ = false;
  }
  runtime::Runtime* const devices = runtime();
  if (devices == nullptr) return;
  if (!known_devices().file) return;
  keep_start_up();
  if (!known_devices().record.rates) measure_in_pauses(context);
}

/// Keeps the time of the start, unless the file says nearly the same.
void DeviceStart::keep_start_up() {
  constexpr double near = 1.5;
  const double known_s = known_devices().record.start_up_s, now_s = load_s_ + open_s_;
  if (known_s < near * now_s && now_s < near * known_s) return;
  keep([&](MachineRecord& record) { record.start_up_s = now_s; });
}

void DeviceStart::measure_in_pauses(const Context& context) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    while (!context.is_quiet()) {
      if (!pause(look_for_quiet)) return;
    }
    if (measured_.exchange(true, std::memory_order_relaxed)) return;
    if (const auto rates = runtime_->calibrate_unless_called())
      return keep([&](MachineRecord& record) { record.rates = rates; });
    measured_.store(false, std::memory_order_relaxed);
  }
}

/// @return false if there is nothing to wait for any more
bool DeviceStart::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(background_->mutex);
  background_->changed.wait_for(lock, time, [this] { return background_->stopping; });
  return !background_->stopping && !process::ending();
}

}  // namespace tessera::offload
