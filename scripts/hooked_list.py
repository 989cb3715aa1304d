#!/usr/bin/env python3
"""hooked_list.py [--check] - writes the list of hooked functions in docs/coverage.md from shim/trace/driver.def.

With --check nothing is written: the exit status is 1 where the page is not what it would write.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFINITIONS, PAGE = os.path.join(TOP, "shim/trace/driver.def"), os.path.join(TOP, "docs/coverage.md")
BEGIN, END = "<!-- hooked functions: made by scripts/hooked_list.py -->", "<!-- end of hooked functions -->"
ROW = re.compile(r"^VS_API(?:\(\d+,|S\(\d+, \d+,)\s*(\w+), (_\w+)?", re.M)
HEADING = re.compile(r"^/\*\s*(.*?)\s*\*/$", re.M | re.S)


def sections(text):
    """[(what its comment says, [(symbol, its second variant's suffix)])] in the file's order; the file's own header is no section."""
    text = text[text.index("*/") + 2:]
    marks = sorted([(m.start(), "heading", " ".join(re.sub(r"\n\s*\*", " ", m.group(1)).split())) for m in HEADING.finditer(text)] +
                   [(m.start(), "row", (m.group(1), m.group(2) or "")) for m in ROW.finditer(text)])
    found = [("", [])]
    for _, kind, what in marks:
        if kind == "heading":
            found.append((what, []))
        else:
            found[-1][1].append(what)
    return [(heading, rows) for heading, rows in found if rows]


def written(text):
    rows = sections(text)
    count = sum(2 if suffix else 1 for _, symbols in rows for _, suffix in symbols)
    lines = [BEGIN, "", f"{count} functions by the driver's names; `[_ptsz]`: without it and with:", ""]
    lines += [f"- {heading}: " + ", ".join(f"`{symbol}[{suffix}]`" if suffix else f"`{symbol}`" for symbol, suffix in symbols)
              for heading, symbols in rows]
    return "\n".join(lines + ["", END])


def main():
    with open(DEFINITIONS) as f:
        new = written(f.read())
    with open(PAGE) as f:
        page = f.read()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + new + after
    if "--check" not in sys.argv:
        with open(PAGE, "w") as f:
            f.write(wanted)
    elif page != wanted:
        print("docs/coverage.md does not list what shim/trace/driver.def hooks: run scripts/hooked_list.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
