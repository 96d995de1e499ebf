// A batch of products on the CPU BLAS. Products that a BLAS computes on one thread (OpenBLAS: up to 64^3) are computed
// by several threads of ours side by side. So are larger ones, in pieces of that size, where there are many: the BLAS's
// own threads would meet at the end of each. Of a few, each is left to these. How many they are is the program's
// business and is never changed; and ours are no more.
#pragma once

#include <functional>

#include "core/gemm_batch.hpp"
#include "kernels/host/cpu_blas.hpp"

namespace tessera::api {

/// Up to this volume a product is left to one thread.
inline constexpr index_t one_thread_size = 64;
inline constexpr index_t one_thread_volume = one_thread_size * one_thread_size * one_thread_size;
/// So many products, or more, are all divided among threads of ours.
inline constexpr index_t many_products = 128;

/// The sum of the volumes of products that are divided among threads of ours.
index_t shared_volume(const GemmBatch& batch, index_t first, index_t last);

/// Threads that the products of a batch may have. The program's own limits hold for them as for the BLAS's threads: a
/// program that has a thread on each processor, or asks for one thread, gets no more. @param now of the BLAS
int most_threads(int processors, const kernels::BlasThreads& now);
/// Those of one of so many calls that the CPU computes at the same time.
int most_threads_of_call(int most, int calls);
/// What a list of numbers as in OMP_NUM_THREADS begins with. nullptr, or no such number: as many as an int holds.
int threads_in(const char* setting);

/// Threads that share so much work, the caller's included: none is started for less than it takes to start one.
int threads_for(index_t volume, int most);

/// Computes the products [first, last). @param compute a product, on any thread. What it throws ends the process: others
/// would be lost
/// @param threads that share them, the caller's included
void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, int threads,
                    const std::function<void(const Level3&)>& compute) noexcept;

}  // namespace tessera::api
