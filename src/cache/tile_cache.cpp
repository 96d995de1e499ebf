#include "cache/tile_cache.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"

namespace tessera::cache {

using device::StreamId;
using device::StreamKind;

// Releases the lock during the submission of a copy. Wakes the waiting workers at its end, also after an exception.
class TileCache::Submitting {
 public:
  Submitting(TileCache& cache, UniqueLock& lock, Replica& replica) : cache_(cache), lock_(lock), replica_(replica) {
    replica_.submitting = true;
    replica_.arriving = true;
    lock_.unlock();
  }
  ~Submitting() {
    lock_.lock();
    replica_.submitting = false;
    cache_.submitted_.notify_all();
  }
  Submitting(const Submitting&) = delete;
  Submitting& operator=(const Submitting&) = delete;

 private:
  TileCache& cache_;
  UniqueLock& lock_;
  Replica& replica_;
};

TileCache::TileCache(const std::vector<CacheDevice>& devices) : directory_(static_cast<int>(devices.size())) {
  devices_.reserve(devices.size());
  for (const CacheDevice& place : devices) {
    for (const CacheDevice& peer : devices) {
      all_connected_ = all_connected_ && (&peer == &place || place.device->can_access(*peer.device));
    }
    devices_.push_back({.place = place, .heap = heap::DeviceHeap(place.slab, place.slab_bytes)});
  }
}

void TileCache::begin_job(std::size_t slot_bytes, std::size_t element_bytes) {
  const LockGuard lock(mutex_);
  ++job_;
  directory_.clear();
  for (PerDevice& device : devices_) {
    device.heap = heap::DeviceHeap(device.place.slab, device.place.slab_bytes);
    device.counters = {};
    device.peer_copies.clear();
    device.kept_copies.clear();
    device.write_backs.clear();
    device.arrivals.clear();
    device.peer_arrivals.clear();
    device.kept_on_peers.clear();
    device.arriving_bytes = 0;
    device.scratch_count = 0;
    device.lent_count = 0;
    device.kept_count = 0;
    device.log.clear();
  }
  slot_bytes_ = segment_bytes(slot_bytes);
  element_bytes_ = static_cast<index_t>(element_bytes);
}

index_t TileCache::slots(int device) const { return static_cast<index_t>(at(device).heap.capacity() / slot_bytes_); }

Replica* TileCache::pin(int device, const HostTile& tile, index_t next_use) {
  note_arrivals_to_evict(device, 1);
  UniqueLock lock(mutex_);
  PerDevice& here = at(device);
  Replica* resident = directory_.find(device, tile);
  if (resident == nullptr) resident = borrow(device, tile);
  if (resident != nullptr) {
    directory_.touch(*resident);
    resident->next_use = next_use;
    ++resident->readers;
    ++here.counters.l1_hits;
    return resident;
  }
  Replica* source = nearest_peer(device, tile);
  for (; source != nullptr && source->submitting; source = nearest_peer(device, tile)) submitted_.wait(lock.native());
  if (source != nullptr) ++source->readers;  // evictions below must not take it, and the copy reads it until collect()
  std::byte* address = allocate_slot(device);
  if (address == nullptr) {
    if (source != nullptr) --source->readers;
    return nullptr;
  }
  Replica& replica = fetch(lock, device, tile, address, source, 1);
  replica.next_use = next_use;
  return &replica;
}

Prefetch TileCache::prefetch(int device, const HostTile& tile, index_t reserve, index_t next_use, index_t later_than) {
  note_arrivals_to_evict(device, reserve + 1);
  UniqueLock lock(mutex_);
  // A tile that only unreachable devices have comes from the host.
  if (directory_.find(device, tile) != nullptr || nearest_peer(device, tile) != nullptr) return Prefetch::held;
  // A task that read it may have been done by another device, and its next version be on the way to host memory.
  if (!directory_.host_has(tile)) return Prefetch::held;
  if (Replica* const lent = borrow(device, tile)) {
    lent->next_use = next_use;
    return Prefetch::held;
  }
  PerDevice& here = at(device);
  if (here.heap.free_bytes() < static_cast<std::size_t>(reserve + 1) * slot_bytes_) {
    Replica* victim = directory_.eviction_candidate(device, later_than);
    if (victim == nullptr) return Prefetch::no_memory;
    discard(*victim);
    ++here.counters.evictions;
  }
  std::byte* address = here.heap.allocate(slot_bytes_);
  if (address == nullptr) return Prefetch::no_memory;
  fetch(lock, device, tile, address, nullptr, 0).next_use = next_use;
  return Prefetch::started;
}

void TileCache::set_next_uses(int device, const std::function<index_t(const HostTile&)>& next_use_of) {
  const LockGuard lock(mutex_);
  directory_.for_each(device, [&](Replica& replica) { replica.next_use = next_use_of(replica.tile); });
}

bool TileCache::is_fetching(int device) {
  note_arrivals(device);
  return !at(device).arrivals.empty();
}

bool TileCache::is_copying_beside_peers(int device) {
  note_arrivals(device);
  PerDevice& here = at(device);
  while (!here.kept_on_peers.empty() && here.kept_on_peers.front()->status() != device::EventStatus::pending)
    here.kept_on_peers.pop_front();
  return !here.peer_arrivals.empty() || !here.kept_on_peers.empty();
}

index_t TileCache::queued_bytes(int device) {
  note_arrivals(device);
  const PerDevice& here = at(device);
  return here.arrivals.empty() ? 0 : here.arriving_bytes - here.arrivals.front().bytes;
}

// Queries events without the lock: only the device's worker touches these lists. A tile counts as arrived when the
// worker has noted it.
void TileCache::note_arrivals(int device) {
  PerDevice& here = at(device);
  const auto has_ended = [](const Arrival& arrival) { return arrival.done->status() != device::EventStatus::pending; };
  for (std::deque<Arrival>* arrivals : {&here.arrivals, &here.peer_arrivals}) {
    const auto end = std::find_if_not(arrivals->begin(), arrivals->end(), has_ended);
    if (end == arrivals->begin()) continue;
    const LockGuard lock(mutex_);
    for (auto arrival = arrivals->begin(); arrival != end; ++arrival) {
      if (arrivals == &here.arrivals) here.arriving_bytes -= arrival->bytes;
      if (arrival->replica != nullptr && arrival->done->status() == device::EventStatus::complete)
        arrival->replica->arriving = false;
    }
    arrivals->erase(arrivals->begin(), end);
  }
}

// Notes arrivals only if fewer than `slots` slots are free, because only arrived tiles can be evicted. Otherwise the
// queries would be wasted time.
void TileCache::note_arrivals_to_evict(int device, index_t slots) {
  {
    const LockGuard lock(mutex_);
    if (at(device).heap.free_bytes() >= static_cast<std::size_t>(slots) * slot_bytes_) return;
  }
  note_arrivals(device);
}

void TileCache::release(Replica* replica) {
  const LockGuard lock(mutex_);
  if (replica->readers <= 0) throw InternalError("cache: release without pin");
  --replica->readers;
  end_loan(*replica);
}

bool TileCache::are_connected(int device, int peer) const {
  const auto reaches = [this](int from, int to) { return at(from).place.device->can_access(*at(to).place.device); };
  return reaches(device, peer) && reaches(peer, device);
}

std::byte* TileCache::take_scratch(int device) {
  note_arrivals_to_evict(device, 1);
  const LockGuard lock(mutex_);
  std::byte* const address = allocate_slot(device);
  if (address != nullptr) ++at(device).scratch_count;
  return address;
}

// Called without the lock: only the device's worker touches these lists.
std::size_t TileCache::count_complete(const std::deque<PeerCopy>& copies) {
  const auto is_pending = [](const PeerCopy& copy) { return copy.done->status() != device::EventStatus::complete; };
  return static_cast<std::size_t>(std::find_if(copies.begin(), copies.end(), is_pending) - copies.begin());
}

bool TileCache::collect(int device) {
  note_arrivals(device);
  PerDevice& here = at(device);
  const std::size_t written = count_complete(here.write_backs);
  std::deque<PeerCopy>* const outgoing[] = {&here.peer_copies, &here.kept_copies};
  const std::size_t ended[] = {count_complete(here.peer_copies), count_complete(here.kept_copies)};
  if (written + ended[0] + ended[1] == 0) return false;
  const LockGuard lock(mutex_);
  for (std::size_t kind = 0; kind < std::size(outgoing); ++kind) {
    for (std::size_t left = ended[kind]; left > 0; --left, outgoing[kind]->pop_front()) {
      Replica& source = *outgoing[kind]->front().source;
      --source.readers;
      --source.outgoing;
      end_loan(source);
    }
  }
  for (std::size_t left = written; left > 0; --left, here.write_backs.pop_front()) {
    Replica& source = *here.write_backs.front().source;
    --source.readers;
    directory_.end_write_back(source);
  }
  return true;
}

bool TileCache::has_arrived(int device, const HostTile& tile) {
  note_arrivals(device);
  const LockGuard lock(mutex_);
  const Replica* const replica = directory_.find(device, tile);
  return replica != nullptr && !replica->arriving;
}

Level TileCache::locate(int device, const HostTile& tile) const {
  const LockGuard lock(mutex_);
  if (directory_.find(device, tile) != nullptr) return Level::l1;
  return nearest_peer(device, tile) != nullptr ? Level::l2 : Level::host;
}

CacheCounters TileCache::counters(int device) const {
  const LockGuard lock(mutex_);
  CacheCounters counters = at(device).counters;
  directory_.for_each(device, [&](const Replica& replica) { counters.pinned += replica.readers > 0 ? 1 : 0; });
  return counters;
}

void TileCache::check_invariants() const {
  const LockGuard lock(mutex_);
  directory_.check_invariants();
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    const PerDevice& here = devices_[device];
    here.heap.check_invariants();
    const std::size_t apart = here.scratch_count + here.kept_count;
    if (here.heap.occupied_count() + here.lent_count != directory_.replica_count(static_cast<int>(device)) + apart) {
      throw InternalError("cache: heap and directory disagree");
    }
  }
}

// Allocates a segment of the heap, by eviction if necessary; nullptr if all tiles are in use.
std::byte* TileCache::allocate_slot(int device, index_t needed_soon) {
  PerDevice& here = at(device);
  for (;;) {
    if (std::byte* address = here.heap.allocate(slot_bytes_)) return address;
    Replica* victim = directory_.eviction_candidate(device, needed_soon);
    if (victim == nullptr) return nullptr;
    discard(*victim);
    ++here.counters.evictions;
  }
}

// Detaches the replica from the arrivals under way, which refer to it. @pre called for the device's worker
void TileCache::forget_arrival(const Replica& replica) {
  PerDevice& here = at(replica.device);
  for (std::deque<Arrival>* arrivals : {&here.arrivals, &here.peer_arrivals}) {
    for (Arrival& arrival : *arrivals) {
      if (arrival.replica == &replica) arrival.replica = nullptr;
    }
  }
}

// @pre called for the device's worker, or the replica has arrived
void TileCache::discard(Replica& replica, TileEvent event) {
  if (replica.arriving) forget_arrival(replica);
  std::byte* const address = replica.address;
  const std::shared_ptr<const void> loan = replica.loan;
  PerDevice& here = at(replica.device);
  directory_.erase(replica, event);
  if (loan) {
    --here.lent_count;
  } else {
    here.heap.free(address);
  }
}

// Of a replica that nobody will read any more. It has arrived from the start, so that any device may end it.
void TileCache::end_loan(Replica& replica) {
  if (replica.loan && replica.superseded && replica.readers == 0) discard(replica);
}

// Takes no memory: a version has been replaced.
void TileCache::end_loans(const TileEntry& entry) {
  const auto ends = [](const auto& old) { return old->loan && old->readers == 0; };
  for (;;) {
    const auto old = std::find_if(entry.superseded.begin(), entry.superseded.end(), ends);
    if (old == entry.superseded.end()) return;
    discard(**old);
  }
}

// Enters a replica; if the protocol refuses the event, its segment returns to the heap.
Replica& TileCache::enter(int device, const HostTile& tile, std::byte* address, TileEvent event, Replica* source) {
  try {
    return directory_.insert(device, tile, address, event);
  } catch (...) {
    if (source != nullptr) --source->readers;
    at(device).heap.free(address);
    throw;
  }
}

// @return the replica, without readers; nullptr if the device has not got what host memory says
Replica* TileCache::borrow(int device, const HostTile& tile) {
  if (tile.tail_bytes > 0 || !directory_.host_has(tile)) return nullptr;
  PerDevice& here = at(device);
  std::optional<device::LentBlock> lent = here.place.device->lend(host_block(tile), extent(tile));
  if (!lent) return nullptr;
  Replica& replica = directory_.insert(device, tile, lent->address, TileEvent::fetch);
  replica.loan = std::move(lent->loan);
  ++here.lent_count;
  return &replica;
}

// Copies from `source`, which the caller has pinned, or from host memory if it is nullptr.
Replica& TileCache::fetch(UniqueLock& lock, int device, const HostTile& tile, std::byte* address, Replica* source,
                          int readers) {
  Replica& replica = enter(device, tile, address, source != nullptr ? TileEvent::copy : TileEvent::fetch, source);
  replica.readers = readers;  // set before the copy, so that its version is not overwritten meanwhile
  try {
    if (source != nullptr) {
      copy_from_peer(lock, replica, *source);
    } else {
      copy_from_host(lock, replica, true);
    }
  } catch (...) {
    // No lookup may find a tile that will never arrive.
    if (source != nullptr) --source->readers;
    replica.readers = 0;
    discard(replica);
    throw;
  }
  CacheCounters& counters = at(device).counters;
  ++(source != nullptr ? counters.l2_hits : counters.misses);
  return replica;
}

void TileCache::copy_from_host(UniqueLock& lock, Replica& replica, bool with_tail) {
  PerDevice& here = at(replica.device);
  constexpr StreamId stream{StreamKind::up};
  const HostTile& tile = replica.tile;
  const index_t bytes = moved_bytes(tile, with_tail);
  device::Device& device = *here.place.device;
  device::EventPtr ready;
  {
    const Submitting submitting(*this, lock, replica);
    auto begin = device.record(stream);
    device.copy_up(device_block(replica), host_block(tile), extent(tile));
    if (with_tail && tile.tail_bytes > 0) {
      device.copy_up({tail(replica), tile.tail_bytes}, {tile.tail, tile.tail_bytes}, {tile.tail_bytes, 1});
    }
    ready = device.record(stream);
    here.log.add({.stream = stream, .bytes = bytes}, std::move(begin), ready);
  }
  here.arrivals.push_back({ready, bytes, &replica});
  here.arriving_bytes += bytes;
  here.counters.bytes_up += bytes;
  replica.ready = std::move(ready);
}

void TileCache::copy_from_peer(UniqueLock& lock, Replica& replica, Replica& source) {
  PerDevice& here = at(replica.device);
  constexpr StreamId stream{StreamKind::peer};
  const HostTile& tile = replica.tile;
  const index_t bytes = moved_bytes(tile, true);
  device::Device& device = *here.place.device;
  device::Device& peer = *at(source.device).place.device;
  const device::EventPtr arrival = source.ready;
  device::EventPtr ready;
  {
    const Submitting submitting(*this, lock, replica);
    if (arrival) device.wait(stream, arrival);
    auto begin = device.record(stream);
    device.copy_peer(device_block(replica), peer, device_block(source), extent(tile));
    if (tile.tail_bytes > 0) {
      device.copy_peer({tail(replica), tile.tail_bytes}, peer, {tail(source), tile.tail_bytes}, {tile.tail_bytes, 1});
    }
    ready = device.record(stream);
    here.log.add({.stream = stream, .bytes = bytes}, std::move(begin), ready);
  }
  here.peer_arrivals.push_back({ready, bytes, &replica});
  here.peer_copies.push_back({ready, &source});
  ++source.outgoing;  // last, because nothing after it can throw
  here.counters.bytes_peer += bytes;
  replica.ready = std::move(ready);
}

// The peer to copy from. A peer whose own copy has been submitted comes first, then the one with the fewest outgoing
// copies, then one where the tile has arrived. That peer's worker may not have noted the arrival yet, so the event is
// queried if it decides.
Replica* TileCache::nearest_peer(int device, const HostTile& tile) const {
  const auto cost = [](const Replica& replica) { return std::pair(replica.submitting, replica.outgoing); };
  const auto is_here = [](const Replica& replica) {
    return !replica.arriving || (replica.ready && replica.ready->status() == device::EventStatus::complete);
  };
  Replica* best = nullptr;
  for (Replica* holder : directory_.holders(tile)) {  // in order of devices
    if (holder->device == device || !at(device).place.device->can_access(*at(holder->device).place.device)) continue;
    if (best == nullptr || cost(*holder) < cost(*best) ||
        (cost(*holder) == cost(*best) && !is_here(*best) && is_here(*holder)))
      best = holder;
  }
  return best;
}

device::Extent TileCache::extent(const HostTile& tile) const { return extent_of(tile, element_bytes_); }

index_t TileCache::moved_bytes(const HostTile& tile, bool with_tail) const {
  return extent(tile).bytes() + (with_tail ? tile.tail_bytes : 0);
}

device::Block TileCache::host_block(const HostTile& tile) const { return {tile.address, tile.ld * element_bytes_}; }

device::Block TileCache::device_block(const Replica& replica) const {
  return {replica.address, replica.tile.rows * element_bytes_};
}

}  // namespace tessera::cache
