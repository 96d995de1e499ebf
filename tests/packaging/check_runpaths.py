"""Checks the run paths of every ELF file in some folders. usage: check_runpaths.py READELF FOLDER...

An empty or relative entry refers to the current folder, which may contain files of other users.
"""
import pathlib
import re
import subprocess
import sys


def is_elf(path):
    if not path.is_file() or path.is_symlink():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def main():
    tool, folders = sys.argv[1], sys.argv[2:]
    problems = []
    count = 0
    for folder in folders:
        for path in sorted(filter(is_elf, pathlib.Path(folder).rglob("*"))):
            if path.suffix in (".o", ".a"):
                continue
            count += 1
            dynamic = subprocess.run([tool, "-W", "-d", str(path)], check=True, capture_output=True, text=True).stdout
            for value in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
                if not all(re.match(r"/|\$ORIGIN(/|$)", entry) for entry in value.split(":")):
                    problems.append(f"{path}: {value}")
    print("\n".join(problems) or f"{count} files")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
