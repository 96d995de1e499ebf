#!/usr/bin/env python3
"""Checks the sentences of comments (C, C++, CUDA) and of documents (Markdown) for forms that are hard to read.

usage: check_words.py ROOT            checks the folders of CLEAN below ROOT; prints each violation
       check_words.py ROOT FOLDER...  checks these folders or files instead
       check_words.py --self-test     plants violations in a tree that is clean otherwise, and expects each to be found
Exit status 1 if there are violations.

Violations are
  - a sentence that begins with Who, Whoever, What, Whatever or Whichever and is no question: a clause stands in
    place of its subject;
  - "is none of" and "is it no more";
  - a sentence of more than 40 words in a comment (numbers, operators and code do not count).
A comment counts as one text over consecutive lines. Blank lines, list items, lines that begin with "@" and indented
lines (a formula, a table) separate texts.
Standard library only.
"""
import bisect
import pathlib
import re
import sys
import tempfile

# Folders and files without violations. A folder is added when its last violation has been mended.
CLEAN = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "bench",
    "docs",
    "examples",
    "include",
    "src",
    "tests",
    "tools",
)
MOST_WORDS = 40

CODE = {".c", ".cpp", ".cu", ".cuh", ".def", ".h", ".hpp", ".inc"}
# Comments, and the literals that may contain their marks.
TOKEN = re.compile(r'R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/", re.DOTALL)
# The mark in front of a line of a comment.
MARK = re.compile(r"[ \t]*(///?<?|/\*+<?|\*(?!/)|)[ \t]*")
# A line that begins a text of its own: an item of a list, a command, a row of a table.
SEPARATE = re.compile(r"@|[-*+] |\(?\d+[.)] |\([a-z]\) |\||\S+ {2,}\S")
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')*]))(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)(?<!etc\.) +"
                          r"|(?<=:) +(?=[A-Z`*])")
WORD = re.compile(r"[\"'(`*]*[A-Za-z][A-Za-z'-]*[\"')`*.,;:?!]*")
CLAUSE = re.compile(r"(?:Who|Whoever|What|Whatever|Whichever)\b")
RIDDLE = re.compile(r"\bis none of\b|\bis it no more\b")


class Text:
    """Consecutive lines that form sentences, and the line of each of their words."""

    def __init__(self):
        self.words = []
        self.lines = []

    def add(self, line, words):
        words = words.split()
        self.words += words
        self.lines += [line] * len(words)

    def sentences(self):
        """Yields (line, sentence)."""
        text = " ".join(self.words)
        begins = []
        place = 0
        for word in self.words:
            begins.append(place)
            place += len(word) + 1
        begin = 0
        for end in [match.end() for match in SENTENCE_END.finditer(text)] + [len(text)]:
            if text[begin:end].strip():
                yield self.lines[bisect.bisect_right(begins, begin) - 1], text[begin:end].strip()
            begin = end


def texts_of_code(text):
    """Yields the texts of all comments."""
    newlines = [match.start() for match in re.finditer("\n", text)]
    current = Text()
    last = None  # line and column of the comment before
    indent = 0
    for token in TOKEN.finditer(text):
        comment = token.group(0)
        if not comment.startswith(("//", "/*")):
            continue
        line = bisect.bisect_left(newlines, token.start()) + 1
        column = token.start() - (newlines[line - 2] + 1 if line > 1 else 0)
        begin_of_line = token.start() - column
        is_alone = not text[begin_of_line:token.start()].strip()
        if last != (line - 1, column) or not is_alone or comment.startswith("/*"):
            yield current
            current = Text()
            indent = 0
        for number, row in enumerate(comment.removesuffix("*/").split("\n"), line):
            mark, gap = MARK.match(row).span(1)[1], MARK.match(row).end()
            words = row[gap:].rstrip("\\ \t")
            before, indent = indent, gap - mark if gap - mark > 2 else 0
            if not words or SEPARATE.match(words) or indent < before or indent == before > 0 or indent > before == 0:
                yield current
                current = Text()
            current.add(number, words)
            last = (number, column)
    yield current


def texts_of_document(text):
    """Yields the paragraphs and list items of a Markdown document, without code, tables and headings."""
    current = Text()
    in_code = False
    for number, row in enumerate(text.split("\n"), 1):
        words = row.strip()
        fence = words.startswith(("```", "~~~"))
        in_code ^= fence
        if in_code or fence or not words or words.startswith(("|", "#", "<")) or SEPARATE.match(words):
            yield current
            current = Text()
        if not (in_code or fence or words.startswith(("|", "#", "<"))):
            current.add(number, re.sub(r"^(?:[-*+]|\d+[.)]) +", "", words))
    yield current


def complaints(text, in_code):
    """Yields (line, complaint) for the sentences of a file."""
    for part in texts_of_code(text) if in_code else texts_of_document(text):
        for line, sentence in part.sentences():
            begin = sentence.lstrip("*_\"'(")
            # `begin` is empty in a line of marks.
            if CLAUSE.match(begin[:1].upper() + begin[1:]) and "?" not in sentence:
                yield line, f"a clause in place of a subject: {sentence}"
            if RIDDLE.search(sentence):
                yield line, f"say who does what: {sentence}"
            count = sum(WORD.fullmatch(word) is not None for word in sentence.split())
            if in_code and count > MOST_WORDS:
                yield line, f"{count} words in a sentence: {sentence}"


def files_of(root, names):
    """The files of these folders and files below `root`, each once."""
    found = set()
    for name in names:
        for path in root.glob(name):
            found.update([path] if path.is_file() else path.rglob("*"))
    return sorted(path for path in found if path.is_file() and (path.suffix in CODE or path.suffix == ".md"))


def check(root, names=CLEAN):
    """Returns the violations, one line of text each."""
    found = []
    for path in files_of(root, names):
        for line, complaint in complaints(path.read_text(encoding="utf-8"), path.suffix in CODE):
            found.append(f"{path.relative_to(root).as_posix()}:{line}: {complaint}")
    return found


GOOD = {
    "src/core/good.hpp": '// The value of x. What if it is negative?\n/// @return what the caller passed\n'
                         'const char* text = "What a string says is no comment. // Who reads this";\n'
                         "int x;  ///< the value, whatever its sign\n" + "int x;  ///< one of five words here\n" * 20
                         + "// Formulas:\n" + "//   an item with five words\n" * 20
                         + "/* Copies x.\n * - one item\n * - another item */\n"
                         + "// " + "word " * 30 + "\n//\n// " + "word " * 30 + "\n",
    "src/core/good.md": "# What is this\n\nA text.\n\n```\nWhat is code is skipped.\n```\n| What | a table |\n",
    "drafts/other.hpp": "// What is not in a clean folder is not read.\n",
}
# File -> text, line of the violation in it.
PLANTED = {
    "src/core/a.hpp": ("// Facts.\n// Short. Whoever calls this\n// waits.\n", 2),
    "src/core/b.cpp": ("int x;  // what the caller passed\n", 1),
    "src/core/c.h": ("/* Text.\n * A part of it is\n * none of ours. */\n", 2),
    "src/cache/d.cu": ('const char* s = "//"; /* The version is it no more. */\n', 1),
    "src/cache/e.inc": ("/// " + "word " * 25 + "\n/// " + "word " * 16 + "\n", 1),
    "src/heap/f.md": ("Text.\nWhat follows is\nwrong.\n", 2),
    "src/heap/g.md": ("- **Whatever** it is, it is wrong.\n", 1),
    "tests/h.hpp": ("int x;       ///< short, then\n             ///< long. Who reads this waits.\n", 2),
    "tools/i.cpp": ('auto s = R"(")"; // Whichever comes first wins.\n', 1),
}


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in list(GOOD.items()) + [(name, text) for name, (text, _) in PLANTED.items()]:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = check(root)
    for name, (text, line) in PLANTED.items():
        here = [violation for violation in found if violation.startswith(f"{name}:")]
        if len(here) != 1 or not here[0].startswith(f"{name}:{line}: "):
            failures.append(f"planted in {name}, line {line}: {text!r}, reported: {here}")
    failures += [f"reported in good text: {violation}" for violation in found if violation.split(":")[0] in GOOD]
    for failure in failures:
        print(failure)
    print(f"{len(PLANTED)} planted violations, {len(failures)} mistakes")
    return 1 if failures else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0])
    names = arguments[1:] or CLEAN
    count = len(files_of(root, names))
    if count == 0:
        print(f"no files under {root}")
        return 1
    found = check(root, names)
    for violation in found:
        print(violation)
    print(f"{count} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
