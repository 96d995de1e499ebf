#!/usr/bin/env python3
"""The principal components that explain nine tenths of a variance, and the samples in them, by scikit-learn.

The head of runner.py describes the options, the line of JSON and the status."""
import sys

import runner
from runner import error, worst

import numpy as np
from sklearn.decomposition import PCA


class Components:
    BOUND = 1e-9
    PART = 0.9

    def __init__(self, scaled, random):
        n, features, factors = scaled(12000), scaled(3000), scaled(300)
        self.sizes = {"samples": n, "features": features}
        loadings = random.uniform(-1, 1, (factors, features)) * np.linspace(1, 0.1, factors)[:, None]
        self.samples = random.uniform(-1, 1, (n, factors)) @ loadings
        self.samples += random.uniform(-1, 1, (n, features))
        self.vector = random.uniform(-1, 1, features)

    def run(self):
        model = PCA(n_components=self.PART, svd_solver="full")
        scores = model.fit_transform(self.samples)
        return model.components_, model.explained_variance_, scores

    def check(self, result):
        """The components are orthogonal, the scores are those of the samples, and their variances are as told."""
        components, variances, scores = result
        n, v = len(self.samples), self.vector[: len(components)]
        projected = self.samples @ (components.T @ v)
        if variances.sum() < self.PART * self.samples.var(axis=0, ddof=1).sum():
            return float("inf")
        return worst(error(components @ (components.T @ v), v), error(scores @ v, projected - projected.mean()),
                     error(scores.T @ (scores @ v), (n - 1) * variances * v))

    def checksum(self, result):
        return result[1].sum()


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, {"pca": Components}))
