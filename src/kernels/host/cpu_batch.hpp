// A batch on the CPU BLAS: of products, or of problems of LAPACK. Products that a BLAS computes on one thread
// (OpenBLAS: up to 64^3) are computed by several threads of ours side by side. So are larger ones, in pieces of
// that size, where there are many: the BLAS's own threads would wait for each other at the end of each. Where
// there are few, the BLAS's threads compute each. The number of these is the program's choice and is never
// changed; ours are no more. LAPACK's problems are shared likewise, by their arithmetic.
#pragma once

#include <functional>

#include "calls/gemm_batch.hpp"
#include "calls/lapack_problems.hpp"
#include "kernels/host/cpu_blas.hpp"

namespace tessera::kernels {

/// Up to this volume a product is left to one thread.
inline constexpr index_t one_thread_size = 64;
inline constexpr index_t one_thread_volume = one_thread_size * one_thread_size * one_thread_size;
/// So many products, or more, are all divided among threads of ours.
inline constexpr index_t many_products = 128;

/// The sum of the volumes of products that are divided among threads of ours.
index_t shared_volume(const GemmBatch& batch, index_t first, index_t last);

/// Likewise of LAPACK's problems; larger inverses are left to the threads of the BLAS (kernels/host/cpu_lapack.hpp).
index_t shared_volume(const LapackProblems& batch, index_t first, index_t last);

/// Half of the floating-point operations of a real problem: m * n * k of as much arithmetic in products.
index_t volume_of(const LapackProblems& batch, const LapackProblem& problem);

/// Threads that the products of a batch may have. The program's own limits hold for them as for the BLAS's threads: a
/// program that has a thread on each processor, or asks for one thread, gets no more. @param now of the BLAS
int most_threads(int processors, const BlasThreads& now);
/// Threads that one call may have when the CPU computes so many calls at the same time.
int most_threads_of_call(int most, int calls);
/// The number at the beginning of a list as in OMP_NUM_THREADS. nullptr, or no such number: as many as an int holds.
int threads_in(const char* setting);

/// Threads that share so much work, the caller's included: none is started for less than it takes to start one.
int threads_for(index_t volume, int most);

/// Computes the products [first, last). @param compute a product, on any thread. An
/// exception of it ends the process, since other products would be lost
/// @param threads that share them, the caller's included
void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, int threads,
                    const std::function<void(const Level3&)>& compute) noexcept;
/// The same for problems of LAPACK, and tells their info. @param blas nullptr: by the reference
/// @pre reserve_space() for as many threads
void compute_on_cpu(LapackProblems& batch, index_t first, index_t last, int threads, const CpuBlas* blas) noexcept;

/// Of the batch, which keeps it. @throws std::bad_alloc
void reserve_space(LapackProblems& batch, int threads);

}  // namespace tessera::kernels
