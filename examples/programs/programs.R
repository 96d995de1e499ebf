# Five programs as users of R write them. They are those of programs.py, with numbers in double precision everywhere.
#   Rscript --vanilla programs.R polar|gauss|field|network|inverse [--scale S] [--repeats N]
# The head of runner.py describes the options, the line of JSON and the status.
begin <- proc.time()[["elapsed"]]

uniform <- function(m, n) matrix(runif(m * n, -1, 1), m, n)
size <- function(x) sqrt(sum(x^2))
relative <- function(found, expected) size(found - expected) / size(expected)

polar <- list(
  bound = 1e-12,
  make = function(scaled) {
    n <- scaled(6000)
    # The singular values are between about 0.5 and 1.5: so many steps converge.
    list(sizes = list(n = n, steps = 8), A = diag(n) + 0.25 * sqrt(3 / n) * uniform(n, n), v = uniform(n, 1))
  },
  run = function(p) {
    X <- p$A
    for (step in 1:8) X <- 1.5 * X - 0.5 * X %*% crossprod(X)
    X
  },
  # X is orthogonal, and the other factor is symmetric.
  check = function(p, X) {
    max(relative(t(X) %*% (X %*% p$v), p$v), relative(t(X) %*% (p$A %*% p$v), t(p$A) %*% (X %*% p$v)))
  }
)

gauss <- list(
  bound = 1e-8,
  make = function(scaled) {
    n <- scaled(12000)
    points <- matrix(runif(n * 4), n, 4)
    list(sizes = list(n = n, dimensions = 4), points = points, y = rowSums(sin(3 * points)) + runif(n, -0.1, 0.1),
         v = uniform(n, 1))
  },
  run = function(p, length = 0.5, noise = 0.1) {
    n <- nrow(p$points)
    squares <- rowSums(p$points^2)
    distances <- outer(squares, squares, "+") - 2 * tcrossprod(p$points)
    K <- exp(-0.5 * distances / length^2) + noise * diag(n)
    U <- chol(K)
    alpha <- backsolve(U, forwardsolve(t(U), p$y))
    likelihood <- -0.5 * sum(p$y * alpha) - sum(log(diag(U))) - n / 2 * log(2 * pi)
    list(K = K, U = U, alpha = alpha, likelihood = likelihood)
  },
  check = function(p, r) {
    if (!is.finite(r$likelihood)) return(Inf)
    max(relative(r$K %*% r$alpha, p$y), relative(t(r$U) %*% (r$U %*% p$v), r$K %*% p$v))
  }
)

field <- list(
  bound = 1e-10,
  make = function(scaled) {
    n <- scaled(3000)
    symmetric <- function() {
      part <- uniform(n, n)
      (part + t(part)) / sqrt(n)
    }
    list(sizes = list(n = n, steps = 4), core = diag(seq(-1, 1, length.out = n)) + 0.1 * symmetric(),
         interaction = symmetric(), v = uniform(n, 1))
  },
  run = function(p, coupling = 0.1, damping = 0.5) {
    n <- nrow(p$core)
    P <- matrix(0, n, n)
    for (step in 1:4) {
      F <- p$core + coupling * (p$interaction %*% P %*% p$interaction)
      F <- (F + t(F)) / 2
      e <- eigen(F, symmetric = TRUE)
      # The values come in falling order.
      C <- e$vectors[, (n - n %/% 3 + 1):n]
      density <- tcrossprod(C)
      P <- damping * P + (1 - damping) * density
    }
    list(F = F, energies = e$values, D = density, energy = sum(P * (p$core + F)) / 2)
  },
  # The density projects, commutes with the Fock matrix, and has the lowest energies.
  check = function(p, r) {
    if (!is.finite(r$energy)) return(Inf)
    n <- nrow(r$F)
    lowest <- r$energies[(n - n %/% 3 + 1):n]
    Dv <- r$D %*% p$v
    max(relative(r$D %*% Dv, Dv), relative(r$D %*% (r$F %*% p$v), r$F %*% Dv),
        abs(sum(r$D * r$F) - sum(lowest)) / sum(abs(lowest)))
  }
)

network <- list(
  bound = 1e-12,
  make = function(scaled) {
    batch <- scaled(8192)
    widths <- c(scaled(3072), scaled(8192), scaled(8192), 10)
    inputs <- uniform(batch, widths[1])
    targets <- diag(10)[max.col(inputs[, 1:10], "first"), ]
    weights <- lapply(1:3, function(l) uniform(widths[l], widths[l + 1]) * sqrt(6 / widths[l]))
    list(sizes = list(batch = batch, layers = widths, passes = 3), inputs = inputs, targets = targets,
         weights = weights, vectors = lapply(1:3, function(l) uniform(widths[l + 1], 1)))
  },
  run = function(p) {
    batch <- nrow(p$inputs)
    weights <- p$weights
    # The wider a layer is, the more one step changes its sums.
    rate <- 10 / nrow(weights[[2]])
    biases <- lapply(weights, function(w) numeric(ncol(w)))
    losses <- c()
    for (pass in 1:3) {
      activations <- list(p$inputs)
      sums <- list()
      for (l in 1:3) {
        sums[[l]] <- activations[[l]] %*% weights[[l]] + rep(biases[[l]], each = batch)
        activations[[l + 1]] <- sums[[l]] * (sums[[l]] > 0)
      }
      powers <- exp(sums[[3]] - apply(sums[[3]], 1, max))
      guesses <- powers / rowSums(powers)
      losses <- c(losses, -mean(rowSums(p$targets * log(guesses + 1e-30))))

      delta <- (guesses - p$targets) / batch
      deltas <- gradients <- list()
      for (l in 3:1) {
        deltas[[l]] <- delta
        gradients[[l]] <- crossprod(activations[[l]], delta)
        if (l > 1) delta <- tcrossprod(delta, weights[[l]]) * (sums[[l - 1]] > 0)
      }
      used <- list(weights = weights, biases = biases)
      weights <- Map(function(w, g) w - rate * g, weights, gradients)
      biases <- Map(function(b, d) b - rate * colSums(d), biases, deltas)
    }
    list(losses = losses, weights = used$weights, biases = used$biases, activations = activations, sums = sums,
         deltas = deltas, gradients = gradients)
  },
  # All products of the last pass; the loss falls.
  check = function(p, r) {
    if (!isTRUE(r$losses[3] < r$losses[1])) return(Inf)
    batch <- nrow(p$inputs)
    some <- seq(1, batch, by = max(1, batch %/% 64))
    errors <- c()
    for (l in 1:3) {
      v <- p$vectors[[l]]
      forward <- r$activations[[l]] %*% (r$weights[[l]] %*% v) + sum(r$biases[[l]] * v)
      errors <- c(errors, relative(r$sums[[l]] %*% v, forward),
                  relative(r$gradients[[l]] %*% v, t(r$activations[[l]]) %*% (r$deltas[[l]] %*% v)))
      if (l > 1) {
        handed_down <- tcrossprod(r$deltas[[l]][some, ], r$weights[[l]]) * (r$sums[[l - 1]][some, ] > 0)
        errors <- c(errors, relative(r$deltas[[l - 1]][some, ], handed_down))
      }
    }
    max(errors)
  }
)

inverse <- list(
  bound = 1e-7,
  make = function(scaled) {
    n <- scaled(8000)
    list(sizes = list(n = n), A = uniform(n, n), v = uniform(n, 1))
  },
  run = function(p) {
    X <- solve(p$A)
    list(X = X, residual = size(p$A %*% X - diag(nrow(X))))
  },
  check = function(p, r) max(relative(p$A %*% (r$X %*% p$v), p$v), r$residual / sqrt(nrow(r$X)))
)

programs <- list(polar = polar, gauss = gauss, field = field, network = network, inverse = inverse)

usage <- function() {
  message("usage: programs.R ", paste(names(programs), collapse = "|"), " [--scale S] [--repeats N]")
  quit(status = 2)
}
arguments <- commandArgs(trailingOnly = TRUE)
options <- list("--scale" = 1, "--repeats" = 2)
if (length(arguments) %% 2 == 0 || !(arguments[1] %in% names(programs))) usage()
for (i in seq_len(length(arguments) %/% 2) * 2) {
  value <- suppressWarnings(as.numeric(arguments[i + 1]))
  if (!(arguments[i] %in% names(options)) || is.na(value) || value <= 0) usage()
  options[[arguments[i]]] <- value
}

set.seed(1)
program <- programs[[arguments[1]]]
problem <- program$make(function(n) max(16, round(n * options[["--scale"]])))
seconds <- errors <- c()
for (repetition in seq_len(options[["--repeats"]])) {
  before <- proc.time()[["elapsed"]]
  result <- program$run(problem)
  seconds <- c(seconds, proc.time()[["elapsed"]] - before)
  errors <- c(errors, program$check(problem, result))
  rm(result)
}
correct <- all(is.finite(errors)) && all(errors < program$bound)
numbers <- function(x) if (length(x) > 1) sprintf("[%s]", toString(sprintf("%d", x))) else sprintf("%d", x)
sizes <- toString(sprintf('"%s": %s', names(problem$sizes), sapply(problem$sizes, numbers)))
# JSON has no infinity.
residual <- if (all(is.finite(errors))) sprintf("%.6g", max(errors)) else "null"
cat(sprintf(paste('{"program": "%s", "language": "r", "sizes": {%s}, "seconds": [%s], "whole_s": %.6f, "residual": %s,',
                  '"bound": %g, "correct": %s}\n'),
            arguments[1], sizes, toString(sprintf("%.6f", seconds)), proc.time()[["elapsed"]] - begin, residual,
            program$bound, if (correct) "true" else "false"))
quit(status = if (correct) 0 else 1)
