// The order in which calls get devices, and the devices that they get.
#include "runtime/devices/admission.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace tessera::runtime {
namespace admission_test {

constexpr std::size_t unit = Admission::alignment;

/// So many units of each of the devices, of which as many are wanted.
MemoryRequest request_of(std::size_t units, index_t wanted, std::size_t devices = 2, std::size_t capacity = 100) {
  return {.shares = std::vector<MemoryRequest::Share>(devices, {units * unit, capacity * unit}), .devices = wanted};
}

std::vector<std::size_t> slabs(std::size_t devices = 2) { return std::vector<std::size_t>(devices, 100 * unit); }

/// A caller on a thread of its own, who has been admitted or waits.
class Caller {
 public:
  Caller(Admission& admission, MemoryRequest request) {
    thread_ = std::thread([this, &admission, request = std::move(request)] {
      const Admission::Stay stay = admission.enter(request);
      devices_ = stay.devices();
      admitted_.store(true, std::memory_order_release);
      while (!leaves_) std::this_thread::yield();
    });
  }
  ~Caller() {
    leaves_ = true;
    thread_.join();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  const std::vector<bool>& await() {
    while (!admitted_.load(std::memory_order_acquire)) std::this_thread::yield();
    return devices_;
  }
  bool is_admitted() const { return admitted_; }

 private:
  std::atomic<bool> admitted_ = false;
  std::atomic<bool> leaves_ = false;
  std::vector<bool> devices_;
  std::thread thread_;
};

TEST(Admission, DealsCallsOfOneDeviceOut) {
  Admission admission(slabs());
  std::deque<Admission::Stay> stays;
  std::vector<int> calls(2);
  for (int call = 0; call < 2 * Admission::most_calls; ++call) {
    stays.push_back(admission.enter(request_of(5, 1)));
    const std::vector<bool> devices = stays.back().devices();
    ASSERT_EQ(std::count(devices.begin(), devices.end(), true), 1);
    EXPECT_EQ(admission.calls_beside(stays.back()), call / 2);
    ++calls[devices[0] ? 0 : 1];
    EXPECT_LE(std::abs(calls[0] - calls[1]), 1) << "after " << call;
  }
}

TEST(Admission, TakesTheFirstOfEquals) {
  Admission admission(slabs());
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(admission.enter(request_of(5, 1)).devices(), (std::vector{true, false}));
}

TEST(Admission, GivesPartsThatDoNotOverlap) {
  Admission admission(slabs(1));
  std::minstd_rand random(7);
  std::vector<std::unique_ptr<Admission::Stay>> stays;
  for (int step = 0; step < 300; ++step) {
    if (stays.size() == Admission::most_calls || (!stays.empty() && random() % 3 == 0)) {
      stays.erase(stays.begin() + static_cast<std::ptrdiff_t>(random() % stays.size()));
      continue;
    }
    // Four parts of a fifth at most have room wherever the others lie.
    stays.push_back(std::make_unique<Admission::Stay>(admission.enter(request_of(1 + random() % 14, 1, 1))));
    std::size_t end = 0;
    for (std::size_t a = 0; a < stays.size(); ++a) {
      const Admission::Part& part = stays[a]->parts()[0];
      end = std::max(end, part.end());
      for (std::size_t b = 0; b < a; ++b) {
        const Admission::Part& other = stays[b]->parts()[0];
        EXPECT_TRUE(part.end() <= other.offset || other.end() <= part.offset);
      }
    }
    EXPECT_LE(admission.end_of_others(*stays.back(), 0), end);
    EXPECT_EQ(std::max(admission.end_of_others(*stays.back(), 0), stays.back()->parts()[0].end()), end);
  }
}

TEST(Admission, WaitsForMemoryAndNobodyOvertakes) {
  Admission admission(slabs());
  std::optional<Admission::Stay> first(admission.enter(request_of(60, 2)));
  Caller large(admission, request_of(60, 2));
  while (!admission.is_wanted() && !large.is_admitted()) std::this_thread::yield();
  Caller small(admission, request_of(1, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(large.is_admitted());
  EXPECT_FALSE(small.is_admitted()) << "it would fit";
  first.reset();
  EXPECT_EQ(large.await(), (std::vector{true, true}));
  small.await();
  EXPECT_FALSE(admission.is_wanted());
}

TEST(Admission, KeepsToTheCapacity) {
  Admission admission(slabs(1));
  std::optional<Admission::Stay> first(admission.enter(request_of(30, 1, 1, 50)));
  Caller second(admission, request_of(30, 1, 1, 50));
  while (!admission.is_wanted() && !second.is_admitted()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(second.is_admitted()) << "the slab has room, the device's memory has not";
  first.reset();
  second.await();
}

TEST(Admission, AloneMeansAlone) {
  Admission admission(slabs());
  {
    const Admission::Stay some = admission.enter(request_of(1, 1));
    EXPECT_TRUE(some);
    EXPECT_FALSE(admission.try_alone());
  }
  {
    std::optional<Caller> waits;
    const Admission::Stay alone = admission.try_alone();
    EXPECT_TRUE(alone);
    EXPECT_FALSE(admission.try_alone());
    waits.emplace(admission, request_of(1, 1));
    while (!admission.is_wanted()) std::this_thread::yield();
    EXPECT_FALSE(waits->is_admitted());
  }
  EXPECT_TRUE(admission.enter_alone());
}

TEST(Admission, LeavesOutDevicesThatMayNotTakePart) {
  Admission admission(slabs(3));
  MemoryRequest request = request_of(10, 3, 3);
  request.shares[1] = {};
  EXPECT_EQ(admission.enter(request).devices(), (std::vector{true, false, true}));
}

// Every call is admitted, in whichever order calls enter and leave.
TEST(Admission, AdmitsEverybody) {
  Admission admission(slabs(3));
  std::vector<std::thread> threads;
  std::atomic<int> inside_alone = 0, inside = 0;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int call = 0; call < 100; ++call) {
        if (random() % 10 == 0) {
          const Admission::Stay alone = admission.enter_alone();
          EXPECT_EQ(++inside_alone, 1);
          EXPECT_EQ(inside, 0);
          --inside_alone;
        } else {
          const Admission::Stay stay = admission.enter(request_of(1 + random() % 100, 1 + random() % 3, 3));
          ++inside;
          EXPECT_EQ(inside_alone, 0);
          --inside;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(admission.is_wanted());
}

}  // namespace admission_test
}  // namespace tessera::runtime
