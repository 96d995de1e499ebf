"""Checks what the installed libraries need, export, and whether they stay loaded. usage: check_libraries.py READELF LIBDIR

No library may need a BLAS: it would pull that BLAS, and its LAPACK, in front of the program's own.
"""
import pathlib
import re
import subprocess
import sys

SYSTEM = r"lib(stdc\+\+|gcc_s|c|m|pthread|dl|rt)\.so\.\d+|ld-linux[-\w]*\.so\.\d+|lib(a|t|ub)san\.so\.\d+"
# Library -> what it may need besides the system, what it must need, what it may export (None: checked elsewhere).
LIBRARIES = {
    "libtessera.so": (r"libhwloc\.so\.\d+", None, r"tessera_\w+"),
    "libtessera_blas.so": (r"libtessera\.so\.\d+", r"libtessera\.so\.\d+", None),
    "libtessera_lapack.so": (r"$^", None, r"ilaenv_"),
    "libtessera_cuda.so": (r"libcublas(Lt)?\.so\.\d+", None, r"tessera_cuda_backend"),
}
NEVER_EXPORTED = {"xerbla_", "cblas_xerbla", "xerbla"}


def readelf(tool, option, path):
    return subprocess.run([tool, "-W", option, str(path)], check=True, capture_output=True, text=True).stdout


def check(tool, path, allowed, required, exports):
    problems = []
    dynamic = readelf(tool, "-d", path)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    for name in needed:
        if not re.fullmatch(f"{SYSTEM}|{allowed}", name):
            problems.append(f"needs {name}")
    if required and not any(re.fullmatch(required, name) for name in needed):
        problems.append(f"does not need {required}")
    if "NODELETE" not in dynamic:
        problems.append("can be unloaded (no -z nodelete)")

    exported = set()
    for line in readelf(tool, "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            exported.add(fields[7].split("@")[0])
    if not exported:
        problems.append("exports nothing")
    for name in sorted(exported):
        if name in NEVER_EXPORTED or (exports and not re.fullmatch(exports, name)):
            problems.append(f"exports {name}")
    print(f"{path.name}: needs {', '.join(needed)}; exports {len(exported)}")
    return [f"{path.name}: {p}" for p in problems]


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    problems = []
    for name, rules in LIBRARIES.items():
        path = folder / name
        if path.exists():
            problems += check(tool, path, *rules)
        elif name != "libtessera_cuda.so":  # the plugin is left out where there is no nvcc
            problems.append(f"{name} is missing")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
