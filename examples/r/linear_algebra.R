# Matrix products, solvers and factorisations of R: every line of the output is the same on any BLAS, except for
# rounding.
#   tessera run --verbose -- Rscript --vanilla examples/r/linear_algebra.R

# One line of numbers by which two runs can be compared: the Frobenius norm and the inner product with fixed weights. A
# wrong, missing or misplaced tile changes both.
report <- function(name, x) {
  w <- 1 + (7 * (seq_along(x) - 1)) %% 11
  w <- w / sqrt(sum(w^2))
  values <- c(sqrt(sum(Mod(x)^2)), sum(w * Re(x)), if (is.complex(x)) sum(w * Im(x)))
  cat(name, sprintf("%.17g", values), "\n")
}

# The error of a result, in units of the rounding of n additions of numbers as large as those of `like`.
residual <- function(name, error, like, n) {
  cat(sprintf("%s.residual %.3g\n", name, max(Mod(error)) / (.Machine$double.eps * n * max(Mod(like)))))
}

# m x n numbers between 0 and 1 that look random and are the same everywhere.
numbers <- function(m, n, seed) outer(1:m, 1:n, function(i, j) (sin(i * 12.9898 + j * 78.233 + seed) * 43758.5453) %% 1)

# a %*% b without a BLAS: a sum of outer products.
multiply <- function(a, b) {
  c <- 0 * outer(a[, 1], b[1, ])
  for (l in seq_len(ncol(a))) c <- c + outer(a[, l], b[l, ])
  c
}

check <- function(name, c, a, b) {
  report(name, c)
  expected <- multiply(a, b)
  residual(name, c - expected, expected, ncol(a))
}

products <- function(letter, a, b) {
  name <- function(text) paste0(letter, ".", text)
  check(name("a%*%b"), a %*% b, a, b)
  check(name("t(b)%*%t(a)"), t(b) %*% t(a), t(b), t(a))
  check(name("crossprod(a)"), crossprod(a), t(a), a)
  check(name("tcrossprod(a)"), tcrossprod(a), a, t(a))
  check(name("crossprod(a,c)"), crossprod(a, a[, 1:99]), t(a), a[, 1:99])
  check(name("tcrossprod(a,c)"), tcrossprod(a, a[1:77, ]), a, t(a[1:77, ]))
  check(name("rows"), a[seq(1, 150, 3), ] %*% b, a[seq(1, 150, 3), ], b)
  check(name("a%*%x"), a %*% b[, 1], a, b[, 1, drop = FALSE])
}

a <- numbers(150, 170, 1)
b <- numbers(170, 130, 2)
products("d", a, b)
products("z", a + 1i * (numbers(150, 170, 3) - 0.5), b + 1i * (numbers(170, 130, 4) - 0.5))

# Solvers and factorisations, on matrices far from singular.
n <- 200
s <- numbers(n, n, 5) + 20 * diag(n)
h <- crossprod(s)
r <- numbers(n, 90, 6)
solved <- function(name, x, a, b) {
  report(name, x)
  residual(name, a %*% x - b, a, n)
}
solved("d.solve", solve(s, r), s, r)
solved("d.inverse", solve(s), s, diag(n))
solved("d.backsolve", backsolve(s, r), s * upper.tri(s, diag = TRUE), r)
solved("d.forwardsolve", forwardsolve(s, r), s * lower.tri(s, diag = TRUE), r)
complex_s <- s + 1i * numbers(n, n, 7)
solved("z.solve", solve(complex_s, r + 0i), complex_s, r)

l <- chol(h)
report("d.chol", l)
residual("d.chol", t(l) %*% l - h, h, n)
report("d.chol2inv", chol2inv(l))
q <- qr(s, LAPACK = TRUE)
report("d.qr", abs(qr.R(q)))
residual("d.qr", qr.Q(q) %*% qr.R(q) - s[, q$pivot], s, n)
v <- svd(s)
report("d.svd", v$d)
residual("d.svd", v$u %*% (v$d * t(v$v)) - s, v$d, n)
report("d.eigen", eigen(h, symmetric = TRUE)$values)
report("d.det", det(s / 20))
fit <- lm.fit(s[, 1:60], r)
report("d.lm", fit$coefficients)

# R multiplies with its own loops if there is a NaN.
a[3, 5] <- NaN
c <- a %*% b
stopifnot(all(is.nan(c[3, ])), !anyNA(c[-3, ]))
report("d.rows_without_nan", c[-3, ])
