/* Tessera on device memory: batches of products of many small matrices of 16-bit numbers, half precision and bfloat16,
 * real and complex, in the memory of one GPU, on a stream of the caller.
 *
 * C99; no header of CUDA is included. The functions are in the libraries of tessera/device_blas.h. Its rules on
 * handles, time, threads, errors, arrays, bounds, strides, overlap and info hold here, too.
 *
 * Types. Matrices are passed as void: C has no types for their elements, and CUDA's own pointers then need no cast
 * where a stride is passed.
 *
 *   h     binary16 of IEEE 754, CUDA's __half                          aligned to 2 bytes
 *   bf    bfloat16, CUDA's __nv_bfloat16                               2
 *   hc    pairs (real, imaginary) of binary16, CUDA's __half2          4
 *   bfc   pairs (real, imaginary) of bfloat16, CUDA's __nv_bfloat162   4
 *
 * No more alignment is needed. Products are fastest if m, n, k, leading dimensions and addresses of all three matrices
 * are multiples of four elements. With multiples of two, loads are half as wide; otherwise each element is a load of
 * its own.
 *
 * Each type has four functions, here those of h; C = alpha * op(A) * op(B) + beta * C with op(A) m x k, op(B) k x n, C m x n:
 *
 *   tessera_device_hgemm_batched(handle, transa, transb, int64_t m, int64_t n, int64_t k,
 *                                float alpha, const void* const* A, int64_t lda, const void* const* B, int64_t ldb,
 *                                float beta, void* const* C, int64_t ldc, int64_t batch_count)
 *   tessera_device_hgemm_strided_batched(handle, transa, transb, int64_t m, int64_t n, int64_t k,
 *                                float alpha, const void* A, int64_t lda, int64_t stride_a,
 *                                const void* B, int64_t ldb, int64_t stride_b,
 *                                float beta, void* C, int64_t ldc, int64_t stride_c, int64_t batch_count)
 *   tessera_device_hgemm_vbatched(handle, transa, transb, int64_t max_m, int64_t max_n, int64_t max_k,
 *                                const int* m, const int* n, const int* k,
 *                                float alpha, const void* const* A, const int* lda, const void* const* B, const int* ldb,
 *                                float beta, void* const* C, const int* ldc, int64_t batch_count, int* info)
 *   tessera_device_hgemm_vbatched_64      the same with int64_t in place of int
 *
 * Strides and leading dimensions are in elements. TESSERA_CONJ_TRANS is TESSERA_TRANS in the real types.
 *
 * Factors. alpha and beta have single precision. Real types pass them by value. Complex types pass the address of two
 * floats (real, imaginary) in host memory, which are read before the call returns. Single precision contains every
 * binary16 and bfloat16. So a factor of 16 bits is passed without loss, and its own type would give the same result. In
 * CUDA C++ a __half converts to a float implicitly; elsewhere the functions below convert it.
 *
 * Arithmetic. Products of elements are exact in single precision, and are summed in single precision. The sum times
 * alpha, beta times C, and their sum are single, too. That sum is rounded to the element's type once: to nearest, ties
 * to even, with subnormal numbers. A number that exceeds the largest one by half a unit of its last place or more
 * becomes infinite (in binary16 65520 and more), as in IEEE 754. Infinities and NaNs in A, B and C propagate as there.
 * Complex products are four real ones. The tensor cores' sums are within a few units of single's last place of each
 * term, in an order of their own.
 *
 * As in the BLAS, beta == 0 does not read C, even if it holds NaNs. alpha == 0, or k == 0, reads neither A nor B.
 *
 * Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication on batches of small matrices in half and half-complex
 * precisions". */
#ifndef TESSERA_DEVICE_HALF_H
#define TESSERA_DEVICE_HALF_H

#include "tessera/device_blas.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The argument lists, by the type of alpha and beta. */
/* clang-format off */
#define TESSERA_BATCHED_HALF(name, factor) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t m, int64_t n, int64_t k, factor alpha, const void* const* A, int64_t lda, \
      const void* const* B, int64_t ldb, factor beta, void* const* C, int64_t ldc, int64_t batch_count)
#define TESSERA_STRIDED_HALF(name, factor) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t m, int64_t n, int64_t k, factor alpha, const void* A, int64_t lda, \
      int64_t stride_a, const void* B, int64_t ldb, int64_t stride_b, factor beta, void* C, int64_t ldc, \
      int64_t stride_c, int64_t batch_count)
#define TESSERA_VBATCHED_HALF(name, integer, factor) \
  tessera_status tessera_device_##name(tessera_device_handle handle, tessera_transpose transa, \
      tessera_transpose transb, int64_t max_m, int64_t max_n, int64_t max_k, const integer* m, const integer* n, \
      const integer* k, factor alpha, const void* const* A, const integer* lda, const void* const* B, \
      const integer* ldb, factor beta, void* const* C, const integer* ldc, int64_t batch_count, integer* info)
#define TESSERA_HALF_BATCHES(name, factor) \
  TESSERA_API TESSERA_BATCHED_HALF(name##_batched, factor); \
  TESSERA_API TESSERA_STRIDED_HALF(name##_strided_batched, factor); \
  TESSERA_API TESSERA_VBATCHED_HALF(name##_vbatched, int, factor); \
  TESSERA_API TESSERA_VBATCHED_HALF(name##_vbatched_64, int64_t, factor)
/* clang-format on */

TESSERA_HALF_BATCHES(hgemm, float);
TESSERA_HALF_BATCHES(bfgemm, float);
TESSERA_HALF_BATCHES(hcgemm, const void*);
TESSERA_HALF_BATCHES(bfcgemm, const void*);

#undef TESSERA_HALF_BATCHES
#undef TESSERA_BATCHED_HALF
#undef TESSERA_STRIDED_HALF
#undef TESSERA_VBATCHED_HALF

/* Conversions of 16-bit numbers on the host, as bits. A float becomes the nearest one, ties to even; beyond the largest
 * number it becomes infinite, as above, and a NaN stays a NaN. The other direction is exact. They need no handle, and
 * may be called at any time. */
TESSERA_API uint16_t tessera_device_float_to_half(float value);
TESSERA_API float tessera_device_half_to_float(uint16_t bits);
TESSERA_API uint16_t tessera_device_float_to_bfloat16(float value);
TESSERA_API float tessera_device_bfloat16_to_float(uint16_t bits);

#ifdef __cplusplus
}
#endif

#endif
