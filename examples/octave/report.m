% report (name, X): one line of numbers by which two runs can be compared: the Frobenius norm of X and its inner product with
% fixed weights, both of which a tile that is wrong, missing or misplaced changes.
% report (name, error, unit): how far a result is from what it should be, in units of the rounding to be expected.
function report (name, X, unit)
  if (nargin == 3)
    fprintf ("%s.residual %.3g\n", name, double (max (abs (X(:)))) / unit);
    return;
  end
  X = double (X);
  W = reshape (1 + mod (7 * (0:numel (X) - 1), 11), size (X));
  W = W / sqrt (sum (W(:) .^ 2));
  fprintf ("%s %.17g %.17g", name, sqrt (sum (abs (X(:)) .^ 2)), sum (W(:) .* real (X(:))));
  if (iscomplex (X))
    fprintf (" %.17g", sum (W(:) .* imag (X(:))));
  end
  fprintf ("\n");
end
