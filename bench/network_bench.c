/* Times training passes of a fully connected network in single precision: forward, backward, update, which is a step of stochastic gradient
   descent on one mini-batch, with ReLU and softmax cross-entropy (BLASX, section V-C, Wang et al. 2016: 3072-16384-16384-10). Linked with
   libblas.so.3 by this name, so that LD_PRELOAD and LD_LIBRARY_PATH decide whose it is; knows nothing of Tessera. Prints one line of JSON;
   status 1 if the loss is not a number or does not fall.

   usage: network_bench N-N-... BATCH PASSES [cblas | fortran]
   fortran: sgemm_ in place of cblas_sgemm, for libraries that catch only these (NVBLAS).

   Matrices are column-major and a sample is a column, so that layer l is Z = W[l] * A[l] + b[l], A[l+1] = max(Z, 0), and the last layer softmax.
   All products are gemm calls; everything else runs over columns or blocks of rows, in threads where the compiler has OpenMP. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "network_bench"
#include "program.h"

enum { MAX_LAYERS = 64 };

void cblas_sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float* A, int lda,
                 const float* B, int ldb, float beta, float* C, int ldc);
void sgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* A, const int* lda, const float* B, const int* ldb, const float* beta, float* C, const int* ldc,
            size_t length_of_op_a, size_t length_of_op_b);

static int fortran_calls = 0;
static double product_seconds = 0; /* in gemm calls, since it was last set to 0 */

struct network {
  int layers; /* weight matrices */
  int batch;
  int widths[MAX_LAYERS + 1]; /* layers + 1; A[l], D[l]: widths[l] x batch; W[l]: widths[l+1] x widths[l] */
  float *W[MAX_LAYERS], *b[MAX_LAYERS];
  float* A[MAX_LAYERS + 1]; /* A[0]: the samples; A[layers]: probabilities of the classes */
  float* D[MAX_LAYERS + 1]; /* derivative of the loss by Z of the layer below */
  int* labels;
};

/* C = alpha * op(A) * op(B) + beta * C */
static void product(char op_a, char op_b, int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                    int ldb, float beta, float* C, int ldc) {
  enum { COLUMN_MAJOR = 102, NO_TRANS = 111, TRANS = 112 }; /* of CBLAS */
  const double begin = seconds_now();
  if (fortran_calls)
    sgemm_(&op_a, &op_b, &m, &n, &k, &alpha, A, &lda, B, &ldb, &beta, C, &ldc, 1, 1);
  else
    cblas_sgemm(COLUMN_MAJOR, op_a == 'N' ? NO_TRANS : TRANS, op_b == 'N' ? NO_TRANS : TRANS, m, n, k, alpha, A, lda, B,
                ldb, beta, C, ldc);
  product_seconds += seconds_now() - begin;
}

/* A[l+1] = max(Z + b, 0), in place of the product. */
static void rectify(const struct network* net, int l) {
  const int rows = net->widths[l + 1];
#pragma omp parallel for
  for (int j = 0; j < net->batch; ++j) {
    float* z = net->A[l + 1] + (size_t)j * (size_t)rows;
    for (int i = 0; i < rows; ++i) {
      const float value = z[i] + net->b[l][i];
      z[i] = value < 0 ? 0 : value; /* NaN is kept */
    }
  }
}

/* The last layer: probabilities in place of Z, D = (probabilities - labels) / batch. Returns the mean of -log(probability of the label).
   exp(Z - max Z) cannot overflow, and log(p) = Z - max Z - log(sum) has no p that rounded to 0. */
static double softmax(const struct network* net) {
  const int last = net->layers, rows = net->widths[last];
  double loss = 0;
  for (int j = 0; j < net->batch; ++j) {
    float* p = net->A[last] + (size_t)j * (size_t)rows;
    float* d = net->D[last] + (size_t)j * (size_t)rows;
    double largest = -HUGE_VAL, sum = 0;
    for (int i = 0; i < rows; ++i) {
      p[i] += net->b[last - 1][i];
      if (!(p[i] <= largest)) largest = p[i]; /* NaN is kept */
    }
    for (int i = 0; i < rows; ++i) sum += exp((double)p[i] - largest);
    loss -= (double)p[net->labels[j]] - largest - log(sum);
    for (int i = 0; i < rows; ++i) {
      p[i] = (float)(exp((double)p[i] - largest) / sum);
      d[i] = (p[i] - (float)(i == net->labels[j])) / (float)net->batch;
    }
  }
  return loss / net->batch;
}

/* Returns the loss. */
static double forward(const struct network* net) {
  for (int l = 0; l < net->layers; ++l) {
    const int rows = net->widths[l + 1], inner = net->widths[l];
    product('N', 'N', rows, net->batch, inner, 1, net->W[l], rows, net->A[l], inner, 0, net->A[l + 1], rows);
    if (l + 1 < net->layers) rectify(net, l);
  }
  return softmax(net);
}

/* D[l] is the derivative by A[l]; that by Z is 0 where the layer's output was cut to 0. */
static void mask(const struct network* net, int l) {
  const int rows = net->widths[l];
#pragma omp parallel for
  for (int j = 0; j < net->batch; ++j) {
    const float* a = net->A[l] + (size_t)j * (size_t)rows;
    float* d = net->D[l] + (size_t)j * (size_t)rows;
    for (int i = 0; i < rows; ++i) d[i] = a[i] > 0 ? d[i] : 0;
  }
}

/* b[l] -= rate * sum of the columns of D[l+1] */
static void update_bias(const struct network* net, int l, float rate) {
  enum { BLOCK = 256 };
  const int rows = net->widths[l + 1];
#pragma omp parallel for
  for (int begin = 0; begin < rows; begin += BLOCK) {
    const int count = rows - begin < BLOCK ? rows - begin : BLOCK;
    float sum[BLOCK] = {0};
    for (int j = 0; j < net->batch; ++j) {
      const float* d = net->D[l + 1] + (size_t)j * (size_t)rows + begin;
      for (int i = 0; i < count; ++i) sum[i] += d[i];
    }
    for (int i = 0; i < count; ++i) net->b[l][begin + i] -= rate * sum[i];
  }
}

/* Makes the derivatives of all layers from the last to the first, and takes the step W -= rate * dloss/dW in the same products. A layer passes
   its derivative down before its weights change. */
static void backward(const struct network* net, float rate) {
  for (int l = net->layers - 1; l >= 0; --l) {
    const int rows = net->widths[l + 1], inner = net->widths[l];
    if (l > 0) {
      product('T', 'N', inner, net->batch, rows, 1, net->W[l], rows, net->D[l + 1], rows, 0, net->D[l], inner);
      mask(net, l);
    }
    product('N', 'T', rows, inner, net->batch, -rate, net->D[l + 1], rows, net->A[l], inner, 1, net->W[l], rows);
    update_bias(net, l, rate);
  }
}

/* Random weights of variance 2 / inputs (He et al. 2015), biases 0. Samples of class c are noise around a pattern of that class, so that there is
   something to learn. */
static void create(struct network* net) {
  const size_t batch = (size_t)net->batch;
  net->labels = allocate(sizeof(int) * batch);
  for (int l = 0; l <= net->layers; ++l) {
    const size_t width = (size_t)net->widths[l];
    net->A[l] = allocate(sizeof(float) * width * batch);
    net->D[l] = allocate(sizeof(float) * width * batch);
    if (l == net->layers) break;
    const size_t next = (size_t)net->widths[l + 1];
    const double scale = sqrt(24.0 / (double)width); /* of numbers in (-0.5, 0.5), whose variance is 1/12 */
    net->W[l] = allocate(sizeof(float) * width * next);
    for (size_t i = 0; i < width * next; ++i) net->W[l][i] = (float)(scale * random_number());
    net->b[l] = allocate(sizeof(float) * next);
    memset(net->b[l], 0, sizeof(float) * next);
  }
  const int classes = net->widths[net->layers], inputs = net->widths[0];
  for (int j = 0; j < net->batch; ++j) {
    net->labels[j] = j % classes;
    for (int i = 0; i < inputs; ++i) {
      const double pattern = i % classes == net->labels[j] ? 1 : 0;
      net->A[0][(size_t)j * (size_t)inputs + (size_t)i] = (float)(pattern + 2 * random_number());
    }
  }
}

/* The widths of "3072-16384-10". Returns whether it is such a text. */
static int read_widths(const char* text, struct network* net) {
  for (net->layers = -1;; ++text) {
    char* end = NULL;
    const long width = strtol(text, &end, 10);
    if (end == text || width < 1 || width > 1 << 24 || net->layers == MAX_LAYERS) return 0;
    net->widths[++net->layers] = (int)width;
    text = end;
    if (*text == '\0') return net->layers > 0;
    if (*text != '-') return 0;
  }
}

int main(int argc, char** argv) {
  struct network net;
  const int passes = argc > 3 ? atoi(argv[3]) : 0;
  net.batch = argc > 2 ? atoi(argv[2]) : 0;
  fortran_calls = argc == 5 && strcmp(argv[4], "fortran") == 0;
  if (passes < 1 || net.batch < 1 || argc > 5 || (argc == 5 && !fortran_calls && strcmp(argv[4], "cblas") != 0) ||
      !read_widths(argv[1], &net)) {
    fprintf(stderr, "usage: network_bench N-N-... BATCH PASSES [cblas | fortran]\n");
    return 2;
  }
  double flops = 0;
  int widest = 0;
  for (int l = 0; l <= net.layers; ++l) {
    if (net.widths[l] > widest) widest = net.widths[l];
    /* Nobody needs the derivative by the samples. */
    if (l < net.layers) flops += 2.0 * (l > 0 ? 3 : 2) * net.widths[l] * net.widths[l + 1] * net.batch;
  }
  create(&net);
  double first_loss = 0, loss = 0, first = 0, best = HUGE_VAL, best_products = 0;
  for (int pass = 0; pass < passes; ++pass) {
    product_seconds = 0;
    const double begin = seconds_now();
    loss = forward(&net);
    /* A step changes the outputs by about rate * width: this rate lets the loss fall at all sizes. */
    backward(&net, 1.0F / (float)widest);
    const double seconds = seconds_now() - begin;
    if (pass == 0) first_loss = loss, first = seconds;
    if (seconds < best) best = seconds, best_products = product_seconds;
    if (!isfinite(loss)) break;
  }
  const int correct = isfinite(loss) && (passes == 1 || loss < first_loss);
  printf("{\"layers\": \"%s\", \"batch\": %d, \"calls\": \"%s\", \"passes\": %d, \"seconds\": %.6g, ", argv[1],
         net.batch, fortran_calls ? "fortran" : "cblas", passes, best);
  printf("\"products_s\": %.6g, \"first_s\": %.6g, \"gflops\": %.6g, ", best_products, first, flops / best * 1e-9);
  /* JSON has no NaN. */
  printf("\"first_loss\": %.9g, \"last_loss\": %.9g, \"correct\": %s}\n", isfinite(first_loss) ? first_loss : -1,
         isfinite(loss) ? loss : -1, correct ? "true" : "false");
  return correct ? 0 : 1;
}
