#include "runtime/tiles/old_values.hpp"

#include <memory>
#include <utility>

#include "core/scalar.hpp"

namespace tessera::runtime {
namespace {

class PeerCopy final : public OldCopy {
 public:
  PeerCopy(cache::TileCache& cache, cache::KeptTile kept) : cache_(cache), kept_(std::move(kept)) {}
  ~PeerCopy() override { cache_.drop(kept_); }
  PeerCopy(const PeerCopy&) = delete;
  PeerCopy& operator=(const PeerCopy&) = delete;

  bool is_whole() const override { return kept_.done->status() == device::EventStatus::complete; }
  bool has_failed() const override { return kept_.done->status() == device::EventStatus::failed; }
  device::EventPtr read_on_device() const override { return kept_.done; }
  int holder() const override { return kept_.holder; }
  bool restore() noexcept override { return cache_.restore(kept_); }

 private:
  cache::TileCache& cache_;
  const cache::KeptTile kept_;
};

}  // namespace

void OldValues::begin_job(cache::TileCache& cache, const TaskGraph& graph, const std::vector<bool>& working) {
  cache_ = &cache;
  element_bytes_ = static_cast<index_t>(element_bytes(graph.type));
  const int devices = static_cast<int>(working.size());
  peers_.assign(working.size(), {});
  const auto works = [&](int d) { return working[static_cast<std::size_t>(d)]; };
  for (int d = 0; on_peers_ && d < devices; ++d) {
    // The next device first, so that each has another first one.
    for (int distance = 1; works(d) && distance < devices; ++distance) {
      const int peer = (d + distance) % devices;
      if (works(peer) && cache.are_connected(d, peer) && graph.fits(cache.slots(peer)))
        peers_[static_cast<std::size_t>(d)].push_back(peer);
    }
  }
}

OldValues::Begin OldValues::begin(const Tile& old, When when, Signal& changed, OldCopyPtr& copy) {
  const bool on_peer = has_peers(old.device);
  if (on_peer && when != When::due) {
    const cache::Keep kept = begin_on_peer(old, when, copy);
    if (kept != cache::Keep::no_memory) return kept == cache::Keep::begun ? Begin::begun : Begin::later;
  }
  if (host_ == nullptr) return Begin::never;
  const auto when_on_host = when == When::due ? HostCopies::When::due : HostCopies::When::ahead;
  if (!host_->has_memory(old.tile, element_bytes_, when_on_host, changed)) return Begin::later;
  copy = host_->copy(this, old.tile, element_bytes_, when_on_host, changed);
  return copy ? Begin::begun : Begin::never;
}

cache::Keep OldValues::begin_on_peer(const Tile& old, When when, OldCopyPtr& copy) {
  cache::KeptTile kept;
  const cache::Keep begun =
      cache_->keep(old.device, old.tile, old.output, when == When::last_read, peers_of(old.device), old.task, kept);
  if (begun == cache::Keep::begun) copy = std::make_shared<PeerCopy>(*cache_, std::move(kept));
  return begun;
}

void OldValues::stop_copying() noexcept {
  if (host_ != nullptr) host_->stop_copying(this);
}

}  // namespace tessera::runtime
