#include "tests/cache/coherence_model.hpp"

#include <algorithm>

namespace tessera::cache::model {

void ChosenDevice::copy(device::StreamKind kind, device::Block to, device::Block from) {
  auto* const target = reinterpret_cast<std::int64_t*>(to.address);
  *target = garbage;
  streams_[static_cast<std::size_t>(device::stream_number({kind}))].push_back(
      {.to = target, .from = reinterpret_cast<const std::int64_t*>(from.address)});
}

device::EventPtr ChosenDevice::record(device::StreamId stream) {
  auto event = std::make_shared<ChosenEvent>();
  streams_[static_cast<std::size_t>(device::stream_number(stream))].push_back({.event = event});
  return event;
}

void ChosenDevice::wait(device::StreamId stream, const device::EventPtr& event) {
  streams_[static_cast<std::size_t>(device::stream_number(stream))].push_back(
      {.event = std::static_pointer_cast<ChosenEvent>(event), .waits = true});
}

void ChosenDevice::end_copy(int stream) {
  Stream& queue = streams_[static_cast<std::size_t>(stream)];
  const Work& copy = queue.front();
  require(copy.seen == *copy.from, "what a copy reads does not change while it may be under way");
  require(*copy.from != garbage, "what a copy reads is whole");
  *copy.to = *copy.from;
  queue.pop_front();
}

bool ChosenDevice::advance() {
  bool any = false;
  for (Stream& queue : streams_) {
    while (!queue.empty() && queue.front().to == nullptr && (!queue.front().waits || queue.front().event->complete)) {
      queue.front().event->complete = true;
      queue.pop_front();
      any = true;
    }
    if (!queue.empty() && queue.front().to != nullptr && !queue.front().seen) queue.front().seen = *queue.front().from;
  }
  return any;
}

World::World(const Scenario& scenario) : scenario_(scenario), progress_(scenario.tasks.size()) {
  std::vector<CacheDevice> places;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    devices_[d] = std::make_unique<ChosenDevice>(scenario.slots[d]);
    places.push_back({devices_[d].get(), devices_[d]->slab(), scenario.slots[d] * heap::FreeList::alignment});
  }
  cache_.emplace(places);
  cache_->begin_job(sizeof(std::int64_t), sizeof(std::int64_t));
  for (int t = 0; t < tiles; ++t) host_[static_cast<std::size_t>(t)] = value_of(t, 0);
}

HostTile World::tile(int number) const {
  return {reinterpret_cast<std::byte*>(&host_[static_cast<std::size_t>(number)]), 1, 1, 1};
}

// Tasks of a client begin one after the other. A device begins as many as its slots hold at their largest need, as
// lanes do.
bool World::may_begin(std::size_t t) const {
  const Task& task = scenario_.tasks[t];
  std::size_t taken = slots_of(task);
  for (std::size_t other = 0; other < progress_.size(); ++other) {
    const Task& beside = scenario_.tasks[other];
    if (other == t || beside.device != task.device || progress_[other].stage == done) continue;
    if (beside.client == task.client && other < t) return false;
    if (progress_[other].began) taken += slots_of(beside);
  }
  if (taken > scenario_.slots[static_cast<std::size_t>(task.device)]) return false;
  return std::all_of(task.reads.begin(), task.reads.end(),
                     [&](const Access& read) { return latest(read.tile) == read.version; }) &&
         (task.way == Way::none || latest(task.output.tile) == task.output.version - 1) &&
         (task.way == Way::none || readers_are(task, computes, task.way == Way::update ? computes : pins)) &&
         writers_are_done(task);
}

// Whether the readers of the version before the writer's have reached these stages.
bool World::readers_are(const Task& writer, Stage on_its_device, Stage elsewhere) const {
  for (std::size_t t = 0; t < progress_.size(); ++t) {
    const Task& task = scenario_.tasks[t];
    if (&task == &writer) continue;
    for (const Access& read : task.reads) {
      if (read.tile != writer.output.tile || read.version != writer.output.version - 1) continue;
      if (progress_[t].stage < (task.device == writer.device ? on_its_device : elsewhere)) return false;
    }
  }
  return true;
}

// Whether earlier versions that go home have been written back.
bool World::writers_are_done(const Task& writer) const {
  for (std::size_t t = 0; t < progress_.size(); ++t) {
    const Task& task = scenario_.tasks[t];
    const bool precedes =
        goes_home(task.way) && task.output.tile == writer.output.tile && task.output.version < writer.output.version;
    if (precedes && writer.way != Way::none && progress_[t].stage != done) return false;
  }
  return true;
}

bool World::may_step(std::size_t t) const {
  const Task& task = scenario_.tasks[t];
  const Progress& progress = progress_[t];
  const auto is_here = [](const Replica* replica) {
    return !replica->ready || replica->ready->status() == device::EventStatus::complete;
  };
  switch (progress.stage) {
    case pins:
      return progress.began || may_begin(t);
    case takes:
      return true;
    case updates:
      return true;  // the cache decides whether it can
    case computes:
      return std::all_of(progress.held.begin(), progress.held.end(), is_here) &&
             (progress.output == nullptr || is_here(progress.output));
    case publishes:
      return (task.way != Way::replace && task.way != Way::solve) || readers_are(task, computes, computes);
    case writes:
      return readers_are(task, writes, writes);
    case finishes:
      return progress.written->status() == device::EventStatus::complete;
    case done:
      break;
  }
  return false;
}

void World::step(std::size_t t) {
  const Task& task = scenario_.tasks[t];
  Progress& progress = progress_[t];
  switch (progress.stage) {
    case pins:
      return pin_next(task, progress);
    case takes:
      return take_output(task, progress);
    case updates:
      if (cache_->update(progress.output)) progress.stage = computes;
      return;
    case computes:
      compute(task, progress);
      progress.stage = publishes;
      return;
    case publishes:
      return publish(task, progress);
    case writes: {
      if (!cache_->may_write_back(progress.output)) return;
      bool begun = false;
      progress.written = cache_->write_back(progress.output, 0, begun);
      progress.stage = finishes;
      return;
    }
    case finishes:
      cache_->finish_output(progress.output);
      latest_[static_cast<std::size_t>(task.output.tile)] = task.output.version;
      progress.stage = done;
      return;
    case done:
      return;
  }
}

void World::pin_next(const Task& task, Progress& progress) {
  progress.began = true;
  if (progress.held.size() < task.reads.size()) {
    const Access read = task.reads[progress.held.size()];
    Replica* const pinned = cache_->pin(task.device, tile(read.tile));
    if (pinned == nullptr) return;
    require(pinned->version == read.version, "a reader gets the version that it asks for");
    progress.held.push_back(pinned);
  }
  if (progress.held.size() == task.reads.size()) progress.stage = task.way == Way::none ? computes : takes;
}

void World::take_output(const Task& task, Progress& progress) {
  const HostTile output = tile(task.output.tile);
  progress.output = task.way == Way::update ? cache_->pin(task.device, output)
                                            : cache_->acquire_output(task.device, output, task.way == Way::product);
  if (progress.output != nullptr) progress.stage = task.way == Way::update ? updates : computes;
}

void World::compute(const Task& task, const Progress& progress) const {
  const auto at = [](const Replica* replica) { return reinterpret_cast<std::int64_t*>(replica->address); };
  for (std::size_t r = 0; r < progress.held.size(); ++r) {
    require(*at(progress.held[r]) == value_of(task.reads[r].tile, task.reads[r].version),
            "a kernel sees the version that it asked for");
  }
  if (progress.output == nullptr) return;
  const auto [number, version] = task.output;
  if (task.way == Way::update || task.way == Way::product)
    require(*at(progress.output) == value_of(number, version - 1), "an update sees the version before its own");
  require(progress.output->version == version, "a writer makes the next version");
  *at(progress.output) = value_of(number, version);
}

void World::publish(const Task& task, Progress& progress) {
  for (Replica* const read : progress.held) cache_->release(read);
  progress.held.clear();
  progress.stage = goes_home(task.way) ? writes : done;
  if (task.way == Way::none || task.way == Way::product || task.way == Way::beside) return;
  cache_->publish(progress.output);
  latest_[static_cast<std::size_t>(task.output.tile)] = task.output.version;
  if (!goes_home(task.way)) cache_->release(progress.output);
}

bool World::wants_room(int device) const {
  for (std::size_t t = 0; t < progress_.size(); ++t) {
    const Stage stage = progress_[t].stage;
    if (scenario_.tasks[t].device == device && (stage == pins || stage == takes) && may_step(t)) return true;
  }
  return false;
}

bool World::all_done() const {
  return std::all_of(progress_.begin(), progress_.end(), [](const Progress& task) { return task.stage == done; });
}

std::vector<Move> World::moves() const {
  std::vector<Move> result;
  for (int d = 0; d < devices; ++d) {
    for (int s = 0; s < device::stream_count; ++s) {
      if (devices_[static_cast<std::size_t>(d)]->can_end(s)) result.push_back({Move::Kind::copy, d, s});
    }
    result.push_back({Move::Kind::collect, d});
    if (wants_room(d) && cache_->directory().write_back_candidate(d) != nullptr)
      result.push_back({Move::Kind::flush_to_evict, d});
    if (all_done()) result.push_back({Move::Kind::flush_all, d});
  }
  for (std::size_t t = 0; t < progress_.size(); ++t) {
    if (may_step(t)) result.push_back({Move::Kind::task, static_cast<int>(t)});
    const Task& task = scenario_.tasks[t];
    const bool reads_next = progress_[t].held.size() < task.reads.size() && progress_[t].stage == pins;
    if (!progress_[t].began && reads_next && latest(task.reads[0].tile) == task.reads[0].version)
      result.push_back({Move::Kind::prefetch, task.device, task.reads[0].tile});
  }
  return result;
}

void World::make(const Move& move) {
  switch (move.kind) {
    case Move::Kind::copy:
      devices_[static_cast<std::size_t>(move.device)]->end_copy(move.stream);
      break;
    case Move::Kind::task:
      step(static_cast<std::size_t>(move.device));
      break;
    case Move::Kind::collect:
      cache_->collect(move.device);
      break;
    case Move::Kind::prefetch:
      if (cache_->directory().version(tile(move.stream)) == latest(move.stream))  // no unpublished output
        cache_->prefetch(move.device, tile(move.stream), 0);
      break;
    case Move::Kind::flush_to_evict:
      cache_->flush_to_evict(move.device);
      break;
    case Move::Kind::flush_all:
      cache_->flush_all(move.device);
      break;
  }
  for (bool any = true; any;) {
    any = false;
    for (const auto& device : devices_) any = device->advance() || any;
  }
}

bool World::finished() const {
  bool over = all_done();
  for (const auto& device : devices_) {
    for (const auto& stream : device->streams()) over = over && stream.empty();
  }
  for (int t = 0; t < tiles; ++t) over = over && cache_->directory().host_has(tile(t));
  return over;
}

// A tile in host memory or on a device; nothing else is copied.
std::string World::name_of(const std::int64_t* address) const {
  for (int t = 0; t < tiles; ++t) {
    if (address == &host_[static_cast<std::size_t>(t)]) return "h" + std::to_string(t);
  }
  std::string name;
  for (int d = 0; d < devices; ++d) {
    int n = 0;
    cache_->directory().for_each(d, [&](const Replica& replica) {
      if (reinterpret_cast<const std::int64_t*>(replica.address) == address)
        name = std::to_string(d) + '.' + std::to_string(n);
      ++n;
    });
  }
  require(!name.empty(), "copies go from and to tiles that are there");
  return name;
}

std::string World::fingerprint() const {
  std::string text;
  const auto add = [&text](auto... numbers) { ((text += std::to_string(numbers), text += ','), ...); };
  std::map<const device::Event*, std::string> recorded;
  for (int d = 0; d < devices; ++d) {
    for (const auto& stream : devices_[static_cast<std::size_t>(d)]->streams()) {
      for (const ChosenDevice::Work& work : stream) {
        if (work.event && !work.waits)
          recorded.emplace(work.event.get(), std::to_string(d) + ':' + std::to_string(recorded.size()));
      }
    }
  }
  const auto event_name = [&](const device::Event* event) {
    const auto known = recorded.find(event);
    return known == recorded.end() ? std::string("-") : known->second;
  };
  for (int t = 0; t < tiles; ++t) {
    add(host_[static_cast<std::size_t>(t)], latest(t));
    if (const TileEntry* const entry = cache_->directory().entry(tile(t)))
      add(entry->version, entry->host, entry->writing);
    text += ';';
  }
  for (int d = 0; d < devices; ++d) {
    cache_->directory().for_each(d, [&](const Replica& replica) {
      const auto number = reinterpret_cast<std::int64_t*>(replica.tile.address) - host_.data();
      add(number, replica.version, replica.output, replica.superseded, replica.arriving, replica.readers,
          replica.outgoing, *reinterpret_cast<const std::int64_t*>(replica.address));
      text += event_name(replica.ready.get());
    });
    for (const auto& stream : devices_[static_cast<std::size_t>(d)]->streams()) {
      text += '/';
      for (const ChosenDevice::Work& work : stream)
        text += work.to != nullptr ? name_of(work.from) + '>' + name_of(work.to) : event_name(work.event.get());
    }
    text += ';';
  }
  for (const Progress& task : progress_) {
    add(static_cast<int>(task.stage), task.began, task.held.size());
    for (const Replica* held : task.held) text += name_of(reinterpret_cast<const std::int64_t*>(held->address));
    if (task.written) text += event_name(task.written.get());
  }
  return text;
}

// The last version of a tile that is whole, and each copy that may be read, hold the number of that version.
void World::check() const {
  cache_->check_invariants();
  for (int t = 0; t < tiles; ++t) {
    const TileEntry* const entry = cache_->directory().entry(tile(t));
    const std::int64_t in_host = host_[static_cast<std::size_t>(t)];
    if (entry == nullptr || entry->host != TileEntry::none)
      require(in_host == value_of(t, entry == nullptr ? 0 : entry->host),
              "host memory holds the version it is said to");
    if (entry == nullptr) continue;
    for (const auto& replica : entry->replicas) {
      if (replica && !replica->arriving)
        require(*reinterpret_cast<const std::int64_t*>(replica->address) == value_of(t, replica->version),
                "a replica that has arrived holds its version");
    }
  }
}

void World::check_end() {
  for (int t = 0; t < tiles; ++t)
    require(host_[static_cast<std::size_t>(t)] == value_of(t, latest(t)),
            "host memory holds the last version at the end");
  for (int d = 0; d < devices; ++d) cache_->collect(d);
  for (int d = 0; d < devices; ++d) require(cache_->counters(d).pinned == 0, "at the end nothing is pinned");
  cache_->begin_job(sizeof(std::int64_t), sizeof(std::int64_t));
  for (int d = 0; d < devices; ++d)
    require(cache_->directory().replica_count(d) == 0, "a job that comes after knows nothing of this one");
}

}  // namespace tessera::cache::model
