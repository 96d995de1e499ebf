#include "cache/tile_directory.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace tessera::cache {

TileDirectory::TileDirectory(int devices) : devices_(devices), order_of_use_(static_cast<std::size_t>(devices)) {}

const TileEntry* TileDirectory::entry(const HostTile& tile) const {
  const auto known = entries_.find(tile);
  return known == entries_.end() ? nullptr : &known->second;
}

Replica* TileDirectory::find(int device, const HostTile& tile) const {
  const TileEntry* const known = entry(tile);
  Replica* const replica = known == nullptr ? nullptr : known->replicas[static_cast<std::size_t>(device)].get();
  return replica == nullptr || replica->output ? nullptr : replica;
}

std::vector<Replica*> TileDirectory::holders(const HostTile& tile) const {
  std::vector<Replica*> result;
  const TileEntry* const known = entry(tile);
  if (known == nullptr) return result;
  for (const auto& replica : known->replicas) {
    if (replica && !replica->output) result.push_back(replica.get());
  }
  return result;
}

Coherence TileDirectory::coherence(const HostTile& tile, bool output) const {
  const TileEntry* const known = entry(tile);
  if (known == nullptr) return {};
  return output ? known->output_state : known->state;
}

Version TileDirectory::version(const HostTile& tile) const {
  const TileEntry* const known = entry(tile);
  return known == nullptr ? 0 : known->version;
}

bool TileDirectory::host_has(const HostTile& tile) const {
  const TileEntry* const known = entry(tile);
  return known == nullptr || known->host == known->version;
}

TileEntry& TileDirectory::make_entry(const HostTile& tile) {
  if (const auto known = entries_.find(tile); known != entries_.end()) return known->second;
  TileEntry entry;
  entry.replicas.resize(static_cast<std::size_t>(devices_));
  return entries_.emplace(tile, std::move(entry)).first->second;
}

Replica& TileDirectory::insert(int device, const HostTile& tile, std::byte* address, TileEvent event) {
  const bool output = event == TileEvent::write;
  const Coherence after = next(coherence(tile, output), event);
  const TileEntry* const known = this->entry(tile);
  if (!output && known != nullptr && known->replicas[static_cast<std::size_t>(device)])
    throw InternalError("cache: the device already holds this tile");
  if (event == TileEvent::fetch && !host_has(tile)) throw InternalError("cache: what host memory holds is stale");
  auto replica = std::make_unique<Replica>();
  replica->tile = tile;
  replica->device = device;
  replica->output = output;
  replica->address = address;
  std::list<Replica*> place(1, replica.get());
  TileEntry& entry = make_entry(tile);
  // Nothing throws from here on. So if memory runs out earlier, no other device finds a replica that will never be
  // filled.
  replica->entry = &entry;
  replica->version = entry.version + (output ? 1 : 0);
  replica->position = place.begin();
  auto& order = order_of_use_[static_cast<std::size_t>(device)];
  order.splice(order.begin(), place);
  (output ? entry.output_state : entry.state) = after;
  auto& slot = output ? entry.output : entry.replicas[static_cast<std::size_t>(device)];
  slot = std::move(replica);
  return *slot;
}

void TileDirectory::erase(Replica& replica, TileEvent event) {
  if (replica.readers != 0) throw InternalError("cache: a tile that is still read was to be removed");
  TileEntry& entry = *replica.entry;
  const auto device = static_cast<std::size_t>(replica.device);
  std::unique_ptr<Replica> removed;
  if (replica.superseded) {
    const auto is_it = [&](const auto& old) { return old.get() == &replica; };
    const auto place = std::find_if(entry.superseded.begin(), entry.superseded.end(), is_it);
    removed = std::move(*place);
    entry.superseded.erase(place);
  } else {
    const bool writes = entry.output.get() == &replica;
    Coherence& state = writes ? entry.output_state : entry.state;
    state = next(state, event);
    removed = std::move(writes ? entry.output : entry.replicas[device]);
  }
  order_of_use_[device].erase(removed->position);
  // A tile that has had later versions keeps its entry, which has the version number.
  const bool untouched = entry.version == 0 && entry.host == 0 && entry.writing == TileEntry::none;
  if (untouched && entry.state.holders == 0 && !entry.output && entry.superseded.empty()) entries_.erase(removed->tile);
}

bool TileDirectory::can_update(const Replica& replica) const {
  const TileEntry& entry = *replica.entry;
  if (replica.superseded || replica.output || entry.output || replica.readers != 1 || replica.loan) return false;
  return std::all_of(entry.replicas.begin(), entry.replicas.end(), [&](const auto& other) {
    return !other || other.get() == &replica || (other->readers == 0 && !other->submitting);
  });
}

void TileDirectory::update(Replica& replica) {
  if (!can_update(replica)) throw InternalError("cache: a tile that others read or write was to be updated");
  TileEntry& entry = *replica.entry;
  const Coherence after = next(entry.state, TileEvent::update);
  entry.superseded.reserve(entry.superseded.size() + entry.replicas.size());
  entry.output = std::move(entry.replicas[static_cast<std::size_t>(replica.device)]);
  entry.output_state = after;
  supersede(entry);
  replica.output = true;
  ++replica.version;
}

// Marks all replicas of the readable version as superseded.
void TileDirectory::supersede(TileEntry& entry) {
  entry.superseded.reserve(entry.superseded.size() + entry.replicas.size());
  entry.state = next(entry.state, TileEvent::discard);
  for (auto& replica : entry.replicas) {
    if (!replica) continue;
    replica->superseded = true;
    entry.superseded.push_back(std::move(replica));
  }
}

// The complete output becomes the readable version.
void TileDirectory::make_readable(Replica& output) {
  TileEntry& entry = *output.entry;
  const Coherence after = next(entry.output_state, TileEvent::complete);
  supersede(entry);
  entry.state = after;
  entry.output_state = {};
  entry.replicas[static_cast<std::size_t>(output.device)] = std::move(entry.output);
  ++entry.version;
}

void TileDirectory::publish(Replica& output) {
  if (output.superseded) throw InternalError("cache: an old version was to be published");
  if (output.entry->output.get() == &output) make_readable(output);
  output.output = false;
}

bool TileDirectory::may_write_back(const Replica& replica) const {
  const TileEntry& entry = *replica.entry;
  const auto is_older_and_arriving = [&](const auto& other) {
    return other && other->version < replica.version && other->arriving;
  };
  return !replica.superseded && entry.writing == TileEntry::none &&
         std::none_of(entry.superseded.begin(), entry.superseded.end(), is_older_and_arriving) &&
         std::none_of(entry.replicas.begin(), entry.replicas.end(), is_older_and_arriving);
}

bool TileDirectory::may_flush(const Replica& replica) const {
  return may_write_back(replica) && !replica.output && !replica.arriving &&
         replica.entry->state.state == TileState::owned;
}

Version TileDirectory::begin_write_back(Replica& replica) {
  TileEntry& entry = *replica.entry;
  const bool again = entry.writing == replica.version;  // after a failed copy
  if (entry.writing != TileEntry::none && !again)
    throw InternalError("cache: another version of the tile is being written");
  if (replica.superseded) throw InternalError("cache: an old version was to be written back");
  if (entry.output.get() == &replica) make_readable(replica);
  if (entry.host == replica.version) throw InternalError("cache: host memory has this version already");
  entry.writing = replica.version;
  return std::exchange(entry.host, TileEntry::none);
}

void TileDirectory::cancel_write_back(const Replica& replica, Version host) {
  replica.entry->writing = TileEntry::none;
  replica.entry->host = host;
}

void TileDirectory::end_write_back(const Replica& replica) {
  TileEntry& entry = *replica.entry;
  if (entry.writing != replica.version) throw InternalError("cache: no write-back of this version is under way");
  if (!replica.superseded) entry.state = next(entry.state, TileEvent::write_back);
  entry.writing = TileEntry::none;
  entry.host = replica.version;
}

void TileDirectory::touch(Replica& replica) {
  auto& order = order_of_use_[static_cast<std::size_t>(replica.device)];
  order.splice(order.begin(), order, replica.position);
}

template <class MayGo>
Replica* TileDirectory::last_used(int device, index_t later_than, MayGo&& may_go) const {
  const auto& order = order_of_use_[static_cast<std::size_t>(device)];
  Replica* last_used = nullptr;
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    Replica* const replica = *place;
    if (replica->readers != 0 || replica->next_use <= later_than) continue;
    // A copy in flight would still write into the segment; a failed one ends the job anyway.
    if (replica->arriving || !may_go(*replica)) continue;
    last_used = replica;
    later_than = replica->next_use;
    if (later_than == never) break;  // nothing is later
  }
  return last_used;
}

Replica* TileDirectory::eviction_candidate(int device, index_t later_than) const {
  return last_used(device, later_than, [](const Replica& replica) {
    if (replica.loan) return false;
    return replica.superseded || (!replica.output && try_next(replica.entry->state, TileEvent::drop));
  });
}

Replica* TileDirectory::write_back_candidate(int device, index_t later_than) const {
  return last_used(device, later_than, [this](const Replica& replica) {
    return may_flush(replica) && !try_next(replica.entry->state, TileEvent::drop);
  });
}

void TileDirectory::clear() {
  entries_.clear();
  for (auto& order : order_of_use_) order.clear();
}

void TileDirectory::check_entry(const HostTile& tile, const TileEntry& entry, std::vector<std::size_t>& counted) const {
  const auto check = [&](const Replica& replica, bool superseded, Version version) {
    ++counted[static_cast<std::size_t>(replica.device)];
    if (!(replica.tile == tile) || replica.entry != &entry || replica.superseded != superseded)
      throw InternalError("cache: a replica is filed under the wrong tile");
    if (superseded ? replica.version >= version : replica.version != version)
      throw InternalError("cache: a replica is of the wrong version");
    if (replica.readers < 0 || replica.outgoing < 0) throw InternalError("cache: negative count of readers");
  };
  int holders = 0;
  for (std::size_t device = 0; device < entry.replicas.size(); ++device) {
    const auto& replica = entry.replicas[device];
    if (!replica) continue;
    ++holders;
    check(*replica, false, entry.version);
    if (static_cast<std::size_t>(replica->device) != device)
      throw InternalError("cache: a replica is on the wrong device");
  }
  for (const auto& replica : entry.superseded) check(*replica, true, entry.version + (entry.output ? 1 : 0));
  if (entry.output) check(*entry.output, false, entry.version + 1);
  const Coherence writer = entry.output ? Coherence{TileState::modified, 1} : Coherence{};
  if (entry.output_state != writer) throw InternalError("cache: the state of an output is wrong");
  const bool host_has = entry.host == entry.version;
  const Coherence state = host_has || holders == 0 ? clean(holders) : Coherence{TileState::owned, holders};
  if (entry.state != state) throw InternalError("cache: the state of a tile is wrong");
  if (!host_has && holders == 0 && !entry.output) throw InternalError("cache: nobody has the last version of a tile");
  if (entry.host > entry.version || entry.writing > entry.version)
    throw InternalError("cache: host memory has a version before it is complete");
}

void TileDirectory::check_invariants() const {
  std::vector<std::size_t> counted(static_cast<std::size_t>(devices_), 0);
  for (const auto& [tile, entry] : entries_) check_entry(tile, entry, counted);
  for (std::size_t device = 0; device < counted.size(); ++device) {
    if (counted[device] != order_of_use_[device].size()) throw InternalError("cache: order of use is incomplete");
  }
}

}  // namespace tessera::cache
