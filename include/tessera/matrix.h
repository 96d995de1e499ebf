/* Tessera: matrices whose results stay on devices between calls.
 *
 * C99. A tessera_matrix is a name for a matrix in host memory. The calls of its context (tessera/tessera.h, lapack.h)
 * know it by its address: whoever passes the matrix, or a block of it, with its leading dimension uses what devices
 * have of it. So a factor, or a matrix that an iteration multiplies by, crosses the link once.
 *
 * While the matrix lives, results stay on devices, and host memory gets them by tessera_matrix_sync() or
 * tessera_matrix_read(). Until then nobody else may read or write the matrix in host memory: no other context, no
 * symbol of BLAS or LAPACK, no tessera_copy_matrix(), no child after fork. A program writes by tessera_matrix_write().
 * It may also call tessera_matrix_sync(), write host memory itself, and say so by tessera_matrix_host_changed() before
 * the next call.
 *
 * Results stay for Level 3, potrf, potrs and posv; getrs leaves the factors where they are. For all other calls, and
 * for calls on the CPU, host memory is made true first, and results go there.
 *
 * The context gives matrices a part of each device's memory: TESSERA_RESIDENT=matrices, or
 * TESSERA_RESIDENT_MEMORY=40GiB for so much (tessera_create_with). Results that have no place there go to host memory.
 * Without devices a matrix is host memory and no more.
 *
 * If a device fails that had the only copy of something, the matrix is lost: calls that use it, and
 * tessera_matrix_sync(), return TESSERA_DEVICE_LOST, until all of it is written anew. All functions are thread-safe;
 * calls on one matrix follow each other as the program orders them, and only reading ones may overlap.
 */
#ifndef TESSERA_MATRIX_H
#define TESSERA_MATRIX_H

#include "tessera/tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tessera_matrix_struct* tessera_matrix;

/* Names a matrix of rows x cols elements of element_size bytes (1 to 16) at `memory`, which is the caller's and
 * outlives it. ld is in elements, at least rows (TESSERA_COL_MAJOR) or cols (TESSERA_ROW_MAJOR). Sizes are at least 1.
 * Opens the devices. TESSERA_INVALID_ARGUMENT: another matrix of the context overlaps it. TESSERA_NOT_AVAILABLE: the
 * context gives matrices no memory of its devices. */
TESSERA_API tessera_status tessera_matrix_create(tessera_context ctx, tessera_layout layout, int64_t rows, int64_t cols,
                                                 size_t element_size, void* memory, int64_t ld, tessera_matrix* matrix);
/* The same without memory of the caller: the matrix has addresses, and pages of host memory only where something is
 * written to them. Its elements are 0. */
TESSERA_API tessera_status tessera_matrix_create_on_devices(tessera_context ctx, tessera_layout layout, int64_t rows,
                                                            int64_t cols, size_t element_size, tessera_matrix* matrix);
/* For the arguments of calls. NULL and 0 for NULL. */
TESSERA_API void* tessera_matrix_address(tessera_matrix matrix);
TESSERA_API int64_t tessera_matrix_ld(tessera_matrix matrix);

/* Host memory gets all of the matrix. Devices keep their copies. Waits for calls that are under way. */
TESSERA_API tessera_status tessera_matrix_sync(tessera_matrix matrix);
/* The block of rows x cols elements whose first one is (row, col) has been written in host memory, which had all of
 * the matrix before: what devices have of the block is void. Of a matrix that is lost, all must be written and named. */
TESSERA_API tessera_status tessera_matrix_host_changed(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows,
                                                       int64_t cols);
/* Copies a block of the matrix to other memory of the same layout. */
TESSERA_API tessera_status tessera_matrix_read(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows,
                                               int64_t cols, void* to, int64_t ldto);
/* Copies other memory of the same layout into a block of the matrix, by way of its host memory. */
TESSERA_API tessera_status tessera_matrix_write(tessera_matrix matrix, int64_t row, int64_t col, int64_t rows,
                                                int64_t cols, const void* from, int64_t ldfrom);
/* *bytes of the matrix are on devices. */
TESSERA_API tessera_status tessera_matrix_resident_bytes(tessera_matrix matrix, int64_t* bytes);

/* Ends the matrix; that of tessera_matrix_create() is made true in host memory first. It is gone whatever is returned.
 * NULL is allowed. A context cannot be destroyed while it has matrices. */
TESSERA_API tessera_status tessera_matrix_destroy(tessera_matrix matrix);

#ifdef __cplusplus
}
#endif

#endif
