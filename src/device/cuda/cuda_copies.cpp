// The copies of a CudaDevice. The copy engine copies rectangles, in as few pieces as CUDA accepts. The engine and a
// kernel copy triangles side by side. Pageable memory and scattered columns go through the staging rings. The rest of
// the device is in cuda_device.cpp.
#include <algorithm>
#include <cmath>
#include <new>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/error_scope.hpp"
#include "device/cuda/host_registration.hpp"
#include "device/cuda/nvtx_range.hpp"
#include "device/cuda/triangle_copy.hpp"
#include "device/cuda/triangle_runs.hpp"
#include "device/scattered_columns.hpp"
#include "device/split_copy.hpp"

namespace tessera::device::cuda {
namespace {

/// The host memory from the first to the last byte that a copy moves.
HostRange range_of(Block host, Extent extent) {
  const index_t last_column = extent.columns - 1;
  return {host.address + extent.first_byte(0),
          host.address + last_column * host.pitch_bytes + extent.last_byte(last_column)};
}

/// Whether the GPU of the current context can address all of the host memory that a triangle lies in.
bool accessible(Block host, Extent extent) { return HostRegistry::instance().page_locked(range_of(host, extent)); }

/// Whether the host memory must be staged. This holds if CUDA does not know the memory at one of its ends. It holds if
/// a context of ours has page-locked the memory and may unlock it at any time. It holds for scattered columns, too, if
/// processors read their memory as fast as other memory.
bool is_to_be_staged(Block host, Extent extent, const ScatteredColumns& scattered) {
  const HostRange range = range_of(host, extent);
  return HostRegistry::is_pageable(range.begin) || HostRegistry::is_pageable(range.end - 1) ||
         HostRegistry::instance().overlaps(range) ||
         (are_scattered(scattered, host, extent) && HostRegistry::is_cached(host.address));
}

bool contiguous(Block to, Block from, Extent extent) {
  return extent.columns == 1 || (to.pitch_bytes == extent.column_bytes && from.pitch_bytes == extent.column_bytes);
}

}  // namespace

void CudaDevice::submit_copy(StreamId id, const char* what, Block to, Block from, Extent extent, cudaMemcpyKind kind,
                             const CudaDevice* source, const CudaDevice* target) {
  if (!accepts_work(id)) return;
  const NvtxRange range(what);
  const CurrentContext current(context_);
  const Transfer transfer{what, to, from, extent, kind, source, target, stream(id)};
  if (extent.part == Part::full) return submit_rows(transfer, 0, extent.column_bytes, 0, extent.columns);
  if (source != nullptr || accessible(kind == cudaMemcpyHostToDevice ? from : to, extent)) {
    return submit_triangle(transfer);
  }
  // A triangle in pageable memory, which kernels cannot address. It is not copied as one rectangle, because the other
  // elements of that rectangle may change meanwhile.
  for (index_t j = 0; j < extent.columns; ++j) submit_rows(transfer, extent.first_byte(j), extent.last_byte(j), j, 1);
}

void CudaDevice::submit_rows(const Transfer& t, index_t first, index_t last, index_t column, index_t columns) {
  cudaError_t error = cudaSuccess;
  auto copy = [&](Block to, Block from, Extent piece) {
    const auto width = static_cast<std::size_t>(piece.column_bytes);
    if (contiguous(to, from, piece)) {
      const auto bytes = static_cast<std::size_t>(piece.bytes());
      error = t.source != nullptr && !t.source->mapped_
                  ? cudaMemcpyPeerAsync(to.address, t.target->ordinal(), from.address, t.source->ordinal(), bytes, t.on)
                  : cudaMemcpyAsync(to.address, from.address, bytes, t.kind, t.on);
    } else if (std::max(to.pitch_bytes, from.pitch_bytes) > max_pitch_bytes_) {
      error = cudaErrorInvalidPitchValue;
      return false;
    } else {
      error = cudaMemcpy2DAsync(to.address, static_cast<std::size_t>(to.pitch_bytes), from.address,
                                static_cast<std::size_t>(from.pitch_bytes), width,
                                static_cast<std::size_t>(piece.columns), t.kind, t.on);
    }
    if (error == cudaSuccess) return true;
    forget_error();
    // The pitch exceeds the limit, or only a part of the host memory is page-locked: smaller pieces can be copied.
    if (error != cudaErrorInvalidValue && error != cudaErrorInvalidPitchValue) require(error, t.what);
    return false;
  };
  const bool copied = copy_in_pieces(copy, {t.to.address + column * t.to.pitch_bytes + first, t.to.pitch_bytes},
                                     {t.from.address + column * t.from.pitch_bytes + first, t.from.pitch_bytes},
                                     {last - first, columns});
  if (!copied) require(error, t.what);
}

void CudaDevice::submit_triangle(const Transfer& t) {
  const Extent& extent = t.extent;
  const TriangleCut& cut = info_.profile.triangle_cut;
  const auto copy_by_kernel = [&](TrianglePart part, cudaStream_t on) {
    require(copy_triangle(t.to, t.from, extent, t.kind, part, info_.profile, on), t.what);
  };
  const auto rectangle = [&](index_t j) {
    return rectangle_column(cut, extent.part == Part::lower, extent.column_bytes, extent.element_bytes, j);
  };
  const bool has_rectangles = rectangle(0).last > 0 || rectangle(extent.columns - 1).last > 0;
  if (t.source != nullptr || !has_rectangles) return copy_by_kernel(TrianglePart::all, t.on);
  // Both run at once. Beside copies in the other direction a kernel reads host memory at half the rate of the link.
  // With short columns the engine leaves part of the link to the kernel (docs/adr/0003-tall-tiles.md).
  SideStream& side = sides_[t.kind == cudaMemcpyHostToDevice ? 0 : 1];
  require(side.fork_from(t.on), t.what);
  copy_by_kernel(TrianglePart::beside_rectangles, side.stream());
  for (index_t j = 0; j < extent.columns; j += cut.strip_columns) {
    const ColumnRun rows = rectangle(j);
    submit_rows(t, rows.first, rows.last, j, std::min(cut.strip_columns, extent.columns - j));
  }
  require(side.join(t.on), t.what);
}

void CudaDevice::copy_host(StreamId id, Block device, Block host, Extent extent) {
  const bool up = id.kind == StreamKind::up;
  const CurrentContext current(context_);
  CudaStaging* const staging =
      info_.copy_threads > 0 && extent.bytes() > 0 && is_to_be_staged(host, extent, info_.profile.scattered)
          ? this->staging(up ? StagingRing::Direction::up : StagingRing::Direction::down)
          : nullptr;
  if (staging != nullptr) return copy_staged(*staging, id, device, host, extent, nullptr);
  if (!up) join_down();
  submit_copy(id, up ? "copy up" : "copy down", up ? device : host, up ? host : device, extent,
              up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
}

void CudaDevice::copy_staged(CudaStaging& staging, StreamId id, Block device, Block host, Extent extent,
                             const WrittenSlicesPtr& written) {
  const bool up = id.kind == StreamKind::up;
  const char* const what = up ? "copy up" : "copy down";
  if (!accepts_work(id)) return;
  bool accepted = false;
  try {
    accepted = staging.submit(
        stream(id), host, extent, up && take_up_waits(), written, [&](const StagedPart& part, Block slot) {
          // If the stream skips its copy, the old contents of the slot must not be taken for the data.
          if (!accepts_work(id)) throw WorkRefused("the stream waits for a device that is lost");
          const Block on_device{device.address + part.column * device.pitch_bytes + part.first, device.pitch_bytes};
          submit_copy(id, what, up ? on_device : slot, up ? slot : on_device, part.extent,
                      up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
        });
    if (!up && accepted) accepted = staging.await_ends(down_end_.stream());
  } catch (const std::bad_alloc&) {
  } catch (const WorkRefused&) {
  }
  if (!accepted) refuse_staged("cuda:" + std::to_string(ordinal()) + ": " + what + ": it could not be staged");
  if (up) return;
  const std::lock_guard lock(mutex_);
  down_ends_apart_ = true;
}

void CudaDevice::join_down() {
  {
    const std::lock_guard lock(mutex_);
    if (!down_ends_apart_) return;
  }
  bool joined = false;
  try {
    joined = staging(StagingRing::Direction::down)->await_ends(stream({StreamKind::down, 0}));
  } catch (const std::bad_alloc&) {
  }
  if (!joined) refuse_staged("cuda:" + std::to_string(ordinal()) + ": a copy down after staged ones was refused");
  const std::lock_guard lock(mutex_);
  down_ends_apart_ = false;
}

void CudaDevice::copy_within(StreamKind kind, Block to, Block from, Extent extent) {
  submit_copy({kind}, "copy within", to, from, extent, cudaMemcpyDeviceToDevice, this, this);
  const CurrentContext current(context_);
  const std::lock_guard lock(mutex_);
  if (end_of({kind}) != stream({kind}))  // events say nothing of the stream itself
    require(down_end_.fork_from(stream({kind})), "copy within");
}

bool CudaDevice::can_copy_slices(Extent extent, SliceKind kind) {
  if (info_.copy_threads == 0 || extent.bytes() == 0) return false;
  const CurrentContext current(context_);
  CudaStaging* const staging = this->staging(StagingRing::Direction::down);
  return staging != nullptr && can_stage_slices(extent, kind, staging->ring().slot_bytes());
}

void CudaDevice::copy_slices_down(Block host_to, Block device_from, Extent extent, const WrittenSlicesPtr& written) {
  const CurrentContext current(context_);
  CudaStaging* const staging = this->staging(StagingRing::Direction::down);
  if (staging == nullptr) throw WorkRefused("cuda:" + std::to_string(ordinal()) + ": nothing can be staged any more");
  copy_staged(*staging, {StreamKind::down, 0}, device_from, host_to, extent, written);
}

void CudaDevice::refuse_staged(const std::string& reason) {
  // The ring and the stream may have received different numbers of pieces, so that one waits for the other.
  must_recover_ = true;
  abandon_staging();
  fail(cudaSuccess, reason);
}

CudaStaging* CudaDevice::staging(StagingRing::Direction direction) {
  auto& ring = staging_[static_cast<std::size_t>(direction)];
  if (!ring && !staging_failed_) {
    const Staging& sizes = info_.profile.staging;
    const auto part_of_all = [&](double part) { return static_cast<int>(std::lround(part * info_.copy_threads)); };
    const int most = part_of_all(direction == StagingRing::Direction::down ? sizes.most_down : sizes.most_up);
    std::unique_ptr<CudaStaging> made;
    try {
      // The threads may run where the calling thread may run.
      if (!staging_threads_)
        staging_threads_ = std::make_unique<StagingThreads>(std::max(info_.copy_threads, StagingThreads::fewest),
                                                            part_of_all(sizes.most_alone));
      made = CudaStaging::make(direction, *staging_threads_, most, sizes, base_stream_);
    } catch (const std::system_error&) {
    }
    staging_failed_ = !made;
    const std::lock_guard lock(staging_mutex_);
    ring = std::move(made);
  }
  return ring.get();
}

bool CudaDevice::take_up_waits() {
  const std::lock_guard lock(mutex_);
  return std::exchange(up_waits_, false);
}

void CudaDevice::abandon_staging() noexcept {
  const std::lock_guard lock(staging_mutex_);
  for (auto& ring : staging_) {
    if (!ring) continue;
    pool_->distrust();  // must come first: the streams continue without the data that the threads have not copied
    ring->ring().abandon();
  }
}

void CudaDevice::copy_up(Block device_to, Block host_from, Extent extent) {
  copy_host({StreamKind::up, 0}, device_to, host_from, extent);
}

void CudaDevice::copy_down(Block host_to, Block device_from, Extent extent) {
  copy_host({StreamKind::down, 0}, device_from, host_to, extent);
}

void CudaDevice::copy_peer(Block device_to, Device& source, Block source_from, Extent extent) {
  const auto* from = dynamic_cast<const CudaDevice*>(&source);
  if (from == nullptr || !can_access(source)) throw InternalError("a peer copy between devices without peer access");
  submit_copy({StreamKind::peer, 0}, "copy from peer", device_to, source_from, extent, cudaMemcpyDeviceToDevice, from,
              this);
}

void CudaDevice::copy_to_peer(Device& target, Block target_to, Block device_from, Extent extent) {
  const auto* to = dynamic_cast<const CudaDevice*>(&target);
  if (to == nullptr || !can_access(target)) throw InternalError("a copy to a device without peer access");
  submit_copy({StreamKind::to_peer, 0}, "copy to peer", target_to, device_from, extent, cudaMemcpyDeviceToDevice, this,
              to);
}

}  // namespace tessera::device::cuda
