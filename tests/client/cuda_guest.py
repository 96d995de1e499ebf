#!/usr/bin/env python3
"""The library beside other users of the GPUs: PyTorch in the same process, and other processes.

usage: cuda_guest.py LIBRARY [CASE...]

LIBRARY is libtessera_blas.so; each case runs in a process of its own with it preloaded. Exit status: 0 all good, 1 a
failure, 77 nothing could run (no GPU, no PyTorch).
"""
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
GIB = 1 << 30


def modules():
    import numpy
    import torch
    return numpy, torch


class Products:
    """n x n products by NumPy, compared with PyTorch's result."""

    def __init__(self, n):
        numpy, _ = modules()
        random = numpy.random.default_rng(n)
        # Small whole numbers: the result is exact for every order of the additions.
        self.a = numpy.asfortranarray(random.integers(-8, 8, (n, n)).astype(numpy.float64))
        self.b = numpy.asfortranarray(random.integers(-8, 8, (n, n)).astype(numpy.float64))
        self.x = random.integers(-8, 8, n).astype(numpy.float64)

    def check(self, times=1):
        numpy, _ = modules()
        for _ in range(times):
            c = self.a @ self.b
            # Matrix times vector is not Level 3, so it can check the product.
            if not numpy.array_equal(c @ self.x, self.a @ (self.b @ self.x)):
                raise AssertionError("a product is wrong")


def await_free(torch, wanted, seconds, device=0):
    """Waits for memory to be free. Returns the free memory."""
    end = time.monotonic() + seconds
    while (free := torch.cuda.mem_get_info(device)[0]) < wanted and time.monotonic() < end:
        time.sleep(0.25)
    return free


def case_memory():
    """PyTorch can allocate after a large product, and can have all memory after a pause without products."""
    _, torch = modules()
    torch.zeros(1, device="cuda:0")
    free, total = torch.cuda.mem_get_info(0)
    products = Products(8192)
    products.check(2)
    held = free - torch.cuda.mem_get_info(0)[0]
    wanted = min(100 * GIB, int(0.75 * total))
    print(f"after dgemm of 8192: {held / GIB:.2f} of {total / GIB:.1f} GiB are held; asking for {wanted / GIB:.1f}")
    tensor = torch.empty(wanted, dtype=torch.uint8, device="cuda:0")
    tensor.fill_(7)
    products.check(2)
    assert int(tensor[-1]) == 7 and bool((tensor[: 1 << 20] == 7).all())
    del tensor
    torch.cuda.empty_cache()
    after = await_free(torch, free - GIB, 20)
    print(f"free before {free / GIB:.2f}, after the last product and some seconds {after / GIB:.2f} GiB")
    assert after >= free - GIB, "memory was not given back"
    products.check()


def case_full():
    """A product is right while PyTorch has all the memory, and runs on the GPU when there is some again."""
    _, torch = modules()
    Products(1024).check()
    await_free(torch, torch.cuda.mem_get_info(0)[1], 8)
    blocks = []
    size = 8 * GIB
    while size >= 32 << 20:
        try:
            blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda:0"))
        except torch.OutOfMemoryError:
            size //= 2
    print(f"left for a product: {torch.cuda.mem_get_info(0)[0] / GIB:.3f} GiB")
    products = Products(4096)
    products.check(2)
    blocks.clear()
    torch.cuda.empty_cache()
    sys.stdout.flush()
    print("tessera: there is memory again", file=sys.stderr, flush=True)
    products.check(2)


def captures(cold):
    _, torch = modules()
    products = Products(2048)
    if not cold:
        products.check()
    stop = threading.Event()
    failure = []
    count = [0]

    def multiply():
        try:
            while not stop.is_set():
                products.check()
                count[0] += 1
        except BaseException as error:
            failure.append(error)

    x = torch.zeros(256, 256, device="cuda:0")
    w = torch.randn(256, 256, device="cuda:0")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # PyTorch must load its kernels before
        y = torch.relu(x @ w) + 1
    torch.cuda.synchronize()
    thread = threading.Thread(target=multiply)
    thread.start()
    try:
        for number in range(30):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x
                for _ in range(20):
                    y = torch.relu(y @ w) * 0.01 + 1
                time.sleep(0.02)
            x.copy_(torch.full((256, 256), float(number), device="cuda:0"))
            graph.replay()
            torch.cuda.synchronize()
            wanted = x
            for _ in range(20):
                wanted = torch.relu(wanted @ w) * 0.01 + 1
            assert torch.equal(y, wanted), f"replay {number} is wrong"
    finally:
        stop.set()
        thread.join()
    if failure:
        raise failure[0]
    print(f"30 captures and replays beside {count[0]} products")
    assert count[0] > 0
    products.check(5)


def case_capture():
    """Another thread captures graphs while products are computed."""
    captures(False)


def case_capture_cold():
    """The same while the GPU is being opened."""
    captures(True)


def runtime_library():
    with open("/proc/self/maps") as maps:
        for line in maps:
            if found := re.search(r"(/\S*/libcudart\.so\S*)", line):
                return ctypes.CDLL(found.group(1))
    raise AssertionError("PyTorch has loaded no libcudart")


def case_peers():
    """Two GPUs: peer access belongs to the application, and its changes must not affect products."""
    _, torch = modules()
    products = Products(8192)
    products.check(2)
    cudart = runtime_library()

    def each_way(call):
        results = []
        for own, other in ((0, 1), (1, 0)):
            assert cudart.cudaSetDevice(own) == 0
            results.append(call(other))
        return results

    assert each_way(lambda other: cudart.cudaDeviceEnablePeerAccess(other, 0)) == [0, 0], "peer access was not the application's"
    products.check()
    assert each_way(cudart.cudaDeviceDisablePeerAccess) == [0, 0]
    products.check(2)
    for own, other in ((0, 1), (1, 0)):
        tensor = torch.arange(1 << 24, device=f"cuda:{own}")
        assert torch.equal(tensor.to(f"cuda:{other}").cpu(), tensor.cpu())
    products.check(2)
    with open(os.environ["TESSERA_STATS"]) as file:
        jobs = [json.loads(line) for line in file]
    by_peers = [sum(device["bytes_peer"] for device in job["devices"]) for job in jobs]
    print("bytes from peers in each product:", by_peers)
    assert len(by_peers) == 7 and all(count > 0 for count in by_peers), "no peer copies"


def case_neighbours():
    """Independent processes: each has all the GPU's memory while the others are idle, and two can compute at once."""
    code = (f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); import cuda_guest as g, time\n"
            "p = g.Products(12288); p.check(); print('ready', flush=True); input(); p.check(5); print('done', flush=True)")
    _, torch = modules()
    torch.zeros(1, device="cuda:0")
    free = torch.cuda.mem_get_info(0)[0]
    others = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for other in others:
            assert other.stdout.readline() == "ready\n"
        after = await_free(torch, free - 4 * GIB, 20)
        print(f"free before {free / GIB:.1f}, beside two idle processes {after / GIB:.1f} GiB")
        assert after >= free - 4 * GIB, "idle processes keep memory"  # the processes' contexts take some of it
        products = Products(8192)
        for other in others:
            other.stdin.write("\n")
            other.stdin.flush()
        products.check(5)
        for other in others:
            assert other.stdout.readline() == "done\n" and other.wait() == 0
    finally:
        for other in others:
            if other.poll() is None:
                other.kill()


def case_trap():
    """A kernel of the program breaks the context: products are right nevertheless."""
    _, torch = modules()
    products = Products(2048)
    products.check(2)
    try:
        torch.zeros(4, device="cuda:0")[torch.tensor([100], device="cuda:0")].cpu()
        raise AssertionError("PyTorch did not notice")
    except (RuntimeError, torch.AcceleratorError) as error:
        print(f"broken: {type(error).__name__}")
    products.check(2)
    Products(4096).check(1)  # needs more memory from a GPU that gives none
    sys.stdout.flush()
    os._exit(0)  # PyTorch cannot shut down


# name: (GPUs, check of standard error)
def only_devices(text):
    """Every product that the library reports was computed on GPUs."""
    places = re.findall(r"^tessera: dgemm .* on (.*?) \(", text, re.MULTILINE)
    # The line of a product that a GPU began and the CPU finished names both.
    wrong = [place for place in places if not all(part.startswith("cuda:") for part in place.split(","))]
    if not places or wrong:
        return f"{len(places)} products, of which not on GPUs: {wrong}"
    return None


def devices_again(text):
    return only_devices(text.rpartition("there is memory again")[2])


CASES = {
    "memory": (case_memory, 1, only_devices),
    "full": (case_full, 1, devices_again),
    "capture": (case_capture, 1, only_devices),
    "capture_cold": (case_capture_cold, 1, only_devices),
    "neighbours": (case_neighbours, 1, only_devices),
    "trap": (case_trap, 1, lambda text: None),
    "peers": (case_peers, 2, only_devices),
}


def environment(library, gpus, stats):
    settings = dict(os.environ, LD_PRELOAD=library, TESSERA_VERBOSE="1", TESSERA_OFFLOAD="always", TESSERA_CPU_WORKER="off", TESSERA_STATS=stats,
                    TESSERA_CALIBRATION="off", TESSERA_DEVICES="cuda:" + ",".join(map(str, range(gpus))))
    # cuBLAS from PyTorch's wheels, if the system has none.
    import torch
    folders = glob.glob(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia", "*", "lib"))
    settings["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH", ""), *folders]))
    return settings


def run(library, name):
    _, gpus, judge = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        settings = environment(library, gpus, os.path.join(folder, "stats.jsonl"))
        result = subprocess.run([sys.executable, os.path.abspath(__file__), "--inside", name], env=settings, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900)
    fault = f"status {result.returncode}" if result.returncode != 0 else judge(result.stderr)
    print(f"== {name}: {'good' if fault is None else fault}\n{result.stdout}", end="")
    if fault is not None:
        print(result.stderr[-6000:])
    sys.stdout.flush()
    return fault is None


def main():
    if sys.argv[1] == "--inside":
        return CASES[sys.argv[2]][0]()
    library = os.path.abspath(sys.argv[1])
    names = sys.argv[2:] or list(CASES)
    try:
        _, torch = modules()
        gpus = torch.cuda.device_count()
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(SKIPPED)
    able = [name for name in names if CASES[name][1] <= gpus]
    for name in names:
        if name not in able:
            print(f"== {name}: skipped, {CASES[name][1]} GPU(s) needed and {gpus} found")
    if not able:
        sys.exit(SKIPPED)
    sys.exit(0 if all([run(library, name) for name in able]) else 1)


if __name__ == "__main__":
    main()
