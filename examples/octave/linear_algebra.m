% Matrix products, solvers and factorisations of Octave, in all four precisions: every line that this prints is the same, but for
% rounding, on any BLAS.
%   tessera run --verbose -- octave-cli --no-init-file examples/octave/linear_algebra.m
addpath (fileparts (mfilename ('fullpath')));

% m x n numbers between 0 and 1 that look random and are the same everywhere; with a `seed` of its own for each matrix.
function A = numbers (m, n, seed)
  [j, i] = meshgrid (1:n, 1:m);
  A = mod (sin (i * 12.9898 + j * 78.233 + seed) * 43758.5453, 1);
end

% A * B without a BLAS: a sum of outer products.
function C = product (A, B)
  C = zeros (size (A, 1), size (B, 2));
  for l = 1:size (A, 2)
    C = C + A(:, l) .* B(l, :);
  end
end

% Largest element of |X|, times the number of additions behind each: what rounding of size eps may grow to.
function u = unit (X, n, epsilon)
  u = epsilon * n * double (max (abs (X(:))));
end

function precision (letter, convert, epsilon)
  m = 150; n = 130; k = 170;
  A = convert (numbers (m, k, 1), numbers (m, k, 2));
  B = convert (numbers (k, n, 3), numbers (k, n, 4));
  name = @(text) [letter "." text];
  compare = @(text, C, D) report (name (text), abs (double (C) - D), unit (D, k, epsilon));

  % gemm in all transpositions, the symmetric products that Octave gives to syrk and herk, and single vectors.
  wide = double (A); tall = double (B);
  C = A * B;       report (name ("A*B"), C);     compare ("A*B", C, product (wide, tall));
  C = A' * A;      report (name ("A'*A"), C);    compare ("A'*A", C, product (wide', wide));
  C = A * A';      report (name ("A*A'"), C);    compare ("A*A'", C, product (wide, wide'));
  C = A.' * A;     report (name ("A.'*A"), C);   compare ("A.'*A", C, product (wide.', wide));
  C = B' * A';     report (name ("B'*A'"), C);   compare ("B'*A'", C, product (tall', wide'));
  C = B.' * A';    report (name ("B.'*A'"), C);  compare ("B.'*A'", C, product (tall.', wide'));
  C = A(:, 1:2:end) * B(1:2:end, :);
  report (name ("strided"), C);                  compare ("strided", C, product (wide(:, 1:2:end), tall(1:2:end, :)));
  x = A * B(:, 1); report (name ("A*x"), x);     compare ("A*x", x, product (wide, tall(:, 1)));

  % Solvers and factorisations, on matrices far from singular; residuals as the LAPACK testers scale them.
  n = 200;
  S = convert (numbers (n, n, 5), numbers (n, n, 6)) + 20 * eye (n);
  H = S' * S;
  R = convert (numbers (n, 90, 7), numbers (n, 90, 8));

  X = S \ R;       report (name ("A\\B"), X);    report (name ("A\\B"), S * X - R, unit (S, n, epsilon) * max (1, norm (X(:), Inf)));
  X = H \ R;       report (name ("spd\\B"), X);  report (name ("spd\\B"), H * X - R, unit (H, n, epsilon) * max (1, norm (X(:), Inf)));
  U = triu (S);
  X = U \ R;       report (name ("tri\\B"), X);  report (name ("tri\\B"), U * X - R, unit (U, n, epsilon) * max (1, norm (X(:), Inf)));
  X = R' / S;      report (name ("B/A"), X);     report (name ("B/A"), X * S - R', unit (S, n, epsilon) * max (1, norm (X(:), Inf)));

  L = chol (H);    report (name ("chol"), L);    report (name ("chol"), L' * L - H, unit (H, n, epsilon));
  [L, U, P] = lu (S);
  report (name ("lu.L"), L); report (name ("lu.U"), U);
  report (name ("lu"), P' * L * U - S, unit (S, n, epsilon));
  [Q, U] = qr (S);
  report (name ("qr"), abs (U));                 report (name ("qr"), Q * U - S, unit (S, n, epsilon));
  report (name ("qr.Q"), Q' * Q - eye (n), n * epsilon);
  [U, D, V] = svd (S);
  report (name ("svd"), diag (D));               report (name ("svd"), U * D * V' - S, n * epsilon * double (D(1, 1)));
  report (name ("svd.U"), U' * U - eye (n), n * epsilon);
  report (name ("eig"), eig (H));
  report (name ("inv"), inv (S));
  report (name ("det"), det (S / 20));
end

precision ("d", @(re, im) re, eps);
precision ("s", @(re, im) single (re), double (eps ("single")));
precision ("z", @(re, im) complex (re, im - 0.5), eps);
precision ("c", @(re, im) single (complex (re, im - 0.5)), double (eps ("single")));

% What is no matrix product must not become one.
report ("d.empty", zeros (3, 0) * zeros (0, 4));
report ("d.scalar", 3 * numbers (20, 20, 9));
report ("d.integers", double (int32 ([1 2; 3 4]) * 2));
