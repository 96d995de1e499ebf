#!/usr/bin/env python3
"""Five programs as users of NumPy write them: each step makes new arrays, and nothing is told where to write.

  programs.py polar      the orthogonal factor of a matrix, by eight steps of Newton and Schulz
  programs.py gauss      the log-likelihood of a Gaussian process
  programs.py field      a self-consistent field: four symmetric eigenproblems
  programs.py network    three training passes of a fully connected network, in single precision
  programs.py inverse    the inverse of a matrix, and its residual

The head of runner.py describes the options, the line of JSON and the status. programs.m and programs.R are the same in Octave
and R. More programs, in Python alone, are in files of their own beside this one."""
import sys

import runner
from runner import error, worst

import numpy as np


class Polar:
    BOUND = 1e-12
    STEPS = 8

    def __init__(self, scaled, random):
        n = scaled(6000)
        self.sizes = {"n": n, "steps": self.STEPS}
        # The singular values are between about 0.5 and 1.5: so many steps converge.
        self.matrix = np.eye(n) + 0.25 * np.sqrt(3 / n) * random.uniform(-1, 1, (n, n))
        self.vector = random.uniform(-1, 1, n)

    def run(self):
        X = self.matrix
        for _ in range(self.STEPS):
            X = 1.5 * X - 0.5 * X @ (X.T @ X)
        return X

    def check(self, X):
        """X is orthogonal, and the other factor is symmetric."""
        A, v = self.matrix, self.vector
        return worst(error(X.T @ (X @ v), v), error(X.T @ (A @ v), A.T @ (X @ v)))

    def checksum(self, X):
        return self.vector @ (X @ self.vector)


class Gauss:
    BOUND = 1e-8
    DIMENSIONS = 4

    def __init__(self, scaled, random):
        n = scaled(12000)
        self.sizes = {"n": n, "dimensions": self.DIMENSIONS}
        self.points = random.random((n, self.DIMENSIONS))
        self.values = np.sin(3 * self.points).sum(axis=1) + random.uniform(-0.1, 0.1, n)
        self.vector = random.uniform(-1, 1, n)

    def run(self, length=0.5, noise=0.1):
        n = len(self.points)
        squares = np.sum(self.points**2, axis=1)
        distances = squares[:, None] + squares[None, :] - 2 * (self.points @ self.points.T)
        K = np.exp(-0.5 * distances / length**2) + noise * np.eye(n)
        L = np.linalg.cholesky(K)
        alpha = np.linalg.solve(L.T, np.linalg.solve(L, self.values))
        likelihood = -0.5 * self.values @ alpha - np.sum(np.log(np.diag(L))) - n / 2 * np.log(2 * np.pi)
        return K, L, alpha, likelihood

    def check(self, result):
        K, L, alpha, likelihood = result
        if not np.isfinite(likelihood):
            return float("inf")
        return worst(error(K @ alpha, self.values), error(L @ (L.T @ self.vector), K @ self.vector))

    def checksum(self, result):
        return result[3]


class Field:
    BOUND = 1e-10
    STEPS = 4

    def __init__(self, scaled, random):
        n = scaled(3000)
        self.sizes = {"n": n, "steps": self.STEPS}

        def symmetric():
            part = random.uniform(-1, 1, (n, n))
            return (part + part.T) / np.sqrt(n)

        self.core = np.diag(np.linspace(-1, 1, n)) + 0.1 * symmetric()
        self.interaction = symmetric()
        self.vector = random.uniform(-1, 1, n)

    def run(self, coupling=0.1, damping=0.5):
        n = len(self.core)
        P = np.zeros((n, n))
        for _ in range(self.STEPS):
            F = self.core + coupling * (self.interaction @ P @ self.interaction)
            F = (F + F.T) / 2
            energies, orbitals = np.linalg.eigh(F)
            C = orbitals[:, : n // 3]
            density = C @ C.T
            P = damping * P + (1 - damping) * density
        return F, energies, density, np.sum(P * (self.core + F)) / 2

    def check(self, result):
        """The density projects, commutes with the Fock matrix, and has the lowest energies."""
        F, energies, D, energy = result
        if not np.isfinite(energy):
            return float("inf")
        v = self.vector
        lowest = energies[: len(energies) // 3]
        return worst(error(D @ (D @ v), D @ v), error(D @ (F @ v), F @ (D @ v)),
                     abs(np.sum(D * F) - lowest.sum()) / np.abs(lowest).sum())

    def checksum(self, result):
        return result[3]


class Network:
    BOUND = 2e-4
    PASSES = 3

    def __init__(self, scaled, random):
        batch = scaled(8192)
        widths = [scaled(3072), scaled(8192), scaled(8192), 10]
        self.sizes = {"batch": batch, "layers": widths, "passes": self.PASSES}

        def draw(rows, columns):
            return 2 * random.random((rows, columns), dtype=np.float32) - 1

        self.inputs = draw(batch, widths[0])
        self.targets = np.eye(10, dtype=np.float32)[self.inputs[:, :10].argmax(axis=1)]
        self.weights = [draw(m, n) * np.float32(np.sqrt(6 / m)) for m, n in zip(widths, widths[1:])]
        self.vectors = [draw(n, 1)[:, 0] for n in widths]

    def run(self):
        weights = self.weights
        # The wider a layer is, the more one step changes its sums.
        rate = 10 / weights[1].shape[0]
        biases = [np.zeros(w.shape[1], dtype=np.float32) for w in weights]
        losses = []
        for _ in range(self.PASSES):
            activations, sums = [self.inputs], []
            for w, b in zip(weights, biases):
                sums.append(activations[-1] @ w + b)
                activations.append(np.maximum(sums[-1], 0))
            powers = np.exp(sums[-1] - sums[-1].max(axis=1, keepdims=True))
            guesses = powers / powers.sum(axis=1, keepdims=True)
            losses.append(-np.mean(np.sum(self.targets * np.log(guesses + 1e-30), axis=1)))

            delta = (guesses - self.targets) / len(self.inputs)
            deltas, gradients = [], []
            for layer in (2, 1, 0):
                deltas.insert(0, delta)
                gradients.insert(0, activations[layer].T @ delta)
                if layer > 0:
                    delta = (delta @ weights[layer].T) * (sums[layer - 1] > 0)
            used = weights, biases
            weights = [w - rate * g for w, g in zip(weights, gradients)]
            biases = [b - rate * d.sum(axis=0) for b, d in zip(biases, deltas)]
        return losses, used, activations, sums, deltas, gradients

    def check(self, result):
        """All products of the last pass; the loss falls."""
        losses, (weights, biases), activations, sums, deltas, gradients = result
        if not losses[-1] < losses[0]:
            return float("inf")
        errors = []
        some = slice(None, None, max(1, len(self.inputs) // 64))
        for layer, v in enumerate(self.vectors[1:]):
            errors.append(error(sums[layer] @ v, activations[layer] @ (weights[layer] @ v) + biases[layer] @ v))
            errors.append(error(gradients[layer] @ v, activations[layer].T @ (deltas[layer] @ v)))
            if layer > 0:
                handed_down = (deltas[layer][some] @ weights[layer].T) * (sums[layer - 1][some] > 0)
                errors.append(error(deltas[layer - 1][some], handed_down))
        return worst(*errors)

    def checksum(self, result):
        return result[0][-1]


class Inverse:
    BOUND = 1e-7

    def __init__(self, scaled, random):
        n = scaled(8000)
        self.sizes = {"n": n}
        self.matrix = random.uniform(-1, 1, (n, n))
        self.vector = random.uniform(-1, 1, n)

    def run(self):
        X = np.linalg.inv(self.matrix)
        residual = np.linalg.norm(self.matrix @ X - np.eye(len(X)))
        return X, residual

    def check(self, result):
        X, residual = result
        return worst(error(self.matrix @ (X @ self.vector), self.vector), float(residual) / np.sqrt(len(X)))

    def checksum(self, result):
        return np.linalg.norm(result[0])


PROGRAMS = {"polar": Polar, "gauss": Gauss, "field": Field, "network": Network, "inverse": Inverse}

if __name__ == "__main__":
    sys.exit(runner.main(__doc__, PROGRAMS))
