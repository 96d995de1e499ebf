/* An outside program over the routines on device memory, in host memory. L has ones below a diagonal of twos; its row i
 * times ones is i + 2, so the solution is all ones, exactly. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/device_blas.h>

enum { m = 30, n = 7, lda = 33, ldb = 31 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tessera_device_last_error());
  return 1;
}

int main(void) {
  static double A[lda * m], B[ldb * n];
  tessera_device_handle handle = NULL;
  size_t bytes = 1;
  int wrong = 0;
  int i, j;

  for (j = 0; j < m; ++j)
    for (i = 0; i < lda; ++i) A[i + j * lda] = i == j ? 2 : i > j && i < m ? 1 : 1e300;
  for (j = 0; j < n; ++j)
    for (i = 0; i < ldb; ++i) B[i + j * ldb] = i < m ? i + 2 : -7;

  if (tessera_device_create(&handle) != TESSERA_SUCCESS) return fail("tessera_device_create");
  if (tessera_device_dtrsm_workspace(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n,
                                     &bytes) != TESSERA_SUCCESS)
    return fail("tessera_device_dtrsm_workspace");
  if (tessera_device_dtrsm(handle, TESSERA_LEFT, TESSERA_LOWER, TESSERA_NO_TRANS, TESSERA_NON_UNIT, m, n, 1.0, A, lda,
                           B, ldb) != TESSERA_SUCCESS)
    return fail("tessera_device_dtrsm");
  for (j = 0; j < n; ++j)
    for (i = 0; i < ldb; ++i)
      if (B[i + j * ldb] != (i < m ? 1 : -7)) ++wrong;
  if (tessera_device_destroy(handle) != TESSERA_SUCCESS) return fail("tessera_device_destroy");
  printf("%d wrong elements\n", wrong);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
