/* Names of a BLAS library that its user has installed: one that is known, one that is not, and one that is ATLAS's own. */
void dgemm_(void) {}
void unlisted_product_(void) {}
void ATL_f77wrap_dgemm_(void) {}
