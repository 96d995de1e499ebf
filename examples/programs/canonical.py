#!/usr/bin/env python3
"""Canonical correlations of two sets of variables, by QR and singular values.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np
from scipy.linalg import solve_triangular


class Canonical:
    BOUND = 1e-9

    def __init__(self, scaled, random):
        n, variables = scaled(20000), scaled(2000)
        self.sizes = {"samples": n, "variables": variables}
        common = random.uniform(-1, 1, (n, variables)) * np.linspace(2, 0, variables)
        self.left = common + random.uniform(-1, 1, (n, variables))
        self.right = common[:, ::-1] + random.uniform(-1, 1, (n, variables))
        self.vector = random.uniform(-1, 1, variables)

    def run(self):
        X = self.left - self.left.mean(axis=0)
        Y = self.right - self.right.mean(axis=0)
        Qx, Rx = np.linalg.qr(X)
        Qy, Ry = np.linalg.qr(Y)
        U, correlations, Vt = np.linalg.svd(Qx.T @ Qy)
        return correlations, solve_triangular(Rx, U), solve_triangular(Ry, Vt.T)

    def check(self, result):
        """The new variables have unit variance, and are correlated in pairs only."""
        correlations, left_weights, right_weights = result
        v = self.vector

        def centred(x):
            return x - x.mean()

        left = centred(self.left @ (left_weights @ v))
        right = centred(self.right @ (right_weights @ v))
        return worst(error(left_weights.T @ (self.left.T @ left), v), error(right_weights.T @ (self.right.T @ right), v),
                     error(left_weights.T @ (self.left.T @ right), correlations * v))

    def checksum(self, result):
        return result[0].sum()


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"canonical": Canonical}))
