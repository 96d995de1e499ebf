% Nonnegative matrix factorisation by multiplicative updates (Lee and Seung): V, m x n, becomes W * H with r columns and rows. All its time
% goes into products of matrices, most of them long and narrow.
%   tessera run --verbose -- octave-cli --no-init-file examples/octave/nmf.m
addpath (fileparts (mfilename ('fullpath')));
m = 240; n = 200; r = 40;
[j, i] = meshgrid (1:r, 1:m);
W = 0.1 + mod (sin (i * 12.9898 + j * 78.233) * 43758.5453, 1);
[j, i] = meshgrid (1:n, 1:r);
H = 0.1 + mod (sin (i * 39.3461 + j * 11.135) * 43758.5453, 1);
V = W * H;
report ("d.V", V);

W = W .^ 2;
H = H .^ 2;
for step = 1:20
  H = H .* (W' * V) ./ (W' * W * H + eps);
  W = W .* (V * H') ./ (W * (H * H') + eps);
  if (mod (step, 5) == 0)
    report (sprintf ("d.distance_%d", step), norm (V - W * H, "fro"));
  end
end
report ("d.W", W);
report ("d.H", H);
