/* One training pass of a fully connected network in one precision: network_bench.c includes this once for float and once for double, with
     real        the type
     NAME(x)     x with the precision in its name
     CBLAS_GEMM, FORTRAN_GEMM  the two faces of the product
   Matrices are column-major and a sample is a column, so that layer l is Z = W[l] * A[l] + b[l], A[l+1] = max(Z, 0), and the last layer softmax.
   All products are gemm calls; everything else runs over columns or blocks of rows, in threads where the compiler has OpenMP. */

struct NAME(network) {
  int layers; /* weight matrices */
  int batch;
  const int* widths; /* layers + 1; A[l], D[l]: widths[l] x batch; W[l]: widths[l+1] x widths[l] */
  real *W[MAX_LAYERS], *b[MAX_LAYERS];
  real* A[MAX_LAYERS + 1]; /* A[0]: the samples; A[layers]: probabilities of the classes */
  real* D[MAX_LAYERS + 1]; /* derivative of the loss by Z of the layer below */
  int* labels;
};

/* C = alpha * op(A) * op(B) + beta * C */
static void NAME(product)(char op_a, char op_b, int m, int n, int k, real alpha, const real* A, int lda, const real* B,
                          int ldb, real beta, real* C, int ldc) {
  const double begin = seconds_now();
  if (fortran_calls) {
    FORTRAN_GEMM(&op_a, &op_b, &m, &n, &k, &alpha, A, &lda, B, &ldb, &beta, C, &ldc, 1, 1);
  } else {
    CBLAS_GEMM(COLUMN_MAJOR, op_a == 'N' ? NO_TRANS : TRANS, op_b == 'N' ? NO_TRANS : TRANS, m, n, k, alpha, A, lda, B,
               ldb, beta, C, ldc);
  }
  product_seconds += seconds_now() - begin;
}

/* A[l+1] = max(Z + b, 0), in place of the product. */
static void NAME(rectify)(const struct NAME(network) * net, int l) {
  const int rows = net->widths[l + 1];
#pragma omp parallel for
  for (int j = 0; j < net->batch; ++j) {
    real* z = net->A[l + 1] + (size_t)j * (size_t)rows;
    for (int i = 0; i < rows; ++i) {
      const real value = z[i] + net->b[l][i];
      z[i] = value < 0 ? 0 : value; /* NaN is kept */
    }
  }
}

/* The last layer: probabilities in place of Z, D = (probabilities - labels) / batch. Returns the mean of -log(probability of the label).
   exp(Z - max Z) cannot overflow, and log(p) = Z - max Z - log(sum) has no p that rounded to 0. */
static double NAME(softmax)(const struct NAME(network) * net) {
  const int last = net->layers, rows = net->widths[last];
  double loss = 0;
  for (int j = 0; j < net->batch; ++j) {
    real* p = net->A[last] + (size_t)j * (size_t)rows;
    real* d = net->D[last] + (size_t)j * (size_t)rows;
    double largest = -HUGE_VAL, sum = 0;
    for (int i = 0; i < rows; ++i) {
      p[i] += net->b[last - 1][i];
      if (!(p[i] <= largest)) largest = p[i]; /* NaN is kept */
    }
    for (int i = 0; i < rows; ++i) sum += exp((double)p[i] - largest);
    loss -= (double)p[net->labels[j]] - largest - log(sum);
    for (int i = 0; i < rows; ++i) {
      p[i] = (real)(exp((double)p[i] - largest) / sum);
      d[i] = (p[i] - (real)(i == net->labels[j])) / (real)net->batch;
    }
  }
  return loss / net->batch;
}

/* Returns the loss. */
static double NAME(forward)(const struct NAME(network) * net) {
  for (int l = 0; l < net->layers; ++l) {
    const int rows = net->widths[l + 1], inner = net->widths[l];
    NAME(product)('N', 'N', rows, net->batch, inner, 1, net->W[l], rows, net->A[l], inner, 0, net->A[l + 1], rows);
    if (l + 1 < net->layers) NAME(rectify)(net, l);
  }
  return NAME(softmax)(net);
}

/* D[l] is the derivative by A[l]; that by Z is 0 where the layer's output was cut to 0. */
static void NAME(mask)(const struct NAME(network) * net, int l) {
  const int rows = net->widths[l];
#pragma omp parallel for
  for (int j = 0; j < net->batch; ++j) {
    const real* a = net->A[l] + (size_t)j * (size_t)rows;
    real* d = net->D[l] + (size_t)j * (size_t)rows;
    for (int i = 0; i < rows; ++i) d[i] = a[i] > 0 ? d[i] : 0;
  }
}

/* b[l] -= rate * sum of the columns of D[l+1] */
static void NAME(update_bias)(const struct NAME(network) * net, int l, real rate) {
  enum { BLOCK = 256 };
  const int rows = net->widths[l + 1];
#pragma omp parallel for
  for (int begin = 0; begin < rows; begin += BLOCK) {
    const int count = rows - begin < BLOCK ? rows - begin : BLOCK;
    real sum[BLOCK] = {0};
    for (int j = 0; j < net->batch; ++j) {
      const real* d = net->D[l + 1] + (size_t)j * (size_t)rows + begin;
      for (int i = 0; i < count; ++i) sum[i] += d[i];
    }
    for (int i = 0; i < count; ++i) net->b[l][begin + i] -= rate * sum[i];
  }
}

/* The derivatives of all layers from the last to the first, and the step W -= rate * dloss/dW in the product that makes the derivative. A layer
   passes its derivative down before its weights change. */
static void NAME(backward)(const struct NAME(network) * net, real rate) {
  for (int l = net->layers - 1; l >= 0; --l) {
    const int rows = net->widths[l + 1], inner = net->widths[l];
    if (l > 0) {
      NAME(product)('T', 'N', inner, net->batch, rows, 1, net->W[l], rows, net->D[l + 1], rows, 0, net->D[l], inner);
      NAME(mask)(net, l);
    }
    NAME(product)('N', 'T', rows, inner, net->batch, -rate, net->D[l + 1], rows, net->A[l], inner, 1, net->W[l], rows);
    NAME(update_bias)(net, l, rate);
  }
}

/* Random weights of variance 2 / inputs (He et al. 2015), biases 0. Samples of class c are noise around a pattern of that class, so that there is
   something to learn. The same in both precisions. */
static void NAME(create)(struct NAME(network) * net, int layers, const int* widths, int batch) {
  random_state = 88172645463325252u;
  net->layers = layers;
  net->batch = batch;
  net->widths = widths;
  net->labels = allocate(sizeof(int) * (size_t)batch);
  for (int l = 0; l <= layers; ++l) {
    const size_t count = (size_t)widths[l] * (size_t)batch;
    net->A[l] = allocate(sizeof(real) * count);
    net->D[l] = l > 0 ? allocate(sizeof(real) * count) : NULL;
    if (l == layers) break;
    const size_t weights = (size_t)widths[l] * (size_t)widths[l + 1];
    const double scale = sqrt(24.0 / widths[l]); /* of numbers in (-0.5, 0.5), whose variance is 1/12 */
    net->W[l] = allocate(sizeof(real) * weights);
    for (size_t i = 0; i < weights; ++i) net->W[l][i] = (real)(float)(scale * random_number());
    net->b[l] = allocate(sizeof(real) * (size_t)widths[l + 1]);
    for (int i = 0; i < widths[l + 1]; ++i) net->b[l][i] = 0;
  }
  const int classes = widths[layers];
  for (int j = 0; j < batch; ++j) {
    net->labels[j] = j % classes;
    for (int i = 0; i < widths[0]; ++i) {
      const double pattern = i % classes == net->labels[j] ? 1 : 0;
      net->A[0][(size_t)j * (size_t)widths[0] + (size_t)i] = (real)(float)(pattern + 2 * random_number());
    }
  }
}

static void NAME(destroy)(struct NAME(network) * net) {
  for (int l = 0; l <= net->layers; ++l) {
    free(net->A[l]);
    free(net->D[l]);
    if (l == net->layers) break;
    free(net->W[l]);
    free(net->b[l]);
  }
  free(net->labels);
}

/* Passes over the same batch. losses[i]: before the step of pass i; seconds and products: of each pass. */
static void NAME(train)(int layers, const int* widths, int batch, int passes, double rate, double* losses,
                        double* seconds, double* products) {
  struct NAME(network) net;
  NAME(create)(&net, layers, widths, batch);
  for (int pass = 0; pass < passes; ++pass) {
    product_seconds = 0;
    const double begin = seconds_now();
    losses[pass] = NAME(forward)(&net);
    NAME(backward)(&net, (real)rate);
    seconds[pass] = seconds_now() - begin;
    products[pass] = product_seconds;
  }
  NAME(destroy)(&net);
}

/* The derivative of the loss by parameter i of layer l, weights first, then biases, as a step of rate 1 of the same network takes it. */
static double* NAME(derivative)(const struct NAME(network) * net, int l) {
  const size_t biases = (size_t)net->widths[l + 1], weights = (size_t)net->widths[l] * biases;
  struct NAME(network) next;
  NAME(create)(&next, net->layers, net->widths, net->batch);
  NAME(forward)(&next);
  NAME(backward)(&next, 1);
  double* result = allocate(sizeof(double) * (weights + biases));
  for (size_t i = 0; i < weights; ++i) result[i] = (double)net->W[l][i] - (double)next.W[l][i];
  for (size_t i = 0; i < biases; ++i) result[weights + i] = (double)net->b[l][i] - (double)next.b[l][i];
  NAME(destroy)(&next);
  return result;
}
