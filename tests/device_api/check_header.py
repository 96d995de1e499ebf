"""Checks that a library exports just the functions that a header declares. usage: check_header.py HEADER LIBRARY NM"""
import re
import subprocess
import sys


def main():
    header, library, nm = sys.argv[1:4]
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    declared = re.findall(r"TESSERA_API[\w\s*]*?\b(tessera_\w+)\(", text)
    table = subprocess.run([nm, "-D", "--defined-only", "--format=posix", library], check=True, capture_output=True, text=True).stdout
    # Versions are symbols, too, absolute ones.
    exported = [line.split()[0].split("@")[0] for line in table.splitlines() if line.split()[1] != "A"]
    problems = [f"declared, but not exported: {name}" for name in sorted(set(declared) - set(exported))]
    problems += [f"exported, but not declared: {name}" for name in sorted(set(exported) - set(declared))]
    problems += ["the header declares nothing"] * (not declared)
    problems += ["the header declares a function twice"] * (len(set(declared)) != len(declared))
    print("\n".join(problems) or f"{len(declared)} functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
