#include "cache/tile_directory.hpp"

#include <utility>

#include "core/error.hpp"

namespace tessera::cache {

TileDirectory::TileDirectory(int devices) : devices_(devices), order_of_use_(static_cast<std::size_t>(devices)) {}

Replica* TileDirectory::find(int device, const HostTile& tile) const {
  const auto entry = entries_[0].find(tile);
  return entry == entries_[0].end() ? nullptr : entry->second.replicas[static_cast<std::size_t>(device)].get();
}

std::vector<Replica*> TileDirectory::holders(const HostTile& tile) const {
  std::vector<Replica*> result;
  const auto entry = entries_[0].find(tile);
  if (entry == entries_[0].end()) return result;
  for (const auto& replica : entry->second.replicas) {
    if (replica) result.push_back(replica.get());
  }
  return result;
}

Coherence TileDirectory::coherence(const HostTile& tile, bool output) const {
  const Entries& entries = entries_[output ? 1 : 0];
  const auto entry = entries.find(tile);
  return entry == entries.end() ? Coherence{} : entry->second.coherence;
}

TileDirectory::Entry& TileDirectory::entry_of(const HostTile& tile, bool output) {
  Entries& entries = entries_[output ? 1 : 0];
  if (const auto known = entries.find(tile); known != entries.end()) return known->second;
  Entry entry;
  entry.replicas.resize(static_cast<std::size_t>(devices_));
  return entries.emplace(tile, std::move(entry)).first->second;
}

Replica& TileDirectory::insert(int device, const HostTile& tile, std::byte* address, TileEvent event) {
  const bool output = event == TileEvent::write;
  const Coherence after = next(coherence(tile, output), event);
  if (!output && find(device, tile) != nullptr) throw InternalError("cache: the device already holds this tile");
  auto replica = std::make_unique<Replica>();
  replica->tile = tile;
  replica->device = device;
  replica->output = output;
  replica->address = address;
  std::list<Replica*> place(1, replica.get());
  Entry& entry = entry_of(tile, output);
  // Nothing throws from here on: where memory ran out before, no other device finds a replica that nobody fills.
  replica->position = place.begin();
  auto& order = order_of_use_[static_cast<std::size_t>(device)];
  order.splice(order.begin(), place);
  entry.coherence = after;
  auto& slot = entry.replicas[static_cast<std::size_t>(device)];
  slot = std::move(replica);
  return *slot;
}

void TileDirectory::erase(Replica& replica, TileEvent event) {
  if (replica.readers != 0) throw InternalError("cache: a tile that is still read was to be removed");
  Entries& entries = entries_[replica.output ? 1 : 0];
  const auto entry = entries.find(replica.tile);
  entry->second.coherence = next(entry->second.coherence, event);
  const auto device = static_cast<std::size_t>(replica.device);
  order_of_use_[device].erase(replica.position);
  const bool last = entry->second.coherence.holders == 0;
  entry->second.replicas[device].reset();
  if (last) entries.erase(entry);
}

void TileDirectory::publish(Replica& output) {
  const auto entry = entries_[1].find(output.tile);
  const Coherence after = next(entry->second.coherence, TileEvent::write_back_keep);
  if (coherence(output.tile).holders != 0) throw InternalError("cache: the old value of a finished tile is still held");
  Entry& readable = entry_of(output.tile, false);
  readable.coherence = after;
  const auto device = static_cast<std::size_t>(output.device);
  readable.replicas[device] = std::move(entry->second.replicas[device]);
  output.output = false;
  entries_[1].erase(entry);
}

void TileDirectory::touch(Replica& replica) {
  auto& order = order_of_use_[static_cast<std::size_t>(replica.device)];
  order.splice(order.begin(), order, replica.position);
}

Replica* TileDirectory::eviction_candidate(int device, index_t later_than) const {
  const auto& order = order_of_use_[static_cast<std::size_t>(device)];
  Replica* last_used = nullptr;
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    Replica* const replica = *place;
    if (replica->readers != 0 || replica->next_use <= later_than) continue;
    // A copy in flight would still write into the segment; a failed one ends the job anyway.
    if (replica->ready && replica->ready->status() != device::EventStatus::complete) continue;
    last_used = replica;
    later_than = replica->next_use;
    if (later_than == never) break;  // nothing is later
  }
  return last_used;
}

void TileDirectory::clear() {
  for (Entries& entries : entries_) entries.clear();
  for (auto& order : order_of_use_) order.clear();
}

void TileDirectory::check_invariants() const {
  std::vector<std::size_t> counted(static_cast<std::size_t>(devices_), 0);
  const auto check_entry = [&](const HostTile& tile, const Entry& entry, bool output) {
    int holders = 0;
    for (std::size_t device = 0; device < entry.replicas.size(); ++device) {
      const auto& replica = entry.replicas[device];
      if (!replica) continue;
      ++holders;
      ++counted[device];
      if (!(replica->tile == tile) || static_cast<std::size_t>(replica->device) != device ||
          replica->output != output) {
        throw InternalError("cache: a replica is filed under the wrong tile or device");
      }
      if (replica->readers < 0 || replica->outgoing < 0) throw InternalError("cache: negative count of readers");
    }
    if (holders == 0) throw InternalError("cache: an entry without replica");
    if (holders != entry.coherence.holders) throw InternalError("cache: holder count is wrong");
    const bool modified = entry.coherence.state == TileState::modified;
    if (modified != output) throw InternalError("cache: a readable tile is modified, or an output is not");
    if (modified && holders != 1) throw InternalError("cache: a modified tile has several holders");
    if (!modified && entry.coherence.state != reading_state(holders)) throw InternalError("cache: state is wrong");
  };
  for (const bool output : {false, true}) {
    for (const auto& [tile, entry] : entries_[output ? 1 : 0]) check_entry(tile, entry, output);
  }
  for (std::size_t device = 0; device < counted.size(); ++device) {
    if (counted[device] != order_of_use_[device].size()) throw InternalError("cache: order of use is incomplete");
  }
}

}  // namespace tessera::cache
