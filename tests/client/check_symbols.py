"""Reports the exports of BLAS libraries that a library lacks which replaces a whole BLAS. usage:
  check_symbols.py NM LIBRARY LIST whole|preload [INSTALLED...] [--others OTHER...]
LIST is blas_symbols.txt; its exceptions marked "preload:" hold for a preloaded library. INSTALLED: BLAS libraries that
`./dev` installs, which may export names that are missing in LIST. OTHER: other installed BLAS libraries. Names of
theirs that LIBRARY lacks are printed, but are no failure.
"""
import argparse
import itertools
import re
import subprocess
import sys

INTERNALS = re.compile(r"_.*|bli_.*|BLIS_.*|ATL_.*")


def exported(nm, library):
    table = subprocess.run([nm, "-D", "--defined-only", "--format=posix", library], check=True, capture_output=True, text=True).stdout
    return {re.split(r"[ @]", line)[0] for line in table.splitlines()}


def names_of(word):
    """All names that {sd}gemm_ stands for."""
    parts = re.split(r"\{(\w+)\}", word)
    choices = [list(part) if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def read_list(path, is_preload):
    """({section: [name]}, {regular expression: reason})"""
    sections, exceptions, section = {}, {}, None
    with open(path, encoding="ascii") as file:
        lines = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    for line in lines:
        title = re.fullmatch(r"\[(.+)\]", line)
        if title:
            section = title[1]
        elif section == "exceptions":
            for_preload, expression, reason = re.fullmatch(r"(preload: )?(\S+)  (.+)", line).groups()
            if is_preload or not for_preload:
                exceptions[expression] = reason
        else:
            sections.setdefault(section, []).extend(name for word in line.split() for name in names_of(word))
    return sections, exceptions


def main():
    parser = argparse.ArgumentParser()
    for name in ("nm", "library", "list", "kind"):
        parser.add_argument(name)
    parser.add_argument("installed", nargs="*")
    parser.add_argument("--others", nargs="*", default=[])
    options = parser.parse_args()
    sections, exceptions = read_list(options.list, options.kind == "preload")
    for file in options.installed + options.others:
        sections[file] = [name for name in exported(options.nm, file) if not INTERNALS.fullmatch(name)]
    ours = exported(options.nm, options.library)
    failed, used = False, set()
    for section, names in sections.items():
        missing = sorted(set(names) - ours)
        excused = {name: expression for name in missing for expression in exceptions if re.fullmatch(expression, name)}
        used |= set(excused.values())
        unknown = [name for name in missing if name not in excused]
        print(f"{section}: {len(set(names))} names, {len(excused)} missing on purpose, {len(unknown)} missing")
        for expression in sorted(set(excused.values())):
            print(f"  {exceptions[expression]}: {' '.join(name for name in missing if excused.get(name) == expression)}")
        if unknown and section in options.others:
            print(f"  not known to the list: {' '.join(unknown)}")
        elif unknown:
            failed = True
            print(f"  MISSING: {' '.join(unknown)}")
    for expression in set(exceptions) - used:
        failed = True
        print(f"an exception that nothing needs: {expression}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
