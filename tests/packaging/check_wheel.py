"""Checks a wheel of the Python package as its users get it. usage: check_wheel.py WHEEL FOLDER

First what is in it. Then it is installed into a new environment in FOLDER, alone and beside NumPy from PyPI, and runs.
"""
import email
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000
LIBC = re.compile(r"lib[cm]\.so\.6|ld-linux-x86-64\.so\.2")
LIBRARIES = {f"tessera_blas/lib/{name}" for name in
             ("libtessera.so.0", "libtessera_blas.so.0", "libtessera_lapack.so.0", "libtessera_slots.so.0")}
PLUGIN = "tessera_blas/lib/libtessera_cuda.so"
# Of hwloc, which the plugin needs, and packaging/python/udev.c, which hwloc needs. No library of CUDA is allowed.
BUNDLED = re.compile(r"tessera_blas\.libs/lib(hwloc|udev)-[0-9a-f]+\.so[.0-9]*")
NVIDIA = re.compile(r"\$ORIGIN/\.\./\.\./nvidia/\w+/lib")

PROGRAM = """\
import re
import sys

import numpy as np


def cuda_libraries():
    with open("/proc/self/maps") as file:
        return sorted(set(re.findall(r"/.*/lib(?:cuda|cublas|cusolver|tessera_cuda)[.].*", file.read())))


a = np.arange(900.0).reshape(30, 30) % 7 + 30 * np.eye(30)
small = np.linalg.inv(a) @ a
assert np.allclose(small, np.eye(30))
if sys.argv[1] == "small":
    assert not cuda_libraries(), cuda_libraries()
    sys.exit()
n = int(sys.argv[1])
rng = np.random.default_rng(1)
a = rng.standard_normal((n, n)) + 4 * np.sqrt(n) * np.eye(n)
b = rng.standard_normal((n, n))
assert np.allclose(a @ np.linalg.solve(a, b), b)
q, r = np.linalg.qr(a)
assert np.allclose(q @ r, a)
print("\\n".join(cuda_libraries()) or "no library of CUDA")
"""


def expect(condition, what):
    if not condition:
        sys.exit(f"check_wheel.py: {what}")


def text_of(path, pattern):
    found = re.search(pattern, path.read_text(encoding="utf-8"))
    expect(found, f"{path} tells no version")
    return found.group(1)


def check_metadata(wheel, archive):
    version = text_of(ROOT / "CMakeLists.txt", r"project\(Tessera VERSION ([0-9.]+)")
    told = text_of(ROOT / "python/tessera_blas/__init__.py", r'__version__ = "(.+)"')
    expect(told == version, f"tessera_blas.__version__ is {told}, the project's version {version}")
    name = re.fullmatch(rf"tessera_blas-{re.escape(version)}-py3-none-(manylinux_2_\d+_x86_64)\.whl", wheel.name)
    expect(name, f"{wheel.name} is not the name for version {version}")
    folder = f"tessera_blas-{version}.dist-info"
    metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
    expect(metadata["Name"] == "tessera-blas" and metadata["Version"] == version, metadata.as_string())
    expect({"cuda12", "cuda13"} <= set(metadata.get_all("Provides-Extra", [])), metadata.as_string())
    needed = [item for item in metadata.get_all("Requires-Dist", []) if "extra ==" not in item]
    expect(not needed, f"needs {needed}")
    return folder


def check_files(archive, dist_info):
    names = set(archive.namelist())
    modules = {f"tessera_blas/{path.name}" for path in (ROOT / "python/tessera_blas").iterdir() if path.is_file()}
    expect(not (modules | LIBRARIES) - names, f"missing: {sorted((modules | LIBRARIES) - names)}")
    others = {name for name in names - modules - LIBRARIES - {PLUGIN}
              if not BUNDLED.fullmatch(name) and not name.startswith(dist_info + "/")}
    expect(not others, f"not to be in it: {sorted(others)}")
    bundled = {name.split("/")[1].split("-")[0] for name in names if BUNDLED.fullmatch(name)}
    licences = {name.split("/")[-1] for name in names if name.startswith(f"{dist_info}/licenses/")}
    wanted = {"LICENSE", "nlohmann_json.txt"} | ({"hwloc.txt"} if "libhwloc" in bundled else set())
    expect(wanted <= licences, f"licences missing: {sorted(wanted - licences)}")
    return names


def check_library(file, name, inside):
    dynamic = subprocess.run(["readelf", "-W", "-d", file], check=True, capture_output=True, text=True).stdout
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
        expect(LIBC.fullmatch(needed) or needed in inside, f"{name} needs {needed}")
    path = [entry for value in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic) for entry in value.split(":")]
    for entry in path:
        expect(re.match(r"\$ORIGIN(/|$)|/usr/local/cuda", entry), f"{name} searches {entry!r}")
    if name == PLUGIN:
        places = ["wheel" if NVIDIA.fullmatch(entry) else "toolkit" for entry in path
                  if NVIDIA.fullmatch(entry) or entry.startswith("/")]
        expect(places[:1] == ["wheel"] and places[-1:] == ["toolkit"] and places == sorted(places, reverse=True),
               f"{name} searches {':'.join(path)}")
        print(f"the plugin searches {':'.join(path)}")


def check_contents(wheel):
    size = wheel.stat().st_size
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = check_files(archive, check_metadata(wheel, archive))
        libraries = [name for name in names if re.search(r"\.so(\.|$)", name)]
        inside = {pathlib.PurePath(name).name for name in libraries}
        for name in libraries:
            check_library(archive.extract(name, folder), name, inside)
    expect(size <= MOST_BYTES, f"{size} bytes, more than {MOST_BYTES}")
    print(f"{wheel.name}: {size / 1e6:.1f} MB, {len(names)} files, {'with' if PLUGIN in names else 'WITHOUT'} the CUDA plugin")


def check_installed(wheel, folder):
    # Only what is set here, so that no settings and no packages of this shell take part.
    surroundings = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    surroundings |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or name.startswith("PIP_INDEX")}
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"

    def run(*arguments, **settings):
        result = subprocess.run([str(python), *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=600,
                                env={**surroundings, "TESSERA_CALIBRATION": "off", **settings})
        expect(result.returncode == 0, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def install(*what):
        run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", *what)

    install(wheel)
    print(run("-m", "tessera_blas", "--version").strip())
    run("-c", "import sys, tessera_blas; assert 'numpy' not in sys.modules; tessera_blas.install(); tessera_blas.info()")

    install("numpy")
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run("-m", "tessera_blas", program, "small")
    stats = folder / "stats.jsonl"
    run("-m", "tessera_blas", program, "200", TESSERA_DEVICES="host:2", TESSERA_OFFLOAD="always", TESSERA_STATS=str(stats))
    calls = [json.loads(line) for line in stats.read_text(encoding="utf-8").splitlines()]
    routines = sorted({call["routine"] for call in calls if call["devices"]})
    expect({"dgemm", "dgetrf", "dgelqf"} <= set(routines), f"ran on devices: {routines}")
    print(f"ran on host devices: {', '.join(routines)}")
    print(f"on this machine: {run('-m', 'tessera_blas', program, '3000').strip()}")
    print(run("-m", "tessera_blas", "demo", "--order", "1000").strip())


def main():
    wheel, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    check_contents(wheel)
    check_installed(wheel, folder)


if __name__ == "__main__":
    main()
