"""Runs programs of the distribution with and without libtessera_memory.so, and compares what they print. usage:
  run_programs.py LIBRARY [CASE]
LIBRARY is preloaded: as it is, and with the smallest pieces that the pool can serve. Each program prints exact numbers
only, so all outputs must be the same. Status 77: the program is not installed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

NOT_AVAILABLE = 77
LIBRARY = ""
SETTINGS = ({}, {"TESSERA_POOL_LEAST": "2097152"})


def environment(**extra):
    """The environment without the user's own settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_") and name != "LD_PRELOAD"}
    # One thread, so that messages about threads do not differ.
    return {**clean, "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def run(command, **extra):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment(**extra), timeout=300)


def find(*names):
    for name in names:
        path = shutil.which(name)
        if path is None:
            raise unittest.SkipTest(f"{name} is not installed")
    return path


def python_with(module):
    """This Python or, if it does not have the module, the distribution's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if pathlib.Path(python).exists() and run([python, "-c", f"import {module}"]).returncode == 0:
            return python
    raise unittest.SkipTest(f"no Python has {module}")


class ProgramCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def assert_good(self, result):
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])

    def assert_same(self, command, produced=None):
        """The output, the messages and the file that the command produces, if it does. The loader tells on standard
        error if it cannot preload the library."""
        def outcome(**extra):
            result = run(command, **extra)
            content = None
            if produced is not None and produced.exists():
                content = produced.read_bytes()
                produced.unlink()
            return result, content

        plain, content = outcome()
        self.assert_good(plain)
        self.assertTrue(plain.stdout or content)
        for settings in SETTINGS:
            with self.subTest(**settings):
                pooled, pooled_content = outcome(LD_PRELOAD=LIBRARY, **settings)
                self.assert_good(pooled)
                self.assertEqual(pooled.stdout, plain.stdout)
                self.assertEqual(pooled.stderr, plain.stderr)
                self.assertTrue(pooled_content == content, "the produced files differ")


class Python(ProgramCase):
    def test_the_pool_serves_a_program(self):
        # The pool's thread begins when a piece follows a free one. Without this test, all others might run without a pool.
        script = self.file("thread.py", """
import os
large = bytearray(10 << 20)
del large
large = bytearray(10 << 20)
print(len(os.listdir("/proc/self/task")))
""")
        for expected, settings in ((1, {}), (2, {"LD_PRELOAD": LIBRARY}),
                                   (1, {"LD_PRELOAD": LIBRARY, "TESSERA_POOL": "0"})):
            result = run([sys.executable, script], **settings)
            self.assert_good(result)
            self.assertEqual(result.stdout, f"{expected}\n", settings)

    def test_buffers_that_grow_and_shrink(self):
        script = self.file("buffers.py", """
import hashlib
def digest(data): return hashlib.sha256(data).hexdigest()
buffer = bytearray()
for k in range(300): buffer += bytes([k % 256]) * 100_000
print(digest(buffer))
del buffer[1_000:20_000_000]
print(digest(buffer))
zeros = [bytes((4 + k) << 20) for k in range(12)]  # calloc
print([any(z[::4096]) for z in zeros])
dirty = [b"x" * ((4 + k) << 20) for k in range(12)]
del dirty
print([any(bytearray((4 + k) << 20)) for k in range(6)])
table = {k: str(k) for k in range(400_000)}
print(len(table), digest("".join(table.values()).encode()))
numbers = list(range(1_000_000))
numbers.sort(key=lambda value: value * 7919 % 2_000_003)
print(numbers[:3], sum(numbers))
""")
        self.assert_same([sys.executable, script])

    def test_threads_and_children(self):
        script = self.file("children.py", """
import concurrent.futures, hashlib, multiprocessing, os
def work(k):
    digest = hashlib.sha256()
    for r in range(3):
        data = bytearray((5 + (k + r) % 7) << 20)
        assert not any(data[::4096])
        data[::4096] = bytes([k % 251 + 1]) * len(data[::4096])
        digest.update(data)
    return digest.hexdigest()[:16]
def large(k): return bytes([k]) * (6 << 20)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(work, range(4)), sum(map(len, pool.map(large, range(4)))))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        print(list(threads.map(work, range(8))))
    kept, freed = bytearray(b"p") * (8 << 20), bytearray(b"q") * (8 << 20)
    del freed
    child = os.fork()
    if child == 0:
        kept[:] = bytes(len(kept))
        fresh = bytearray(8 << 20)
        os._exit(any(fresh[::4096]) or any(kept[::4096]))
    print(os.waitpid(child, 0)[1], set(kept))
""")
        self.assert_same([sys.executable, script])


class Sqlite(ProgramCase):
    def test_a_database_in_memory(self):
        script = self.file("database.py", """
import hashlib, sqlite3
data = sqlite3.connect(":memory:", isolation_level=None)
data.execute("create table rows(a integer primary key, b text, c blob)")
data.execute("begin")
data.executemany("insert into rows(b, c) values(?, ?)", ((str(i * 7919 % 1000003), bytes([i % 256]) * (i % 300)) for i in range(100000)))
data.execute("commit")
data.execute("create index by_text on rows(b)")
digest = hashlib.sha256()
for row in data.execute("select b, a from rows order by c desc, b"): digest.update(repr(row).encode())
print(digest.hexdigest())
data.execute("create table large(x blob)")
for i in range(30): data.execute("insert into large values(zeroblob(?))", ((i % 10 + 1) * 1000000,))
data.execute("update large set x = x || x where rowid % 3 = 0")
print(data.execute("select sum(length(x)), max(length(hex(x))) from large").fetchone())
data.execute("delete from rows where a % 2")
data.execute("vacuum")
copy = sqlite3.connect(":memory:")
data.backup(copy)
print(copy.execute("select count(*) from rows").fetchone(), copy.execute("pragma integrity_check").fetchone())
""")
        self.assert_same([python_with("sqlite3"), script])


class Gcc(ProgramCase):
    def test_a_large_file(self):
        numbers = ",\n".join(f"{k * 7919 % 1000003} /* number {k:10} */" for k in range(120_000))
        source = self.file("large.c", f"const int numbers[] = {{\n{numbers}}};\nint first(void) {{ return numbers[0]; }}\n")
        result = self.folder / "large.o"
        self.assert_same([find("gcc"), "-O1", "-c", "-o", result, source], produced=result)

    def test_a_compiled_program(self):
        source = self.file("program.cpp", r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>
static unsigned long work(unsigned seed) {
  std::vector<unsigned> numbers;
  for (unsigned k = 0; k < 2'000'000; ++k) numbers.push_back(seed = seed * 1664525 + 1013904223);
  std::stable_sort(numbers.begin(), numbers.end());  // with a temporary copy
  std::string text;
  for (unsigned k = 0; k < 200'000; ++k) text += std::to_string(numbers[k]) + std::string(40, 'a');
  std::vector<char> zeros(20 << 20);
  return numbers[numbers.size() / 2] + text.size() + std::count(zeros.begin(), zeros.end(), 0);
}
int main() {
  unsigned long sums[4] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back([&, t] { for (unsigned r = 0; r < 2; ++r) sums[t] += work(t + 4 * r); });
  for (auto& one : threads) one.join();
  for (unsigned long sum : sums) std::printf("%lu\n", sum);
}
""")
        program = self.folder / "program"
        self.assert_good(run([find("g++"), "-std=c++17", "-O1", "-pthread", "-o", program, source]))
        self.assert_same([program])


class Octave(ProgramCase):
    def test_arrays(self):
        script = self.file("arrays.m", """
a = reshape (mod ((1:1e6) * 7919, 1009), 1000, 1000);
printf ("%d %d\\n", sum ((a * a')(:)), sum ((a \\ a)(:) > 0.5));
v = [];
for k = 1:40, v = [v, a(1:20000 * mod (k, 40) + 1)]; end
printf ("%d %d\\n", numel (v), sum (v));
s = "";
for k = 1:200, s = [s, repmat(char (65 + mod (k, 26)), 1, 50000)]; end
printf ("%d %d\\n", numel (s), sum (s));
c = cell (1, 10);
for k = 1:10, c{k} = a * k; end
c([1 5 9]) = [];
printf ("%d\\n", cellfun (@(x) sum (x(:)), c));
b = single (a);
b(end + 500, end + 500) = 1;
printf ("%d %d %d\\n", size (b), sum (double (b(:))));
w = sort (a(:));
z = zeros (1, 2e7, "int8");
printf ("%d %d %d\\n", w(1), w(end), any (z));
""")
        self.assert_same([find("octave-cli"), "--no-init-file", "--no-history", script])


class R(ProgramCase):
    def test_vectors(self):
        script = self.file("vectors.R", """
x <- (as.numeric(1:2e6) * 7919) %% 1000003
v <- c()
for (k in 1:60) v <- c(v, x[1:(k * 5000)])
cat(length(v), sum(v), "\\n")
g <- numeric(0)
for (k in 1:1500) g[k * 1000] <- k
for (k in 1:50) g[length(g) + 50000] <- k
cat(length(g), sum(g, na.rm = TRUE), "\\n")
cat(order(x)[1:5], "\\n")
m <- matrix(x[1:640000] %% 1009, 800)
cat(sum(m %*% m), "\\n")
l <- lapply(1:20, function(i) x * i)
l[[3]] <- NULL
invisible(gc())
cat(sum(sapply(l, sum)), "\\n")
cat(nchar(paste(rep("abcdef", 1e6), collapse = "")), "\\n")
bytes <- serialize(x, NULL)
cat(length(bytes), identical(unserialize(bytes), x), "\\n")
# Children by fork, which return large vectors.
r <- parallel::mclapply(1:8, function(i) { y <- sort(x + i); invisible(gc()); y[1:1e6] * 2 }, mc.cores = 2)
cat(sapply(r, sum), "\\n")
""")
        self.assert_same([find("Rscript"), "--vanilla", script])


class Numpy(ProgramCase):
    def test_arrays(self):
        script = self.file("arrays.py", """
import concurrent.futures, hashlib, multiprocessing, os, tempfile
import numpy as np
def digest(a): return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16]
def numbers(count, seed=0): return (np.arange(count, dtype=np.float64) * 7919 + seed) % 1009
def work(k): return digest(np.cumsum(np.sort(numbers(1_000_000, k))))
def large(k): return numbers(1_000_000, k)
if __name__ == "__main__":
    a = numbers(1_000_000).reshape(1000, 1000)
    print(digest(a @ a))
    last = []
    for k in range(40): last = [*last[-6:], a * k]
    print(digest(sum(last)))
    x = np.empty(0)
    for k in range(30): x = np.concatenate([x, numbers(100_000, k)])
    print(digest(x))
    for size in (8_000_000, 700_000, 4_000_000, 100, 2_000_000):
        x.resize(size, refcheck=False)
        print(size, digest(x))
    for k in range(4):
        z = np.zeros(3_000_000 + k)
        assert not z.any()
        z[:] = 1
        del z
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(work, range(4)), list(map(digest, pool.map(large, range(4)))))
    with concurrent.futures.ThreadPoolExecutor(4) as threads: print(list(threads.map(work, range(8))))
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "a.npy")
        np.save(name, a)
        print(digest(np.load(name)), digest(np.load(name, mmap_mode="r")))
""")
        self.assert_same([python_with("numpy"), script])


class Java(ProgramCase):
    def test_arrays_and_buffers(self):
        source = self.file("Arrays.java", """
import java.nio.ByteBuffer;
import java.util.concurrent.*;
import java.util.zip.Deflater;
public class Arrays {
  static long work(int k) {
    long sum = 0;
    for (int r = 0; r < 4; ++r) {
      int[] numbers = new int[1_000_000 + k * 1000];
      for (int i = 0; i < numbers.length; ++i) numbers[i] = i * 31 * k;
      java.util.Arrays.sort(numbers);
      ByteBuffer buffer = ByteBuffer.allocateDirect(8_000_000);
      for (int i = 0; i < buffer.capacity(); i += 4096) sum += buffer.get(i);
      for (int i = 0; i < buffer.capacity(); i += 4096) buffer.put(i, (byte) k);
      Deflater deflater = new Deflater(1);
      deflater.setInput(new byte[5_000_000]);
      deflater.finish();
      sum += numbers[numbers.length / 2] + buffer.get(4096) + deflater.deflate(new byte[6_000_000]);
      deflater.end();
    }
    return sum;
  }
  public static void main(String[] arguments) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(4);
    java.util.List<Future<Long>> results = new java.util.ArrayList<>();
    for (int k = 0; k < 12; ++k) { final int number = k; results.add(threads.submit(() -> work(number))); }
    for (Future<Long> result : results) System.out.println(result.get());
    threads.shutdown();
  }
}
""")
        self.assert_good(run([find("java", "javac"), "-d", self.folder, source]))
        self.assert_same([find("java"), "-Xmx1g", "-cp", self.folder, "Arrays"])


def main():
    global LIBRARY
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    LIBRARY = os.path.abspath(sys.argv[1])
    result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == len(result.skipped):
        sys.exit(NOT_AVAILABLE)


if __name__ == "__main__":
    main()
