// The tile cache's part for old values: copies of tiles in the free memory of peers, and their way back to host memory.
#include <chrono>
#include <thread>
#include <utility>

#include "cache/tile_cache.hpp"

namespace tessera::cache {

using device::StreamId;
using device::StreamKind;

// An exception after the slot was taken ends the job, and the slot with it.
Keep TileCache::keep(int device, const HostTile& tile, const Replica* output, bool waits, std::span<const int> peers,
                     index_t task, KeptTile& kept) {
  note_arrivals(device);
  UniqueLock lock(mutex_);
  Replica* const read = output == nullptr ? directory_.find(device, tile) : nullptr;
  const Replica* const source = output != nullptr ? output : read;
  if (source == nullptr || (source->arriving && !waits)) return Keep::not_here;
  PerDevice* holder = nullptr;
  for (const int peer : peers) {
    PerDevice& other = at(peer);
    if (other.heap.free_bytes() < slot_bytes_ || (holder != nullptr && holder->kept_count <= other.kept_count))
      continue;
    holder = &other;
    kept.holder = peer;
  }
  std::byte* const address = holder != nullptr ? holder->heap.allocate(slot_bytes_) : nullptr;
  if (address == nullptr) return Keep::no_memory;
  ++holder->kept_count;
  if (read != nullptr) {
    ++read->readers;
    ++read->outgoing;
  }
  const device::Block from_block = device_block(*source);
  const device::EventPtr arrival = source->arriving ? source->ready : nullptr;
  lock.unlock();
  PerDevice& here = at(device);
  device::Device& from = *here.place.device;
  constexpr StreamId stream{StreamKind::to_peer};
  // A triangle goes as the whole block, which is in one piece on both sides.
  device::Extent size = extent(tile);
  size.part = Part::full;
  const index_t pitch_bytes = tile.rows * element_bytes_;
  if (arrival) from.wait(stream, arrival);
  auto begin = from.record(stream);
  from.copy_to_peer(*holder->place.device, {address, pitch_bytes}, from_block, size);
  auto done = from.record(stream);
  here.log.add({.stream = stream, .bytes = size.bytes(), .task = task}, std::move(begin), done);
  here.kept_on_peers.push_back(done);
  lock.lock();
  if (read != nullptr) here.kept_copies.push_back({done, read});
  here.counters.bytes_kept += size.bytes();
  kept.tile = tile;
  kept.address = address;
  kept.job = job_;
  kept.done = std::move(done);
  return Keep::begun;
}

bool TileCache::restore(const KeptTile& kept) noexcept {
  device::Device& holder = *at(kept.holder).place.device;
  constexpr StreamId stream{StreamKind::down};
  const auto copy = [&] {
    holder.copy_down(host_block(kept.tile), {kept.address, kept.tile.rows * element_bytes_}, extent(kept.tile));
    const device::EventPtr done = holder.record(stream);
    while (done->status() == device::EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return done->status() == device::EventStatus::complete;
  };
  constexpr int tries = 2;  // a second try mostly succeeds
  for (int made = 0; made < tries; ++made) {
    try {
      if (copy()) return true;
    } catch (...) {
    }
    if (!holder.recover()) break;
  }
  return false;
}

void TileCache::drop(const KeptTile& kept) noexcept {
  const LockGuard lock(mutex_);
  if (kept.job != job_ || kept.done->status() != device::EventStatus::complete) return;
  at(kept.holder).heap.free(kept.address);
  --at(kept.holder).kept_count;
}

}  // namespace tessera::cache
