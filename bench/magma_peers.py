#!/usr/bin/env python3
"""Batches of LU and Cholesky by PyTorch, with MAGMA, with cuSOLVER and with what PyTorch chooses: peers of lapack_batch_bench.

usage: bench/magma_peers.py [--types ds] [--routines getrf,potrf] [--sizes N,...] [--repeats N] [--json FILE]

PyTorch deprecates MAGMA since 2.11 and takes it from one function after the other: what torch.backends.cuda.preferred_linalg_library
is told may have no effect. In the wheel of 2.11.0 there is MAGMA's LU and no Cholesky. So the kernels that run are compared: where
those with MAGMA are those with cuSOLVER, the table says that the setting is ignored.

Times are those of torch.linalg.lu_factor_ex and cholesky_ex, which copy the matrices first (cholesky_ex clears a triangle besides); the
last column is the time of such a copy. Without it, and in one process with Tessera, MAGMA's functions on addresses are measured by
`lapack_batch_bench --magma .../torch/lib/libtorch_cuda_linalg.so`, of those that the file still exports (nm -D). The table goes to
standard output; status 1: something was wrong.
"""
import argparse
import json
import pathlib
import statistics
import sys

BACKENDS = ("magma", "cusolver", "default")
SIZES = (32, 64, 128, 256, 512, 1024)
RESIDUAL_BOUND = 30  # |R| / (n |A| eps), as LAPACK's testers have it
SLOW_S = 5  # where repeats take longer, there are fewer

try:
    import torch
except ImportError:
    sys.exit("magma_peers.py: this python3 has no PyTorch")

TYPES = {"d": torch.float64, "s": torch.float32}
# Operations of one problem, leading terms.
FLOPS = {"getrf": lambda n: 2 * n**3 / 3, "potrf": lambda n: n**3 / 3}
FUNCTIONS = {"getrf": torch.linalg.lu_factor_ex, "potrf": torch.linalg.cholesky_ex}


def problems_of(n):
    return 10000 if n <= 64 else 1000 if n <= 512 else 200


def matrices(routine, kind, n, count):
    """Column by column, as the libraries want them: PyTorch need not transpose."""
    A = torch.rand(count, n, n, dtype=TYPES[kind], device="cuda").mT.sub_(0.5)
    if routine == "potrf":
        A.diagonal(dim1=-2, dim2=-1).add_(n)
    return A


def residual(routine, A, result):
    """Of one problem."""
    if routine == "getrf":
        P, L, U = torch.lu_unpack(result[0], result[1])
        rest = P @ L @ U - A
    else:
        L = result[0].tril()
        A = A.tril() + A.tril(-1).mT
        rest = L @ L.mT - A
    of_rest, of_matrix = (torch.linalg.matrix_norm(matrix, 1).item() for matrix in (rest, A))
    return of_rest / (A.shape[-1] * of_matrix * torch.finfo(A.dtype).eps)


def why_wrong(routine, A, result):
    """@return an empty text if it is right"""
    if result[-1].any().item():
        return "info is not 0"
    for i in (0, len(A) // 2, len(A) - 1):
        found = residual(routine, A[i], [part[i] for part in result])
        if not found < RESIDUAL_BOUND:
            return f"the residual is {found:.3g}"
    return ""


def kernels_of(call):
    """The names of the kernels that a call runs; None where the profiler does not say."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            torch.cuda.synchronize()
        on_gpu = [event.key for event in profile.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
        names = {name for name in on_gpu if not name.startswith("Mem")}  # copies and memsets
    except (AssertionError, RuntimeError):
        return None
    return names or None


def seconds_of(call, repeats):
    """Median; the first call warms up, the second tells how many there is time for."""
    call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    while len(times) <= repeats:
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
        repeats = min(repeats, max(3, int(SLOW_S / times[0])))
    return statistics.median(times[1:])


def measure(routine, kind, n, repeats):
    count = problems_of(n)
    A = matrices(routine, kind, n, count)
    result = {"routine": kind + routine, "n": n, "batch": count, "flops": FLOPS[routine](n) * count, "seconds": {}, "wrong": {}, "kernels": {}}
    result["copy_s"] = seconds_of(A.clone, repeats)
    some = A if n < 512 else A[:100]  # with one problem after the other the profiler has much to read
    for backend in BACKENDS:
        if backend == "magma" and not torch.cuda.has_magma:
            continue
        try:
            torch.backends.cuda.preferred_linalg_library(backend)
            wrong = why_wrong(routine, A, FUNCTIONS[routine](A))
            if wrong:
                result["wrong"][backend] = f"WRONG: {wrong}"
                continue
            result["seconds"][backend] = seconds_of(lambda: FUNCTIONS[routine](A), repeats)
            names = kernels_of(lambda: FUNCTIONS[routine](some))
            result["kernels"][backend] = names and sorted(names)
        except RuntimeError as error:  # out of memory, too
            result["wrong"][backend] = f"FAILED: {str(error).splitlines()[0]}"
    return result


def same_kernels(result, one, other):
    """None: not known."""
    names = [result["kernels"].get(backend) for backend in (one, other)]
    return None if None in names else names[0] == names[1]


def row(result):
    cells = [f"{result['flops'] / result['seconds'][backend] * 1e-9:.1f}" if backend in result["seconds"] else result["wrong"].get(backend, "none")
             for backend in BACKENDS]
    cells.append({None: "not known", True: "cuSOLVER's: IGNORED", False: "its own"}[same_kernels(result, "magma", "cusolver")])
    chosen = [words for backend, words in zip(BACKENDS, ("MAGMA", "cuSOLVER")) if same_kernels(result, "default", backend)]
    cells.append(chosen[-1] if chosen else "")
    return f"| {result['routine']} | {result['n']} | {result['batch']} | " + " | ".join(cells) + f" | {result['copy_s'] * 1e6:.0f} |"


def verdict(results, has_magma):
    if not has_magma:
        return "This PyTorch has NO MAGMA."
    lines = []
    for routine, function in FUNCTIONS.items():
        known = [same_kernels(result, "magma", "cusolver") for result in results if result["routine"][1:] == routine]
        if not known:
            continue
        heeded = sum(same is False for same in known)
        ignored = sum(same is True for same in known)
        lines.append(f"{function.__name__}: MAGMA's kernels in {heeded} of {len(known)} cases"
                     + (f", the setting is IGNORED in {ignored}" if ignored else "")
                     + (f", not known in {len(known) - heeded - ignored}" if heeded + ignored < len(known) else ""))
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--types", default="ds", help="letters of sd")
    parser.add_argument("--routines", default="getrf,potrf")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--repeats", type=int, default=10, help="of which the median is taken")
    parser.add_argument("--json", help="file for the times and the names of the kernels")
    return parser.parse_args()


def main():
    asked = arguments()
    if not torch.cuda.is_available():
        print("magma_peers.py: PyTorch sees no GPU", file=sys.stderr)
        return 1
    torch.cuda.init()  # before it, has_magma is not set
    has_magma = bool(torch.cuda.has_magma)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}; torch.cuda.has_magma: {has_magma}")
    print("\nGFLOP/s\n\n| | n | problems | MAGMA | cuSOLVER | default | kernels with MAGMA | default is | copy, us |\n|---|---|---|---|---|---|---|---|---|")
    results = []
    for kind in asked.types:
        for routine in asked.routines.split(","):
            for n in map(int, asked.sizes.split(",")):
                results.append(measure(routine, kind, n, asked.repeats))
                print(row(results[-1]), flush=True)
                torch.cuda.empty_cache()
    torch.backends.cuda.preferred_linalg_library("default")
    print("\n" + verdict(results, has_magma))
    if asked.json:
        report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda, "has_magma": has_magma, "results": results}
        pathlib.Path(asked.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
