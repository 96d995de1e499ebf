#include "runtime/tiles/lane_order.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera::runtime {

using device::EventStatus;

void LaneOrder::begin(const TaskPool& job, std::size_t lanes) {
  clear();
  prefetched_steps_.clear();
  type_ = job.graph().type;
  active_ = lanes;
  side_by_side_ = job.side_by_side();
  in_turn_ = fetches_in_turn(job);
  // Not where some begin all at once, and end at about the same time anyway.
  by_age_ = side_by_side_ ? job.usable_count() == 1 : in_turn_ && !job.graph().has_steps_apart();
}

void LaneOrder::clear() { lanes_ = {}; }

// Worth it where computing is what takes longest: then the start, when tiles are few, is what is lost. Where the link
// takes longest, tasks should rather end early, so that results go down while tiles come up. Old values then wait,
// which would otherwise come before the first product of each task: for them it is worth it up to twice the time on the
// link.
bool LaneOrder::should_advance_side_by_side(const TaskGraph& graph) const {
  if (!holds_all_of(graph)) return false;
  const device::DeviceInfo& info = place_.device.info();
  const double rate = info.flops_per_s[graph.type];
  if (rate <= 0 || info.link_bytes_per_s <= 0) return true;
  const double worth = graph.output(0).reads_old ? 2 : 1;
  return worth * graph.work.flops / rate > graph.work.up / info.link_bytes_per_s;
}

// Whether tasks that go one after the other fetch everything over one link, where all of it finds room. Then what a
// task asks for comes before what the next ones ask for, and the task ends the sooner after its last tile the less is
// left to do: an addition rather than its products. Several devices would all ask for the tiles that they share first.
bool LaneOrder::fetches_in_turn(const TaskPool& job) const {
  return !side_by_side_ && job.usable_count() == 1 && holds_all_of(job.graph());
}

bool LaneOrder::holds_all_of(const TaskGraph& graph) const {
  return !graph.grouped() && graph.fits(place_.cache.slots(place_.index));
}

// Launches a step whose tiles have come; where there is none, asks for those of one step per lane: tasks advance side
// by side and share what they fetch (Alg. 1). One kernel at a time: some take as long to submit as to run, and results
// that are complete meanwhile should go down first.
bool LaneOrder::submit(TaskPool& job) {
  if (launch_oldest(job)) return true;
  bool any = false;
  if (job.breakdown().has_happened()) {
    for (Lane& lane : lanes_)
      any |= std::erase_if(lane, [&](const Submission& submission) { return drop(job, submission); }) > 0;
  }
  const LaneNumbers order = lanes_in_order();
  for (std::size_t turn = 0; turn < active_; ++turn) {
    const std::size_t index = order[turn];
    Lane& lane = lanes_[index];
    if (wants_another_task(job, index)) {
      if (auto task = intake_.take(job, lane.empty(), [&] { return refill(job); })) lane.push_back(std::move(*task));
    }
    any |= ask_for_step(job, lane);
  }
  return any;
}

// In which they ask for tiles. Where tasks go in turn the oldest one comes first, whatever lane it has: else it waits
// for what younger ones fetch, and results that must not be written before its own wait with it.
LaneOrder::LaneNumbers LaneOrder::lanes_in_order() const {
  LaneNumbers order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (side_by_side_ || !by_age_) return order;
  const auto age = [&](std::size_t index) {
    return lanes_[index].empty() ? std::numeric_limits<std::int64_t>::max() : lanes_[index].front().number;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(active_);
  std::stable_sort(order.begin(), end, [&](std::size_t x, std::size_t y) { return age(x) < age(y); });
  return order;
}

bool LaneOrder::wants_another_task(TaskPool& job, std::size_t index) const {
  const Lane& lane = lanes_[index];
  if (lane.empty()) return pipeline_.kernels_in(index) < run_ahead;
  if (!side_by_side_ || lane.size() >= tasks_per_lane) return false;
  bool for_results = false;
  for (const Submission& submission : lane) {
    if (!submission.asked.empty()) {
      if (has_come(submission)) return false;
    } else if (!is_readable(job, submission)) {
      for_results = true;
    } else if (!starves(job)) {
      return false;
    }
  }
  // Tasks that wait for results would leave the link without work; those that wait for tiles have given it some.
  return !for_results || place_.cache.queued_bytes(place_.index) == 0;
}

// Whether products have begun and none is left, so that the tiles that the lanes' tasks share are too few or come too
// late for what has been taken: more tasks use the same tiles. Not where so few tasks are left that all would end
// together, nor where several devices wait for what others fetch and compute, which more tiles in between delay. Nor
// where the first lines begin together, whose results would come later.
bool LaneOrder::starves(TaskPool& job) const {
  if (!pipeline_.has_computed() || job.usable_count() > 1 || job.graph().has_steps_apart()) return false;
  return pipeline_.is_empty() && job.station(static_cast<std::size_t>(place_.index)).size() >= left_per_lane * active_;
}

// Asks for the next step of one of the lane's tasks: of the oldest whose tiles are here, so that results go down early,
// else of the one that is furthest behind among those that can go on.
bool LaneOrder::ask_for_step(TaskPool& job, Lane& lane) {
  const auto may_ask = [](const Submission& submission) {
    return !submission.all_asked() && submission.asked.size() < run_ahead;
  };
  for (Submission& submission : lane) {
    if (may_ask(submission) && is_here(job, submission) && ask(job, submission)) return true;
  }
  std::vector<Submission*> order;
  for (Submission& submission : lane) {
    if (may_ask(submission)) order.push_back(&submission);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Submission* x, const Submission* y) { return x->wave < y->wave; });
  return std::any_of(order.begin(), order.end(), [&](Submission* submission) { return ask(job, *submission); });
}

// Whether the next step waits for nothing.
bool LaneOrder::is_here(const TaskPool& job, const Submission& submission) const {
  if (submission.output == nullptr || submission.adds_next()) return false;
  const Step step = job.graph().nth_step(submission.task, submission.next_step);
  const auto is_here = [&](const Read& read) {
    return !read.exists() || place_.cache.has_arrived(place_.index, read.tile);
  };
  return is_here(step.a) && is_here(step.b);
}

// Block columns come in their order: the next panel is what all others wait for.
bool LaneOrder::has_older_without_output(const Submission& submission) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return std::any_of(lane.begin(), lane.end(), [&](const Submission& other) {
      return other.output == nullptr && other.number < submission.number;
    });
  });
}

// Tiles are asked for late, so that devices share the fetches, and peers do not wait for the end of a long queue. Tasks
// that advance side by side wait for the one that is behind: a tile fetched for that one serves the others too. They do
// not wait for one that itself waits for a result: the device that computes it may wait for us.
bool LaneOrder::must_wait_for_link(const TaskPool& job, const Submission& submission) const {
  if (place_.link_has_enough()) return true;
  if (job.graph().has_panels && submission.output == nullptr) return has_older_without_output(submission);
  if (!side_by_side_) return false;
  for (std::size_t lane = 0; lane < active_; ++lane) {
    for (const Submission& other : lanes_[lane]) {
      if (!other.all_asked() && other.wave < submission.wave && is_readable(job, other)) return true;
    }
  }
  return false;
}

// Launches a step of the oldest task that can go on, unless launched steps keep the device busy. A step launched
// earlier would run before a later one of an older task, whose result then goes down late.
bool LaneOrder::launch_oldest(const TaskPool& job) {
  if (pipeline_.has_enough()) return false;
  Lane* lane = nullptr;
  Lane::iterator oldest;
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    if (pipeline_.kernels_in(index) >= run_ahead * tasks_per_lane) continue;
    Lane& other = lanes_[index];
    for (auto submission = other.begin(); submission != other.end(); ++submission) {
      if (!may_launch(*submission) || (lane != nullptr && oldest->number < submission->number)) continue;
      lane = &other;
      oldest = submission;
    }
  }
  if (lane == nullptr) return false;
  pipeline_.launch(job, stream_for(static_cast<std::size_t>(lane - lanes_.data()), *oldest), *oldest);
  if (oldest->ended()) lane->erase(oldest);
  return true;
}

// The stream of the task's next step. Its rank is lower than those of streams with kernels of older tasks: of two tasks
// under way the older one ends first, and its result goes down while the younger one is computed. Short kernels go to
// the lane's own; additions follow the product before them. Factorizations have the highest rank.
int LaneOrder::stream_for(std::size_t lane, const Submission& submission) const {
  const Asked& next = submission.asked.front();
  if (next.adds) return submission.stream;
  if (next.step.factors()) return 0;
  if (!by_age_ || expected_seconds(next) < place_.device.info().profile.ranked_kernel_s) return static_cast<int>(lane);
  std::size_t stream = 0;
  for (std::size_t other = 0; other < active_; ++other) {
    if (pipeline_.has_older_kernel(other, submission.number)) stream = std::min(other + 1, active_ - 1);
  }
  return static_cast<int>(stream);
}

// The oldest task could fill the device for long with steps that leave gaps, so others get a share, which fills the
// gaps. Short kernels wait for their tiles on the device, where they begin some microseconds earlier. So do additions
// in turn: the next steps of their stream mostly come later over the same link. Side by side these may be here already,
// and old values come last.
bool LaneOrder::may_launch(const Submission& submission) const {
  if (submission.asked.empty()) return false;
  const Asked& next = submission.asked.front();
  if (next.step.leaves_gaps() && pipeline_.kernels_of(submission.number) >= run_ahead) return false;
  const bool is_short = next.adds ? in_turn_ : expected_seconds(next) < place_.device.info().profile.short_kernel_s;
  return is_short || has_come(submission);
}

double LaneOrder::expected_seconds(const Asked& step) const {
  return place_.expected_seconds(type_, step.step.flops());
}

// Also what will never come because its copy has failed: the kernel's event tells of it.
bool LaneOrder::has_come(const Submission& submission) {
  const auto here = [](const cache::Replica* tile) {
    return tile == nullptr || !tile->ready || tile->ready->status() != EventStatus::pending;
  };
  const Asked& next = submission.asked.front();
  return here(next.x) && here(next.y) && (next.number > 0 || here(submission.output));
}

// Keeps the link from the host busy with what the next tasks need.
bool LaneOrder::prefetch(TaskPool& job) {
  // Room that the lanes may ask for at any moment.
  const auto reserve = static_cast<index_t>(static_cast<std::size_t>(LaneSlots::slots) * active_ + results_.writing());
  if (results_.keeps_on_peers()) {
    for (Lane& lane : lanes_) {
      for (Submission& submission : lane) results_.keep_old(job, submission, OldValues::When::ahead);
    }
  }
  bool any = false;
  if (prefetch_old_values(reserve, any)) prefetch_station(job, reserve, any);
  return any;
}

// Old values that are added last: they are needed when the products are done, and nobody else asks for them.
// @return whether more may be fetched
bool LaneOrder::prefetch_old_values(index_t reserve, bool& any) const {
  for (const Lane& lane : lanes_) {
    for (const Submission& submission : lane) {
      if (!submission.adds_old() || submission.has_added || submission.output == nullptr) continue;
      if (place_.link_has_enough()) return false;
      any |= place_.cache.prefetch(place_.index, submission.output->tile, reserve) == cache::Prefetch::started;
    }
  }
  return true;
}

void LaneOrder::prefetch_station(TaskPool& job, index_t reserve, bool& any) {
  for (const TaskId task : job.station(static_cast<std::size_t>(place_.index)).ordered()) {
    const index_t steps = job.graph().step_count(task);
    for (index_t& l = prefetched_steps_[task]; l < steps; ++l) {
      const Step step = job.graph().nth_step(task, l);
      for (const Read& read : {step.a, step.b}) {
        if (!read.exists() || read.result_of(task) != no_task) continue;
        if (place_.link_has_enough()) return;
        const cache::Prefetch outcome = place_.cache.prefetch(place_.index, read.tile, reserve);
        if (outcome == cache::Prefetch::no_memory) return;
        any |= outcome == cache::Prefetch::started;
      }
    }
  }
}

}  // namespace tessera::runtime
