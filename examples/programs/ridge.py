#!/usr/bin/env python3
"""Ridge regression with twenty targets, and its predictions, by scikit-learn.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np
from sklearn.linear_model import Ridge


class Regression:
    BOUND = 1e-9
    ALPHA = 1.0
    TARGETS = 20

    def __init__(self, scaled, random):
        n, features = scaled(50000), scaled(4000)
        self.sizes = {"samples": n, "features": features, "targets": self.TARGETS}
        self.samples = random.uniform(-1, 1, (n, features))
        weights = random.uniform(-1, 1, (features, self.TARGETS))
        self.targets = self.samples @ weights + 3 + random.uniform(-1, 1, (n, self.TARGETS))
        self.vector = random.uniform(-1, 1, self.TARGETS)

    def run(self):
        model = Ridge(alpha=self.ALPHA).fit(self.samples, self.targets)
        return model.coef_, model.intercept_, model.predict(self.samples)

    def check(self, result):
        """The normal equations, and those of the intercepts."""
        coefficients, intercepts, predictions = result
        v, X = self.vector, self.samples
        return worst(error(X.T @ (predictions @ v) + self.ALPHA * (coefficients.T @ v), X.T @ (self.targets @ v)),
                     error(predictions.sum(axis=0), self.targets.sum(axis=0)),
                     error(predictions @ v, X @ (coefficients.T @ v) + intercepts @ v))

    def checksum(self, result):
        return np.linalg.norm(result[0])


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"ridge": Regression}))
