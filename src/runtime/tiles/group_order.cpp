#include "runtime/tiles/group_order.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::runtime {

void GroupOrder::begin(const TaskPool& /*job*/, std::size_t lanes) {
  clear();
  active_ = lanes;
}

void GroupOrder::clear() {
  group_.clear();
  forecast_.clear();
  tasks_.clear();
  begin_ = end_ = position_ = prefetched_ = 0;
}

bool GroupOrder::refill(TaskPool& job) {
  const bool has_some = !group_.empty() || job.station(static_cast<std::size_t>(place_.index)).size() > 0;
  return !has_some && intake_.draw_group(job, false);
}

// Submits one step of the group's tasks. They take turns, so that the next steps are known.
bool GroupOrder::submit(TaskPool& job) {
  if (job.breakdown().has_happened())
    std::erase_if(group_, [&](const auto& entry) { return drop(job, entry.second.submission); });
  if ((group_.empty() || may_take_early(job)) && !take_group(job) && group_.empty()) return false;
  // A step whose operand is still being computed lets others pass.
  const auto next = std::find_if(group_.begin(), group_.end(),
                                 [&](const auto& entry) { return is_readable(job, entry.second.submission); });
  if (next == group_.end()) return false;
  position_ = next->first;
  Submission& submission = next->second.submission;
  // As in LaneOrder::stream_for().
  const bool factors = job.graph().factors && job.graph().step(submission.task, submission.next_step).factors();
  const std::size_t lane = factors ? 0 : static_cast<std::size_t>(next->second.turn) % active_;
  if (pipeline_.kernels_in(lane) >= run_ahead) return false;
  if (!ask(job, submission)) return false;
  pipeline_.launch(job, static_cast<int>(lane), submission);
  auto node = group_.extract(next);
  if (node.mapped().submission.ended()) return true;
  node.key() = node.mapped().position();
  group_.insert(std::move(node));
  return true;
}

// The next group is taken when the end of this one is in sight, so that its old values come in time. Besides, there is
// then something to do where the last tasks of a group wait for each other.
bool GroupOrder::may_take_early(TaskPool& job) const {
  const auto next = static_cast<index_t>(job.station(static_cast<std::size_t>(place_.index)).size());
  const auto& [position, turn] = *group_.begin();
  return next > 0 && turn.first_position == begin_ && end_ - position <= 2 * lookahead() &&
         intake_.outputs() + next <= intake_.room_for_outputs(job.graph());
}

// Takes the tasks in the station, else stolen ones.
std::vector<Submission> GroupOrder::take_tasks(TaskPool& job) {
  const ReservationStation& station = job.station(static_cast<std::size_t>(place_.index));
  std::vector<Submission> tasks;
  for (;;) {
    const std::int64_t stolen = intake_.stolen();
    auto task = intake_.take(job, true, [&] { return refill(job); });
    if (!task) break;
    tasks.push_back(std::move(*task));
    if (station.size() > 0) continue;
    // A device that has to steal takes its share of the tasks that are left, not one task after the other. In ordered
    // graphs nothing else says when to stop.
    const bool enough = job.graph().ordered && tasks.size() >= active_;
    if (intake_.stolen() == stolen || !group_.empty() || enough) break;
  }
  std::sort(tasks.begin(), tasks.end(), [](const Submission& a, const Submission& b) { return a.task < b.task; });
  return tasks;
}

// The tasks in the station become a group that is worked on, and the next group takes their place in the station.
bool GroupOrder::take_group(TaskPool& job) {
  std::vector<Submission> taken = take_tasks(job);
  if (taken.empty()) return false;
  const ReservationStation& station = job.station(static_cast<std::size_t>(place_.index));
  if (station.size() == 0) intake_.draw_group(job, true);
  continue_forecast(job);
  tasks_.clear();
  for (const Submission& submission : taken) tasks_.push_back(submission.task);
  const index_t first_wave = Forecast::first_wave(job.graph(), tasks_);
  begin_ = forecast_.end();
  const auto turns = static_cast<index_t>(tasks_.size());
  for (index_t turn = 0; turn < turns; ++turn) {
    Turn next{std::move(taken[static_cast<std::size_t>(turn)]), begin_, first_wave, turns, turn};
    const index_t position = next.position();
    group_.emplace(position, std::move(next));
  }
  forecast_.append(job.graph(), tasks_);
  end_ = forecast_.end();
  forecast_.append(job.graph(), station.ordered());
  position_ = prefetched_ = group_.begin()->first;
  place_.cache.set_next_uses(place_.index,
                             [&](const HostTile& tile) { return forecast_.next_use(tile, position_ - 1); });
  return true;
}

// Positions count anew from the begin of the group that is still worked on, if there is one.
void GroupOrder::continue_forecast(const TaskPool& job) {
  forecast_.clear();
  if (!group_.empty()) forecast_.append(job.graph(), tasks_);
  std::map<index_t, Turn> unfinished;
  for (auto& [position, turn] : group_) {
    turn.first_position -= begin_;
    unfinished.emplace(position - begin_, std::move(turn));
  }
  group_ = std::move(unfinished);
}

index_t GroupOrder::next_use(const HostTile& tile) const {
  return group_.empty() ? cache::never : forecast_.next_use(tile, position_);
}

// Waiting for the results of the group before is better than evicting tiles that are about to be read.
index_t GroupOrder::needed_soon() const {
  return !group_.empty() && room_will_come() ? position_ + 2 * lookahead() : -1;
}

// Fetches the tiles that the steps to come read, in their order.
bool GroupOrder::prefetch(TaskPool& job) {
  const index_t begin = group_.empty() ? position_ : group_.begin()->first;
  const index_t end = std::min(forecast_.end(), begin + 2 * lookahead());
  // A tile that is read again makes room only for tiles that are read at once, else it is fetched again for nothing. At
  // once is about as many positions ahead as a group of r c tasks reads tiles in a wave, r + c >= 2 sqrt(r c). For
  // positions further ahead, only tiles that are read no more make room.
  const index_t near = begin + static_cast<index_t>(2 * std::sqrt(static_cast<double>(tasks_.size())));
  bool any = false;
  for (prefetched_ = std::max(prefetched_, begin); prefetched_ < end; ++prefetched_) {
    const Forecast::Place place = forecast_.at(prefetched_);
    if (place.task == no_task) continue;
    if (place.step == 0 && !prefetch_output(job, prefetched_, end, any)) return any;
    const Step step = job.graph().step(place.task, place.step);
    for (const Read* read : {&step.a, &step.b}) {
      if (!read->exists() || !job.readable(*read, place.task)) continue;
      if (place_.link_has_enough()) return any;
      const cache::Prefetch outcome = place_.cache.prefetch(place_.index, read->tile, 0, prefetched_,
                                                            prefetched_ < near ? prefetched_ : cache::never - 1);
      if (outcome == cache::Prefetch::no_memory) return any;
      any |= outcome == cache::Prefetch::started;
    }
  }
  return any;
}

// The old value of the task that begins there. @return whether more may be fetched
bool GroupOrder::prefetch_output(const TaskPool& job, index_t position, index_t end, bool& any) {
  const auto starting = group_.find(position);
  if (starting == group_.end() || starting->second.submission.output != nullptr) return true;
  Submission& submission = starting->second.submission;
  const Output output = job.graph().output(submission.task);
  if (!output.reads_old) return true;
  if (place_.link_has_enough()) return false;
  submission.output = place_.cache.acquire_output(place_.index, output.tile, true, end);
  if (submission.output == nullptr) return false;
  any = true;
  return true;
}

}  // namespace tessera::runtime
