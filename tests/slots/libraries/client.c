// A module that calls a BLAS through every kind of slot.
int product_(void);
int product_64_(void);
int scipy_product_(void);
int tessera_product(void);
int product_data_(void);
__attribute__((weak)) int product_absent_(void);

#ifdef HAS_PRODUCT
// A BLAS that is linked into the module.
int product_(void) { return 30; }
#endif

int call_product(void) { return product_(); }
int call_product_64(void) { return product_64_(); }
int call_scipy_product(void) { return scipy_product_(); }
int call_tessera_product(void) { return tessera_product(); }
int call_product_data(void) { return product_data_(); }
int call_product_absent(void) { return product_absent_ != 0 ? product_absent_() : -1; }

// In writable data, and in data that is read-only after relocation.
int (*volatile pointer)(void) = scipy_product_;
int (*const table[])(void) = {scipy_product_, product_64_};
int call_pointer(void) { return pointer(); }
int call_table(void) { return table[0]() + table[1](); }
static int assigned_function(void) { return 40; }
void assign_pointer(void) { pointer = assigned_function; }
