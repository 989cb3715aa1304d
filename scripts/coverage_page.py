#!/usr/bin/env python3
"""coverage_page.py OUT/coverage.md 'MACHINE, DATE' [PAGE] - puts the oracle's tables into docs/coverage.md.

Replaces what stands between the page's two marker comments.  The file is what tests/gpu/oracle/oracle.sh wrote; several
runs (one GPU, two GPUs) go in one after the other: 'A/coverage.md,B/coverage.md'.
"""
import os
import sys

BEGIN, END = "<!-- oracle: made by scripts/coverage_page.py -->", "<!-- end of oracle -->"
TITLES = (("| program | calls", "Calls, and the records of MEMORY2; seconds alone, under vramscope, and beside the oracle:"),
          ("| program | kind", "Bytes of allocations that MEMORY2 tells:"),
          ("| program | process", "The residual at the program's mark, in MiB:"),
          ("- ", "Differences with a name:"))


def blocks(path):
    with open(path) as f:
        return [block.strip() for block in f.read().split("\n\n") if block.strip()]


def titled(block):
    return next((f"{title}\n\n{block}" for start, title in TITLES if block.startswith(start)), block)


def section(paths, where):
    parts = [f"{where}."]
    for path in paths:
        parts += [titled(block) for block in blocks(path)]
    return "\n\n".join(parts)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    page = sys.argv[3] if len(sys.argv) == 4 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/coverage.md")
    with open(page) as f:
        text = f.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"coverage_page.py: {page} has not one '{BEGIN}' and one '{END}'")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(page, "w") as f:
        f.write(f"{head}{BEGIN}\n\n{section(sys.argv[1].split(','), sys.argv[2])}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
