"""PyTorch on the GPU and the package in one process, each on the other's results, in turns and at the same time.

Run as a script; prints the greatest difference, or fails. The order of the imports is the argument: `torch` or `package`.
"""

import sys
import threading

if sys.argv[1:] == ["torch"]:
    import torch
    import tessera_blas
else:
    import tessera_blas

    tessera_blas.install()
    import torch

import numpy as np

tessera_blas.install()
N = 700
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
worst = 0.0


def compare(ours, theirs):
    global worst
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    worst = max(worst, difference)
    assert difference < 1e-9, difference


def turns(seed, count):
    random = np.random.default_rng(seed)
    for _ in range(count):
        a = random.standard_normal((N, N))
        b = random.standard_normal((N, 9))
        # Memory of NumPy's, sent without waiting, and results back in it.
        sent = torch.from_numpy(a).to(DEVICE, non_blocking=True)
        x = np.linalg.solve(a, b)
        compare(x, torch.linalg.solve(sent, torch.from_numpy(b).to(DEVICE)).cpu().numpy())
        compare(a @ a.T, (sent @ sent.T).cpu().numpy())
        # An array of PyTorch's memory as our operand, and ours as PyTorch's.
        theirs = (sent @ sent.T + N * torch.eye(N, device=DEVICE, dtype=sent.dtype)).cpu()
        factor = np.linalg.cholesky(theirs.numpy())
        compare(factor, torch.linalg.cholesky(theirs.to(DEVICE)).cpu().numpy())
        pinned = torch.empty(N, N, dtype=torch.float64, pin_memory=DEVICE == "cuda")
        np.matmul(a, factor, out=pinned.numpy())
        compare(pinned.to(DEVICE).cpu().numpy(), (torch.from_numpy(a) @ torch.from_numpy(factor)).numpy())


def main():
    turns(1, 5)
    failures = []

    def work(seed):
        try:
            turns(seed, 5)
        except BaseException as failure:  # of any kind: the main thread tells
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2, 6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    print(f"PyTorch {torch.__version__} on {DEVICE}: worst difference {worst:.1e}")


if __name__ == "__main__":
    main()
