"""What the reports on measurements share: JSON of several files, tables in Markdown, pictures of rates, and the command line
REPORT OUT FILE... Needs nothing but Python's standard library."""
import json
import os
import pathlib
import sys

from svg_picture import BOUND, rates_over_sizes

USAGE = """usage: bench/{name}.py OUT FILE...    pictures go to the folder OUT, tables to standard output

Results of several files are put together. Where one case is in several of them, the last counts."""


def load(name):
    return json.loads(pathlib.Path(name).read_text(encoding="utf-8"))


def write_whole(path, text):
    """Nobody finds half a file, even if this process ends here."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def split_at_dashes(arguments):
    """Arguments before `--`, and those after it."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def read(files, key_of, lists=("results",)):
    """Results of the lists of reports. @return (those with times by key, what failed by key, the last report)"""
    results, failed, report = {}, {}, {}
    for name in files:
        report = load(name)
        for result in [one for of_list in lists for one in report[of_list]]:
            key = key_of(result)
            results.pop(key, None)
            failed.pop(key, None)
            if "error" in result or "wrong" in result:
                failed[key] = result
            if "error" not in result and "seconds" in result:
                results[key] = result
    return results, failed, report


def quotient(over, under, form="{:.2f}"):
    """The text of a quotient; empty where a part of it is missing."""
    return "" if over is None or under is None else form.format(over / under)


def tflops(result, seconds):
    return None if seconds is None else result["flops"] / seconds * 1e-12


def table(header, rows):
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in header), "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def lines_of(results, rate, series, roof="roof"):
    """Lines of a panel for rates_over_sizes().

    @param results by size
    @param rate    (result, key of a series, or `roof`): what is drawn; None where there is none
    @param series  (key, words, colour) of each
    @param roof    of the dashed line; None: there is no such line
    """
    lines = []
    dashed = [(roof, roof, BOUND[2], None)] if roof is not None else []
    for who, words, colour, mark in dashed + [(*one, mark) for mark, one in enumerate(series)]:
        points = [(size, rate(result, who)) for size, result in sorted(results.items()) if rate(result, who) is not None]
        if points:
            lines.append((points, words, colour, mark))
    return lines


def rates_picture(title, panels, series, roof, x_name="n", unit=None):
    """Panels with a legend of the series that have a line. @param roof words of the dashed line @return None without panels"""
    if not panels:
        return None
    shown = {words for _, lines in panels for _, words, *_ in lines}
    legend = [(words, colour) for _, words, colour in series if words in shown] + ([(roof, BOUND[2])] if roof else [])
    return rates_over_sizes(title, legend, panels, x_name, unit)


def run(document, report_of):
    """The command of a report. @param report_of (files): (pictures by name, text, lines of what failed) @return its status"""
    if len(sys.argv) < 3:
        name = pathlib.Path(sys.argv[0]).stem
        print(document.strip() + "\n\n" + USAGE.format(name=name), file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    pictures, text, failures = report_of(sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        if picture is not None:
            (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    print(text, end="")
    for failure in failures:
        print(f"\nFAILED: {failure}")
    return 1 if failures else 0
