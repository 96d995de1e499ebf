"""Checks that a library exports just the functions that headers and those that they include declare, and that they are C99.
usage: check_header.py LIBRARY NM CC HEADER..., headers as programs include them, below a folder include/"""
import re
import subprocess
import sys


def main():
    (library, nm, compiler), (header, *others) = sys.argv[1:4], sys.argv[4:]
    # Macros declare most functions.
    as_c99 = [compiler, "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-x", "c", "-I", header.rsplit("/", 2)[0],
               *(word for other in others for word in ("-include", other)), header]
    text = subprocess.run([*as_c99, "-E", "-P"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*as_c99, "-fsyntax-only"], check=True)
    declared = re.findall(r"\b(tessera_device_\w+)\s*\(", text)
    table = subprocess.run([nm, "-D", "--defined-only", "--format=posix", library], check=True, capture_output=True, text=True).stdout
    # Versions appear as absolute symbols.
    exported = [line.split()[0].split("@")[0] for line in table.splitlines() if line.split()[1] != "A"]
    problems = [f"declared, but not exported: {name}" for name in sorted(set(declared) - set(exported))]
    problems += [f"exported, but not declared: {name}" for name in sorted(set(exported) - set(declared))]
    problems += ["the header declares nothing"] * (not declared)
    problems += ["the header declares a function twice"] * (len(set(declared)) != len(declared))
    print("\n".join(problems) or f"{len(declared)} functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
