#include "blas_api/cpu_batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "kernels/host/gemm_pieces.hpp"

namespace tessera::api {
namespace {

/// What a thread should have to do: some 100 us.
constexpr index_t volume_of_thread = index_t{1} << 20;

/// Drawn at once: enough not to meet at the counter, few enough that all end together.
index_t drawn_at_once(index_t count, int threads) {
  return std::clamp<index_t>(count / (index_t{32} * threads), 1, 64);
}

index_t volume_of(const Product& p) { return p.m * p.n * p.k; }

bool is_shared(index_t volume, index_t count) { return volume <= one_thread_volume || count >= many_products; }

}  // namespace

int most_threads(int processors, const kernels::BlasThreads& now) {
  if (now.in_team) return 1;
  const int most = std::min(processors, now.own);
  return std::max(1, now.openmp > 0 ? std::min(most, now.openmp) : most);
}

int most_threads_of_call(int most, int calls) { return std::max(1, most / std::max(calls, 1)); }

int threads_in(const char* setting) {
  constexpr int any = std::numeric_limits<int>::max();
  const long number = setting != nullptr ? std::strtol(setting, nullptr, 10) : 0;
  return number > 0 && number < any ? static_cast<int>(number) : any;
}

int threads_for(index_t volume, int most) {
  return static_cast<int>(std::clamp<index_t>(volume / volume_of_thread, 1, std::max(most, 1)));
}

index_t shared_volume(const GemmBatch& batch, index_t first, index_t last) {
  index_t sum = 0;
  for (index_t i = first; i < last; ++i) {
    const index_t own = volume_of(batch.problem(i));
    sum += is_shared(own, last - first) ? own : 0;
  }
  return sum;
}

void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, int threads,
                    const std::function<void(const Level3&)>& compute) noexcept {
  const index_t at_once = drawn_at_once(last - first, threads);
  std::atomic<index_t> next = first;     // relaxed: only divides; side_by_side() orders what the threads did
  std::atomic<bool> has_larger = false;  // likewise
  const auto compute_some = [&](std::size_t) noexcept {
    for (;;) {
      const index_t begin = next.fetch_add(at_once, std::memory_order_relaxed);
      if (begin >= last) return;
      for (index_t i = begin; i < std::min(begin + at_once, last); ++i) {
        const index_t volume = volume_of(batch.problem(i));
        if (!is_shared(volume, last - first)) {
          has_larger.store(true, std::memory_order_relaxed);
        } else if (threads > 1 && volume > one_thread_volume) {
          kernels::for_each_gemm_piece(batch.call(i), one_thread_size, compute);
        } else {
          compute(batch.call(i));
        }
      }
    }
  };
  const WithoutCancellation stays;
  try {
    if (threads > 1) side_by_side(static_cast<std::size_t>(threads), compute_some);
  } catch (const std::bad_alloc&) {  // no memory for threads: of what these do nothing is thrown
  }
  compute_some(0);
  if (!has_larger.load(std::memory_order_relaxed)) return;
  for (index_t i = first; i < last; ++i) {
    if (!is_shared(volume_of(batch.problem(i)), last - first)) compute(batch.call(i));
  }
}

}  // namespace tessera::api
