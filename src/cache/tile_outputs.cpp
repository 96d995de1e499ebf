// The tile cache's part for tiles that devices write: places for them, publication, and write-backs to host memory.
// Their copies are submitted without the lock. The directory invalidates host memory's version before the copy, and
// records the new version after its end.
#include <utility>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"

namespace tessera::cache {

using device::StreamId;
using device::StreamKind;

Replica* TileCache::acquire_output(int device, const HostTile& tile, bool fetch, index_t needed_soon) {
  note_arrivals_to_evict(device, 1);
  UniqueLock lock(mutex_);
  if (fetch && !directory_.host_has(tile)) throw InternalError("cache: what host memory holds is stale");
  std::byte* address = allocate_slot(device, needed_soon);
  if (address == nullptr) return nullptr;
  Replica& replica = enter(device, tile, address, TileEvent::write, nullptr);
  replica.readers = 1;
  if (fetch) copy_from_host(lock, replica, false);  // version 0 has no tail
  return &replica;
}

bool TileCache::update(Replica* pinned) {
  const LockGuard lock(mutex_);
  if (!directory_.can_update(*pinned)) return false;
  directory_.update(*pinned);
  // A replica still on its way to another device is dropped when that device needs memory.
  std::vector<Replica*> gone;
  for (const auto& old : pinned->entry->superseded) {
    if (old->readers == 0 && !old->arriving) gone.push_back(old.get());
  }
  for (Replica* const old : gone) discard(*old);
  return true;
}

void TileCache::publish(Replica* output) {
  note_arrivals(output->device);
  const LockGuard lock(mutex_);
  output->ready = nullptr;  // its fetch ended long ago; there is nothing to wait for
  if (std::exchange(output->arriving, false)) forget_arrival(*output);
  Replica* const old = directory_.find(output->device, output->tile);
  if (old != nullptr) {
    // Copies of it have ended: the kernels waited for them.
    old->readers -= static_cast<int>(
        std::erase_if(at(output->device).kept_copies, [old](const PeerCopy& copy) { return copy.source == old; }));
  }
  directory_.publish(*output);
  if (old != nullptr && old->readers == 0) discard(*old);
  end_loans(*output->entry);
}

bool TileCache::may_write_back(const Replica* output) {
  note_arrivals(output->device);
  const LockGuard lock(mutex_);
  return directory_.may_write_back(*output);
}

bool TileCache::can_write_slices(int device, const HostTile& tile, device::SliceKind kind) const {
  return tile.tail_bytes == 0 && at(device).place.device->can_copy_slices(extent(tile), kind);
}

device::EventPtr TileCache::write_back(Replica* output, index_t task, bool& begun,
                                       const device::WrittenSlicesPtr& written) {
  PerDevice& here = at(output->device);
  constexpr StreamId stream{StreamKind::down};
  const HostTile& tile = output->tile;
  device::Device& device = *here.place.device;
  Version host = 0;
  {
    const LockGuard lock(mutex_);
    host = directory_.begin_write_back(*output);
    end_loans(*output->entry);
  }
  try {
    auto begin = device.record(stream);
    begun = true;
    if (written) {
      device.copy_slices_down(host_block(tile), device_block(*output), extent(tile), written);
    } else {
      device.copy_down(host_block(tile), device_block(*output), extent(tile));
    }
    if (tile.tail_bytes > 0) {
      device.copy_down({tile.tail, tile.tail_bytes}, {tail(*output), tile.tail_bytes}, {tile.tail_bytes, 1});
    }
    auto end = device.record(stream);
    here.log.add({.stream = stream, .bytes = moved_bytes(tile, true), .task = task}, std::move(begin), end);
    const LockGuard lock(mutex_);
    here.counters.bytes_down += moved_bytes(tile, true);
    return end;
  } catch (...) {
    const LockGuard lock(mutex_);
    if (!begun) directory_.cancel_write_back(*output, host);
    throw;
  }
}

void TileCache::end_write_back(const Replica* output) {
  const LockGuard lock(mutex_);
  directory_.end_write_back(*output);
}

void TileCache::finish_output(Replica* output) {
  const LockGuard lock(mutex_);
  --output->readers;
  if (output->entry->writing == output->version) directory_.end_write_back(*output);
  if (output->output) discard(*output);
}

void TileCache::abandon_output(Replica* output) {
  const LockGuard lock(mutex_);
  --output->readers;
  discard(*output, TileEvent::abandon);
}

Flush TileCache::flush(int device, const HostTile& tile) {
  note_arrivals(device);
  UniqueLock lock(mutex_);
  if (directory_.host_has(tile)) return Flush::clean;
  Replica* const replica = directory_.find(device, tile);
  if (replica == nullptr || !directory_.may_flush(*replica)) return Flush::later;
  flush(lock, *replica);
  return Flush::begun;
}

std::size_t TileCache::flush_all(int device) {
  note_arrivals(device);
  UniqueLock lock(mutex_);
  std::size_t stale = 0;
  std::vector<Replica*> first;  // pinned, so that they stay until their turn comes
  directory_.for_each(device, [&](Replica& replica) TESSERA_REQUIRES(mutex_) {
    if (replica.superseded || replica.output || replica.entry->state.state != TileState::owned) return;
    ++stale;
    if (directory_.may_flush(replica)) first.push_back(&replica);
  });
  for (Replica* const replica : first) ++replica->readers;
  for (std::size_t n = 0; n < first.size(); ++n) {
    Replica& replica = *first[n];
    --replica.readers;
    if (!directory_.may_flush(replica)) continue;  // a peer has begun to flush it meanwhile
    try {
      flush(lock, replica);
    } catch (...) {
      while (++n < first.size()) --first[n]->readers;
      throw;
    }
  }
  return stale;
}

bool TileCache::flush_to_evict(int device, index_t later_than) {
  note_arrivals(device);
  UniqueLock lock(mutex_);
  Replica* const replica = directory_.write_back_candidate(device, later_than);
  if (replica == nullptr) return false;
  flush(lock, *replica);
  return true;
}

// The replica has a reader until the copy has ended. An exception after the copy may have begun leaves host memory
// without the tile, and ends the job.
void TileCache::flush(UniqueLock& lock, Replica& replica) TESSERA_UNCHECKED {
  ++replica.readers;
  bool begun = false;
  lock.unlock();
  try {
    auto done = write_back(&replica, -1, begun);
    at(replica.device).write_backs.push_back({std::move(done), &replica});
    lock.lock();
  } catch (...) {
    lock.lock();
    if (!begun) --replica.readers;
    throw;
  }
}

}  // namespace tessera::cache
