// Threads that do the host's part of a job: beside the job, no longer than it, and never instead of it.
#include "runtime/tiles/host_part.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

namespace tessera::runtime {
namespace host_part_test {

/// Does as many pieces as results are at home.
class Pieces final : public HostPart {
 public:
  explicit Pieces(std::size_t threads) : threads_(threads) {}
  std::size_t threads() const override { return threads_; }
  std::optional<WrittenArea> do_some(const IsHome& is_home) override {
    if (lacks_memory) throw std::bad_alloc();
    if (std::this_thread::get_id() == caller) by_caller = true;
    TaskId next = done.load();
    while (is_home(next)) {
      if (!done.compare_exchange_weak(next, next + 1)) continue;
      return WrittenArea{{nullptr, next}, {}};
    }
    return std::nullopt;
  }
  void undo() noexcept override {}

  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<TaskId> done = 0;
  std::atomic<bool> by_caller = false, lacks_memory = false;

 private:
  const std::size_t threads_;
};

template <class Done>
void wait_until(Done done) {
  while (!done()) std::this_thread::yield();
}

TEST(HostPartThreads, FollowTheJob) {
  for (const std::size_t threads : {1, 3}) {
    Pieces part(threads);
    std::atomic<index_t> told = 0;
    HostPartThreads beside(part, [&](const WrittenArea& each) { told += 1 + each.block.pitch_bytes; });
    std::atomic<TaskId> home = 0;
    const auto caller = std::this_thread::get_id();
    beside.run(
        [&] {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          for (int result = 1; result <= 50; ++result) {
            ++home;
            beside.raise();
            // They wait for nothing but results.
            wait_until([&] { return part.done.load() == result; });
          }
        },
        [&](TaskId task) { return task < home.load(); });
    EXPECT_EQ(part.done.load(), 50);
    EXPECT_EQ(told.load(), 50 + 49 * 50 / 2);
    EXPECT_FALSE(part.by_caller.load());
  }
}

TEST(HostPartThreads, EndWithTheJob) {
  Pieces part(2);
  HostPartThreads beside(part, [](const WrittenArea&) {});
  const auto all_are_home = [](TaskId) { return true; };
  beside.run([&] { wait_until([&] { return part.done.load() > 10; }); }, all_are_home);
  const TaskId done = part.done.load();
  std::this_thread::yield();
  EXPECT_EQ(part.done.load(), done) << "though there is more to do";
}

TEST(HostPartThreads, ErrorsOfTheJobAreTheCallers) {
  Pieces part(2);
  HostPartThreads beside(part, [](const WrittenArea&) {});
  EXPECT_THROW(beside.run([] { throw std::runtime_error("of the job"); }, [](TaskId) { return true; }),
               std::runtime_error);
}

TEST(HostPartThreads, NoMemoryForThePartIsNoErrorOfTheJob) {
  Pieces part(2);
  part.lacks_memory = true;
  HostPartThreads beside(part, [](const WrittenArea&) {});
  bool has_run = false;
  beside.run([&] { has_run = true; }, [](TaskId) { return true; });
  EXPECT_TRUE(has_run);
  EXPECT_EQ(part.done.load(), 0);
}

}  // namespace host_part_test
}  // namespace tessera::runtime
