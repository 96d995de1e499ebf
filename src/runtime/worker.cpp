#include "runtime/worker.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "core/error.hpp"
#include "core/level3.hpp"
#include "core/process.hpp"
#include "core/thread.hpp"
#include "runtime/room.hpp"

namespace tessera::runtime {

using device::EventStatus;
using device::StreamId;
using device::StreamKind;

namespace {

bool completed(const device::EventPtr& event) {
  switch (event->status()) {
    case EventStatus::pending:
      return false;
    case EventStatus::complete:
      return true;
    case EventStatus::failed:
      break;
  }
  throw DeviceLost("work submitted to the device has failed");
}

}  // namespace

Worker::Outcome Worker::run(Job& job) noexcept {
  // A device that tells of completed work wakes us; the long timeout only bounds how late a changed load estimate is
  // seen. At the end nothing is left for the device to do while we sleep.
  const auto timeout = polls_ ? std::chrono::microseconds(20) : std::chrono::microseconds(2000);
  try {
    begin(job);
    // Yield briefly until all workers have begun, so that they share the first fetches.
    job.arrive();
    yield_until([&job] { return job.all_arrived() || job.ended(); }, begin_patience);
    while (!job.ended() && !process::ending()) {
      const std::uint64_t seen = signal_.version();
      if (advance(job) || job.ended()) continue;
      if (polls_ && job.ends_soon() && !write_backs_.empty()) {
        std::this_thread::yield();
      } else {
        signal_.wait(seen, timeout);
      }
    }
    if (process::ending() && !job.ended()) job.fail();
    // A tile that was fetched ahead for a task which somebody else then took may still be on its way from the caller's
    // memory.
    while (!job.failed() && cache_.is_fetching(index_)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  } catch (...) {
    outcome_.error = text_of(std::current_exception());
    job.fail();
  }
  if (job.failed()) {
    // What was submitted must have ended before the tiles and the caller's memory can be touched again.
    outcome_.usable = device_.recover();
    settle_write_backs();
  }
  try {
    return finish();
  } catch (const std::exception&) {  // no memory: what is lost is the times of operations
    return std::move(outcome_);
  }
}

void Worker::begin(const Job& job) {
  outcome_ = {};
  lanes_ = {};
  held_.clear();
  write_backs_.clear();
  outputs_ = 0;
  prefetched_steps_.clear();
  group_.clear();
  forecast_.clear();
  group_tasks_.clear();
  group_begin_ = group_end_ = position_ = prefetched_ = 0;
  first_kernel_s_ = 0;
  completed_flops_ = 0;
  const index_t slots_per_lane = 3;  // an output and one step's inputs
  type_ = job.graph().type();
  active_lanes_ =
      static_cast<std::size_t>(std::clamp<index_t>(cache_.slots(index_) / slots_per_lane, 1, device::compute_streams));
  side_by_side_ = job.side_by_side();
  in_turn_ = fetches_in_turn(job);
  by_age_ = side_by_side_ && job.usable_count() == 1;
  if (!job.graph().first_step_last(0)) return;
  for (Lane& lane : lanes_) {
    lane.scratch = cache_.take_scratch(index_);
    if (lane.scratch == nullptr) throw InternalError("worker: no room for scratch");
  }
}

bool Worker::advance(Job& job) {
  bool progress = retire(job);
  progress |= refill(job);
  // One kernel at a time: some take as long to submit as to run, and results that are complete meanwhile should go down
  // first.
  if (job.graph().grouped()) {
    progress |= submit_group(job) || prefetch_forecast(job);
  } else {
    progress |= submit(job) || prefetch(job);
  }
  return progress;
}

Worker::Outcome Worker::finish() {
  cache_.log(index_).resolve();
  outcome_.operations = cache_.log(index_).take_finished();
  for (Lane& lane : lanes_) {
    lane.submissions.clear();
    lane.kernels.clear();
  }
  held_.clear();
  return std::move(outcome_);
}

// Worth it where computing is what takes longest: then the start, when tiles are few, is what is lost. Where the link
// takes longest, tasks should rather end early, so that results go down while tiles come up. Old values then wait,
// which would otherwise come before the first product of each task: for them it is worth it up to twice the time on the
// link.
bool Worker::should_advance_side_by_side(const TaskGraph& graph) const {
  if (!holds_all_of(graph)) return false;
  const device::DeviceInfo& info = device_.info();
  const double rate = info.flops_per_s[graph.type()];
  if (rate <= 0 || info.link_bytes_per_s <= 0) return true;
  const double worth = graph.output(0).fetch ? 2 : 1;
  return worth * graph.flops() / rate > static_cast<double>(graph.compulsory_up_bytes()) / info.link_bytes_per_s;
}

// Whether tasks that go one after the other fetch everything over one link, where all of it finds room. Then what a
// task asks for comes before what the next ones ask for, and the task ends the sooner after its last tile the less is
// left to do: an addition rather than its products. Several devices would all ask for the tiles that they share first.
bool Worker::fetches_in_turn(const Job& job) const {
  return !side_by_side_ && job.usable_count() == 1 && holds_all_of(job.graph());
}

bool Worker::holds_all_of(const TaskGraph& graph) const { return !graph.grouped() && graph.fits(cache_.slots(index_)); }

// Lets go of everything whose events have completed.
bool Worker::retire(Job& job) {
  // Kernels of a task may be in several lanes, and some complete while we look: whatever came before a kernel that is
  // found complete is so, too, and found by the next pass at the latest. Only then is its result passed on.
  std::vector<Held> results;
  bool any = false;
  while (retire_kernels(job, results)) any = true;
  for (const Held& result : results) {
    if (cache_.all_connected()) publish(job, result.output, result.task);
    held_.push_back(result);
  }
  // Not before the last kernel has completed, so that one that fails leaves the host tile intact.
  any |= std::erase_if(held_, [&](Held& held) {
           // The device that has been lost may be the one that keeps the old value.
           if (job.failed() || !job.may_overwrite(held.task) || !old_is_kept(job, held)) return false;
           write_back(held);
           job.begin_write_back();
           return true;
         }) > 0;
  while (!write_backs_.empty() && completed(write_backs_.front().done)) {
    const WriteBack write_back = std::move(write_backs_.front());
    write_backs_.pop_front();
    // Before anything that may throw: what is in host memory must not be computed again.
    outcome_.done.push_back(write_back.task);
    if (!cache_.all_connected()) publish(job, write_back.output, write_back.task);
    cache_.finish_output(write_back.output);
    --outputs_;
    job.finish_task(write_back.task);
    any = true;
  }
  any |= cache_.collect(index_);
  if (any) cache_.log(index_).resolve();
  return any;
}

bool Worker::retire_kernels(Job& job, std::vector<Held>& results) {
  bool any = false;
  for (Lane& lane : lanes_) {
    while (!lane.kernels.empty() && completed(lane.kernels.front().done)) {
      const Kernel kernel = std::move(lane.kernels.front());
      lane.kernels.pop_front();
      cache_.release(kernel.x);
      if (kernel.y != nullptr) cache_.release(kernel.y);
      completed_flops_ += kernel.flops;
      if (first_kernel_s_ <= 0) first_kernel_s_ = kernel.begun->completed_at();
      job.complete(static_cast<std::size_t>(index_), kernel.flops,
                   completed_flops_ / std::max(kernel.done->completed_at() - first_kernel_s_, 1e-9));
      if (kernel.output != nullptr) results.push_back({kernel.output, kernel.task, kernel.old});
      any = true;
    }
  }
  return any;
}

bool Worker::refill(Job& job) {
  ReservationStation& station = job.station(static_cast<std::size_t>(index_));
  bool any = false;
  if (job.graph().grouped()) {
    if (!group_.empty() || station.size() > 0) return false;
    for (const TaskId task : job.draw_group(false)) {
      station.put({task, job.graph().task_flops(task), 0, false});
      any = true;
    }
    return any;
  }
  while (station.size() < station_tasks_per_lane * active_lanes_) {
    const auto task = job.pop(static_cast<std::size_t>(index_));
    if (!task) break;
    station.put({*task, job.graph().task_flops(*task), 0, false});
    any = true;
  }
  // Also when nothing is left to draw: what has come for the tasks that were taken since may be what others read.
  const bool changed = std::exchange(has_taken_, false) || any;
  if (changed && !job.graph().ordered()) station.refresh([&](TaskId task) { return priority(job.graph(), task); });
  return any;
}

// Eq. 3: 2 for each tile that is here, 1 for each that a peer has or is fetching.
double Worker::priority(const TaskGraph& graph, TaskId task) const {
  // Beyond this many steps a sample spread over the task tells as much.
  constexpr index_t most_steps = 32;
  const index_t steps = graph.step_count(task);
  const index_t stride = (steps + most_steps - 1) / most_steps;
  double sum = 0;
  for (index_t l = 0; l < steps; l += stride) {
    const Step step = graph.step(task, l);
    for (const Operand* operand : {&step.a, &step.b}) {
      if (operand->tile.address != nullptr) sum += static_cast<double>(cache_.locate(index_, operand->tile));
    }
  }
  return sum;
}

// Launches a step whose tiles have come; where there is none, asks for those of one step per lane: tasks advance side
// by side and share what they fetch (Alg. 1). @return whether anything could go on
bool Worker::submit(Job& job) {
  if (launch_oldest(job)) return true;
  bool any = false;
  for (std::size_t index = 0; index < active_lanes_; ++index) {
    Lane& lane = lanes_[index];
    if (wants_another_task(job, lane)) take_task(job, lane);
    any |= ask_for_step(job, lane);
  }
  return any;
}

// One step of the group's tasks, which take turns: what comes next is then known. @return whether there was one that
// could go on
bool Worker::submit_group(Job& job) {
  if ((group_.empty() || may_take_early(job)) && !take_group(job) && group_.empty()) return false;
  // A step whose operand is still being computed lets others pass.
  const auto next =
      std::find_if(group_.begin(), group_.end(), [&](const auto& entry) { return is_readable(job, entry.second); });
  if (next == group_.end()) return false;
  position_ = next->first;
  Submission& submission = next->second;
  const auto lane = static_cast<std::size_t>(submission.turn) % active_lanes_;
  if (lanes_[lane].kernels.size() >= run_ahead) return false;
  if (!ask(job, submission)) return false;
  launch(job, static_cast<int>(lane), submission);
  auto node = group_.extract(next);
  if (node.mapped().ended()) return true;
  node.key() = position_of(node.mapped());
  group_.insert(std::move(node));
  return true;
}

bool Worker::is_readable(const Job& job, const Submission& submission) {
  if (!job.graph().ordered()) return true;
  const Step step = job.graph().nth_step(submission.task, submission.next_step);
  return job.readable(step.a) && job.readable(step.b);
}

// The next group is taken when the end of this one is in sight, so that its old values come in time, and so that there
// is something to do where the last tasks of a group wait for each other.
bool Worker::may_take_early(Job& job) const {
  const auto next = static_cast<index_t>(job.station(static_cast<std::size_t>(index_)).size());
  const auto& [position, submission] = *group_.begin();
  return next > 0 && submission.first_position == group_begin_ && group_end_ - position <= 2 * lookahead() &&
         outputs_ + next <= room_for_outputs(job.graph());
}

// The tasks in the station become a group that is worked on, and the next group takes their place in the station.
bool Worker::take_group(Job& job) {
  ReservationStation& station = job.station(static_cast<std::size_t>(index_));
  Lane taken;
  for (std::int64_t stolen = outcome_.stolen; take_task(job, taken); stolen = outcome_.stolen) {
    if (station.size() > 0) continue;
    // Whoever has to steal takes its share of what is left, not one task after the other. In ordered graphs nothing
    // else says when to stop.
    const bool enough = job.graph().ordered() && taken.submissions.size() >= active_lanes_;
    if (outcome_.stolen == stolen || !group_.empty() || enough) break;
  }
  if (taken.submissions.empty()) return false;
  std::sort(taken.submissions.begin(), taken.submissions.end(),
            [](const Submission& a, const Submission& b) { return a.task < b.task; });
  if (station.size() == 0) {
    for (const TaskId task : job.draw_group(true)) station.put({task, job.graph().task_flops(task), 0, false});
  }

  // Positions count anew from the begin of the group that is still worked on, if there is one.
  forecast_.clear();
  if (!group_.empty()) forecast_.append(job.graph(), group_tasks_);
  std::map<index_t, Submission> unfinished;
  for (auto& [position, submission] : group_) {
    submission.first_position -= group_begin_;
    unfinished.emplace(position - group_begin_, submission);
  }
  group_ = std::move(unfinished);
  group_tasks_.clear();
  for (const Submission& submission : taken.submissions) group_tasks_.push_back(submission.task);
  const index_t first_wave = Forecast::first_wave(job.graph(), group_tasks_);
  group_begin_ = forecast_.end();
  index_t turn = 0;
  for (Submission& submission : taken.submissions) {
    submission.first_position = group_begin_;
    submission.first_wave = first_wave;
    submission.turns = static_cast<index_t>(group_tasks_.size());
    submission.turn = turn++;
    group_.emplace(position_of(submission), submission);
  }
  forecast_.append(job.graph(), group_tasks_);
  group_end_ = forecast_.end();
  forecast_.append(job.graph(), station.ordered());
  position_ = prefetched_ = group_.begin()->first;
  cache_.set_next_uses(index_, [&](const HostTile& tile) { return forecast_.next_use(tile, position_ - 1); });
  return true;
}

index_t Worker::next_use(const HostTile& tile) const {
  return group_.empty() ? cache::never : forecast_.next_use(tile, position_);
}

// Whether something is under way that will let go of tiles.
bool Worker::room_will_come() const {
  return !write_backs_.empty() ||
         std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.kernels.empty(); });
}

// Brings what the steps to come read, in their order.
bool Worker::prefetch_forecast(const Job& job) {
  const index_t begin = group_.empty() ? position_ : group_.begin()->first;
  const index_t end = std::min(forecast_.end(), begin + 2 * lookahead());
  // What is needed again makes room only for what is needed at once, else it is fetched once more for nothing: about as
  // many positions ahead as a group of r c tasks reads tiles in a wave, r + c >= 2 sqrt(r c). Further ahead only what
  // is needed no more.
  const index_t near = begin + static_cast<index_t>(2 * std::sqrt(static_cast<double>(group_tasks_.size())));
  bool any = false;
  for (prefetched_ = std::max(prefetched_, begin); prefetched_ < end; ++prefetched_) {
    const Forecast::Place place = forecast_.at(prefetched_);
    if (place.task == no_task) continue;
    const auto starting = place.step == 0 ? group_.find(prefetched_) : group_.end();
    if (starting != group_.end() && starting->second.output == nullptr) {
      const Output output = job.graph().output(place.task);
      if (output.fetch) {
        if (link_has_enough()) return any;
        starting->second.output = cache_.acquire_output(index_, output.tile, true, end);
        if (starting->second.output == nullptr) return any;
        any = true;
      }
    }
    const Step step = job.graph().step(place.task, place.step);
    for (const Operand* operand : {&step.a, &step.b}) {
      if (operand->tile.address == nullptr || !job.readable(*operand)) continue;
      if (link_has_enough()) return any;
      const cache::Prefetch outcome =
          cache_.prefetch(index_, operand->tile, 0, prefetched_, prefetched_ < near ? prefetched_ : cache::never - 1);
      if (outcome == cache::Prefetch::no_room) return any;
      any |= outcome == cache::Prefetch::started;
    }
  }
  return any;
}

// Whether products have begun and none is left, so that the tiles that the lanes' tasks share are too few or come too
// late for what has been taken: more tasks use the same tiles. Not where so few tasks are left that all would end
// together; not where results of lines that begin together would come later; nor where several devices wait for what
// others fetch and compute, which more tiles in between delay.
bool Worker::starves(Job& job) const {
  if (first_kernel_s_ <= 0 || job.usable_count() > 1 || job.graph().first_step_last(0)) return false;
  return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.kernels.empty(); }) &&
         job.station(static_cast<std::size_t>(index_)).size() >= left_per_lane * active_lanes_;
}

bool Worker::wants_another_task(Job& job, const Lane& lane) const {
  if (lane.submissions.empty()) return lane.kernels.size() < run_ahead;
  if (!side_by_side_ || lane.submissions.size() >= tasks_per_lane) return false;
  bool for_results = false;
  for (const Submission& submission : lane.submissions) {
    if (!submission.asked.empty()) {
      if (has_come(submission)) return false;
    } else if (!is_readable(job, submission)) {
      for_results = true;
    } else if (!starves(job)) {
      return false;
    }
  }
  // What waits for results of other tasks would leave the link without work; what waits for tiles has given it some.
  return !for_results || cache_.queued_bytes(index_) == 0;
}

// Keeps the link from the host busy with what the next tasks need.
bool Worker::prefetch(Job& job) {
  // Room that the lanes may ask for at any moment.
  const auto reserve = static_cast<index_t>(3 * active_lanes_ + write_backs_.size());
  bool any = false;
  if (old_values_ != nullptr && old_values_->has_peers(index_)) {
    for (Lane& lane : lanes_) {
      for (Submission& submission : lane.submissions) keep_old(job, submission, OldValues::When::ahead);
    }
  }
  // Old values that are added last: they are needed when the products are done, and nobody else asks for them.
  for (const Lane& lane : lanes_) {
    for (const Submission& submission : lane.submissions) {
      if (!submission.adds_old() || submission.has_added || submission.output == nullptr) continue;
      if (link_has_enough()) return any;
      any |= cache_.prefetch(index_, submission.output->tile, reserve) == cache::Prefetch::started;
    }
  }
  for (const TaskId task : job.station(static_cast<std::size_t>(index_)).ordered()) {
    const index_t steps = job.graph().step_count(task);
    for (index_t& l = prefetched_steps_[task]; l < steps; ++l) {
      const Step step = job.graph().nth_step(task, l);
      for (const Operand& operand : {step.a, step.b}) {
        if (operand.tile.address == nullptr || operand.after != no_task) continue;
        if (link_has_enough()) return any;
        const cache::Prefetch outcome = cache_.prefetch(index_, operand.tile, reserve);
        if (outcome == cache::Prefetch::no_room) return any;
        any |= outcome == cache::Prefetch::started;
      }
    }
  }
  return any;
}

// An output more must leave room for the inputs of steps.
index_t Worker::room_for_outputs(const TaskGraph& graph) const {
  const auto lanes = static_cast<index_t>(active_lanes_);
  const index_t slots = cache_.slots(index_);
  return std::max<index_t>(graph.grouped() ? slots - 2 * lanes : slots / 3, lanes);
}

bool Worker::take_task(Job& job, Lane& lane) {
  const auto me = static_cast<std::size_t>(index_);
  const bool holds_many = job.graph().ordered() || job.graph().grouped();
  if (holds_many && outputs_ >= room_for_outputs(job.graph())) return false;
  ReservationStation& station = job.station(me);
  auto entry = station.take_best([&](const StationEntry& e) { return job.should_take(me, e.flops); });
  const bool may_steal = job.graph().grouped() || lane.submissions.empty();
  if (!entry && station.size() == 0 && !refill(job) && may_steal) entry = steal(job);
  if (!entry) return false;
  job.take(me, entry->flops);
  has_taken_ = true;
  ++outputs_;
  if (entry->stolen) ++outcome_.stolen;
  lane.submissions.push_back({.task = entry->task,
                              .number = ++taken_,
                              .steps = job.graph().step_count(entry->task),
                              .wave = job.graph().wave(entry->task, 0)});
  return true;
}

// What is at home elsewhere: from the next device that has tasks in its queue, else from the station with the most work
// left, its lowest priority first.
std::optional<StationEntry> Worker::steal(Job& job) {
  const auto me = static_cast<std::size_t>(index_);
  const std::size_t devices = job.device_count();
  for (std::size_t d = 1; d < devices && !job.graph().grouped(); ++d) {
    if (const auto task = job.pop((me + d) % devices)) {
      job.station(me).put({*task, job.graph().task_flops(*task), 0, true});
      return job.station(me).take_best([&](const StationEntry& e) { return job.should_take(me, e.flops); });
    }
  }
  std::size_t victim = me;
  double most = 0;
  for (std::size_t other = 0; other < devices; ++other) {
    const double flops = other == me ? 0 : job.station(other).flops();
    if (flops > most) {
      most = flops;
      victim = other;
    }
  }
  if (victim == me) return std::nullopt;
  auto entry = job.station(victim).steal_worst([&](const StationEntry& e) { return job.should_take(me, e.flops); });
  if (entry) entry->stolen = true;
  return entry;
}

// For the next step of one of the lane's tasks: of the oldest whose tiles are here, so that results go down early, else
// of the one that is furthest behind among those that can go on.
bool Worker::ask_for_step(Job& job, Lane& lane) {
  auto& submissions = lane.submissions;
  const auto may_ask = [](const Submission& submission) {
    return !submission.all_asked() && submission.asked.size() < run_ahead;
  };
  for (Submission& submission : submissions) {
    if (may_ask(submission) && is_here(job, submission) && ask(job, submission)) return true;
  }
  std::vector<Submission*> order;
  for (Submission& submission : submissions) {
    if (may_ask(submission)) order.push_back(&submission);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Submission* x, const Submission* y) { return x->wave < y->wave; });
  return std::any_of(order.begin(), order.end(), [&](Submission* submission) { return ask(job, *submission); });
}

// Launches a step of the oldest task that can go on, unless what has been launched keeps the device busy until we look
// again. What is launched earlier would run before what comes later for an older task, whose result then goes down
// late.
bool Worker::launch_oldest(const Job& job) {
  double backlog = 0;
  std::size_t kernels = 0;
  for (const Lane& lane : lanes_) {
    kernels += lane.kernels.size();
    for (const Kernel& kernel : lane.kernels) backlog += expected_seconds(kernel.flops);
  }
  if (kernels >= fewest_kernels && backlog >= device_.info().profile.backlog_s) return false;
  Lane* lane = nullptr;
  std::vector<Submission>::iterator oldest;
  for (Lane& other : lanes_) {
    if (other.kernels.size() >= run_ahead * tasks_per_lane) continue;
    for (auto submission = other.submissions.begin(); submission != other.submissions.end(); ++submission) {
      if (!may_launch(*submission) || (lane != nullptr && oldest->number < submission->number)) continue;
      lane = &other;
      oldest = submission;
    }
  }
  if (lane == nullptr) return false;
  launch(job, stream_for(static_cast<int>(lane - lanes_.data()), *oldest), *oldest);
  if (oldest->ended()) lane->submissions.erase(oldest);
  return true;
}

// For the task's next step: of lower rank than those that have kernels of older tasks, so that of two tasks under way
// the older one ends first, and its result goes down while the younger one is computed. For short kernels the lane's
// own; additions follow the product before them.
int Worker::stream_for(int lane, const Submission& submission) const {
  const Asked& next = submission.asked.front();
  if (next.adds) return submission.stream;
  if (!by_age_ || expected_seconds(flops_of(next.step.call)) < device_.info().profile.ranked_kernel_s) return lane;
  std::size_t stream = 0;
  for (std::size_t other = 0; other < active_lanes_; ++other) {
    const auto& kernels = lanes_[other].kernels;
    const auto is_older = [&](const Kernel& kernel) { return kernel.number < submission.number; };
    if (std::any_of(kernels.begin(), kernels.end(), is_older)) stream = std::min(other + 1, active_lanes_ - 1);
  }
  return static_cast<int>(stream);
}

// Short kernels wait for their tiles on the device: there they begin some microseconds earlier. So do additions in
// turn: a lane has one task then, and what follows in its stream comes later over the same link. Side by side it may be
// here already, and old values come last.
bool Worker::may_launch(const Submission& submission) const {
  if (submission.asked.empty()) return false;
  const Asked& next = submission.asked.front();
  const double short_s = device_.info().profile.short_kernel_s;
  const bool is_short = next.adds ? in_turn_ : expected_seconds(flops_of(next.step.call)) < short_s;
  return is_short || has_come(submission);
}

double Worker::expected_seconds(double flops) const {
  const double rate = device_.info().flops_per_s[type_];
  return rate > 0 ? flops / rate : 0;
}

// Also what will never come because its copy has failed: the kernel's event tells of it.
bool Worker::has_come(const Submission& submission) {
  const auto here = [](const cache::Replica* tile) {
    return tile == nullptr || !tile->ready || tile->ready->status() != EventStatus::pending;
  };
  const Asked& next = submission.asked.front();
  return here(next.x) && here(next.y) && (next.number > 0 || here(submission.output));
}

// Whether the next step waits for nothing.
bool Worker::is_here(const Job& job, const Submission& submission) const {
  if (submission.output == nullptr || submission.adds_next()) return false;
  const Step step = job.graph().nth_step(submission.task, submission.next_step);
  return cache_.has_arrived(index_, step.a.tile) &&
         (step.b.tile.address == nullptr || cache_.has_arrived(index_, step.b.tile));
}

// Pins the tiles of the task's next step, which brings them here.
// @return false if that cannot be yet: no room for one of its tiles, an operand that is not computed yet, or a link
// that has enough to do
bool Worker::ask(Job& job, Submission& submission) {
  const TaskGraph& graph = job.graph();
  const Output output = graph.output(submission.task);
  const bool begins = submission.output == nullptr;
  if (begins && output.fetch && (side_by_side_ || in_turn_)) submission.adds_after = output.adding_steps;
  const bool adds = submission.adds_next();
  Step step =
      adds ? Step{.call = {}, .a = {output.tile}, .b = {}} : graph.nth_step(submission.task, submission.next_step);
  if (!job.readable(step.a) || !job.readable(step.b)) return false;
  const bool fetches_old = begins && output.fetch && !submission.adds_old();
  if ((fetches_old || comes_from_host(step)) && must_wait_for_link(job, submission)) return false;
  if (begins) {
    // Rather wait for the results of the group before than send away what is about to be read.
    const index_t needed_soon = !group_.empty() && room_will_come() ? position_ + 2 * lookahead() : -1;
    submission.output = cache_.acquire_output(index_, output.tile, fetches_old, needed_soon);
  }
  if (submission.output == nullptr) return false;
  keep_old(job, submission, OldValues::When::ahead);
  if (submission.x == nullptr) submission.x = cache_.pin(index_, step.a.tile, next_use(step.a.tile));
  if (submission.x == nullptr) return false;
  cache::Replica* const x = submission.x;
  cache::Replica* y = nullptr;
  if (step.b.tile.address != nullptr) {
    y = cache_.pin(index_, step.b.tile, next_use(step.b.tile));
    if (y == nullptr && graph.grouped()) {  // another step may be tried first next time
      cache_.release(x);
      submission.x = nullptr;
    }
    if (y == nullptr) return false;
  }
  if (submission.next_step == 0 && submission.adds_old()) {
    submission.beta = step.call.beta;
    step.call.beta = 0;
  }
  submission.x = nullptr;
  submission.asked.push_back({step, x, y, submission.next_step, adds});
  if (adds)
    submission.has_added = true;
  else
    ++submission.next_step;
  submission.wave = graph.wave(submission.task, submission.next_step);
  return true;
}

// Submits the oldest step that has been asked for; the stream waits for tiles that are still on their way.
void Worker::launch(const Job& job, int stream_index, Submission& submission) {
  const StreamId stream{StreamKind::compute, stream_index};
  const Asked asked = submission.asked.front();
  submission.asked.pop_front();
  cache::Replica* const first_read = asked.number == 0 ? submission.output : nullptr;
  for (const cache::Replica* tile : {first_read, asked.x, asked.y}) {
    if (tile == nullptr || !tile->ready || tile->ready->status() == EventStatus::complete) continue;
    device_.wait(stream, tile->ready);
  }
  if (submission.launched && submission.stream != stream_index) device_.wait(stream, submission.launched);
  await_copy_of_old(job, submission, asked.number, stream);
  auto begin = device_.record(stream);
  submit_call(job, asked, submission, stream_index);
  auto done = device_.record(stream);
  const double flops = asked.adds ? 0 : flops_of(asked.step.call);
  cache_.log(index_).add({.stream = stream,
                          .flops = flops,
                          .task = submission.task,
                          .step = asked.number,
                          .kernel = asked.adds ? "add" : name_of(asked.step.call.routine)},
                         begin, done);
  ++outcome_.steps;
  outcome_.flops += flops;
  submission.stream = stream_index;
  submission.launched = done;
  lanes_[static_cast<std::size_t>(stream_index)].kernels.push_back(
      {std::move(begin), std::move(done), asked.x, asked.y, flops, submission.ended() ? submission.output : nullptr,
       submission.task, submission.number, submission.old});
}

bool Worker::link_has_enough() const { return cache_.queued_bytes(index_) >= device_.info().profile.link_queue_bytes; }

bool Worker::comes_from_host(const Step& step) const {
  const auto absent = [&](const Operand& operand) {
    return operand.tile.address != nullptr && cache_.locate(index_, operand.tile) == cache::Level::host;
  };
  return absent(step.a) || absent(step.b);
}

// Tiles are asked for late, so that devices share what there is to fetch, and peers do not wait for the end of a long
// queue. Tasks that advance side by side wait for the one that is behind: what is fetched for that one serves the
// others too. But not for one that itself waits for a result: whoever computes that may wait for us.
bool Worker::must_wait_for_link(const Job& job, const Submission& submission) {
  if (link_has_enough()) return true;
  if (!side_by_side_) return false;
  for (std::size_t lane = 0; lane < active_lanes_; ++lane) {
    for (const Submission& other : lanes_[lane].submissions) {
      if (!other.all_asked() && other.wave < submission.wave && is_readable(job, other)) return true;
    }
  }
  return false;
}

void Worker::submit_call(const Job& job, const Asked& asked, const Submission& submission, int lane) {
  const HostTile& C = submission.output->tile;
  const cache::Replica* const x = asked.x;
  const cache::Replica* const y = asked.y;
  const Step& step = asked.step;
  const auto add = [&](const AnyScalar& factor, const std::byte* X) {
    ops_.add(lane, {.type = job.graph().type(),
                    .part = C.part,
                    .hermitian = job.graph().is_hermitian() && C.part != Part::full,
                    .m = C.rows,
                    .n = C.cols,
                    .factor = factor,
                    .X = X,
                    .ldx = C.rows,
                    .C = submission.output->address,
                    .ldc = C.rows});
  };
  if (asked.adds) {
    add(submission.beta, x->address);
    return;
  }
  const auto element = static_cast<index_t>(element_bytes(job.graph().type()));
  Level3 call = step.call;
  call.A = x->address + step.a.first_row * element;
  call.lda = x->tile.rows;
  call.B = y != nullptr ? y->address + step.b.first_row * element : nullptr;
  call.ldb = y != nullptr ? y->tile.rows : 0;
  std::byte* const scratch = lanes_[static_cast<std::size_t>(lane)].scratch;
  call.C = step.apart ? scratch : submission.output->address;
  call.ldc = C.rows;
  ops_.run(lane, call);
  if (step.apart) add(1, scratch);
}

}  // namespace tessera::runtime
