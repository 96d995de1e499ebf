/* Times training passes (forward, backward, update: a step of stochastic gradient descent on one mini-batch) of a fully connected network with
   ReLU and softmax cross-entropy, 3072-16384-16384-10 as in BLASX's section V-C (Wang et al. 2016) without options. Linked with libblas.so.3 by
   this name, so that LD_PRELOAD and LD_LIBRARY_PATH decide whose it is; knows nothing of Tessera. Prints one line of JSON; status 1 if the loss
   is not a number or does not fall.

   usage: network_bench [--layers N-N-...] [--batch N] [--passes N] [--type s|d] [--rate X] [--calls cblas|fortran]
          network_bench --check [--layers N-N-...] [--batch N]
   --calls fortran: sgemm_ in place of cblas_sgemm, for libraries that catch only these (NVBLAS).
   --check: derivatives by all parameters against central differences in double precision, and those in single against those in double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "network_bench"
#include "program.h"

enum { MAX_LAYERS = 64, MAX_PASSES = 1000 };
enum { COLUMN_MAJOR = 102, NO_TRANS = 111, TRANS = 112 }; /* of CBLAS */

typedef size_t length; /* of a character argument */
void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float* A, int lda,
                 const float* B, int ldb, float beta, float* C, int ldc);
void cblas_dgemm(int order, int op_a, int op_b, int m, int n, int k, double alpha, const double* A, int lda,
                 const double* B, int ldb, double beta, double* C, int ldc);
void sgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* A, const int* lda, const float* B, const int* ldb, const float* beta, float* C, const int* ldc,
            length, length);
void dgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k, const double* alpha,
            const double* A, const int* lda, const double* B, const int* ldb, const double* beta, double* C,
            const int* ldc, length, length);

static int fortran_calls = 0;
static double product_seconds = 0; /* in gemm calls, since it was last set to 0 */

#define real float
#define NAME(x) single_##x
#define CBLAS_GEMM cblas_sgemm
#define FORTRAN_GEMM sgemm_
#include "network_pass.h"
#undef real
#undef NAME
#undef CBLAS_GEMM
#undef FORTRAN_GEMM

#define real double
#define NAME(x) double_##x
#define CBLAS_GEMM cblas_dgemm
#define FORTRAN_GEMM dgemm_
#include "network_pass.h"
#undef real
#undef NAME
#undef CBLAS_GEMM
#undef FORTRAN_GEMM

/* |x - y| / |y|, Euclidean */
static double difference(size_t count, const double* x, const double* y) {
  double distance = 0, size = 0;
  for (size_t i = 0; i < count; ++i) {
    distance += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return sqrt(distance / size);
}

/* Central differences of step h have an error of h^2 in the derivative and eps / h in the loss: both are near 1e-10 for h = 1e-5. A kink of
   ReLU between the two points would show as 1e-3 or so. */
static int check(int layers, const int* widths, int batch) {
  const double step = 1e-5;
  struct single_network in_single;
  struct double_network in_double;
  single_create(&in_single, layers, widths, batch);
  double_create(&in_double, layers, widths, batch);
  double worst_double = 0, worst_single = 0;
  for (int l = 0; l < layers; ++l) {
    const size_t weights = (size_t)widths[l] * (size_t)widths[l + 1], count = weights + (size_t)widths[l + 1];
    double* derivative = double_derivative(&in_double, l);
    double* rounded = single_derivative(&in_single, l);
    double* numerical = allocate(sizeof(double) * count);
    for (size_t i = 0; i < count; ++i) {
      double* parameter = i < weights ? &in_double.W[l][i] : &in_double.b[l][i - weights];
      const double value = *parameter;
      *parameter = value + step;
      const double above = double_forward(&in_double);
      *parameter = value - step;
      const double below = double_forward(&in_double);
      *parameter = value;
      numerical[i] = (above - below) / (2 * step);
    }
    const double error_double = difference(count, derivative, numerical);
    const double error_single = difference(count, rounded, derivative);
    if (!(error_double <= worst_double)) worst_double = error_double;
    if (!(error_single <= worst_single)) worst_single = error_single;
    free(derivative);
    free(rounded);
    free(numerical);
  }
  single_destroy(&in_single);
  double_destroy(&in_double);
  const int correct = worst_double < 1e-6 && worst_single < 1e-3;
  printf(
      "{\"check\": \"derivatives\", \"double_against_differences\": %.3g, \"single_against_double\": %.3g, "
      "\"correct\": %s}\n",
      worst_double, worst_single, correct ? "true" : "false");
  return correct;
}

static int bench(const char* layers_text, int layers, const int* widths, int batch, char type, int passes,
                 double rate) {
  static double losses[MAX_PASSES], seconds[MAX_PASSES], products[MAX_PASSES];
  double parameters = 0, flops = 0;
  for (int l = 0; l < layers; ++l) {
    const double weights = (double)widths[l] * widths[l + 1];
    parameters += weights + widths[l + 1];
    flops += 2.0 * (l > 0 ? 3 : 2) * weights * batch; /* nobody needs the derivative by the samples */
  }
  (type == 's' ? single_train : double_train)(layers, widths, batch, passes, rate, losses, seconds, products);
  int best = 0, correct = 1;
  for (int pass = 0; pass < passes; ++pass) {
    if (seconds[pass] < seconds[best]) best = pass;
    if (!isfinite(losses[pass])) correct = 0;
  }
  if (passes > 1 && !(losses[passes - 1] < losses[0])) correct = 0;
  const double last = losses[passes - 1];
  printf(
      "{\"layers\": \"%s\", \"batch\": %d, \"type\": \"%c\", \"calls\": \"%s\", \"parameters\": %.0f, \"passes\": %d, "
      "\"seconds\": %.6g, \"products_s\": %.6g, \"first_s\": %.6g, \"gflops\": %.6g, ",
      layers_text, batch, type, fortran_calls ? "fortran" : "cblas", parameters, passes, seconds[best], products[best],
      seconds[0], flops / seconds[best] * 1e-9);
  /* JSON has no NaN. */
  printf("\"first_loss\": %.9g, \"last_loss\": %.9g", isfinite(losses[0]) ? losses[0] : -1, isfinite(last) ? last : -1);
  printf(", \"correct\": %s}\n", correct ? "true" : "false");
  return correct;
}

static int usage(const char* wrong) {
  fprintf(stderr,
          "network_bench: %s\n"
          "usage: network_bench [--layers N-N-...] [--batch N] [--passes N] [--type s|d] [--rate X] [--calls "
          "cblas|fortran]\n"
          "       network_bench --check [--layers N-N-...] [--batch N]\n",
          wrong);
  return 2;
}

int main(int argc, char** argv) {
  const char* layers_text = NULL;
  int batch = 0, passes = 3, checks = 0;
  char type = 's';
  double rate = 0;
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--check") == 0) {
      checks = 1;
      continue;
    }
    if (++i == argc) return usage(name);
    const char* value = argv[i];
    if (strcmp(name, "--layers") == 0) {
      layers_text = value;
    } else if (strcmp(name, "--batch") == 0) {
      batch = atoi(value);
      if (batch < 1) return usage(value);
    } else if (strcmp(name, "--passes") == 0) {
      passes = atoi(value);
      if (passes < 1 || passes > MAX_PASSES) return usage(value);
    } else if (strcmp(name, "--rate") == 0) {
      rate = atof(value);
      if (!(rate > 0)) return usage(value);
    } else if (strcmp(name, "--type") == 0 && (strcmp(value, "s") == 0 || strcmp(value, "d") == 0)) {
      type = value[0];
    } else if (strcmp(name, "--calls") == 0 && (strcmp(value, "cblas") == 0 || strcmp(value, "fortran") == 0)) {
      fortran_calls = value[0] == 'f';
    } else {
      return usage(name);
    }
  }
  if (layers_text == NULL) layers_text = checks ? "7-12-9-4" : "3072-16384-16384-10";
  if (batch == 0) batch = checks ? 8 : 1024;

  int widths[MAX_LAYERS + 1], layers = -1, widest = 0;
  for (const char* at = layers_text;; ++at) {
    char* end = NULL;
    const long width = strtol(at, &end, 10);
    if (end == at || width < 1 || width > 1 << 24 || layers == MAX_LAYERS) return usage(layers_text);
    widths[++layers] = (int)width;
    if (width > widest) widest = (int)width;
    at = end;
    if (*at == '\0') break;
    if (*at != '-') return usage(layers_text);
  }
  if (layers < 1) return usage("--layers needs two at least");
  /* A step changes the outputs by about rate * width: this one lets the loss fall at all sizes. */
  if (!(rate > 0)) rate = 1.0 / widest;
  if (checks) return check(layers, widths, batch) ? 0 : 1;
  return bench(layers_text, layers, widths, batch, type, passes, rate) ? 0 : 1;
}
