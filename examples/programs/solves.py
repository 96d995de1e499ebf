#!/usr/bin/env python3
"""Reactions of 64 species in many cells: five implicit steps, each a stack of small systems of equations.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error

import numpy as np


class Solves:
    BOUND = 1e-11
    SPECIES = 64
    STEPS = 5

    def __init__(self, scaled, random):
        cells = scaled(20000)
        self.sizes = {"cells": cells, "species": self.SPECIES, "steps": self.STEPS}
        self.rates = random.uniform(-0.1, 0.1, (cells, self.SPECIES, self.SPECIES)) + np.eye(self.SPECIES)
        self.start = random.random((cells, self.SPECIES))

    def run(self, step=0.2, damping=0.5):
        constant = np.eye(self.SPECIES) + step * self.rates
        species = np.arange(self.SPECIES)
        x = self.start
        for _ in range(self.STEPS):
            slopes = -(self.rates @ x[:, :, None])[:, :, 0] - damping * x**2
            matrices = constant.copy()
            matrices[:, species, species] += 2 * step * damping * x
            change = np.linalg.solve(matrices, step * slopes[:, :, None])[:, :, 0]
            x = x + change
        return x, matrices, change, step * slopes

    def check(self, result):
        x, matrices, change, right_side = result
        if not np.isfinite(x).all():
            return float("inf")
        return error((matrices @ change[:, :, None])[:, :, 0], right_side)

    def checksum(self, result):
        return np.linalg.norm(result[0])


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"solves": Solves}))
