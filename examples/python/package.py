"""A NumPy program that asks for Tessera itself, and what it can ask of it: python3 package.py [order]

Needs the package (docs/clients/python.md). Prints the errors of what it has computed; small orders stay on the CPU."""
import sys

import numpy as np

import tessera_blas

tessera_blas.install()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
rng = np.random.default_rng(1)
a = rng.standard_normal((n, n))
b = rng.standard_normal((n, 10))

x = np.linalg.solve(a, b)
q, r = np.linalg.qr(a)
w, v = np.linalg.eigh(a + a.T)
errors = {
    "solve": np.linalg.norm(a @ x - b) / (np.linalg.norm(a) * np.linalg.norm(x)),
    "qr": np.linalg.norm(q @ r - a) / np.linalg.norm(a),
    "eigh": np.linalg.norm((a + a.T) @ v - v * w) / np.linalg.norm(a),
}
for name, error in errors.items():
    print(f"{name}: error {error:.1e}")
print("numpy.linalg through Tessera:", tessera_blas.info()["numpy"]["on"])
sys.exit(0 if max(errors.values()) < 1e-12 * n else 1)
