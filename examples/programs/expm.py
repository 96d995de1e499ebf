#!/usr/bin/env python3
"""Probabilities of a Markov chain in continuous time: the exponential of its rates, by SciPy.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np
from scipy.linalg import expm


class Markov:
    BOUND = 1e-9

    def __init__(self, scaled, random):
        n = scaled(5000)
        self.sizes = {"n": n}
        places = np.arange(n)
        distances = np.abs(places[:, None] - places[None, :])
        self.rates = 10 * random.random((n, n)) / (1 + distances) ** 2
        self.rates[places, places] -= self.rates.sum(axis=1)
        self.vector = random.random(n)

    def run(self):
        return expm(self.rates)

    def check(self, P):
        """Probabilities add up to one. Of one vector they are those of a chain in discrete time, with a Poisson number of steps."""
        leaving = -self.rates.diagonal().min()
        step, weight = self.vector, np.exp(-leaving)
        expected = weight * step
        for k in range(1, int(leaving + 12 * np.sqrt(leaving) + 20)):
            step = step + self.rates @ step / leaving
            weight *= leaving / k
            expected += weight * step
        return worst(error(P.sum(axis=1), np.ones(len(P))), error(P @ self.vector, expected))

    def checksum(self, P):
        return np.linalg.norm(P)


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"expm": Markov}))
