/* Names of a user's BLAS library: a known one, an unknown one, and an internal one of ATLAS. */
void dgemm_(void) {}
void unlisted_product_(void) {}
void ATL_f77wrap_dgemm_(void) {}
