#!/usr/bin/env python3
"""A function of twenty variables, fitted by cosines with random frequencies: least squares by singular values.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np


class LeastSquares:
    BOUND = 1e-9
    VARIABLES = 20

    def __init__(self, scaled, random):
        n, cosines = scaled(16000), scaled(4000)
        self.sizes = {"samples": n, "cosines": cosines}
        self.points = random.standard_normal((n, self.VARIABLES))
        self.frequencies = random.standard_normal((self.VARIABLES, cosines))
        self.phases = random.uniform(0, 2 * np.pi, cosines)
        self.values = np.sin(self.points).sum(axis=1) + random.uniform(-0.1, 0.1, n)

    def run(self):
        A = np.cos(self.points @ self.frequencies + self.phases)
        x, _, rank, _ = np.linalg.lstsq(A, self.values, rcond=None)
        return A, x, rank, A @ x

    def check(self, result):
        """The residual is orthogonal to the columns."""
        A, x, rank, fitted = result
        if rank != A.shape[1]:
            return float("inf")
        return worst(error(A.T @ fitted, A.T @ self.values), error(A @ x, fitted))

    def checksum(self, result):
        return np.linalg.norm(result[1])


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"least_squares": LeastSquares}))
