% Five programs as users of Octave write them. They are those of programs.py.
%   octave-cli --no-init-file --no-history programs.m polar|gauss|field|network|inverse [--scale S] [--repeats N]
% The head of runner.py describes the options, the line of JSON and the status.
1;
begin = tic;

function x = uniform(m, n, varargin)
  x = 2 * rand(m, n, varargin{:}) - 1;
end

function e = relative(found, expected)
  e = double(norm(found - expected, "fro") / norm(expected, "fro"));
end

% Infinity if one of them is NaN, which max would pass over.
function e = worst(errors)
  e = max(errors);
  if any(isnan(errors))
    e = Inf;
  end
end

% --- polar ---

function p = polar_problem(scaled)
  n = scaled(6000);
  p.bound = 1e-12;
  p.sizes = struct("n", n, "steps", 8);
  % The singular values are between about 0.5 and 1.5: so many steps converge.
  p.A = eye(n) + 0.25 * sqrt(3 / n) * uniform(n, n);
  p.v = uniform(n, 1);
end

function X = polar_run(p)
  X = p.A;
  for step = 1:8
    X = 1.5 * X - 0.5 * X * (X' * X);
  end
end

% X is orthogonal, and the other factor is symmetric.
function e = polar_check(p, X)
  e = worst([relative(X' * (X * p.v), p.v), relative(X' * (p.A * p.v), p.A' * (X * p.v))]);
end

% --- gauss ---

function p = gauss_problem(scaled)
  n = scaled(12000);
  p.bound = 1e-8;
  p.sizes = struct("n", n, "dimensions", 4);
  p.points = rand(n, 4);
  p.y = sum(sin(3 * p.points), 2) + 0.1 * uniform(n, 1);
  p.v = uniform(n, 1);
end

function r = gauss_run(p)
  len = 0.5;
  noise = 0.1;
  n = rows(p.points);
  squares = sum(p.points .^ 2, 2);
  distances = squares + squares' - 2 * (p.points * p.points');
  K = exp(-0.5 * distances / len ^ 2) + noise * eye(n);
  L = chol(K, "lower");
  alpha = L' \ (L \ p.y);
  likelihood = -0.5 * p.y' * alpha - sum(log(diag(L))) - n / 2 * log(2 * pi);
  r = struct("K", K, "L", L, "alpha", alpha, "likelihood", likelihood);
end

function e = gauss_check(p, r)
  e = worst([relative(r.K * r.alpha, p.y), relative(r.L * (r.L' * p.v), r.K * p.v)]);
  if ! isfinite(r.likelihood)
    e = Inf;
  end
end

% --- field ---

function A = symmetric(n)
  part = uniform(n, n);
  A = (part + part') / sqrt(n);
end

function p = field_problem(scaled)
  n = scaled(3000);
  p.bound = 1e-10;
  p.sizes = struct("n", n, "steps", 4);
  p.core = diag(linspace(-1, 1, n)) + 0.1 * symmetric(n);
  p.interaction = symmetric(n);
  p.v = uniform(n, 1);
end

function r = field_run(p)
  coupling = 0.1;
  damping = 0.5;
  n = rows(p.core);
  P = zeros(n);
  for step = 1:4
    F = p.core + coupling * (p.interaction * P * p.interaction);
    F = (F + F') / 2;
    [orbitals, energies] = eig(F);
    C = orbitals(:, 1:floor(n / 3));
    density = C * C';
    P = damping * P + (1 - damping) * density;
  end
  energy = sum(sum(P .* (p.core + F))) / 2;
  r = struct("F", F, "energies", diag(energies), "D", density, "energy", energy);
end

% The density projects, commutes with the Fock matrix, and has the lowest energies.
function e = field_check(p, r)
  lowest = r.energies(1:floor(rows(r.F) / 3));
  Dv = r.D * p.v;
  e = worst([relative(r.D * Dv, Dv), relative(r.D * (r.F * p.v), r.F * Dv), ...
             abs(sum(sum(r.D .* r.F)) - sum(lowest)) / sum(abs(lowest))]);
  if ! isfinite(r.energy)
    e = Inf;
  end
end

% --- network ---

function p = network_problem(scaled)
  batch = scaled(8192);
  widths = [scaled(3072), scaled(8192), scaled(8192), 10];
  p.bound = 2e-4;
  p.sizes = struct("batch", batch, "layers", widths, "passes", 3);
  p.inputs = uniform(batch, widths(1), "single");
  [largest, label] = max(p.inputs(:, 1:10), [], 2);
  p.targets = eye(10, "single")(label, :);
  for l = 1:3
    p.weights{l} = uniform(widths(l), widths(l + 1), "single") * sqrt(6 / widths(l));
    p.vectors{l} = uniform(widths(l + 1), 1, "single");
  end
end

function r = network_run(p)
  batch = rows(p.inputs);
  weights = p.weights;
  % The wider a layer is, the more one step changes its sums.
  rate = 10 / rows(weights{2});
  for l = 1:3
    biases{l} = zeros(1, columns(weights{l}), "single");
  end
  for pass = 1:3
    activations{1} = p.inputs;
    for l = 1:3
      sums{l} = activations{l} * weights{l} + biases{l};
      activations{l + 1} = max(sums{l}, 0);
    end
    powers = exp(sums{3} - max(sums{3}, [], 2));
    guesses = powers ./ sum(powers, 2);
    losses(pass) = -mean(sum(p.targets .* log(guesses + 1e-30), 2));

    deltas{3} = (guesses - p.targets) / batch;
    for l = 3:-1:1
      gradients{l} = activations{l}' * deltas{l};
      if l > 1
        deltas{l - 1} = (deltas{l} * weights{l}') .* (sums{l - 1} > 0);
      end
    end
    used = struct("weights", {weights}, "biases", {biases});
    for l = 1:3
      weights{l} = weights{l} - rate * gradients{l};
      biases{l} = biases{l} - rate * sum(deltas{l}, 1);
    end
  end
  r = struct("losses", losses, "weights", {used.weights}, "biases", {used.biases}, ...
             "activations", {activations}, "sums", {sums}, "deltas", {deltas}, "gradients", {gradients});
end

% All products of the last pass; the loss falls.
function e = network_check(p, r)
  batch = rows(p.inputs);
  some = 1:max(1, floor(batch / 64)):batch;
  errors = [];
  for l = 1:3
    v = p.vectors{l};
    forward = r.activations{l} * (r.weights{l} * v) + r.biases{l} * v;
    errors(end + 1) = relative(r.sums{l} * v, forward);
    errors(end + 1) = relative(r.gradients{l} * v, r.activations{l}' * (r.deltas{l} * v));
    if l > 1
      handed_down = (r.deltas{l}(some, :) * r.weights{l}') .* (r.sums{l - 1}(some, :) > 0);
      errors(end + 1) = relative(r.deltas{l - 1}(some, :), handed_down);
    end
  end
  e = worst(errors);
  if ! (r.losses(3) < r.losses(1))
    e = Inf;
  end
end

% --- inverse ---

function p = inverse_problem(scaled)
  n = scaled(8000);
  p.bound = 1e-7;
  p.sizes = struct("n", n);
  p.A = uniform(n, n);
  p.v = uniform(n, 1);
end

function r = inverse_run(p)
  X = inv(p.A);
  r = struct("X", X, "residual", norm(p.A * X - eye(rows(X)), "fro"));
end

function e = inverse_check(p, r)
  e = worst([relative(p.A * (r.X * p.v), p.v), r.residual / sqrt(rows(r.X))]);
end

% --- what all have in common ---

function usage()
  fputs(stderr, "usage: programs.m polar|gauss|field|network|inverse [--scale S] [--repeats N]\n");
  exit(2);
end

function text = list_of(form, numbers)
  text = strjoin(arrayfun(@(x) sprintf(form, x), numbers, "UniformOutput", false), ", ");
end

words = argv();
scale = 1;
repeats = 2;
names = {"polar", "gauss", "field", "network", "inverse"};
if mod(numel(words), 2) == 0 || ! any(strcmp(words{1}, names))
  usage();
end
for i = 2:2:numel(words)
  value = str2double(words{i + 1});
  if ! (value > 0)
    usage();
  elseif strcmp(words{i}, "--scale")
    scale = value;
  elseif strcmp(words{i}, "--repeats")
    repeats = value;
  else
    usage();
  end
end

rand("twister", 1);
name = words{1};
problem = feval([name "_problem"], @(n) max(16, round(n * scale)));
run_it = str2func([name "_run"]);
check_it = str2func([name "_check"]);
for repetition = 1:repeats
  before = tic;
  result = run_it(problem);
  seconds(repetition) = toc(before);
  errors(repetition) = check_it(problem, result);
  clear result
end
correct = all(isfinite(errors)) && all(errors < problem.bound);
sizes = {};
for [value, key] = problem.sizes
  text = list_of("%d", value);
  if numel(value) > 1
    text = ["[" text "]"];
  end
  sizes{end + 1} = sprintf("\"%s\": %s", key, text);
end
residual = "null";  % JSON has no infinity.
if all(isfinite(errors))
  residual = sprintf("%.6g", max(errors));
end
printf(["{\"program\": \"%s\", \"language\": \"octave\", \"sizes\": {%s}, \"seconds\": [%s], \"whole_s\": %.6f, " ...
        "\"residual\": %s, \"bound\": %g, \"correct\": %s}\n"], name, strjoin(sizes, ", "), ...
       list_of("%.6f", seconds), toc(begin), residual, problem.bound, {"false", "true"}{correct + 1});
exit(! correct);
