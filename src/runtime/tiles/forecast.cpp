#include "runtime/tiles/forecast.hpp"

#include <algorithm>

namespace tessera::runtime {

index_t Forecast::first_wave(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
  index_t first = graph.wave(tasks.front(), 0);
  for (const TaskId task : tasks) first = std::min(first, graph.wave(task, 0));
  return first;
}

void Forecast::append(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
  if (tasks.empty()) return;
  const index_t begin = first_wave(graph, tasks);
  const std::size_t first = places_.size();
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (index_t l = 0; l < graph.step_count(tasks[t]); ++l) {
      const std::size_t position = first + static_cast<std::size_t>(graph.wave(tasks[t], l) - begin) * tasks.size() + t;
      if (position >= places_.size()) places_.resize(position - (position - first) % tasks.size() + tasks.size());
      places_[position] = {tasks[t], l};
    }
  }
  for (std::size_t position = first; position < places_.size(); ++position) {
    const Place place = places_[position];
    if (place.task == no_task) continue;
    const Step step = graph.step(place.task, place.step);
    for (const Read* read : {&step.a, &step.b}) {
      if (read->exists()) uses_[read->tile].push_back(static_cast<index_t>(position));
    }
  }
}

index_t Forecast::next_use(const HostTile& tile, index_t position) const {
  const auto found = uses_.find(tile);
  if (found == uses_.end()) return cache::never;
  const std::vector<index_t>& positions = found->second;
  const auto next = std::upper_bound(positions.begin(), positions.end(), position);
  return next == positions.end() ? cache::never : *next;
}

}  // namespace tessera::runtime
