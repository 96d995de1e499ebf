"""Checks the dependencies, imports and exports of the installed libraries, and that they stay loaded. usage:
  check_libraries.py READELF LIBDIR

A program may have any C++ runtime and any BLAS. So no library that programs load may need one, and our internal symbols
must be hidden.
"""
import pathlib
import re
import subprocess
import sys

LIBC = r"lib[cm]\.so\.6|ld-linux[-\w]*\.so\.\d+"
# The run-time library of a sanitizer needs the shared C++ runtime.
SANITIZED = LIBC + r"|lib(a|t|ub)san\.so\.\d+|lib(stdc\+\+|gcc_s)\.so\.\d+"
OURS = r"libtessera\.so\.0"
# Library -> libraries that it may need besides libc, those that it must need, allowed exports (None: checked
# elsewhere).
LIBRARIES = {
    "libtessera.so": (r"$^", None, r"tessera_\w+"),
    "libtessera_blas.so": (OURS, OURS, None),
    "libtessera_blas64.so": (OURS, OURS, None),
    "tessera/libblas.so.3": (OURS, OURS, None),
    "tessera/libblas64.so.3": (OURS, OURS, None),
    # The BLAS that has been chosen for the system.
    "tessera/lapack/liblapack.so.3": (OURS + r"|libblas\.so\.3", OURS, None),
    "tessera/lapack/liblapack64.so.3": (OURS + r"|libblas64\.so\.3", OURS, None),
    "libtessera_lapack.so": (OURS, OURS, None),
    "libtessera_memory.so": (r"$^", None, r"malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|valloc|free|malloc_usable_size|tessera_memory_pool_2"),
    "libtessera_slots.so": (r"$^", None, r"tessera_slots_(open|apply|undo|report)"),
    "libtessera_device_host.so": (r"$^", None, r"tessera_device_\w+"),
    "libtessera_device.so": (r"$^", None, r"tessera_device_\w+"),
    # Opened together with the first GPU.
    "libtessera_cuda.so": (r"libcublas(Lt)?\.so\.\d+|libhwloc\.so\.\d+", None, r"tessera_cuda_backend"),
}
OPTIONAL = {"libtessera_cuda.so", "libtessera_device.so", "libtessera_blas64.so", "tessera/libblas.so.3", "tessera/libblas64.so.3", "tessera/lapack/liblapack.so.3",
            "tessera/lapack/liblapack64.so.3"}  # not on every machine
PRELOADED = {"libtessera_blas.so", "libtessera_blas64.so", "libtessera_lapack.so", "libtessera_memory.so"}
NEVER_EXPORTED = {"xerbla_", "cblas_xerbla", "xerbla"}
CXX_NAME = re.compile(r"_Z|__cxa_|_Unwind_|__gxx_|__gcc_")
# libc has these two under names of the C++ interface.
FROM_LIBC = {"__cxa_atexit", "__cxa_finalize", "__cxa_thread_atexit_impl"}
INTERFACE = r"TESSERA_\d+\.\d+"
BUILD = r"TESSERA_BUILD_[0-9a-f]{16}"


def readelf(tool, option, path):
    return subprocess.run([tool, "-W", option, str(path)], check=True, capture_output=True, text=True).stdout


def symbols(tool, path):
    """(name, version or "", binding, whether it is defined here) of each dynamic symbol."""
    for line in readelf(tool, "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or fields[6] == "ABS":
            continue
        name, _, version = fields[7].partition("@")
        yield name, version.lstrip("@"), fields[4], fields[6] != "UND"


def newest(versions):
    return max(versions, key=lambda version: [int(part) for part in version.split(".")], default="none")


def check(tool, path, allowed, required, exports, sanitized):
    problems = []
    dynamic = readelf(tool, "-d", path)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    for name in needed:
        if not re.fullmatch(f"{SANITIZED if sanitized else LIBC}|{allowed}", name):
            problems.append(f"needs {name}")
    if required and not any(re.fullmatch(required, name) for name in needed):
        problems.append(f"does not need {required}")
    if "NODELETE" not in dynamic:
        problems.append("can be unloaded (no -z nodelete)")

    exported = set()
    libc_versions = set()
    for name, version, binding, defined in symbols(tool, path):
        if defined and binding in ("GLOBAL", "WEAK", "UNIQUE"):
            exported.add(name)
            if binding == "UNIQUE":
                problems.append(f"exports {name} as the only one of the process")
            node = BUILD if name.startswith("tessera_private_") else INTERFACE
            if path.name == "libtessera.so" and not re.fullmatch(node, version):
                problems.append(f"exports {name} in version {version or 'none'}")
            if path.name in PRELOADED and version:
                problems.append(f"exports {name} in a version, where programs expect none")
        if not defined:
            if version.startswith("GLIBC_"):
                libc_versions.add(version.removeprefix("GLIBC_"))
            if not sanitized and CXX_NAME.match(name) and name not in FROM_LIBC:
                problems.append(f"imports {name}")
            if name.startswith("tessera_private_") and not re.fullmatch(BUILD, version):
                problems.append(f"takes {name} from any build")
    if not exported:
        problems.append("exports nothing")
    for name in sorted(exported):
        system_face = path.parent.name in ("tessera", "lapack")
        if (name in NEVER_EXPORTED and not system_face) or (exports and not re.fullmatch(exports, name)):
            problems.append(f"exports {name}")
    print(f"{path.name}: needs {', '.join(needed)}, glibc {newest(libc_versions)}; exports {len(exported)}")
    return [f"{path.name}: {p}" for p in problems]


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    sanitized = re.search(r"lib(a|t|ub)san", readelf(tool, "-d", folder / "libtessera.so")) is not None
    problems = []
    for name, rules in LIBRARIES.items():
        path = folder / name
        if path.exists():
            problems += check(tool, path, *rules, sanitized)
        elif name not in OPTIONAL:
            problems.append(f"{name} is missing")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
