#include "kernels/host/cpu_batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/gemm_pieces.hpp"

namespace tessera::kernels {
namespace {

/// The least work of a thread: some 100 us.
constexpr index_t volume_of_thread = index_t{1} << 20;

/// Problems that a thread draws at once: enough not to meet at the counter, few enough that all threads end together.
index_t drawn_at_once(index_t count, int threads) {
  return std::clamp<index_t>(count / (index_t{32} * threads), 1, 64);
}

index_t volume_of(const Product& p) { return p.m * p.n * p.k; }

bool is_shared(index_t volume, index_t count) { return volume <= one_thread_volume || count >= many_products; }
bool is_shared(const LapackProblems& batch, index_t i, index_t count) {
  const LapackProblem& problem = batch.problem(i);
  if (inverts(batch.routine) && problem.n > most_order_of_shared_inverse) return false;
  return is_shared(kernels::volume_of(batch, problem), count);
}

/// compute(i, thread, false) for those that are shared, on so many threads, the caller's included; then, one after the
/// other, compute(i, 0, true) for the others. @param compute throws nothing
template <class IsShared, class Compute>
void share_out(index_t first, index_t last, int threads, const IsShared& is_shared, const Compute& compute) noexcept {
  const index_t at_once = drawn_at_once(last - first, threads);
  std::atomic<index_t> next = first;     // relaxed: only divides; side_by_side() orders what the threads did
  std::atomic<bool> has_others = false;  // likewise
  const auto compute_some = [&](std::size_t thread) noexcept {
    for (;;) {
      const index_t begin = next.fetch_add(at_once, std::memory_order_relaxed);
      if (begin >= last) return;
      for (index_t i = begin; i < std::min(begin + at_once, last); ++i)
        is_shared(i) ? compute(i, thread, false) : has_others.store(true, std::memory_order_relaxed);
    }
  };
  const WithoutCancellation stays;
  try {
    if (threads > 1) side_by_side(static_cast<std::size_t>(threads), compute_some);
  } catch (const std::bad_alloc&) {  // no memory for threads; their own work throws nothing
  }
  compute_some(0);
  if (!has_others.load(std::memory_order_relaxed)) return;
  for (index_t i = first; i < last; ++i) {
    if (!is_shared(i)) compute(i, 0, true);
  }
}

}  // namespace

int most_threads(int processors, const BlasThreads& now) {
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

index_t volume_of(const LapackProblems& batch, const LapackProblem& problem) {
  return static_cast<index_t>(batch.flops_of(problem) / flops_of_volume(batch.type, 1));
}

index_t shared_volume(const LapackProblems& batch, index_t first, index_t last) {
  index_t sum = 0;
  for (index_t i = first; i < last; ++i)
    sum += is_shared(batch, i, last - first) ? volume_of(batch, batch.problem(i)) : 0;
  return sum;
}

void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, int threads,
                    const std::function<void(const Level3&)>& compute) noexcept {
  const auto volume = [&](index_t i) { return volume_of(batch.problem(i)); };
  share_out(
      first, last, threads, [&](index_t i) { return is_shared(volume(i), last - first); },
      [&](index_t i, std::size_t /*thread*/, bool is_alone) {
        if (!is_alone && threads > 1 && volume(i) > one_thread_volume)
          for_each_gemm_piece(batch.call(i), one_thread_size, compute);
        else
          compute(batch.call(i));
      });
}

void compute_on_cpu(LapackProblems& batch, index_t first, index_t last, int threads, const CpuBlas* blas) noexcept {
  share_out(
      first, last, threads, [&](index_t i) { return is_shared(batch, i, last - first); },
      [&](index_t i, std::size_t thread, bool is_alone) {
        const LapackProblem& problem = batch.problem(i);
        const int info = run_lapack(blas, batch, problem, !is_alone && threads > 1, batch.space.of(thread));
        if (problem.info != nullptr) *problem.info = info;
      });
}

void reserve_space(LapackProblems& batch, int threads) {
  std::size_t most = 0;
  for (const LapackProblem& problem : batch.problems)
    most = std::max(most, lapack_space_bytes(batch.routine, batch.type, problem.n));
  batch.space.reserve(most, threads);
}

}  // namespace tessera::kernels
