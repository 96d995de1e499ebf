#!/usr/bin/env python3
"""Enforces who may include whom under src/ (the table of docs/adr/0001-repository-and-build.md), and who may read the
environment and open files to write them.

usage: check_layering.py ROOT        checks ROOT/src and ROOT/include; prints each violation; exit status 1 if there are any
       check_layering.py --self-test plants one violation of every kind in a copy that is clean otherwise, and expects
                                     each found
Standard library only.
"""
import pathlib
import re
import sys
import tempfile

# Folder under src/ -> folders it may include besides itself and core.
MAY_INCLUDE = {
    "core": set(),
    "calls": set(),
    "device": set(),
    "pool": set(),
    "slots": set(),
    "heap": {"device"},
    "kernels": {"device", "calls"},
    "cache": {"heap", "device"},
    "residence": {"heap", "device"},
    "runtime": {"cache", "residence", "kernels", "device", "calls", "pool"},
    "routines": {"runtime", "calls"},
    "offload": {"routines", "runtime", "kernels", "calls"},
    "blas_api": {"offload", "runtime", "calls", "pool"},
    "device_api": {"kernels", "calls"},
}
# The rooms of src/kernels -> those that they may include. Files beside the rooms are interfaces, open to all.
ROOMS = {
    "plan": set(),
    "block": {"plan"},
    "reference": set(),
    "cuda": {"plan", "block"},
    "host": {"plan", "block", "reference"},
}
# These folders implement the public headers; no other one needs them.
PUBLIC = "tessera"
SEES_PUBLIC = {"blas_api", "device_api"}
# Calls that only one file may contain; the others must go through it.
ONLY_IN = {
    "core/environment.hpp": (re.compile(r"\b(secure_)?getenv\b"), "reads the environment: use core/environment.hpp"),
    "core/file.cpp": (re.compile(r"\bo?fstream\b(?!>)|\bfopen\b|\bO_CREAT\b"), "opens a file to write: use core/file.hpp"),
}
# The backends: their folders, and the headers that belong there alone.
BACKENDS = {
    "cuda": re.compile(r"^(cuda[^/]*\.h(pp)?|cu(blas|solver|sparse|rand|fft)[^/]*\.h|device_launch_parameters\.h"
                       r"|nv[^/]*\.h|vector_types\.h|(nvtx3|cuda|cub|thrust|cooperative_groups)/.*|mma\.h|cooperative_groups\.h)$"),
}

# Written by CMake (cmake/lapack_symbols.cmake); includes of them obey the same rules.
GENERATED = {"blas_api/c_api/lapack_functions.inc", "blas_api/lapack/argument_lists.def", "blas_api/lapack/handed_on.def", "calls/lapack_symbols.def"}

SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".inc", ".def"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def files_under(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SUFFIXES) if folder.is_dir() else []


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def backend_of(path):
    """The backend whose folder under device/ or kernels/ a file is in; None for others."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] in ("device", "kernels") and parts[1] in BACKENDS else None


def room_of(path):
    """The room of src/kernels that a file of it is in; None for others."""
    parts = path.split("/")
    return parts[1] if parts[0] == "kernels" and len(parts) > 2 else None


def check(root):
    """Returns the violations of the tree at `root`, one line of text each."""
    source = root / "src"
    found = []
    for path in files_under(source):
        inside = path.relative_to(source).as_posix()
        folder = inside.split("/")[0]
        if "/" not in inside or folder not in MAY_INCLUDE:
            found.append(f"src/{inside}: not in one of the folders {', '.join(MAY_INCLUDE)}")
            continue
        text = path.read_text(encoding="utf-8")
        for only, (pattern, complaint) in ONLY_IN.items():
            found += [f"src/{inside}:{line_of(text, match.start())}: {complaint}"
                      for match in pattern.finditer(text) if inside != only]
        for match in INCLUDE.finditer(text):
            quote, header = match.groups()
            where = f"src/{inside}:{line_of(text, match.start())}"
            owner = next((name for name, headers in BACKENDS.items() if headers.match(header)), None)
            if owner is not None:
                if backend_of(inside) != owner:
                    found.append(f"{where}: <{header}> outside device/{owner} and kernels/{owner}")
                continue
            other = header.split("/")[0]
            if other == PUBLIC:
                if folder not in SEES_PUBLIC:
                    found.append(f"{where}: {folder} may not include the public header {header}")
                continue
            if quote == "<":
                if other in MAY_INCLUDE and (source / header).is_file():
                    found.append(f"{where}: <{header}> is ours and belongs in quotes")
                continue
            if not (source / header).is_file() and header not in GENERATED:
                found.append(f"{where}: \"{header}\" is not a file relative to src/")
                continue
            if other not in {folder, "core"} | MAY_INCLUDE[folder]:
                found.append(f"{where}: {folder} may not include {other} ({header})")
            room, other_room = room_of(inside), room_of(header)
            if room in ROOMS and other_room in ROOMS and other_room not in {room} | ROOMS[room]:
                found.append(f"{where}: kernels/{room} may not include kernels/{other_room} ({header})")
            if backend_of(header) not in (None, backend_of(inside)):
                found.append(f"{where}: {header} belongs to the plugin of {backend_of(header)}")

    for path in files_under(root / "include"):
        text = path.read_text(encoding="utf-8")
        inside = path.relative_to(root).as_posix()
        for match in INCLUDE.finditer(text):
            quote, header = match.groups()
            ours = header.startswith(PUBLIC + "/") and (root / "include" / header).is_file()
            if (quote == '"' or (source / header).is_file() or any(headers.match(header) for headers in BACKENDS.values())) and not ours:
                found.append(f"{inside}:{line_of(text, match.start())}: a public header includes {header}")
    return found


CLEAN = {
    "src/core/scalar.hpp": "#include <cstdint>\n",
    "src/core/environment.hpp": "inline const char* home = secure_getenv(\"HOME\");\n",
    "src/core/file.cpp": "int flags = O_CREAT;\n",
    "src/device/device.hpp": '#include "core/scalar.hpp"\n',
    "src/device/cuda/device.cu": '#include <cuda_runtime.h>\n#include "device/device.hpp"\n',
    "src/heap/heap.hpp": '#include "device/device.hpp"\n',
    "src/cache/cache.hpp": '#include "heap/heap.hpp"\n#include "cache/cache.hpp"\n',
    "src/residence/mirror.hpp": '#include "heap/heap.hpp"\n',
    "src/kernels/cuda/gemm.cu": '#include "device/device.hpp"\n#include <cublas_v2.h>\n',
    "src/kernels/plan/cut.hpp": '#include "core/scalar.hpp"\n',
    "src/kernels/block/strip.hpp": '#include "kernels/plan/cut.hpp"\n',
    "src/device_api/api.cpp": '#include "tessera/tessera.h"\n#include "kernels/plan/cut.hpp"\n',
    "src/runtime/runtime.hpp": '#include "cache/cache.hpp"\n',
    "src/routines/gemm.cpp": '#include "runtime/runtime.hpp"\n',
    "src/calls/call.hpp": '#include "core/scalar.hpp"\n',
    "src/offload/decide.cpp": '#include "routines/gemm.cpp"\n#include "calls/call.hpp"\n',
    "src/blas_api/api.cpp": '#include "tessera/tessera.h"\n#include "offload/decide.cpp"\n',
    "include/tessera/tessera.h": "#include <stdint.h>\n",
}
# File -> text that is added to it; each must be found, and named by file and line.
PLANTED = {
    "src/core/scalar.hpp": '#include "device/device.hpp"\n',
    "src/device/device.hpp": "#include <cuda_runtime_api.h>\n",
    "src/heap/heap.hpp": '#include "cache/cache.hpp"\n',
    "src/cache/cache.hpp": '  #  include "runtime/runtime.hpp"\n',
    "src/residence/mirror.hpp": '#include "cache/cache.hpp"\n',
    "src/runtime/runtime.hpp": '#include "kernels/cuda/gemm.cu"\n',
    "src/routines/gemm.cpp": '#include "cache/cache.hpp"\n',
    "src/calls/call.hpp": '#include "device/device.hpp"\n',
    "src/offload/decide.cpp": '#include "blas_api/api.cpp"\n',
    "src/blas_api/api.cpp": '#include "heap/heap.hpp"\n',
    "src/kernels/cuda/gemm.cu": '#include "heap/heap.hpp"\n',
    "src/kernels/plan/cut.hpp": '#include "kernels/block/strip.hpp"\n',
    "src/device_api/api.cpp": '#include "runtime/runtime.hpp"\n',
    "src/device/cuda/device.cu": '#include "device.cuh"\n',
    "src/helpers/string.hpp": "\n",
    "src/core/config.cpp": 'const char* home = std::getenv("HOME");\n',
    "src/runtime/trace.cpp": 'std::ofstream file("trace");\n',
    "src/core/log.cpp": 'int file = open("log", O_WRONLY | O_CREAT);\n',
    "include/tessera/tessera.h": '#include "core/scalar.hpp"\n',
}


def plant(root, extra):
    for name, text in CLEAN.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, text in extra.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CLEAN.get(name, "") + text, encoding="utf-8")


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "clean"
        plant(root, {})
        failures += [f"reported in the clean tree: {v}" for v in check(root)]
    for name, text in PLANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "planted"
            plant(root, {name: text})
            found = check(root)
            if len(found) != 1 or not found[0].startswith(name):
                failures.append(f"planted in {name}: {text.strip()!r}, reported: {found}")
    for failure in failures:
        print(failure)
    print(f"{len(PLANTED)} planted violations, {len(failures)} mistakes")
    return 1 if failures else 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    count = len(files_under(root / "src"))
    if count == 0:
        print(f"no sources under {root}/src")
        return 1
    found = check(root)
    for violation in found:
        print(violation)
    print(f"{count} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
