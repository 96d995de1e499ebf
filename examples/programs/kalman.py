#!/usr/bin/env python3
"""A Kalman filter: ten predictions and corrections of a state, and the likelihood of what was observed.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np


class Kalman:
    BOUND = 1e-9
    STEPS = 10

    def __init__(self, scaled, random):
        n, m = scaled(3000), scaled(1000)
        self.sizes = {"states": n, "observed": m, "steps": self.STEPS}
        self.transition = 0.9 * np.sqrt(3 / n) * random.uniform(-1, 1, (n, n))
        self.sensors = np.sqrt(3 / n) * random.uniform(-1, 1, (m, n))
        self.process_noise = 0.1 * np.eye(n)
        self.sensor_noise = 0.5 * np.eye(m)
        self.start = random.uniform(-1, 1, n)
        self.observations = random.uniform(-2, 2, (self.STEPS, m))
        self.vector, self.short_vector = random.uniform(-1, 1, n), random.uniform(-1, 1, m)

    def run(self):
        F, H, Q, R = self.transition, self.sensors, self.process_noise, self.sensor_noise
        x, P = self.start, np.eye(len(self.start))
        likelihood = 0.0
        for y in self.observations:
            x = F @ x
            predicted = F @ P @ F.T + Q

            S = H @ predicted @ H.T + R
            innovation = y - H @ x
            gain = np.linalg.solve(S, H @ predicted).T
            x = x + gain @ innovation
            P = predicted - gain @ S @ gain.T

            _, logarithm = np.linalg.slogdet(S)
            likelihood -= 0.5 * (innovation @ np.linalg.solve(S, innovation) + logarithm + len(y) * np.log(2 * np.pi))
        return x, P, likelihood, predicted, S, gain

    def check(self, result):
        """Of the last step: the gain, and the covariance after it, by another formula."""
        x, P, likelihood, predicted, S, gain = result
        if not (np.isfinite(x).all() and np.isfinite(likelihood)):
            return float("inf")
        H, v, w = self.sensors, self.vector, self.short_vector
        return worst(error(gain @ (S @ w), predicted @ (H.T @ w)), error(P @ v, predicted @ v - gain @ (H @ (predicted @ v))),
                     error(P.T @ v, P @ v))

    def checksum(self, result):
        return result[2]


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"kalman": Kalman}))
