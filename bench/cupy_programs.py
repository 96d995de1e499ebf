#!/usr/bin/env python3
"""The Python programs of examples/programs on one GPU, as a person ports them to CuPy by hand.

  cupy_programs.py polar [--scale S] [--repeats N]    options and output are those of examples/programs/runner.py
  cupy_programs.py --list                             the programs that can run here, one a line

Problem, check and checksum are those of the NumPy program, whose run() alone is replaced. In each run the arrays of the problem
go to the GPU once, and what a user wants of the result comes back. What only the check reads stays there, and is copied outside
the measured time. Calls are the same as with NumPy. Those of scikit-learn are written with cupy.linalg.
Called by bench/programs.py. A program whose packages or CuPy functions are missing is not listed."""
import functools
import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "programs"))
import runner

import cupy as cp
import numpy as np


def home(result):
    """The same in host memory, parts of parts too."""
    if isinstance(result, (tuple, list)):
        return type(result)(map(home, result))
    return cp.asnumpy(result) if isinstance(result, cp.ndarray) else result


def polar(p):
    X = cp.asarray(p.matrix)
    for _ in range(p.STEPS):
        X = 1.5 * X - 0.5 * X @ (X.T @ X)
    return cp.asnumpy(X)


def gauss(p, length=0.5, noise=0.1):
    points, values = cp.asarray(p.points), cp.asarray(p.values)
    n = len(points)
    squares = cp.sum(points**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * (points @ points.T)
    K = cp.exp(-0.5 * distances / length**2) + noise * cp.eye(n)
    L = cp.linalg.cholesky(K)
    alpha = cp.linalg.solve(L.T, cp.linalg.solve(L, values))
    likelihood = -0.5 * values @ alpha - cp.sum(cp.log(cp.diag(L))) - n / 2 * np.log(2 * np.pi)
    return K, L, cp.asnumpy(alpha), float(likelihood)


def field(p, coupling=0.1, damping=0.5):
    core, interaction = cp.asarray(p.core), cp.asarray(p.interaction)
    n = len(core)
    P = cp.zeros((n, n))
    for _ in range(p.STEPS):
        F = core + coupling * (interaction @ P @ interaction)
        F = (F + F.T) / 2
        energies, orbitals = cp.linalg.eigh(F)
        C = orbitals[:, : n // 3]
        density = C @ C.T
        P = damping * P + (1 - damping) * density
    energy = cp.sum(P * (core + F)) / 2
    return F, cp.asnumpy(energies), cp.asnumpy(density), float(energy)


def network(p):
    inputs, targets = cp.asarray(p.inputs), cp.asarray(p.targets)
    weights = [cp.asarray(w) for w in p.weights]
    rate = 10 / weights[1].shape[0]
    biases = [cp.zeros(w.shape[1], dtype=cp.float32) for w in weights]
    losses = []
    for _ in range(p.PASSES):
        activations, sums = [inputs], []
        for w, b in zip(weights, biases):
            sums.append(activations[-1] @ w + b)
            activations.append(cp.maximum(sums[-1], 0))
        powers = cp.exp(sums[-1] - sums[-1].max(axis=1, keepdims=True))
        guesses = powers / powers.sum(axis=1, keepdims=True)
        losses.append(-cp.mean(cp.sum(targets * cp.log(guesses + 1e-30), axis=1)))

        delta = (guesses - targets) / len(inputs)
        deltas, gradients = [], []
        for layer in (2, 1, 0):
            deltas.insert(0, delta)
            gradients.insert(0, activations[layer].T @ delta)
            if layer > 0:
                delta = (delta @ weights[layer].T) * (sums[layer - 1] > 0)
        used = weights, biases
        weights = [w - rate * g for w, g in zip(weights, gradients)]
        biases = [b - rate * d.sum(axis=0) for b, d in zip(biases, deltas)]
    # The trained network comes back, although the check looks at the one before it.
    p.trained = [cp.asnumpy(part) for part in weights + biases]
    return [float(loss) for loss in losses], used, activations, sums, deltas, gradients


def inverse(p):
    A = cp.asarray(p.matrix)
    X = cp.linalg.inv(A)
    residual = cp.linalg.norm(A @ X - cp.eye(len(X)))
    return cp.asnumpy(X), float(residual)


def pca(p):
    X = cp.asarray(p.samples)
    n = len(X)
    centred = X - X.mean(axis=0)
    U, S, Vt = cp.linalg.svd(centred, full_matrices=False)
    # Signs as scikit-learn chooses them: the largest entry of each component is positive.
    largest = cp.argmax(cp.abs(Vt), axis=1)
    signs = cp.sign(Vt[cp.arange(len(Vt)), largest])
    U, Vt = U * signs, Vt * signs[:, None]
    variances = S**2 / (n - 1)
    explained = cp.cumsum(variances / variances.sum())
    k = int(cp.searchsorted(explained, cp.asarray([p.PART]), side="right")[0]) + 1
    return cp.asnumpy(Vt[:k]), cp.asnumpy(variances[:k]), cp.asnumpy(U[:, :k] * S[:k])


def ridge(p):
    X, Y = cp.asarray(p.samples), cp.asarray(p.targets)
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    centred = X - mean_x
    gram = centred.T @ centred + p.ALPHA * cp.eye(X.shape[1])
    coefficients = cp.linalg.solve(gram, centred.T @ (Y - mean_y)).T
    intercepts = mean_y - coefficients @ mean_x
    return cp.asnumpy(coefficients), cp.asnumpy(intercepts), cp.asnumpy(X @ coefficients.T + intercepts)


def least_squares(p):
    points, frequencies, phases = cp.asarray(p.points), cp.asarray(p.frequencies), cp.asarray(p.phases)
    values = cp.asarray(p.values)
    A = cp.cos(points @ frequencies + phases)
    x, _, rank, _ = cp.linalg.lstsq(A, values, rcond=None)
    return A, cp.asnumpy(x), int(rank), cp.asnumpy(A @ x)


def kalman(p):
    F, H = cp.asarray(p.transition), cp.asarray(p.sensors)
    Q, R = cp.asarray(p.process_noise), cp.asarray(p.sensor_noise)
    observations = cp.asarray(p.observations)
    x, P = cp.asarray(p.start), cp.eye(len(p.start))
    likelihood = 0.0
    for y in observations:
        x = F @ x
        predicted = F @ P @ F.T + Q

        S = H @ predicted @ H.T + R
        innovation = y - H @ x
        gain = cp.linalg.solve(S, H @ predicted).T
        x = x + gain @ innovation
        P = predicted - gain @ S @ gain.T

        _, logarithm = cp.linalg.slogdet(S)
        likelihood -= 0.5 * (innovation @ cp.linalg.solve(S, innovation) + logarithm + len(y) * np.log(2 * np.pi))
    return cp.asnumpy(x), cp.asnumpy(P), float(likelihood), predicted, S, gain


def exponential(p):
    from cupyx.scipy.linalg import expm

    return cp.asnumpy(expm(cp.asarray(p.rates)))


def subspace(p):
    A, X = cp.asarray(p.matrix), cp.asarray(p.start)
    for _ in range(p.STEPS):
        X, _ = cp.linalg.qr(A @ X)
    values, rotation = cp.linalg.eigh(X.T @ (A @ X))
    return cp.asnumpy(values), cp.asnumpy(X @ rotation)


def canonical(p):
    from cupyx.scipy.linalg import solve_triangular

    left, right = cp.asarray(p.left), cp.asarray(p.right)
    Qx, Rx = cp.linalg.qr(left - left.mean(axis=0))
    Qy, Ry = cp.linalg.qr(right - right.mean(axis=0))
    U, correlations, Vt = cp.linalg.svd(Qx.T @ Qy)
    return cp.asnumpy(correlations), cp.asnumpy(solve_triangular(Rx, U)), cp.asnumpy(solve_triangular(Ry, Vt.T))


def solves(p, step=0.2, damping=0.5):
    rates, x = cp.asarray(p.rates), cp.asarray(p.start)
    constant = cp.eye(p.SPECIES) + step * rates
    species = cp.arange(p.SPECIES)
    for _ in range(p.STEPS):
        slopes = -(rates @ x[:, :, None])[:, :, 0] - damping * x**2
        matrices = constant.copy()
        matrices[:, species, species] += 2 * step * damping * x
        change = cp.linalg.solve(matrices, step * slopes[:, :, None])[:, :, 0]
        x = x + change
    return cp.asnumpy(x), matrices, change, step * slopes


# By name: where the NumPy program is, what runs in its place, and what it needs of CuPyX.
PORTS = {
    "polar": ("programs", "Polar", polar, None),
    "gauss": ("programs", "Gauss", gauss, None),
    "field": ("programs", "Field", field, None),
    "pca": ("pca", "Components", pca, None),
    "ridge": ("ridge", "Regression", ridge, None),
    "least_squares": ("least_squares", "LeastSquares", least_squares, None),
    "network": ("programs", "Network", network, None),
    "kalman": ("kalman", "Kalman", kalman, None),
    "expm": ("expm", "Markov", exponential, "expm"),
    "subspace": ("subspace", "Subspace", subspace, None),
    "canonical": ("canonical", "Canonical", canonical, "solve_triangular"),
    "inverse": ("programs", "Inverse", inverse, None),
    "solves": ("solves", "Solves", solves, None),
}


def ported(name):
    """The class of a program with run() on the GPU. @throws ImportError if something that it needs is missing"""
    module, original_name, run, function = PORTS[name]
    if function is not None and not hasattr(importlib.import_module("cupyx.scipy.linalg"), function):
        raise ImportError(f"this CuPy has no cupyx.scipy.linalg.{function}")
    original = getattr(importlib.import_module(module), original_name)

    class OnGpu(original):
        def check(self, result):
            return super().check(home(result))

        def checksum(self, result):
            return super().checksum(home(result))

    OnGpu.run = run
    return OnGpu


def list_programs():
    cp.cuda.runtime.getDeviceCount()  # raises without a driver or a GPU
    for name in PORTS:
        try:
            ported(name)
            print(name)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)


def make(name, scaled, random):
    return ported(name)(scaled, random)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        list_programs()
    else:
        sys.exit(runner.main(__doc__, {name: functools.partial(make, name) for name in PORTS}, "cupy"))
