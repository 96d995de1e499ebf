#include "residence/keeper.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::residence {
namespace {

constexpr std::size_t most_states = 256;

/// Faults of a write to all of a matrix take as long as so many copies of it over the link (docs/adr/0030).
constexpr double uses_of_a_write = 10;

bool overlap(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

using Use = device::Touched::Use;

Range common_part(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

std::byte* page_of(std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address - number % WriteWatch::page_bytes();
}

}  // namespace

Keeper::~Keeper() {
  const LockGuard lock(mutex_);
  for (auto& [matrix, state] : states_) {
    if (state.matrix) make_unknown(matrix, state);
  }
}

Range Keeper::pages_of(const HostMatrix& matrix) {
  const Range range = range_of(matrix);
  return {page_of(range.begin), page_of(range.end - 1) + WriteWatch::page_bytes()};
}

// Of some elements all over the matrix. Two matrices with one sample may differ: the sample only says whether it is
// worth watching.
std::uint64_t Keeper::sample_of(const HostMatrix& matrix) {
  constexpr index_t samples = 64;
  std::uint64_t sum = 1469598103934665603U;  // FNV-1a
  for (index_t s = 0; s < samples; ++s) {
    const index_t column = (matrix.columns - 1) * s / (samples - 1);
    const index_t row = (matrix.column_bytes - 1) * ((s * 29) % samples) / (samples - 1);
    sum = (sum ^ static_cast<std::uint64_t>(matrix.address[column * matrix.pitch_bytes + row])) * 1099511628211U;
  }
  return sum;
}

template <class Visit>
void Keeper::for_each_overlapped(const HostMatrix& matrix, Visit visit) {
  for (auto& [known, state] : states_) {
    if (state.matrix && overlap(range_of(known), range_of(matrix))) visit(known, state);
  }
}

void Keeper::look_at(std::span<const HostMatrix> matrices) {
  const LockGuard lock(mutex_);
  for (const HostMatrix& matrix : matrices) {
    for_each_overlapped(matrix, [this](const HostMatrix& known, State& state)
                                    TESSERA_REQUIRES(mutex_) { refresh(known, state, false); });
  }
}

bool Keeper::has_given_up(const HostMatrix& matrix) const {
  const LockGuard lock(mutex_);
  const auto found = states_.find(matrix);
  return found != states_.end() && found->second.credit < 0;
}

void Keeper::begin_any() {
  const LockGuard lock(mutex_);
  for (auto& [known, state] : states_) {
    if (state.matrix) refresh(known, state, false);
  }
}

void Keeper::begin(std::span<const device::Touched> operands) {
  const LockGuard lock(mutex_);
  ++calls_;
  for (const auto& [matrix, use] : operands) {
    for_each_overlapped(
        matrix, [this](const HostMatrix& known, State& state) TESSERA_REQUIRES(mutex_) { refresh(known, state); });
    if (!may_watch_(range_of(matrix))) continue;
    State& state = states_[matrix];
    state.last_use = calls_;
    if (!state.matrix) consider(matrix, state);
  }
  // Writes of the call must not cost faults.
  for (const auto& [matrix, use] : operands) {
    if (use == Use::read) continue;
    const Range pages = pages_of(matrix);
    for_each_overlapped(matrix, [&](const HostMatrix& known, const State&) {
      watch_.expect_writes(common_part(pages_of(known), pages));
    });
  }
  if (states_.size() > most_states) forget_oldest();
}

void Keeper::consider(const HostMatrix& matrix, State& state) {
  const std::uint64_t sample = sample_of(matrix);
  if (sample == state.sample && state.credit >= 0) make_known(matrix, state);
  state.sample = sample;
}

// All that has been written since the last question is dropped, in whatever matrix it lies. A matrix of which most was
// written is not watched until it is found unchanged again.
void Keeper::refresh(const HostMatrix& matrix, State& state, bool is_use) {
  const Range pages = pages_of(matrix);
  std::ptrdiff_t written_bytes = 0;
  const bool is_told = may_watch_(range_of(matrix)) && watch_.written(pages, [&](Range written) {
    written_bytes += written.end - written.begin;
    residence_.drop(written);
  });
  if (!is_told) return lose(matrix, state);
  const double part = static_cast<double>(written_bytes) / static_cast<double>(pages.end - pages.begin);
  state.credit = std::min(state.credit + (is_use ? 1 : 0), uses_of_a_write) - part * uses_of_a_write;
  if (state.credit < 0 || part > 0.5) make_unknown(matrix, state);
}

void Keeper::make_known(const HostMatrix& matrix, State& state) {
  const Range pages = pages_of(matrix);
  state.matrix = residence_.add(matrix);  // unless another one is known there, whose pages stay watched
  if (!state.matrix) return;
  // All of it counts as written until now, and so do parts of others in its first and last page.
  const auto drop = [&](Range written) { residence_.drop(written); };
  if (!watch_.add(pages) || !watch_.written(pages, drop)) lose(matrix, state);
}

// The kernel has not said all that was written in these pages, and will not say it again. Others may have parts there.
void Keeper::lose(const HostMatrix& matrix, State& state) {
  residence_.drop(pages_of(matrix));
  make_unknown(matrix, state);
}

void Keeper::make_unknown(const HostMatrix& matrix, State& state) {
  if (state.matrix) residence_.remove(*state.matrix);
  state.matrix.reset();
  state.sample.reset();
  watch_.remove(pages_of(matrix));
}

void Keeper::end(std::span<const device::Touched> operands) {
  const LockGuard lock(mutex_);
  for (const auto& [matrix, use] : operands) {
    const auto found = states_.find(matrix);
    if (use != Use::written || found == states_.end()) continue;
    State& state = found->second;
    if (state.matrix) {
      // Bytes around it in its pages are another's. All pages count as written.
      const Range range = range_of(matrix);
      const bool is_told = watch_.written(pages_of(matrix), [&](Range run) {
        residence_.drop({run.begin, std::min(run.end, range.begin)});
        residence_.drop({std::max(run.begin, range.end), run.end});
      });
      if (!is_told) lose(matrix, state);
    } else {
      state.sample = sample_of(matrix);
    }
  }
}

void Keeper::cancel(std::span<const device::Touched> operands) {
  const LockGuard lock(mutex_);
  for (const auto& [matrix, use] : operands) {
    if (use == Use::read) continue;
    const Range pages = pages_of(matrix);
    for_each_overlapped(matrix, [&](const HostMatrix& known, State& state) TESSERA_REQUIRES(mutex_) {
      const auto drop = [this](Range written) { residence_.drop(written); };
      if (!watch_.written(common_part(pages_of(known), pages), drop)) lose(known, state);
    });
  }
}

void Keeper::forget_oldest() {
  const auto oldest = std::min_element(states_.begin(), states_.end(), [](const auto& a, const auto& b) {
    return a.second.last_use < b.second.last_use;
  });
  if (oldest->second.matrix) make_unknown(oldest->first, oldest->second);
  states_.erase(oldest);
}

std::size_t Keeper::known() const {
  const LockGuard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(states_.begin(), states_.end(), [](const auto& each) { return each.second.matrix.has_value(); }));
}

}  // namespace tessera::residence
