#!/usr/bin/env python3
"""The largest eigenvalues of a symmetric matrix, and their vectors, by twenty steps of subspace iteration.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np


class Subspace:
    BOUND = 1e-10
    STEPS = 20

    def __init__(self, scaled, random):
        n, k = scaled(8000), scaled(400)
        self.sizes = {"n": n, "vectors": k, "steps": self.STEPS}
        noise = random.uniform(-0.01, 0.01, (n, n))
        directions = random.uniform(-1, 1, (n, k)) * np.sqrt(3 / n)
        self.matrix = (noise + noise.T) / np.sqrt(n) + (directions * np.linspace(1, 10, k)) @ directions.T
        self.start = random.uniform(-1, 1, (n, k))
        self.vector = random.uniform(-1, 1, k)

    def run(self):
        A, X = self.matrix, self.start
        for _ in range(self.STEPS):
            X, _ = np.linalg.qr(A @ X)
        values, rotation = np.linalg.eigh(X.T @ (A @ X))
        return values, X @ rotation

    def check(self, result):
        values, vectors = result
        v = self.vector
        return worst(error(self.matrix @ (vectors @ v), vectors @ (values * v)), error(vectors.T @ (vectors @ v), v))

    def checksum(self, result):
        return result[0].sum()


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"subspace": Subspace}))
