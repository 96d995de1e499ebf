// A BLAS whose functions tell by VALUE whose they are. With IS_OURS it is the library that calls are redirected to.
#include <stdint.h>

#ifndef INTEGER
#define INTEGER int32_t
#endif

int product_(void) { return VALUE; }
int product_64_(void) { return VALUE + 1; }
int scipy_product_(void) { return VALUE + 2; }
int tessera_product(void) { return VALUE + 3; }

#ifdef IS_OURS
// The others have no such function.
int product_absent_(void) { return VALUE + 4; }
// Data is not redirected, even if others have a function of its name.
int product_data_ = VALUE;
#else
int product_data_(void) { return VALUE + 5; }
// Its own call, which another library may interpose.
int inner_product(void) { return product_(); }
int isamax_(const INTEGER* n, const float* x, const INTEGER* incx) {
  (void)x;
  (void)incx;
  return *n > 0 ? 1 : 0;
}
#endif
