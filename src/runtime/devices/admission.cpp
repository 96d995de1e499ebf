#include "runtime/devices/admission.hpp"

#include <algorithm>
#include <utility>

namespace tessera::runtime {

std::vector<bool> Admission::Stay::devices() const {
  std::vector<bool> devices;
  for (const Part& part : parts_) devices.push_back(part.bytes > 0);
  return devices;
}

Admission::Admission(const std::vector<std::size_t>& slabs) {
  for (const std::size_t bytes : slabs) places_.emplace_back(Place{bytes, {}}).parts.reserve(most_calls);
}

// Waits for those who came before, and lets the next one try, whatever came of this one.
class Admission::Turn {
 public:
  // While the caller holds the mutex.
  Turn(Admission& admission, UniqueLock& lock) : admission_(admission) {
    const std::uint64_t ticket = admission_.next_ticket_++;
    admission_.changed_.wait(lock.native(),
                             [&]() TESSERA_REQUIRES(admission_.mutex_) { return admission_.serving_ == ticket; });
  }
  ~Turn() {
    ++admission_.serving_;
    admission_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Admission& admission_;
};

bool Admission::all_free() const {
  return alone_ == 0 && std::all_of(places_.begin(), places_.end(), [](const Place& p) { return p.parts.empty(); });
}

Admission::Stay Admission::enter(const MemoryRequest& request) {
  Stay stay(*this);
  UniqueLock lock(mutex_);
  stay.parts_.resize(places_.size());
  const Turn turn(*this, lock);
  changed_.wait(lock.native(), [&]() TESSERA_REQUIRES(mutex_) { return alone_ == 0 && place(request, stay.parts_); });
  stay.holds_ = true;
  return stay;
}

Admission::Stay Admission::enter_alone() {
  Stay stay(*this);
  UniqueLock lock(mutex_);
  const Turn turn(*this, lock);
  changed_.wait(lock.native(), [&]() TESSERA_REQUIRES(mutex_) { return all_free(); });
  stay.holds_ = true;
  ++alone_;
  return stay;
}

Admission::Stay Admission::try_alone() {
  Stay stay(*this);
  const LockGuard lock(mutex_);
  if (next_ticket_ != serving_ || !all_free()) return stay;
  stay.holds_ = true;
  ++alone_;
  return stay;
}

// The devices with the fewest calls of those that have the memory, if there are enough of them.
bool Admission::place(const MemoryRequest& request, std::vector<Part>& parts) {
  const auto may = [&](std::size_t d) { return request.shares[d].bytes > 0; };
  index_t wanted = 0;
  for (std::size_t d = 0; d < places_.size(); ++d) wanted += may(d) && wanted < request.devices ? 1 : 0;
  for (std::size_t calls = 0; calls < most_calls && wanted > 0; ++calls) {
    for (std::size_t d = 0; d < places_.size() && wanted > 0; ++d) {
      if (!may(d) || parts[d].bytes > 0 || places_[d].parts.size() != calls) continue;
      if (const auto part = take(places_[d], request.shares[d])) {
        parts[d] = *part;
        --wanted;
      }
    }
  }
  if (wanted == 0) return true;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (parts[d].bytes > 0) free(d, std::exchange(parts[d], {}));
  }
  return false;
}

std::optional<Admission::Part> Admission::take(Place& at, const MemoryRequest::Share& share) {
  std::size_t offset = 0;
  auto next = at.parts.begin();
  for (; next != at.parts.end() && next->offset < offset + share.bytes; ++next)
    offset = (next->end() + alignment - 1) / alignment * alignment;
  if (offset + share.bytes > std::min(share.capacity, at.bytes)) return std::nullopt;
  return *at.parts.insert(next, {offset, share.bytes});
}

void Admission::free(std::size_t device, const Part& part) {
  std::erase_if(places_[device].parts, [&](const Part& each) { return each.offset == part.offset; });
}

void Admission::leave(const Stay& stay) {
  {
    const LockGuard lock(mutex_);
    if (stay.parts_.empty()) --alone_;
    for (std::size_t d = 0; d < stay.parts_.size(); ++d) {
      if (stay.parts_[d].bytes > 0) free(d, stay.parts_[d]);
    }
  }
  changed_.notify_all();
}

bool Admission::is_wanted() const {
  const LockGuard lock(mutex_);
  return next_ticket_ != serving_;
}

int Admission::calls_beside(const Stay& stay) const {
  const LockGuard lock(mutex_);
  std::size_t most = 1;
  for (std::size_t d = 0; d < stay.parts_.size(); ++d) {
    if (stay.parts_[d].bytes > 0) most = std::max(most, places_[d].parts.size());
  }
  return static_cast<int>(most) - 1;
}

std::size_t Admission::end_of_others(const Stay& stay, std::size_t device) const {
  const LockGuard lock(mutex_);
  std::size_t end = 0;
  if (stay.parts_.empty()) return end;  // there are no others
  for (const Part& part : places_[device].parts) {
    if (part.offset != stay.parts_[device].offset) end = part.end();
  }
  return end;
}

}  // namespace tessera::runtime
