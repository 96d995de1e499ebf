#include "runtime/lazy_matrices.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace tessera::runtime {
namespace {

using residence::all_of;
using residence::block_of;
using residence::MatrixId;
using residence::part_of;
using residence::Rectangle;

std::vector<device::HostMatrix> matrices_of(std::span<const device::Touched> touched) {
  std::vector<device::HostMatrix> matrices;
  std::transform(touched.begin(), touched.end(), std::back_inserter(matrices),
                 [](const device::Touched& each) { return each.matrix; });
  return matrices;
}

bool writes(const device::Touched& touched) { return touched.use != device::Touched::Use::read; }

constexpr const char* lost_text = "a device failed that had the only copy of a part of a matrix";

/// @param end nullptr: there is none @return whether the work before it has been done
bool wait_for(const device::EventPtr& end) {
  if (!end) return true;
  while (end->status() == device::EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return end->status() == device::EventStatus::complete;
}

}  // namespace

LazyMatrices::LazyMatrices(residence::Residence& residence, const std::vector<residence::MirroredDevice*>& mirrored,
                           BetweenJobs between_jobs, std::function<void(std::size_t)> lose_device)
    : residence_(residence),
      mirrored_(mirrored),
      between_jobs_(std::move(between_jobs)),
      lose_device_(std::move(lose_device)) {}

void LazyMatrices::check_found(MatrixId matrix) const {
  if (residence_.is_lost(matrix)) throw DeviceLost(lost_text);
}

void LazyMatrices::check_found(std::span<const device::Touched> touched) const {
  for (const device::Touched& each : touched) {
    if (residence_.overlaps_lost(each.matrix)) throw DeviceLost(lost_text);
  }
}

bool LazyMatrices::is_stale(MatrixId matrix) const {
  check_found(matrix);
  return residence_.is_stale(matrix);
}

// Each device can copy from every other one.
bool LazyMatrices::are_connected() const {
  return std::all_of(mirrored_.begin(), mirrored_.end(), [this](const auto* one) {
    return std::all_of(mirrored_.begin(), mirrored_.end(),
                       [one](const auto* other) { return one == other || one->can_access(*other); });
  });
}

void LazyMatrices::settle(std::span<const MatrixId> matrices) {
  if (std::none_of(matrices.begin(), matrices.end(), [this](MatrixId matrix) { return is_stale(matrix); })) return;
  between_jobs_([&] {
    const LockGuard lock(copying_);
    for (const MatrixId matrix : matrices) {
      const auto place = residence_.matrix_of(matrix);
      if (!place || !is_stale(matrix)) continue;
      copy_down_only_copies(matrix, all_of(*place), block_of(*place));
      residence_.note_in_host_memory(matrix);
    }
  });
}

void LazyMatrices::read(MatrixId matrix, const Rectangle& part, device::Block to) {
  const auto copy_from_host = [&] {
    check_found(matrix);
    const auto place = residence_.matrix_of(matrix);
    if (!place) throw InternalError("a matrix that is not known is read");
    const device::Block from = part_of(block_of(*place), all_of(*place), part);
    for (index_t j = 0; j < part.columns; ++j) {
      std::memcpy(to.address + j * to.pitch_bytes, from.address + j * from.pitch_bytes,
                  static_cast<std::size_t>(part.column_bytes));
    }
  };
  {
    const LockGuard lock(copying_);
    if (residence_.only_copies(matrix, part).empty()) return copy_from_host();
  }
  between_jobs_([&] {
    const LockGuard lock(copying_);
    copy_from_host();
    copy_down_only_copies(matrix, part, to);
  });
}

void LazyMatrices::write(MatrixId matrix, const Rectangle& part, const std::function<void()>& write) {
  const LockGuard lock(copying_);
  if (write) write();
  const auto place = residence_.matrix_of(matrix);
  if (!place) return;
  residence_.drop(part_of(block_of(*place), all_of(*place), part), {part.column_bytes, part.columns});
  if (part == all_of(*place)) residence_.find_again(matrix);
}

void LazyMatrices::remove(MatrixId matrix) {
  const LockGuard lock(copying_);
  residence_.remove(matrix);
}

// @pre between jobs
void LazyMatrices::copy_down_only_copies(MatrixId matrix, const Rectangle& part, device::Block to) {
  const device::HostRange range =
      device::HostMatrix{to.address, to.pitch_bytes, part.column_bytes, part.columns}.range();
  residence::MirroredDevice& first = *mirrored_.front();
  const auto pinning = first.info().copy_threads > 0 ? nullptr : first.pin_host({&range, 1});
  std::vector<device::EventPtr> ends(mirrored_.size());
  std::vector<bool> has_failed(mirrored_.size(), false);
  for (std::size_t d = 0; d < mirrored_.size(); ++d) {
    try {
      ends[d] = mirrored_[d]->copy_down_only_copies(matrix, part, to);
    } catch (const std::exception&) {
      has_failed[d] = true;
    }
  }
  for (std::size_t d = 0; d < mirrored_.size(); ++d) has_failed[d] = has_failed[d] || !wait_for(ends[d]);
  for (std::size_t d = 0; d < mirrored_.size(); ++d) {
    if (has_failed[d]) copy_again(d, matrix, part, to);
  }
  check_found(matrix);
}

// A device that has refused a copy may take it now. One that is lost takes the matrix with it.
void LazyMatrices::copy_again(std::size_t device, MatrixId matrix, const Rectangle& part, device::Block to) {
  residence::MirroredDevice& mirrored = *mirrored_[device];
  if (!mirrored.recover()) return lose_device_(device);
  std::string why = "it failed";
  try {
    if (wait_for(mirrored.copy_down_only_copies(matrix, part, to))) return;
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!mirrored.recover()) return lose_device_(device);
  throw NotAvailable("a matrix cannot be copied from a device now: " + why);
}

// Devices alone do it if they can reach each other's copies, and if each matrix is a block of a lazy one as devices
// know it. Matrices that the host uses now are in host memory, where this job keeps them.
void LazyMatrices::begin(Job& job, std::span<const device::Touched> touched, std::optional<HostUse>& use) {
  check_found(touched);
  const std::vector<device::HostMatrix> matrices = matrices_of(touched);
  std::vector<MatrixId> lazy = residence_.lazy_among(matrices);
  const auto is_held = [this](MatrixId matrix) { return residence_.is_held(matrix); };
  if (std::any_of(lazy.begin(), lazy.end(), is_held)) {
    std::vector<device::Touched> held;
    std::copy_if(touched.begin(), touched.end(), std::back_inserter(held), [&](const device::Touched& each) {
      const std::vector<MatrixId> overlapped = residence_.lazy_among({&each.matrix, 1});
      return std::any_of(overlapped.begin(), overlapped.end(), is_held);
    });
    use.emplace(*this, held);
    std::erase_if(lazy, is_held);
  }
  if (lazy.empty()) return;
  make_room(lazy);
  if (job.can_be_lazy() && are_connected() && residence_.are_blocks(matrices))
    job.set_lazy(writes_any(lazy, touched) ? Job::Lazy::results : Job::Lazy::operands);
  else
    use.emplace(*this, touched);
}

// Only copies are never given up, so that too many of them leave no place for others.
void LazyMatrices::make_room(std::span<const MatrixId> used) {
  residence_.note_use(used);
  while (const auto old = residence_.to_be_settled(used)) {
    try {
      settle({&*old, 1});
    } catch (const DeviceLost&) {  // its next use says so
    }
  }
}

bool LazyMatrices::writes_any(std::span<const MatrixId> matrices, std::span<const device::Touched> touched) const {
  const auto is_one = [&](MatrixId matrix) {
    return std::find(matrices.begin(), matrices.end(), matrix) != matrices.end();
  };
  return std::any_of(touched.begin(), touched.end(), [&](const device::Touched& each) {
    if (!writes(each)) return false;
    const std::vector<MatrixId> written = residence_.lazy_among({&each.matrix, 1});
    return std::any_of(written.begin(), written.end(), is_one);
  });
}

void LazyMatrices::end_lazy(Job& job, std::span<const device::Touched> touched, std::optional<HostUse>& use) {
  if (job.lazy() == Job::Lazy::nothing) return;
  if (job.lazy() == Job::Lazy::results && job.may_have_written())
    throw DeviceLost("a device failed while it wrote a matrix that is only on devices");
  try {
    use.emplace(*this, touched);
  } catch (const NotAvailable& error) {
    if (!job.may_have_written()) throw;
    throw DeviceLost(error.what());  // nobody may take results for untouched
  }
  job.set_lazy(Job::Lazy::nothing);
}

void LazyMatrices::lose_results(std::span<const device::Touched> touched) noexcept {
  for (const device::Touched& each : touched) {
    if (writes(each)) residence_.lose_overlapped(each.matrix);
  }
}

HostUse::HostUse(LazyMatrices& matrices, std::span<const device::Touched> touched) : matrices_(matrices) {
  std::vector<device::HostMatrix> read, written;
  for (const device::Touched& each : touched) (writes(each) ? written : read).push_back(each.matrix);
  try {
    begin(written, Use::writes);
    begin(read, Use::reads);
  } catch (...) {
    release();
    throw;
  }
}

// They are held before they are settled: no result comes between.
void HostUse::begin(std::span<const device::HostMatrix> matrices, Use use) {
  residence::Residence& residence = matrices_.residence();
  const std::vector<MatrixId> lazy = residence.lazy_among(matrices);
  held_.reserve(held_.size() + lazy.size());
  for (const MatrixId matrix : lazy) {
    residence.hold(matrix, use);
    held_.push_back({matrix, use});
  }
  matrices_.settle(lazy);
  if (use == Use::reads) return;
  for (const device::HostMatrix& matrix : matrices)
    residence.drop(block_of(matrix), {matrix.column_bytes, matrix.columns});
}

void HostUse::release() {
  for (const Held& each : held_) matrices_.residence().release(each.matrix, each.use);
}

HostUse::~HostUse() { release(); }

std::unique_ptr<LazyMatrix> LazyMatrix::make(LazyMatrices& matrices, const device::HostMatrix& place) {
  const auto id = matrices.residence().add(place, residence::Residence::Kind::lazy);
  if (!id) return nullptr;
  try {
    return std::unique_ptr<LazyMatrix>(new LazyMatrix(matrices, place, *id));
  } catch (...) {
    matrices.residence().remove(*id);
    throw;
  }
}

}  // namespace tessera::runtime
